/* Counts, and events of what leaves the scalar unit, while TRACING. Issue cycles of scalar instructions are differences of
   kernel->scalar_cycles over stretches without a jump, so that only jumps and events pay. */
#include "trace.h"
#define TRACE_ENTER(pc) \
    const int64_t *const cycles = self->kernel->scalar_cycles; \
    int32_t stretch = (pc); \
    self->counts[pc]++
#define TRACE_LEAVE(next) (self->counts[next]--, self->scalar_pending += cycles[next] - cycles[stretch])
#define HOOK_JUMP(from, to) \
    (self->counts[(from) + 1]--, self->counts[to]++, self->scalar_pending += cycles[(from) + 1] - cycles[stretch], stretch = (to))
/* issue cycles up to and with this instruction, handed to its event */
#define HANDED_CYCLES \
    ({ \
        const int64_t handed = self->scalar_pending + cycles[PC + 1] - cycles[stretch]; \
        self->scalar_pending = 0; \
        stretch = PC + 1; \
        handed; \
    })
#define TRACED(call) \
    do { \
        if (TRACING) call; \
    } while (0)
#define HOOK_TILE_EVENT(unit, work, flops, d, a, b, c) TRACED(trace_tile(self, PC, HANDED_CYCLES, unit, work, flops, d, a, b, c))
#define HOOK_VECTOR_EVENT(dtype, work, flops, view) TRACED(trace_vector(self, PC, HANDED_CYCLES, dtype, work, flops, view))
#define HOOK_DMA_EVENT(event, d, a, after, channel) TRACED(trace_transfer(self, PC, HANDED_CYCLES, event, d, a, after, channel))
#define HOOK_ATOMIC_EVENT(view, source, flops) TRACED(trace_atomic(self, PC, HANDED_CYCLES, view, source, flops))
#define HOOK_WAIT_EVENT(unit, event) TRACED(trace_wait(self, PC, HANDED_CYCLES, unit, event))
#define HOOK_SYNC_EVENT(view) \
    do { \
        if (TRACING && trace_must_sync(self, view)) trace_sync(self, PC, HANDED_CYCLES, view); \
    } while (0)
#define HOOK_CLOCK(d) \
    do { \
        (d) = 0; \
        if (TRACING) CHECK(trace_clock(self, PC, HANDED_CYCLES, &(d))); \
    } while (0)
