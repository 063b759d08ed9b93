#include "stores.h"
#include <stdlib.h>
#include "tiles/elements.h"

enum { MAX_RECTANGLES = 1 << 20, MAX_COMPARISONS = 1 << 22 };

static rectangle *grow(store_log *log) {
    if (log->count == log->capacity) {
        const int64_t capacity = log->capacity ? 2 * log->capacity : 64;
        rectangle *const grown = capacity > MAX_RECTANGLES ? NULL : realloc(log->item, (size_t)capacity * sizeof *grown);
        if (!grown) {
            log->overflow = true;
            return NULL;
        }
        log->item = grown;
        log->capacity = capacity;
    }
    return &log->item[log->count++];
}

/* Appends a rectangle, or makes the last one larger: what a loop stores row by row becomes one. */
static void put(store_log *log, rectangle x) {
    if (x.rows == 1) x.stride = 0;
    rectangle *const last = log->count ? &log->item[log->count - 1] : NULL;
    if (last && last->unit == x.unit) {
        const int64_t step = (int64_t)(x.start - last->start);
        if (x.rows == 1 && last->rows == 1 && step == last->row_bytes) {
            last->row_bytes += x.row_bytes;
            return;
        }
        if (step == 0 && last->rows == x.rows && last->row_bytes == x.row_bytes && last->stride == x.stride) return;
        const bool first = last->rows == 1 && step > 0;
        const bool same_step = x.rows == 1 || x.stride == (first ? step : last->stride);
        if (last->row_bytes == x.row_bytes && same_step && (first || (last->rows > 1 && step == last->rows * last->stride))) {
            last->stride = first ? step : last->stride;
            last->rows += x.rows;
            return;
        }
    }
    rectangle *const item = grow(log);
    if (item) *item = x;
}

void stores_add(store_log *log, const tile *d) {
    if (log->overflow) return;
    /* axes from the innermost, with positive strides, those of extent 1 left out */
    int64_t n[MAX_AXES], stride[MAX_AXES];
    int axes = 0;
    uintptr_t start = (uintptr_t)d->p;
    const int64_t size = tk_size[d->dtype];
    for (int k = d->rank; k-- > 0;) {
        const int64_t count = (int64_t)d->hi[k] - d->lo[k];
        if (count <= 0) return;
        int64_t step = d->stride[k];
        start += (uintptr_t)(d->lo[k] * step);
        if (count == 1) continue;
        if (step < 0) {
            start += (uintptr_t)((count - 1) * step);
            step = -step;
        }
        n[axes] = count;
        stride[axes++] = step;
    }
    for (int a = 1; a < axes; a++) { /* smallest stride first */
        for (int b = a; b > 0 && stride[b] < stride[b - 1]; b--) {
            const int64_t s = stride[b], c = n[b];
            stride[b] = stride[b - 1], n[b] = n[b - 1];
            stride[b - 1] = s, n[b - 1] = c;
        }
    }
    rectangle x = {.start = start, .row_bytes = size, .rows = 1, .stride = 0, .unit = log->unit};
    int axis = 0;
    while (axis < axes && stride[axis] <= x.row_bytes) { /* contiguous, or onto itself */
        x.row_bytes += (n[axis] - 1) * stride[axis];
        axis++;
    }
    if (axis < axes) {
        x.rows = n[axis];
        x.stride = stride[axis++];
    }
    while (axis < axes && stride[axis] == x.rows * x.stride) x.rows *= n[axis++];
    int64_t index[MAX_AXES] = {0};
    for (;;) { /* one rectangle for each index of the axes that are left */
        rectangle one = x;
        for (int k = axis; k < axes; k++) one.start += (uintptr_t)(index[k] * stride[k]);
        put(log, one);
        if (log->overflow) return;
        int k = axis;
        while (k < axes && ++index[k] == n[k]) index[k++] = 0;
        if (k == axes) return;
    }
}

static uintptr_t end_of(const rectangle *x) { return x->start + (uintptr_t)((x->rows - 1) * x->stride + x->row_bytes); }

static int by_start(const void *a, const void *b) {
    const rectangle *const x = a, *const y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

/* x starts no later than y, and ends behind y's start. Where strides differ only the hulls are compared: it may be said that
   two overlap that do not. */
static bool overlap(const rectangle *x, const rectangle *y) {
    if (x->rows == 1 && y->rows == 1) return true;
    const int64_t stride = x->rows == 1 ? y->stride : x->stride;
    if (y->rows > 1 && y->stride != stride) return true;
    if (x->row_bytes > stride || y->row_bytes > stride) return true;
    /* both repeat every `stride` bytes: compare within one period */
    const int64_t offset = (int64_t)((y->start - x->start) % (uintptr_t)stride);
    return offset < x->row_bytes || offset + y->row_bytes > stride;
}

bool stores_overlap(rectangle *item, int64_t count) {
    if (count < 2) return false;
    qsort(item, (size_t)count, sizeof *item, by_start);
    int64_t comparisons = 0;
    for (int64_t k = 0; k < count; k++) {
        const uintptr_t end = end_of(&item[k]);
        for (int64_t m = k + 1; m < count && item[m].start < end; m++) {
            if (++comparisons > MAX_COMPARISONS) return true;
            if (item[m].unit != item[k].unit && overlap(&item[k], &item[m])) return true;
        }
    }
    return false;
}
