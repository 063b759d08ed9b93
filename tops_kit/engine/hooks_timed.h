/* Timed mode: counts as in counted mode, and events of what leaves the scalar unit. Issue cycles of scalar instructions are
   differences of kernel->scalar_cycles over stretches without a jump, so that only jumps and events pay. */
#include "trace.h"
#define HOOK_ENTER(pc) \
    const int64_t *const cycles = self->kernel->scalar_cycles; \
    int32_t stretch = (pc); \
    self->counts[pc]++
#define HOOK_LEAVE(next) (self->counts[next]--, self->scalar_pending += cycles[next] - cycles[stretch])
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
#define HOOK_TILE_EVENT(unit, work, flops, d, a, b, c) trace_tile(self, PC, HANDED_CYCLES, unit, work, flops, d, a, b, c)
#define HOOK_VECTOR_EVENT(dtype, work, flops, view) trace_vector(self, PC, HANDED_CYCLES, dtype, work, flops, view)
#define HOOK_DMA_EVENT(event, d, a, after, channel) trace_transfer(self, PC, HANDED_CYCLES, event, d, a, after, channel)
#define HOOK_ATOMIC_EVENT(view, source, flops) trace_atomic(self, PC, HANDED_CYCLES, view, source, flops)
#define HOOK_WAIT_EVENT(unit, event) trace_wait(self, PC, HANDED_CYCLES, unit, event)
#define HOOK_SYNC_EVENT(view) \
    do { \
        if (trace_must_sync(self, view)) trace_sync(self, PC, HANDED_CYCLES, view); \
    } while (0)
#define HOOK_CLOCK trace_clock(self, self->scalar_pending + cycles[PC] - cycles[stretch])
#include "hooks_common.h"
