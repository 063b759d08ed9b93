/* The DTE as the machine sees it: data moves when a transfer is issued, or (debug and sanitized modes, on request) when it
   completes: at a wait for it, for what starts after it, for a later one on its channel, or at the end of the thread. */
#ifndef TOPS_TRANSFERS_H
#define TOPS_TRANSFERS_H
#include "kernel.h"
#include "tiles/tiles.h"

/* Whether `event` was issued; 0 was. */
static inline int transfer_known(thread *self, int32_t event) {
    if (unlikely((uint32_t)event > self->events)) return fault_set(self, FAULT_EVENT, NULL, event, self->events, 0, 0);
    return FAULT_NONE;
}

static inline int transfer_move(int kind, const tile *d, const tile *a, reg value) {
    switch (kind) {
    case DMA_COPY: return tk_dma_copy(d, a);
    case DMA_PAD: return tk_dma_pad(d, a, value);
    case DMA_CLIP: return tk_dma_clip(d, a);
    default: return tk_dma_set(d, value);
    }
}

int transfer_defer(thread *self, int32_t pc, int kind, uint32_t after, int channel, const tile *d, const tile *a, reg value);
int transfer_complete(thread *self, uint32_t event); /* and what has to come before it */
int transfer_complete_all(thread *self);

#endif
