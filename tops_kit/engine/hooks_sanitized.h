/* Sanitized mode: every access is shown to the sanitizer before it happens (sanitizer.h). Kernels that read their clock make
   events, too. */
#include "sanitizer.h"
#define TRACING (self->trace != NULL)
#include "hooks_trace.h"
#define HOOK_ENTER(pc) TRACE_ENTER(pc)
#define HOOK_LEAVE(next) TRACE_LEAVE(next)
#define HOOK_VIEW_READ(view) sanitizer_tile_read(self, PC, view)
#define HOOK_VIEW_WRITE(view) sanitizer_tile_write(self, PC, view)
#define HOOK_TILE_PRINT(view) sanitizer_read(self, PC, view)
#define HOOK_SCATTER(d, b, a, axis, reads) sanitizer_scatter(self, PC, d, b, a, axis, reads)
#define HOOK_ELEMENT_READ(view, at, size_bytes) sanitizer_element_read(self, PC, view, at, size_bytes)
#define HOOK_ELEMENT_WRITE(view, at, size_bytes) sanitizer_element_write(self, PC, view, at, size_bytes)
#define HOOK_VECTOR_READ(view, i) sanitizer_vector_read(self, PC, view, i)
#define HOOK_VECTOR_WRITE(view, i) sanitizer_vector_write(self, PC, view, i)
#define HOOK_ATOMIC(view) sanitizer_element_atomic(self, PC, view)
#define HOOK_TILE_ATOMIC(view) sanitizer_atomic(self, PC, view)
#define HOOK_DMA_ISSUE(event, d, a, after, channel) sanitizer_transfer(self, PC, event, d, a, after, channel)
#define HOOK_WAIT(event) sanitizer_wait(self, event)
#define HOOK_WAIT_ALL sanitizer_wait_all(self)
#define HOOK_END sanitizer_end(self)
#define HOOK_DEFERS (self->defer)
#include "hooks_common.h"
