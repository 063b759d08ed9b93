#include "print.h"
#include <stdlib.h>
#include <string.h>
#include "tiles/elements.h"
#include "views.h"

static uint8_t *room(print_log *log, size_t bytes) {
    if (log->size + bytes > log->capacity) {
        size_t capacity = log->capacity ? log->capacity : 256;
        while (capacity < log->size + bytes) capacity *= 2;
        uint8_t *const grown = realloc(log->bytes, capacity);
        if (!grown) return NULL;
        log->bytes = grown;
        log->capacity = capacity;
    }
    uint8_t *const at = log->bytes + log->size;
    log->size += bytes;
    return at;
}

/* Append to the line of a thread, which ends at `print`: a program may never come to one. */
static void put(print_log *log, const void *words, size_t bytes) {
    const bool fits = !log->dropped && log->size + bytes <= PRINT_LIMIT_BYTES; /* a longer line is dropped as a whole */
    uint8_t *const at = fits ? room(log, bytes) : NULL;
    if (at) {
        memcpy(at, words, bytes);
    } else {
        log->dropped = 1;
    }
}

static void begin(thread *self) {
    static const uint8_t header[PRINT_HEADER_BYTES];
    if (self->line.size == 0 && !self->line.dropped) put(&self->line, header, sizeof header);
}

int print_check(thread *self, const tile *a) {
    if (a->space != SPACE_L1 && a->space != SPACE_L2) return fault_set(self, FAULT_SPACE, a, 0, 0, 0, 0);
    return a->inside ? FAULT_NONE : fault_tiles(self, FAULT_BOUNDS, a, NULL, NULL);
}

void print_scalar(thread *self, int tag, reg value) {
    begin(self);
    const uint32_t words[2] = {(uint32_t)tag, value.u};
    put(&self->line, words, sizeof words);
}

/* The elements of a tile row by row; `axis` counts down the axes. */
static void print_axis(thread *self, const tile *a, int axis, const uint8_t *p) {
    if (axis == a->rank) {
        const reg value = tk_load(p, a->dtype);
        put(&self->line, &value, sizeof value);
        return;
    }
    for (int32_t k = 0; k < a->n[axis]; k++) print_axis(self, a, axis + 1, p + k * a->stride[axis]);
}

void print_tile(thread *self, const tile *a) {
    begin(self);
    if ((uint64_t)view_elements(a) > PRINT_LIMIT_BYTES / sizeof(reg)) {
        self->line.dropped = 1;
        return;
    }
    const uint32_t words[3] = {PRINT_TILE, a->dtype, a->rank};
    put(&self->line, words, sizeof words);
    put(&self->line, a->n, a->rank * sizeof *a->n);
    print_axis(self, a, 0, a->p);
}

void print_finish(thread *self, int format) {
    begin(self);
    print_log *const line = &self->line;
    const uint32_t header[] = {(uint32_t)line->size, (uint32_t)format, (uint32_t)self->id, (uint32_t)self->block, self->epoch, self->grid_epoch};
    _Static_assert(sizeof header == PRINT_HEADER_BYTES, "the header of a record");
    uint8_t *at = NULL;
    if (!line->dropped && self->printed + line->size <= PRINT_LIMIT_BYTES) at = room(self->prints, line->size);
    if (at) {
        memcpy(line->bytes, header, sizeof header);
        memcpy(at, line->bytes, line->size);
        self->printed += line->size;
    } else {
        self->prints->dropped++;
    }
    line->size = 0;
    line->dropped = 0;
}

void prints_append(print_log *all, const print_log *some) {
    uint8_t *const at = some->size ? room(all, some->size) : NULL;
    if (at) memcpy(at, some->bytes, some->size);
    all->dropped += some->dropped + (some->size && !at);
}

typedef struct {
    uint32_t grid_epoch, block, epoch, thread;
    size_t at; /* last: prints of one thread stay in order */
} place;

static int by_place(const void *a, const void *b) {
    const place *const x = a, *const y = b;
    if (x->grid_epoch != y->grid_epoch) return x->grid_epoch < y->grid_epoch ? -1 : 1;
    if (x->block != y->block) return x->block < y->block ? -1 : 1;
    if (x->epoch != y->epoch) return x->epoch < y->epoch ? -1 : 1;
    if (x->thread != y->thread) return x->thread < y->thread ? -1 : 1;
    return x->at < y->at ? -1 : 1;
}

void prints_sort(print_log *all, const fault *until) {
    if (all->size == 0) return;
    size_t count = 0;
    for (size_t at = 0; at < all->size; count++) at += *(const uint32_t *)(all->bytes + at);
    place *const order = malloc(count * sizeof *order);
    uint8_t *const sorted = malloc(all->size);
    if (!order || !sorted) {
        free(order);
        free(sorted);
        all->dropped += (int64_t)count;
        all->size = 0;
        return;
    }
    count = 0;
    for (size_t at = 0; at < all->size;) {
        uint32_t header[PRINT_HEADER_BYTES / 4];
        memcpy(header, all->bytes + at, sizeof header);
        order[count++] = (place){.grid_epoch = header[5], .block = header[3], .epoch = header[4], .thread = header[2], .at = at};
        at += header[0];
    }
    qsort(order, count, sizeof *order, by_place);
    const place last = until ? (place){until->grid_epoch, (uint32_t)until->block, until->epoch, (uint32_t)until->thread, SIZE_MAX} : (place){0};
    size_t size = 0;
    for (size_t k = 0; k < count; k++) {
        if (until && by_place(&order[k], &last) > 0) break;
        uint32_t bytes;
        memcpy(&bytes, all->bytes + order[k].at, sizeof bytes);
        memcpy(sorted + size, all->bytes + order[k].at, bytes);
        size += bytes;
    }
    free(order);
    free(all->bytes);
    all->bytes = sorted;
    all->capacity = all->size;
    all->size = size;
}
