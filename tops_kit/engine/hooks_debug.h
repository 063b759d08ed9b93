/* Debug mode: stops at breakpoints and after a number of steps. Kernels that read their clock make events, too. */
#define TRACING (self->trace != NULL)
#include "hooks_trace.h"
#define HOOK_ENTER(pc) \
    const uint8_t *const breakpoints = self->breakpoints; \
    int64_t steps = self->steps; \
    TRACE_ENTER(pc)
#define HOOK_LEAVE(next) (TRACE_LEAVE(next), self->steps = steps)
#define HOOK_ISSUE \
    if (unlikely((steps <= 0) | breakpoints[PC])) goto stopped; \
    steps--
#define HOOK_BRK LEAVE(PC + 1, THREAD_AFTER_BRK)
#define HOOK_STOPPED_LABEL \
    stopped: \
    LEAVE(PC, steps <= 0 ? THREAD_STEPPED : THREAD_AT_BREAKPOINT);
#define HOOK_DEFERS (self->defer)
#include "hooks_common.h"
