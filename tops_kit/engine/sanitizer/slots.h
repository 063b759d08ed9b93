/* Which bytes of L1 and L2 were written, slot by slot: a word says it for a slot as a whole, a map only where parts differ. */
#ifndef TOPS_SLOTS_H
#define TOPS_SLOTS_H
#include "footprint.h"
#include "../kernel.h"

enum { SLOT_WRITTEN, SLOT_UNTOUCHED, SLOT_PARTLY };

typedef struct {
    uint16_t state;
    uint16_t in_flight; /* L1: transfers of its thread that are not complete and touch it */
    uint32_t looks;     /* while SLOT_PARTLY: how often parts of it were found written */
    uint8_t *map;       /* then a byte for each element: whether it was written */
} slot;

/* Where the slots of each buffer begin, for the slots of one memory. */
typedef struct {
    const kernel *kernel;
    int32_t *first; /* by buffer */
    int32_t l1, l2; /* how many */
    bool shares_l1; /* some buffers lie in the same memory: compiler's temporaries that are never alive together */
} slot_table;

bool slot_table_make(slot_table *t, const kernel *k); /* false: no memory */
void slot_table_free(slot_table *t);

void slots_forget(slot *s, int32_t count); /* nothing is written, nothing in flight; maps stay for later use */
void slots_free(slot *s, int32_t count);

/* Of one slot: its buffer, and where it begins in its memory. */
typedef struct {
    slot *slot;
    const buffer *buffer;
    int64_t start;
} slot_place;

static inline slot_place slot_place_of(const slot_table *t, slot *slots, const tile *view) {
    const buffer *const b = &t->kernel->buffer[view->object];
    return (slot_place){&slots[t->first[view->object] + view->slot], b, b->offset_bytes + view->slot * b->slot_bytes};
}

/* `f` is written; `whole`: it is the whole slot. False: no memory for the map, the slot counts as written. */
bool slot_write(const slot_place *at, const footprint *f, bool whole);
/* Whether all of `f` is written; else what is missing lies in [*from, *to), offsets in its memory. */
bool slot_is_written(const slot_place *at, const footprint *f, bool whole, int64_t *from, int64_t *to);

#endif
