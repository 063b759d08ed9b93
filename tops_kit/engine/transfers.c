/* Transfers whose effect waits for their completion. */
#include "transfers.h"
#include <stdlib.h>
#include <string.h>

int transfer_defer(thread *self, int32_t pc, int kind, uint32_t after, int channel, const tile *d, const tile *a, reg value) {
    if (self->pendings == self->pending_capacity) {
        const int32_t capacity = self->pending_capacity ? 2 * self->pending_capacity : 16;
        transfer *const grown = realloc(self->pending, (size_t)capacity * sizeof *grown);
        if (!grown) return fault_set(self, FAULT_MEMORY, NULL, 0, 0, 0, 0);
        self->pending = grown;
        self->pending_capacity = capacity;
    }
    transfer *const x = &self->pending[self->pendings++];
    *x = (transfer){.event = self->events, .after = after, .pc = pc, .channel = (uint16_t)channel, .kind = (uint8_t)kind, .value = value, .d = *d};
    if (a) x->a = *a;
    return FAULT_NONE;
}

/* Moves what is marked as needed, in order of issue, and keeps the rest. */
static int move_needed(thread *self) {
    int kind = FAULT_NONE;
    int32_t kept = 0;
    for (int32_t k = 0; k < self->pendings; k++) {
        transfer *const x = &self->pending[k];
        if (x->needed && !kind) {
            kind = transfer_move(x->kind, &x->d, &x->a, x->value);
            if (kind) {
                fault_tiles(self, kind, &x->d, x->kind == DMA_SET ? NULL : &x->a, NULL);
                self->fault.pc = x->pc;
            }
        } else {
            self->pending[kept++] = *x;
        }
    }
    self->pendings = kept;
    return kind;
}

int transfer_complete(thread *self, uint32_t event) {
    /* what a transfer needs was issued before it: one pass from the youngest finds everything */
    for (int32_t k = self->pendings; k-- > 0;) {
        transfer *const x = &self->pending[k];
        if (x->event == event) x->needed = true;
        if (!x->needed) continue;
        for (int32_t m = k; m-- > 0;) {
            if (self->pending[m].event == x->after || self->pending[m].channel == x->channel) self->pending[m].needed = true;
        }
    }
    return move_needed(self);
}

int transfer_complete_all(thread *self) {
    for (int32_t k = 0; k < self->pendings; k++) self->pending[k].needed = true;
    return move_needed(self);
}
