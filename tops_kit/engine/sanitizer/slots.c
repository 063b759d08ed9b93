#include "slots.h"
#include <stdlib.h>
#include <string.h>
#include "../tiles/elements.h"

static bool buffers_share(const buffer *a, const buffer *b) {
    return a->view.space == b->view.space && a->offset_bytes < b->offset_bytes + b->slots * b->slot_bytes &&
           b->offset_bytes < a->offset_bytes + a->slots * a->slot_bytes;
}

bool slot_table_make(slot_table *t, const kernel *k) {
    *t = (slot_table){.kernel = k, .first = calloc((size_t)k->buffers + 1, sizeof *t->first)};
    if (!t->first) return false;
    for (int m = 0; m < k->buffers; m++) {
        int32_t *const count = k->buffer[m].view.space == SPACE_L1 ? &t->l1 : &t->l2;
        t->first[m] = *count;
        if (k->buffer[m].slots > INT32_MAX / 2 - *count) return false;
        *count += k->buffer[m].slots;
        for (int other = 0; other < m && k->buffer[m].view.space == SPACE_L1; other++) {
            t->shares_l1 = t->shares_l1 || buffers_share(&k->buffer[m], &k->buffer[other]);
        }
    }
    return true;
}

void slot_table_free(slot_table *t) { free(t->first); }

void slots_forget(slot *s, int32_t count) {
    for (int32_t k = 0; k < count; k++) {
        s[k].state = SLOT_UNTOUCHED;
        s[k].in_flight = 0;
    }
}

void slots_free(slot *s, int32_t count) {
    for (int32_t k = 0; s && k < count; k++) free(s[k].map);
    free(s);
}

static int64_t elements_of(const buffer *b) {
    int64_t count = 1;
    for (int k = 0; k < b->view.rank; k++) count *= b->view.n[k];
    return count;
}

typedef struct {
    uint8_t *map;
    int64_t start, from, to; /* of the slot; of what is missing */
    int shift;               /* of the element's size */
} map_walk;

static map_walk walk_of(const slot_place *at) {
    return (map_walk){.map = at->slot->map, .start = at->start, .from = -1, .shift = __builtin_ctz((unsigned)tk_size[at->buffer->view.dtype])};
}

static bool mark_row(void *data, int64_t start, int64_t bytes) {
    map_walk *const w = data;
    memset(w->map + ((start - w->start) >> w->shift), 1, (size_t)(bytes >> w->shift));
    return true;
}

bool slot_write(const slot_place *at, const footprint *f, bool whole) {
    slot *const s = at->slot;
    if (s->state == SLOT_WRITTEN) return true;
    if (whole) {
        s->state = SLOT_WRITTEN;
        return true;
    }
    if (s->state == SLOT_UNTOUCHED) {
        const size_t count = (size_t)elements_of(at->buffer);
        const bool had_map = s->map != NULL;
        if (!had_map) s->map = calloc(count ? count : 1, 1);
        if (!s->map) {
            s->state = SLOT_WRITTEN;
            return false;
        }
        if (had_map) memset(s->map, 0, count);
        s->state = SLOT_PARTLY;
        s->looks = 0;
    }
    map_walk w = walk_of(at);
    footprint_rows(f, mark_row, &w);
    return true;
}

static bool look_at_row(void *data, int64_t start, int64_t bytes) {
    map_walk *const w = data;
    const uint8_t *const row = w->map + ((start - w->start) >> w->shift);
    const size_t count = (size_t)(bytes >> w->shift);
    const uint8_t *const first = memchr(row, 0, count);
    if (!first) return true;
    size_t last = count;
    while (row[last - 1]) last--;
    const int64_t from = start + ((int64_t)(first - row) << w->shift), to = start + ((int64_t)last << w->shift);
    w->from = w->from < 0 || from < w->from ? from : w->from;
    w->to = to > w->to ? to : w->to;
    return true;
}

bool slot_is_written(const slot_place *at, const footprint *f, bool whole, int64_t *from, int64_t *to) {
    slot *const s = at->slot;
    if (s->state == SLOT_WRITTEN) return true;
    if (s->state == SLOT_UNTOUCHED) {
        *from = f->start;
        *to = f->end;
        return false;
    }
    map_walk w = walk_of(at);
    footprint_rows(f, look_at_row, &w);
    if (w.from < 0) {
        /* now and then a look at the whole map: slots that were filled part by part need none any more */
        const bool look = (s->looks & (s->looks + 1)) == 0;
        s->looks++;
        if (whole || (look && !memchr(s->map, 0, (size_t)elements_of(at->buffer)))) s->state = SLOT_WRITTEN;
        return true;
    }
    *from = w.from;
    *to = w.to;
    return false;
}
