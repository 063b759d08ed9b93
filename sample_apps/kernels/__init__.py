"""A package, so that programs beside it find these kernels and not another `kernels` that is installed."""
