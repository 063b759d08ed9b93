/* Rows of views, one after another, as the kernels want them: dense and of 32 bits, or one element for the whole row. Rows that
   lie so already are used in place; others go through buffers, CHUNK elements at a time. */
#ifndef TOPS_TILES_ROWS_H
#define TOPS_TILES_ROWS_H
#include "walk.h"

enum { CHUNK = 256 };

/* n elements of `size` bytes, `stride` bytes apart, to and from a dense row. */
static inline void gather_raw(void *d, const uint8_t *p, int64_t stride, int64_t n, int size) {
    if (stride == size) {
        memcpy(d, p, (size_t)(n * size));
    } else if (size == 4) {
        for (int64_t i = 0; i < n; i++) memcpy((uint8_t *)d + 4 * i, p + i * stride, 4);
    } else if (size == 2) {
        for (int64_t i = 0; i < n; i++) memcpy((uint8_t *)d + 2 * i, p + i * stride, 2);
    } else {
        for (int64_t i = 0; i < n; i++) ((uint8_t *)d)[i] = p[i * stride];
    }
}

static inline void scatter_raw(uint8_t *p, const void *a, int64_t stride, int64_t n, int size) {
    if (stride == size) {
        memcpy(p, a, (size_t)(n * size));
    } else if (size == 4) {
        for (int64_t i = 0; i < n; i++) memcpy(p + i * stride, (const uint8_t *)a + 4 * i, 4);
    } else if (size == 2) {
        for (int64_t i = 0; i < n; i++) memcpy(p + i * stride, (const uint8_t *)a + 2 * i, 2);
    } else {
        for (int64_t i = 0; i < n; i++) p[i * stride] = ((const uint8_t *)a)[i];
    }
}

/* n <= CHUNK elements widened to 32 bits, and back. */
static inline void fetch(void *d, const uint8_t *p, int64_t stride, int64_t n, int dtype) {
    unary_row *widen = tk_kernels->widen[dtype];
    uint8_t raw[2 * CHUNK];
    if (!widen) {
        gather_raw(d, p, stride, n, 4);
        return;
    }
    if (stride != tk_size[dtype]) {
        gather_raw(raw, p, stride, n, tk_size[dtype]);
        p = raw;
    }
    widen(d, p, n);
}

static inline void put(uint8_t *p, const void *a, int64_t stride, int64_t n, int dtype) {
    unary_row *narrow = tk_kernels->narrow[dtype];
    uint8_t raw[2 * CHUNK];
    if (!narrow) {
        scatter_raw(p, a, stride, n, 4);
    } else if (stride == tk_size[dtype]) {
        narrow(p, a, n);
    } else {
        narrow(raw, a, n);
        scatter_raw(p, raw, stride, n, tk_size[dtype]);
    }
}

/* What is done to each row: d and a[1], a[2], ... dense, but for those in `single` (ROW_A << (view - 1)), which are one element.
   `context` is the caller's. */
typedef void row_call(const void *context, void *d, const void *const *a, int64_t n, int single);

/* How views are handed over: as their raw elements, or widened. ROW_ONE: at most one source of one element. */
enum { RAW_D = 1, RAW_SOURCES = 2, ROW_ONE = 8 };

static inline __attribute__((always_inline)) void each_row(const walk *w, const uint8_t *dtype, const int sources,
                                                           const int may_single, const int raw, row_call *call,
                                                           const void *context) {
    const int last = w->axes - 1;
    const int64_t n = w->n[last];
    uint32_t buffer[WALK_VIEWS][CHUNK] __attribute__((aligned(64)));
    int64_t index[MAX_AXES] = {0};
    uint8_t *p[WALK_VIEWS];
    int in_place[WALK_VIEWS], single = 0, all = 1;
    for (int v = 0; v <= sources; v++) {
        int size = tk_size[dtype[v]], bit = v ? ROW_A << (v - 1) : 0, as_is = raw & (v ? RAW_SOURCES : RAW_D);
        p[v] = w->p[v];
        in_place[v] = (as_is || size == 4) && (n == 1 || w->stride[v][last] == size);
        if (n > 1 && w->stride[v][last] == 0 && may_single & bit && !(single && may_single & ROW_ONE)) single |= bit;
        else if (!in_place[v]) all = 0;
    }
    const int64_t step = all ? n : CHUNK;
    for (int64_t row = 0; row < w->rows; row++) {
        reg one[WALK_VIEWS];
        const void *a[WALK_VIEWS];
        for (int v = 1; v <= sources; v++) {
            if (!(single & ROW_A << (v - 1))) continue;
            a[v] = p[v];
            if (raw & RAW_SOURCES || tk_size[dtype[v]] == 4) continue;
            one[v] = tk_load(p[v], dtype[v]);
            a[v] = &one[v];
        }
        for (int64_t i = 0; i < n; i += step) {
            int64_t count = n - i < step ? n - i : step;
            for (int v = 1; v <= sources; v++) {
                const uint8_t *from = p[v] + i * w->stride[v][last];
                if (single & ROW_A << (v - 1)) continue;
                a[v] = in_place[v] ? from : (const uint8_t *)buffer[v];
                if (in_place[v]) continue;
                if (raw & RAW_SOURCES) gather_raw(buffer[v], from, w->stride[v][last], count, tk_size[dtype[v]]);
                else fetch(buffer[v], from, w->stride[v][last], count, dtype[v]);
            }
            uint8_t *to = p[0] + i * w->stride[0][last];
            call(context, in_place[0] ? to : (uint8_t *)buffer[0], a, count, single);
            if (in_place[0]) continue;
            if (raw & RAW_D) scatter_raw(to, buffer[0], w->stride[0][last], count, tk_size[dtype[0]]);
            else put(to, buffer[0], w->stride[0][last], count, dtype[0]);
        }
        walk_next(w, index, p);
    }
}
#endif
