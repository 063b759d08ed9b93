/* Sanitized mode: every access is shown to the sanitizer before it happens (sanitizer.h). Kernels that read their clock make
   events, too. */
#include "sanitizer.h"
#define TRACING (self->trace != NULL)
#include "hooks_trace.h"
#define HOOK_ENTER(pc) TRACE_ENTER(pc)
#define HOOK_LEAVE(next) TRACE_LEAVE(next)
#define HOOK_VIEW_READ(view) CHECK(sanitizer_view_read(self, PC, view))
#define HOOK_VIEW_WRITE(view) CHECK(sanitizer_view_write(self, PC, view))
#define HOOK_ELEMENT_READ(view, at, size_bytes) CHECK(sanitizer_element_read(self, PC, view, at, size_bytes))
#define HOOK_ELEMENT_WRITE(view, at, size_bytes) CHECK(sanitizer_element_write(self, PC, view, at, size_bytes))
#define HOOK_VECTOR_READ(view, i) CHECK(sanitizer_vector_read(self, PC, view, i))
#define HOOK_VECTOR_WRITE(view, i) CHECK(sanitizer_vector_write(self, PC, view, i))
#define HOOK_ATOMIC(view) CHECK(sanitizer_atomic(self, PC, view))
#define HOOK_DMA_ISSUE(event, d, a, after, channel) CHECK(sanitizer_dma_issue(self, PC, event, d, a, after, channel))
#define HOOK_WAIT(event) CHECK(sanitizer_wait(self, PC, event))
#define HOOK_WAIT_ALL CHECK(sanitizer_wait_all(self, PC))
#define HOOK_BARRIER CHECK(sanitizer_barrier(self, PC))
#define HOOK_GRID_BARRIER CHECK(sanitizer_grid_barrier(self, PC))
#define HOOK_END CHECK(sanitizer_end(self, PC))
#define HOOK_DEFERS (self->defer)
#include "hooks_common.h"
