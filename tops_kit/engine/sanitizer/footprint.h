/* The bytes that a view covers, in a form that can be compared: rows of `row_bytes`, repeated along up to MAX_AXES axes. */
#ifndef TOPS_FOOTPRINT_H
#define TOPS_FOOTPRINT_H
#include <stdbool.h>
#include <string.h>
#include "../machine.h"

/* Where offsets count from. Arrays in L3 that share memory are one region, whatever parameters they came by. */
enum { REGION_NONE = -1, REGION_L1, REGION_L2, REGION_L3 /* and those behind it */ };

typedef struct {
    int64_t start, end; /* everything lies in [start, end), offsets in the region */
    int64_t row_bytes;
    int32_t region;
    int32_t axes; /* 0: one row */
    struct {
        int64_t n, stride;
    } axis[MAX_AXES]; /* of the rows: smallest stride first, all greater than row_bytes; only `axes` of them are set */
} footprint;

static inline void footprint_copy(footprint *to, const footprint *from) {
    memcpy(to, from, offsetof(footprint, axis));
    for (int32_t k = 0; k < from->axes; k++) to->axis[k] = from->axis[k];
}

/* What of `view` exists, its offsets counted from `base`; false: nothing. */
bool footprint_of(footprint *f, const tile *view, int32_t region, const uint8_t *base);
static inline void footprint_row(footprint *f, int32_t region, int64_t start, int64_t bytes) {
    f->start = start;
    f->end = start + bytes;
    f->row_bytes = bytes;
    f->region = region;
    f->axes = 0;
}

/* Whether two have bytes in common; where the first of these that was found lies goes to [*from, *to). `work` is counted down
   by what was compared; below 0 nothing more is looked at, and the answer is false. */
bool footprints_meet(const footprint *x, const footprint *y, int64_t *from, int64_t *to, int64_t *work);

/* Makes x cover y too, and nothing else, where one footprint can say that; false: x is as it was. */
bool footprint_absorb(footprint *x, const footprint *y);

/* Calls `row` for each row, in order of the axes, while it gives true. */
bool footprint_rows(const footprint *f, bool (*row)(void *data, int64_t start, int64_t bytes), void *data);

#endif
