/* Transfers between memories, as if all of the source were read before anything is written. */
#include "exact.h"
#include "walk.h"

/* One value in n elements. */
static void fill_row(uint8_t *p, int64_t stride, int64_t n, int size, uint32_t bits) {
    if (stride != size) {
        for (int64_t i = 0; i < n; i++) memcpy(p + i * stride, &bits, (size_t)size); /* little-endian */
    } else if (size == 1) {
        memset(p, (int)(bits & 0xFF), (size_t)n);
    } else if (size == 2) {
        uint16_t half = (uint16_t)bits;
        for (int64_t i = 0; i < n; i++) memcpy(p + 2 * i, &half, 2);
    } else {
        for (int64_t i = 0; i < n; i++) memcpy(p + 4 * i, &bits, 4);
    }
}

/* Dense bytes: to or from which kind of memory. */
enum { BYTES_IN, BYTES_OUT, BYTES_STREAMED };
enum { SHORT = 256 }; /* bytes: not worth a call of ours */

static inline int bytes_way(const tile *d) {
    if (d->space != SPACE_L3) return BYTES_IN;
    return d->slot & TK_STREAMS ? BYTES_STREAMED : BYTES_OUT;
}

static inline void copy_dense(uint8_t *d, const uint8_t *a, int64_t bytes, int way) {
    if (way == BYTES_OUT || bytes < SHORT) memcpy(d, a, (size_t)bytes);
    else if (way == BYTES_IN) tk_kernels->copy(d, a, bytes);
    else tk_kernels->stream(d, a, bytes);
}

static void copy_row(uint8_t *d, int64_t sd, const uint8_t *a, int64_t sa, int64_t n, int size, int way) {
    if (sd == size && sa == size) {
        copy_dense(d, a, n * size, way);
    } else if (sa == 0) {
        uint32_t bits = 0;
        memcpy(&bits, a, (size_t)size);
        fill_row(d, sd, n, size, bits);
    } else if (size == 4) {
        for (int64_t i = 0; i < n; i++) memcpy(d + i * sd, a + i * sa, 4);
    } else if (size == 2) {
        for (int64_t i = 0; i < n; i++) memcpy(d + i * sd, a + i * sa, 2);
    } else {
        for (int64_t i = 0; i < n; i++) d[i * sd] = a[i * sa];
    }
}

/* d[j, i] = a[i, j] where both are dense in their last axis; in squares, for the caches' sake. */
static void transpose(uint8_t *d, int64_t ldd, const uint8_t *a, int64_t lda, int64_t rows, int64_t columns, int size) {
    enum { SQUARE = 64 };
    for (int64_t i = 0; i < rows; i += SQUARE) {
        int64_t high = rows - i < SQUARE ? rows - i : SQUARE;
        for (int64_t j = 0; j < columns; j += SQUARE) {
            int64_t wide = columns - j < SQUARE ? columns - j : SQUARE;
            uint8_t *to = d + j * ldd + i * size;
            const uint8_t *from = a + i * lda + j * size;
            if (size == 4) tk_kernels->transpose4(to, ldd, from, lda, high, wide);
            else
                for (int64_t q = 0; q < wide; q++) copy_row(to + q * ldd, size, from + q * size, lda, high, size, BYTES_OUT);
        }
    }
}

/* Rows of a matrix lie far apart: the processor does not foresee the next one by itself. Any address will do. */
enum { AHEAD = 3, LINE = 64, MANY_LINES = 64 };
static inline void prefetch(const uint8_t *p, int64_t bytes) {
    if (bytes > MANY_LINES * LINE) bytes = MANY_LINES * LINE;
    for (int64_t i = 0; i < bytes; i += LINE) __builtin_prefetch(p + i);
}

/* Row by row, or, where d is dense along one axis and a along another, by transposition of those two. */
static void copy_walk(const walk *w, int size, int way) {
    int64_t index[MAX_AXES] = {0};
    uint8_t *p[WALK_VIEWS];
    walk rest = *w;
    int last = w->axes - 1, of_d = -1, of_a = -1;
    memcpy(p, w->p, sizeof p);
    if (w->rows == 0) return;
    for (int axis = 0; axis < w->axes; axis++) {
        if (w->stride[0][axis] == size) of_d = axis;
        if (w->stride[1][axis] == size) of_a = axis;
    }
    if (w->axes < 2 || of_d < 0 || of_a < 0 || of_d == of_a) {
        int64_t ahead = w->axes > 1 && w->stride[1][last] == size ? AHEAD * w->stride[1][last - 1] : 0;
        for (int64_t row = 0; row < w->rows; row++) {
            if (ahead) prefetch(p[1] + ahead, w->n[last] * size);
            copy_row(p[0], w->stride[0][last], p[1], w->stride[1][last], w->n[last], size, way);
            walk_next(w, index, p);
        }
        return;
    }
    rest.axes = 0;
    rest.rows = 1;
    for (int axis = 0; axis < w->axes; axis++) {
        if (axis == of_d || axis == of_a) continue;
        rest.n[rest.axes] = w->n[axis];
        rest.rows *= w->n[axis];
        for (int v = 0; v < 2; v++) rest.stride[v][rest.axes] = w->stride[v][axis];
        rest.axes++;
    }
    rest.n[rest.axes++] = 1; /* the row of each step */
    for (int64_t row = 0; row < rest.rows; row++) {
        transpose(p[0], w->stride[0][of_a], p[1], w->stride[1][of_d], w->n[of_d], w->n[of_a], size);
        walk_next(&rest, index, p);
    }
}

int tk_pair_axes(const tile *d, const tile *a, int *with) {
    int fits = 1;
    for (int axis = 0; axis < a->rank; axis++) {
        int other = axis + d->rank - a->rank;
        fits &= a->n[axis] == 1 || (other >= 0 && a->n[axis] == d->n[other]);
    }
    for (int axis = 0; axis < d->rank; axis++) {
        int own = axis - (d->rank - a->rank);
        with[axis] = own >= 0 ? own : -1;
    }
    if (fits) return FAULT_NONE;
    /* one has axes of extent 1 between the other's */
    if (d->rank == a->rank) return FAULT_SHAPE;
    const tile *const longer = d->rank > a->rank ? d : a, *const shorter = d->rank > a->rank ? a : d;
    int next = 0;
    for (int axis = 0; axis < longer->rank; axis++) {
        const int pair = next < shorter->rank && longer->n[axis] == shorter->n[next] ? next++ : -1;
        if (pair < 0 && longer->n[axis] != 1) return FAULT_SHAPE;
        if (longer == d) with[axis] = pair;
        else if (pair >= 0) with[pair] = axis;
    }
    return next < shorter->rank ? FAULT_SHAPE : FAULT_NONE;
}

/* `a` seen with the axes of `d`: stride 0 where it is broadcast. */
static tile expanded(const tile *d, const tile *a, const int *with) {
    tile e = *a;
    e.rank = d->rank;
    for (int axis = 0; axis < d->rank; axis++) {
        int own = with[axis];
        e.n[axis] = d->n[axis];
        e.stride[axis] = own < 0 || a->n[own] == 1 ? 0 : a->stride[own];
    }
    return e;
}

/* d = a where they collide: through memory of its own. */
static __attribute__((noinline)) int copy_through(const tile *d, const tile *a) {
    walk w;
    int size = tk_size[d->dtype];
    int64_t bytes = size;
    tile copy = *d;
    for (int axis = d->rank - 1; axis >= 0; axis--) {
        copy.stride[axis] = bytes;
        bytes *= copy.n[axis];
    }
    copy.p = malloc((size_t)bytes);
    if (!copy.p) return FAULT_MEMORY;
    walk_make(&w, 2, (const tile *const[]){&copy, a});
    copy_walk(&w, size, BYTES_OUT);
    walk_make(&w, 2, (const tile *const[]){d, &copy});
    copy_walk(&w, size, BYTES_OUT);
    free(copy.p);
    return FAULT_NONE;
}

/* d = a, which broadcasts as numpy does; else FAULT_SHAPE. */
static int copy_broadcast(const tile *d, const tile *a) {
    walk w;
    if (walk_make(&w, 2, (const tile *const[]){d, a})) return FAULT_SHAPE;
    if (views_collide(d, a, 1)) return copy_through(d, a);
    copy_walk(&w, tk_size[d->dtype], bytes_way(d));
    return FAULT_NONE;
}

/* What the checks of all transfers begin with; `reaches`: which of the two may reach outside (1: d, 2: a). */
static inline int check_transfer(const tile *d, const tile *a, int reaches) {
    if (d->space == SPACE_NONE || a->space == SPACE_NONE) return FAULT_SPACE;
    if ((!d->inside && !(reaches & 1)) || (!a->inside && !(reaches & 2))) return FAULT_BOUNDS;
    return d->dtype != a->dtype ? FAULT_TYPE : FAULT_NONE;
}

int tk_dma_copy(const tile *d, const tile *a) {
    int with[MAX_AXES], fault = check_transfer(d, a, 0);
    if (fault || (fault = copy_broadcast(d, a)) != FAULT_SHAPE) return fault;
    if (tk_pair_axes(d, a, with)) return FAULT_SHAPE;
    tile e = expanded(d, a, with);
    return copy_broadcast(d, &e);
}

static void fill(const tile *d, uint32_t bits) {
    walk w;
    int64_t index[MAX_AXES] = {0};
    uint8_t *p[WALK_VIEWS];
    walk_make(&w, 1, &d);
    p[0] = w.p[0];
    for (int64_t row = 0; row < w.rows; row++) {
        fill_row(p[0], w.stride[0][w.axes - 1], w.n[w.axes - 1], tk_size[d->dtype], bits);
        walk_next(&w, index, p);
    }
}

int tk_dma_set(const tile *d, reg value) {
    uint32_t bits = 0;
    if (d->space == SPACE_NONE) return FAULT_SPACE;
    if (!d->inside) return FAULT_BOUNDS;
    tk_store(&bits, d->dtype, value);
    fill(d, bits);
    return FAULT_NONE;
}

/* Cut one axis of a view to [low, high). */
static void cut(tile *t, int axis, int32_t low, int32_t high) {
    t->p += low * t->stride[axis];
    t->n[axis] = high - low;
}

/* The part of [0, n) that exists along an axis. */
static void existing(const tile *t, int axis, int32_t *low, int32_t *high) {
    *low = 0;
    *high = t->n[axis];
    if (t->inside) return;
    if (t->lo[axis] > 0) *low = t->lo[axis] < *high ? t->lo[axis] : *high;
    if (t->hi[axis] < *high) *high = t->hi[axis] > *low ? t->hi[axis] : *low;
}

int tk_dma_pad(const tile *d, const tile *a, reg value) {
    int with[MAX_AXES], fault = check_transfer(d, a, 2);
    if (fault || (fault = tk_pair_axes(d, a, with))) return fault;
    uint32_t bits = 0;
    tk_store(&bits, d->dtype, value);
    tile slab[2 * MAX_AXES], to = *d, from = expanded(d, a, with);
    int slabs = 0;
    for (int own = 0; own < a->rank; own++) { /* axes of one element: there or not */
        int32_t low, high;
        existing(a, own, &low, &high);
        if (a->n[own] == 1 && low >= high) {
            fill(d, bits);
            return FAULT_NONE;
        }
    }
    for (int axis = 0; axis < d->rank; axis++) {
        if (with[axis] < 0 || a->n[with[axis]] == 1) continue;
        int32_t low, high, n = to.n[axis];
        existing(a, with[axis], &low, &high);
        if (low > 0) slab[slabs] = to, cut(&slab[slabs++], axis, 0, low);
        if (high < n) slab[slabs] = to, cut(&slab[slabs++], axis, high, n);
        cut(&to, axis, low, high);
        cut(&from, axis, low, high);
    }
    source_copies copies = {.count = 0};
    const tile *views[] = {NULL, &from};
    from.inside = 1;
    for (int i = 0; i < slabs && copies.count == 0; i++) { /* filling must not spoil what is still to be read */
        views[0] = &slab[i];
        if ((fault = sources_apart(&copies, 2, views, 0))) return fault;
    }
    for (int i = 0; i < slabs; i++) fill(&slab[i], bits);
    fault = copy_broadcast(&to, views[1]);
    sources_free(&copies);
    return fault;
}

int tk_dma_clip(const tile *d, const tile *a) {
    int with[MAX_AXES], fault = check_transfer(d, a, 1);
    if (fault || (fault = tk_pair_axes(d, a, with))) return fault;
    tile to = *d, from = expanded(d, a, with);
    for (int axis = 0; axis < d->rank; axis++) {
        int32_t low, high;
        existing(d, axis, &low, &high);
        cut(&to, axis, low, high);
        cut(&from, axis, low, high);
    }
    to.inside = 1;
    return copy_broadcast(&to, &from);
}

int tk_atomic_add(const tile *d, const tile *a) {
    int with[MAX_AXES], ints = !tk_is_float(d->dtype), fault = check_transfer(d, a, 0);
    if (a->space != SPACE_L1) return FAULT_SPACE;
    if (fault || (fault = tk_pair_axes(d, a, with))) return fault;
    tile e = expanded(d, a, with);
    const tile *views[] = {d, &e};
    source_copies copies;
    if ((fault = sources_apart(&copies, 2, views, 1))) return fault;
    walk w;
    int64_t index[MAX_AXES] = {0};
    uint8_t *p[WALK_VIEWS];
    walk_make(&w, 2, views);
    memcpy(p, w.p, sizeof p);
    int last = w.axes - 1;
    int64_t n = w.n[last], sd = w.stride[0][last], sa = w.stride[1][last];
    int direct = tk_size[d->dtype] == 4 && (n == 1 || (sd == 4 && sa == 4));
    for (int64_t row = 0; row < w.rows; row++) {
        if (direct) tk_kernels->binary[ints][TK_ADD][0](p[0], p[0], p[1], n);
        for (int64_t i = 0; i < n && !direct; i++) {
            reg sum = tk_load(p[0] + i * sd, d->dtype), value = tk_load(p[1] + i * sa, d->dtype);
            if (ints) sum.u += value.u;
            else sum.f = tk_canonical(sum.f + value.f);
            tk_store(p[0] + i * sd, d->dtype, sum);
        }
        walk_next(&w, index, p);
    }
    sources_free(&copies);
    return FAULT_NONE;
}
