/* The sanitizer, not written yet: it finds nothing. */
#include "sanitizer.h"

int sanitizer_view_read(thread *self, int32_t pc, const tile *view) { return (void)self, (void)pc, (void)view, FAULT_NONE; }
int sanitizer_view_write(thread *self, int32_t pc, const tile *view) { return (void)self, (void)pc, (void)view, FAULT_NONE; }
int sanitizer_element_read(thread *self, int32_t pc, const tile *view, const uint8_t *at, int size_bytes) {
    return (void)self, (void)pc, (void)view, (void)at, (void)size_bytes, FAULT_NONE;
}
int sanitizer_element_write(thread *self, int32_t pc, const tile *view, const uint8_t *at, int size_bytes) {
    return (void)self, (void)pc, (void)view, (void)at, (void)size_bytes, FAULT_NONE;
}
int sanitizer_vector_read(thread *self, int32_t pc, const tile *view, int32_t i) {
    return (void)self, (void)pc, (void)view, (void)i, FAULT_NONE;
}
int sanitizer_vector_write(thread *self, int32_t pc, const tile *view, int32_t i) {
    return (void)self, (void)pc, (void)view, (void)i, FAULT_NONE;
}
int sanitizer_atomic(thread *self, int32_t pc, const tile *view) { return (void)self, (void)pc, (void)view, FAULT_NONE; }
int sanitizer_dma_issue(thread *self, int32_t pc, uint32_t event, const tile *d, const tile *a, uint32_t after, int channel) {
    return (void)self, (void)pc, (void)event, (void)d, (void)a, (void)after, (void)channel, FAULT_NONE;
}
int sanitizer_wait(thread *self, int32_t pc, uint32_t event) { return (void)self, (void)pc, (void)event, FAULT_NONE; }
int sanitizer_wait_all(thread *self, int32_t pc) { return (void)self, (void)pc, FAULT_NONE; }
int sanitizer_barrier(thread *self, int32_t pc) { return (void)self, (void)pc, FAULT_NONE; }
int sanitizer_grid_barrier(thread *self, int32_t pc) { return (void)self, (void)pc, FAULT_NONE; }
int sanitizer_end(thread *self, int32_t pc) { return (void)self, (void)pc, FAULT_NONE; }
