/* Gather and scatter along an axis. */
#include "exact.h"
#include "rows.h"

static int is_index(const tile *b) { return !tk_is_float(b->dtype) && b->dtype != DT_BOOL; }

/* FAULT_GATHER when an index is outside of [0, n). */
static int check_indices(const tile *b, int32_t n) {
    walk w;
    int64_t index[MAX_AXES] = {0};
    uint8_t *p[WALK_VIEWS];
    int32_t buffer[CHUNK];
    walk_make(&w, 1, (const tile *const[]){b});
    p[0] = w.p[0];
    int64_t length = w.n[w.axes - 1], stride = w.stride[0][w.axes - 1];
    for (int64_t row = 0; row < w.rows; row++) {
        for (int64_t i = 0; i < length; i += CHUNK) {
            int64_t count = length - i < CHUNK ? length - i : CHUNK;
            uint32_t greatest = 0;
            fetch(buffer, p[0] + i * stride, stride, count, b->dtype);
            for (int64_t j = 0; j < count; j++) greatest = (uint32_t)buffer[j] > greatest ? (uint32_t)buffer[j] : greatest;
            if (greatest >= (uint32_t)n) return FAULT_GATHER;
        }
        walk_next(&w, index, p);
    }
    return FAULT_NONE;
}

static void move_element(uint8_t *d, const uint8_t *a, int size) {
    if (size == 4) memcpy(d, a, 4);
    else if (size == 2) memcpy(d, a, 2);
    else *d = *a;
}

int tk_gather(tile *d, const tile *a, const tile *b, int axis) {
    tile exact = *d;
    source_copies copies;
    int fault = check_l1(3, (const tile *const[]){d, a, b}), size = tk_size[d->dtype];
    if (fault) return fault;
    if (d->dtype != a->dtype || !is_index(b)) return FAULT_TYPE;
    exact.result = 0;
    if (tk_shape_gather(&exact, a, b, axis)) return FAULT_SHAPE;
    if (tile_elements(d) == 0) return FAULT_NONE;
    int rank = a->rank > b->rank ? a->rank : b->rank, own = axis - (rank - a->rank);
    if ((fault = check_indices(b, own < 0 ? 1 : a->n[own]))) return fault;
    const tile *views[] = {d, a, b};
    if ((fault = sources_apart(&copies, 3, views, 0))) return fault;
    a = views[1], b = views[2];
    int64_t step = own < 0 ? 0 : a->stride[own];
    tile base = *a; /* at index 0 of the axis */
    if (own >= 0) base.n[own] = 1;
    walk w;
    int64_t index[MAX_AXES] = {0};
    uint8_t *p[WALK_VIEWS];
    walk_make(&w, 3, (const tile *const[]){d, &base, b});
    memcpy(p, w.p, sizeof p);
    int last = w.axes - 1;
    int64_t n = w.n[last], sd = w.stride[0][last], sa = w.stride[1][last], sb = w.stride[2][last];
    for (int64_t row = 0; row < w.rows; row++) {
        if (sb == 0 && sd == size) { /* one index for the whole row */
            gather_raw(p[0], p[1] + tk_load(p[2], b->dtype).i * step, sa, n, size);
        } else {
            for (int64_t i = 0; i < n; i++)
                move_element(p[0] + i * sd, p[1] + i * sa + tk_load(p[2] + i * sb, b->dtype).i * step, size);
        }
        walk_next(&w, index, p);
    }
    sources_free(&copies);
    return FAULT_NONE;
}

/* The extents over which a scatter runs: a and b broadcast; d has them but for the axis. */
static int scatter_extents(tile *over, const tile *d, const tile *b, const tile *a, int axis) {
    int rank = a->rank > b->rank ? a->rank : b->rank;
    if (axis < 0 || axis >= rank || d->rank < rank) return FAULT_SHAPE;
    memset(over, 0, sizeof *over);
    over->rank = (uint8_t)rank;
    over->result = 1;
    int32_t n[MAX_AXES];
    for (int k = 0; k < rank; k++) {
        int ka = k - (rank - a->rank), kb = k - (rank - b->rank);
        int32_t na = ka < 0 ? 1 : a->n[ka], nb = kb < 0 ? 1 : b->n[kb];
        if (na != nb && na != 1 && nb != 1) return FAULT_SHAPE;
        n[k] = na == 1 ? nb : na;
    }
    int more = d->rank - rank;
    for (int k = 0; k < d->rank; k++) {
        if (k < more ? d->n[k] != 1 : k - more != axis && d->n[k] != n[k - more]) return FAULT_SHAPE;
    }
    memcpy(over->n, n, sizeof n);
    return FAULT_NONE;
}

static int scatter(tile *d, const tile *b, const tile *a, int axis, int adds) {
    tile over;
    source_copies copies;
    int fault = check_l1(3, (const tile *const[]){d, b, a}), size = tk_size[d->dtype];
    if (fault) return fault;
    if (d->dtype != a->dtype || !is_index(b)) return FAULT_TYPE;
    if (scatter_extents(&over, d, b, a, axis)) return FAULT_SHAPE;
    if (tile_elements(&over) == 0) return FAULT_NONE;
    int own = axis + d->rank - over.rank, ints = !tk_is_float(d->dtype);
    if ((fault = check_indices(b, d->n[own]))) return fault;
    const tile *views[] = {d, a, b};
    if ((fault = sources_apart(&copies, 3, views, 0))) return fault;
    a = views[1], b = views[2];
    int64_t step = d->stride[own];
    tile base = *d;
    base.n[own] = 1;
    walk w;
    int64_t index[MAX_AXES] = {0};
    uint8_t *p[WALK_VIEWS];
    walk_over(&w, over.rank, over.n, 3, (const tile *const[]){&base, a, b});
    memcpy(p, w.p, sizeof p);
    int last = w.axes - 1;
    int64_t n = w.n[last], sd = w.stride[0][last], sa = w.stride[1][last], sb = w.stride[2][last];
    int by_rows = sb == 0 && sd == size && sa == size && (!adds || size == 4);
    for (int64_t row = 0; row < w.rows; row++) {
        for (int64_t i = 0; i < n; i += by_rows ? n : 1) {
            uint8_t *to = p[0] + i * sd + tk_load(p[2] + i * sb, b->dtype).i * step;
            const uint8_t *from = p[1] + i * sa;
            if (by_rows && adds) {
                tk_kernels->binary[ints][TK_ADD][0](to, to, from, n);
            } else if (by_rows) {
                memcpy(to, from, (size_t)(n * size));
            } else if (!adds) {
                move_element(to, from, size);
            } else {
                reg sum = tk_load(to, d->dtype), value = tk_load(from, d->dtype);
                if (ints) sum.u += value.u;
                else sum.f = tk_canonical(sum.f + value.f);
                tk_store(to, d->dtype, sum);
            }
        }
        walk_next(&w, index, p);
    }
    sources_free(&copies);
    return FAULT_NONE;
}

int tk_scatter(tile *d, const tile *b, const tile *a, int axis) { return scatter(d, b, a, axis, 0); }
int tk_scatter_add(tile *d, const tile *b, const tile *a, int axis) { return scatter(d, b, a, axis, 1); }
