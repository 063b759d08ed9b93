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

/* Where the transfer of `event` is among the first `count`, which are in order; `count`: nowhere. */
static int32_t find_event(const thread *self, int32_t count, uint32_t event) {
    int32_t low = 0, high = count;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (self->pending[middle].event < event) low = middle + 1;
        else high = middle;
    }
    return low < count && self->pending[low].event == event ? low : count;
}

int transfer_complete(thread *self, uint32_t event) {
    const int32_t at = find_event(self, self->pendings, event);
    if (at == self->pendings) return FAULT_NONE;
    self->pending[at].needed = true;
    /* what a transfer needs was issued before it: one pass from the youngest finds everything, with one more for each channel */
    for (int32_t k = at + 1; k-- > 0;) {
        const transfer *const x = &self->pending[k];
        if (!x->needed) continue;
        const int32_t earlier = x->after ? find_event(self, k, x->after) : k;
        if (earlier < k) self->pending[earlier].needed = true;
        for (int32_t m = k; !x->with_channel && m-- > 0;) {
            transfer *const other = &self->pending[m];
            if (other->channel == x->channel) other->needed = other->with_channel = true;
        }
    }
    return move_needed(self);
}

int transfer_complete_all(thread *self) {
    for (int32_t k = 0; k < self->pendings; k++) self->pending[k].needed = true;
    return move_needed(self);
}
