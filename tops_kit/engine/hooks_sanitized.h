/* Sanitized mode: every access is shown to the sanitizer before it happens (sanitizer.h). Kernels that read their clock make
   events, too. */
#include "sanitizer.h"
/* What the sanitizer does with an access counts as work between polls: the budget and signals end it, too. */
#define SHOW(call) \
    do { \
        call; \
        if (unlikely(self->work < 0)) CHECK(machine_poll(self)); \
    } while (0)
#define TRACING (self->trace != NULL)
#include "hooks_trace.h"
#define HOOK_ENTER(pc) TRACE_ENTER(pc)
#define HOOK_LEAVE(next) TRACE_LEAVE(next)
#define HOOK_VIEW_READ(view) SHOW(sanitizer_tile_read(self, PC, view))
#define HOOK_VIEW_WRITE(view) SHOW(sanitizer_tile_write(self, PC, view))
#define HOOK_TILE_PRINT(view) SHOW(sanitizer_read(self, PC, view))
#define HOOK_SCATTER(d, b, a, axis, reads) SHOW(sanitizer_scatter(self, PC, d, b, a, axis, reads))
#define HOOK_ELEMENT_READ(view, at, size_bytes) SHOW(sanitizer_element_read(self, PC, view, at, size_bytes))
#define HOOK_ELEMENT_WRITE(view, at, size_bytes) SHOW(sanitizer_element_write(self, PC, view, at, size_bytes))
#define HOOK_VECTOR_READ(view, i) SHOW(sanitizer_vector_read(self, PC, view, i))
#define HOOK_VECTOR_WRITE(view, i) SHOW(sanitizer_vector_write(self, PC, view, i))
#define HOOK_ATOMIC(view) SHOW(sanitizer_element_atomic(self, PC, view))
#define HOOK_TILE_ATOMIC(view) SHOW(sanitizer_atomic(self, PC, view))
#define HOOK_DMA_ISSUE(event, d, a, after, channel) SHOW(sanitizer_transfer(self, PC, event, d, a, after, channel))
#define HOOK_WAIT(event) SHOW(sanitizer_wait(self, event))
#define HOOK_WAIT_ALL SHOW(sanitizer_wait_all(self))
#define HOOK_END sanitizer_end(self)
#define HOOK_DEFERS (self->defer)
#include "hooks_common.h"
