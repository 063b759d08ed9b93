/* The events of the timed mode (tevent in machine.h), per thread in order.

   scalar_cycles counts the issue cycles of all instructions since the previous event, this one's own included. EV_SYNC with
   key KEY_NONE waits for the vector unit to be empty; with another key, for whatever uses that slot. A scalar access makes one
   only when a unit has used the slot since the last one. Keys: those of L1 and L2 slots in order of buffers; L3 has none. */
#ifndef TOPS_TRACE_H
#define TOPS_TRACE_H
#include "kernel.h"

void trace_tile(thread *self, int32_t pc, int64_t cycles, int unit, double work, double flops, const tile *d, const tile *a, const tile *b, const tile *c);
void trace_vector(thread *self, int32_t pc, int64_t cycles, int dtype, double work, double flops, const tile *view);
void trace_transfer(thread *self, int32_t pc, int64_t cycles, uint32_t event, const tile *d, const tile *a, uint32_t after, int channel);
void trace_atomic(thread *self, int32_t pc, int64_t cycles, const tile *view, const tile *source, double flops);
void trace_wait(thread *self, int32_t pc, int64_t cycles, int unit, uint32_t event);
void trace_sync(thread *self, int32_t pc, int64_t cycles, const tile *view);
/* Cycles of this thread as if it were alone. Fault: no memory. */
int trace_clock(thread *self, int32_t pc, int64_t cycles, int32_t *now);

static inline uint16_t trace_key(const thread *self, const tile *view) {
    if (!view || (view->space != SPACE_L1 && view->space != SPACE_L2)) return KEY_NONE;
    const int32_t key = self->kernel->buffer[view->object].key + view->slot;
    return (uint16_t)(key < KEY_NONE ? key : KEY_NONE - 1); /* beyond what 16 bits count, slots share a key */
}

static inline bool trace_must_sync(thread *self, const tile *view) {
    if (!view) return true;
    const uint16_t key = trace_key(self, view);
    return key != KEY_NONE && self->touched[key];
}

#endif
