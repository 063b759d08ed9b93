/* Hooks that do nothing: each hooks_<mode>.h defines those it wants before it includes this. */
/* the loop: entered before `pc`, left before `next`, jumped; before each instruction */
#ifndef HOOK_ENTER
#define HOOK_ENTER(pc) ((void)0)
#endif
#ifndef HOOK_LEAVE
#define HOOK_LEAVE(next) ((void)0)
#endif
#ifndef HOOK_JUMP
#define HOOK_JUMP(from, to) ((void)0)
#endif
#ifndef HOOK_ISSUE
#define HOOK_ISSUE ((void)0)
#endif
#ifndef HOOK_BRK
#define HOOK_BRK ((void)0)
#endif
#ifndef HOOK_STOPPED_LABEL
#define HOOK_STOPPED_LABEL
#endif
/* memory, before it is touched: tiles of the vector and matrix units */
#ifndef HOOK_VIEW_READ
#define HOOK_VIEW_READ(view) ((void)0)
#endif
#ifndef HOOK_VIEW_WRITE
#define HOOK_VIEW_WRITE(view) ((void)0)
#endif
/* a tile of L1 or L2 that is printed */
#ifndef HOOK_TILE_PRINT
#define HOOK_TILE_PRINT(view) ((void)0)
#endif
/* d[b[i]] = a[i], or += (then `reads`) */
#ifndef HOOK_SCATTER
#define HOOK_SCATTER(d, b, a, axis, reads) ((void)0)
#endif
/* single elements and vectors: `at` is an address, `size_bytes` what is touched there */
#ifndef HOOK_ELEMENT_READ
#define HOOK_ELEMENT_READ(view, at, size_bytes) ((void)0)
#endif
#ifndef HOOK_ELEMENT_WRITE
#define HOOK_ELEMENT_WRITE(view, at, size_bytes) ((void)0)
#endif
/* vector loads and stores at element i, which may lie outside: then the machine faults next */
#ifndef HOOK_VECTOR_READ
#define HOOK_VECTOR_READ(view, i) ((void)0)
#endif
#ifndef HOOK_VECTOR_WRITE
#define HOOK_VECTOR_WRITE(view, i) ((void)0)
#endif
#ifndef HOOK_ATOMIC
#define HOOK_ATOMIC(view) ((void)0) /* of one element */
#endif
#ifndef HOOK_TILE_ATOMIC
#define HOOK_TILE_ATOMIC(view) ((void)0)
#endif
/* transfers: `a` is NULL for a fill */
#ifndef HOOK_DMA_ISSUE
#define HOOK_DMA_ISSUE(event, d, a, after, channel) ((void)0)
#endif
#ifndef HOOK_WAIT
#define HOOK_WAIT(event) ((void)0)
#endif
#ifndef HOOK_WAIT_ALL
#define HOOK_WAIT_ALL ((void)0)
#endif
#ifndef HOOK_END
#define HOOK_END ((void)0)
#endif
/* whether transfers move at their completion */
#ifndef HOOK_DEFERS
#define HOOK_DEFERS false
#endif
/* timing, after the effect: work in units of the cost expression */
#ifndef HOOK_TILE_EVENT
#define HOOK_TILE_EVENT(unit, work, flops, d, a, b, c) ((void)0)
#endif
#ifndef HOOK_VECTOR_EVENT
#define HOOK_VECTOR_EVENT(dtype, work, flops, view) ((void)0)
#endif
#ifndef HOOK_DMA_EVENT
#define HOOK_DMA_EVENT(event, d, a, after, channel) ((void)0)
#endif
#ifndef HOOK_ATOMIC_EVENT
#define HOOK_ATOMIC_EVENT(view, source, flops) ((void)0)
#endif
#ifndef HOOK_WAIT_EVENT
#define HOOK_WAIT_EVENT(unit, event) ((void)0)
#endif
/* the scalar unit touches memory that other units may still use; or (NULL) waits for the vector unit */
#ifndef HOOK_SYNC_EVENT
#define HOOK_SYNC_EVENT(view) ((void)0)
#endif
/* only a machine that makes events can tell the time (schedule.c chooses) */
#ifndef HOOK_CLOCK
#define HOOK_CLOCK(d) ((d) = 0)
#endif
