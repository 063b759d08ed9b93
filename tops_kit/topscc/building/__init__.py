"""The layers of the builder: each adds methods to the one below; `topscc.builder.Builder` is the last."""
