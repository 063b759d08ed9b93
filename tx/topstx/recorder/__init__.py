"""The recorder: how a recorded program hands its events to the collector, by stores into shared memory alone.

`include/topstx_layout.h` defines the files that both sides share, `layout.py` repeats its facts for
Python, `interface.py` states what a back end offers to `topstx`. Two back ends write the same bytes:

- `_crec`  the C extension, a thin layer over the header-only producer `include/topstx.h` that C programs
  use as well
- `twin`   the same interface in Python, for machines without a compiler
"""
