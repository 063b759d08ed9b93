/* Timed mode: counts, and events for the cost model. */
#define TRACING true
#include "hooks_trace.h"
#define HOOK_ENTER(pc) TRACE_ENTER(pc)
#define HOOK_LEAVE(next) TRACE_LEAVE(next)
#include "hooks_common.h"
