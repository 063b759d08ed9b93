"""Where a thread stands in the launch, and waiting for other threads."""

from __future__ import annotations

from tops_kit.topscc.language.words import Scalar, Static, word


@word
def thread_id() -> Scalar:
    """This thread's number among all of the launch, i32 from 0. One thread is one SIP core.

    for r in range(tops.thread_id(), rows, tops.num_threads()): ...
    """


@word
def num_threads() -> Scalar:
    """How many threads the launch has, i32: blocks times threads of a block."""


@word
def local_id(axis: Static = None) -> Scalar:
    """This thread's number in its block, i32; `axis` 0, 1, 2 (x, y, z) for one of three extents.

    Threads of a block are SIPs of one cluster: they share L2 and meet at `barrier()`.
    """


@word
def block_id(axis: Static = None) -> Scalar:
    """The number of this thread's block in the grid, i32; `axis` 0, 1, 2 for one of three extents."""


@word
def block_size(axis: Static = None) -> Scalar:
    """How many threads a block has, i32; `axis` 0, 1, 2 for one of three extents."""


@word
def num_blocks(axis: Static = None) -> Scalar:
    """How many blocks the grid has, i32; `axis` 0, 1, 2 for one of three extents."""


@word
def program_id(axis: Static = 0) -> Scalar:
    """`thread_id()`, for those who come from Triton. Only axis 0: see `block_id(axis)` for others."""


@word
def num_programs(axis: Static = 0) -> Scalar:
    """`num_threads()`, for those who come from Triton."""


@word
def barrier() -> None:
    """Wait for all threads of the block; what they wrote to L2 and L3 before is seen after.

    Every thread of the block must come to the same barrier. (`__syncthreads` of TopsCC.)
    """


@word
def grid_barrier() -> None:
    """Wait for all threads of the grid, which must fit the part at once. (`__syncblocks` of TopsCC.)"""


@word
def clock() -> Scalar:
    """Cycles of this thread since its start, i32, as if it ran alone.

    before = tops.clock()
    """
