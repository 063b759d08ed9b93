/* What the sanitized mode shows to the sanitizer, before it happens. Each function gives FAULT_NONE, or the fault that ends
   the thread (set by fault_set). `view` may be of any space; only its [lo, hi) is touched. */
#ifndef TOPS_SANITIZER_H
#define TOPS_SANITIZER_H
#include "kernel.h"

int sanitizer_view_read(thread *self, int32_t pc, const tile *view);
int sanitizer_view_write(thread *self, int32_t pc, const tile *view);
int sanitizer_element_read(thread *self, int32_t pc, const tile *view, const uint8_t *at, int size_bytes);
int sanitizer_element_write(thread *self, int32_t pc, const tile *view, const uint8_t *at, int size_bytes);
/* 128 bytes from element i of a view, which may lie outside: then the machine faults next. */
int sanitizer_vector_read(thread *self, int32_t pc, const tile *view, int32_t i);
int sanitizer_vector_write(thread *self, int32_t pc, const tile *view, int32_t i);
int sanitizer_atomic(thread *self, int32_t pc, const tile *view);
int sanitizer_dma_issue(thread *self, int32_t pc, uint32_t event, const tile *d, const tile *a, uint32_t after, int channel);
int sanitizer_wait(thread *self, int32_t pc, uint32_t event);
int sanitizer_wait_all(thread *self, int32_t pc);
int sanitizer_barrier(thread *self, int32_t pc);
int sanitizer_grid_barrier(thread *self, int32_t pc);
int sanitizer_end(thread *self, int32_t pc);

#endif
