/* Tile operations by elements. */
#include "exact.h"
#include "rows.h"

static int is_float(const tile *t) { return tk_is_float(t->dtype); }

/* A scalar operand: a view without axes of one 32-bit element, rounded or narrowed to `dtype` first. */
static tile scalar_tile(reg *value, int dtype) {
    uint32_t narrow = 0;
    tk_store(&narrow, dtype, *value);
    *value = tk_load(&narrow, dtype);
    return (tile){.p = (uint8_t *)value, .dtype = tk_is_float(dtype) ? DT_F32 : DT_I32, .space = SPACE_L1, .inside = 1};
}

static int has_zero(const tile *t) {
    walk w;
    int64_t index[MAX_AXES] = {0};
    uint8_t *p[WALK_VIEWS];
    uint32_t buffer[CHUNK];
    walk_make(&w, 1, (const tile *const[]){t});
    p[0] = w.p[0];
    int64_t n = w.n[w.axes - 1], stride = w.stride[0][w.axes - 1];
    for (int64_t row = 0; row < w.rows; row++) {
        for (int64_t i = 0; i < n; i += CHUNK) {
            int64_t count = n - i < CHUNK ? n - i : CHUNK;
            fetch(buffer, p[0] + i * stride, stride, count, t->dtype);
            if (tk_kernels->find[1](buffer, count, (reg){.i = 0}) < count) return 1;
        }
        walk_next(&w, index, p);
    }
    return 0;
}

/* Colliding sources copied; then the walk is made anew. */
static int walk_apart(walk *w, source_copies *copies, int views, const tile **t) {
    int fault = sources_apart(copies, views, t, 1);
    return fault || copies->count == 0 ? fault : walk_make(w, views, t);
}

static void call_binary(const void *context, void *d, const void *const *a, int64_t n, int single) {
    ((binary_row *const *)context)[single](d, a[1], a[2], n);
}

/* d = a op b; a and b have one type, or are scalars already of its 32-bit type. `kernels` of the operation, by form. */
static int run_pair(binary_row *const *kernels, int compare, tile *d, const tile *a, const tile *b, int may_divide_by_zero) {
    walk w;
    source_copies copies;
    const tile *views[] = {d, a, b};
    int fault = walk_make(&w, 3, views);
    if (fault) return fault;
    if (may_divide_by_zero && w.rows && has_zero(b)) return FAULT_DIVIDE;
    if ((fault = walk_apart(&w, &copies, 3, views))) return fault;
    const uint8_t dtype[] = {d->dtype, a->dtype, b->dtype};
    if (compare) each_row(&w, dtype, 2, ROW_A | ROW_B | ROW_ONE, RAW_D, call_binary, kernels);
    else each_row(&w, dtype, 2, ROW_A | ROW_B | ROW_ONE, 0, call_binary, kernels);
    sources_free(&copies);
    return FAULT_NONE;
}

static int binary(int op, tile *d, const tile *a, const tile *b, int dtype) {
    int ints = !tk_is_float(dtype);
    binary_row *const *kernels = tk_kernels->binary[ints][op - TK_ADD];
    if (d->dtype != dtype || !kernels[0]) return FAULT_TYPE;
    return run_pair(kernels, 0, d, a, b, ints && (op == TK_DIV || op == TK_FLOORDIV || op == TK_MOD));
}

int tk_binary(int op, tile *d, const tile *a, const tile *b) {
    int fault = check_l1(3, (const tile *const[]){d, a, b});
    if (fault) return fault;
    return a->dtype != b->dtype ? FAULT_TYPE : binary(op, d, a, b, a->dtype);
}

int tk_binary_s(int op, tile *d, const tile *a, reg b) {
    int fault = check_l1(2, (const tile *const[]){d, a});
    if (fault) return fault;
    tile scalar = scalar_tile(&b, a->dtype);
    return binary(op, d, a, &scalar, a->dtype);
}

int tk_binary_rs(int op, tile *d, reg a, const tile *b) {
    int fault = check_l1(2, (const tile *const[]){d, b});
    if (fault) return fault;
    tile scalar = scalar_tile(&a, b->dtype);
    return binary(op, d, &scalar, b, b->dtype);
}

static int compare(int op, tile *d, const tile *a, const tile *b, int dtype) {
    if (d->dtype != DT_BOOL) return FAULT_TYPE;
    return run_pair(tk_kernels->compare[!tk_is_float(dtype)][op - TK_LT], 1, d, a, b, 0);
}

int tk_compare(int op, tile *d, const tile *a, const tile *b) {
    int fault = check_l1(3, (const tile *const[]){d, a, b});
    if (fault) return fault;
    return a->dtype != b->dtype ? FAULT_TYPE : compare(op, d, a, b, a->dtype);
}

int tk_compare_s(int op, tile *d, const tile *a, reg b) {
    int fault = check_l1(2, (const tile *const[]){d, a});
    if (fault) return fault;
    tile scalar = scalar_tile(&b, a->dtype);
    return compare(op, d, a, &scalar, a->dtype);
}

int tk_compare_rs(int op, tile *d, reg a, const tile *b) {
    int fault = check_l1(2, (const tile *const[]){d, b});
    if (fault) return fault;
    tile scalar = scalar_tile(&a, b->dtype);
    return compare(op, d, &scalar, b, b->dtype);
}

static void call_unary(const void *context, void *d, const void *const *a, int64_t n, int single) {
    (void)single;
    (*(unary_row *const *)context)(d, a[1], n);
}

/* A conversion: what is done to the 32-bit elements between widening and narrowing. */
typedef struct {
    int from_float, to_float, to_bool;
    int32_t low, high; /* what a float is saturated to */
} conversion;

static void call_convert(const void *context, void *d, const void *const *a, int64_t n, int single) {
    const conversion *c = context;
    (void)single;
    if (c->from_float == c->to_float) {
        memcpy(d, a[1], (size_t)n * 4);
    } else if (c->to_float) {
        tk_kernels->i_to_f(d, a[1], n);
    } else if (c->to_bool) { /* what is not 0 but for its sign */
        tk_kernels->binary[1][TK_SHL][ROW_B](d, a[1], &(int32_t){1}, n);
    } else {
        tk_kernels->f_to_i(d, a[1], n);
        if (c->high == INT32_MAX) return;
        tk_kernels->binary[1][TK_MIN][ROW_B](d, d, &c->high, n);
        tk_kernels->binary[1][TK_MAX][ROW_B](d, d, &c->low, n);
    }
}

/* One source, which may not be of d's type. */
static int run_one(tile *d, const tile *a, const void *context, int converts) {
    walk w;
    source_copies copies;
    const tile *views[] = {d, a};
    int fault = walk_make(&w, 2, views);
    if (fault || (fault = walk_apart(&w, &copies, 2, views))) return fault;
    const uint8_t dtype[] = {d->dtype, a->dtype};
    if (converts) each_row(&w, dtype, 1, 0, 0, call_convert, context);
    else each_row(&w, dtype, 1, 0, 0, call_unary, context);
    sources_free(&copies);
    return FAULT_NONE;
}

int tk_unary(int op, tile *d, const tile *a) {
    int fault = check_l1(2, (const tile *const[]){d, a});
    if (fault) return fault;
    if (op == TK_NOT && a->dtype == DT_BOOL) return tk_binary_s(TK_XOR, d, a, (reg){.i = 1});
    unary_row *kernel = tk_kernels->unary[!is_float(a)][op - TK_NEG];
    if (d->dtype != a->dtype || !kernel) return FAULT_TYPE;
    return run_one(d, a, &kernel, 0);
}

int tk_copy(tile *d, const tile *a) {
    int fault = check_l1(2, (const tile *const[]){d, a});
    if (fault) return fault;
    if (d->dtype == a->dtype) { /* numpy's rules of broadcasting only: the DTE takes more */
        walk w;
        fault = walk_make(&w, 2, (const tile *const[]){d, a});
        return fault ? fault : tk_dma_copy(d, a);
    }
    conversion c = {is_float(a), is_float(d), d->dtype == DT_BOOL, INT32_MIN, INT32_MAX};
    if (d->dtype == DT_I8) c.low = INT8_MIN, c.high = INT8_MAX;
    if (d->dtype == DT_I16) c.low = INT16_MIN, c.high = INT16_MAX;
    if (d->dtype == DT_U8) c.low = 0, c.high = UINT8_MAX;
    return run_one(d, a, &c, 1);
}

static void call_fma(const void *context, void *d, const void *const *a, int64_t n, int single) {
    tk_kernels->fma[*(const int *)context](d, a[1], a[2], a[3], n, single);
}

int tk_fma(tile *d, const tile *a, const tile *b, const tile *c) {
    walk w;
    source_copies copies;
    const tile *views[] = {d, a, b, c};
    int ints = !is_float(a), fault = check_l1(4, views);
    if (fault) return fault;
    if (a->dtype != b->dtype || a->dtype != c->dtype || a->dtype != d->dtype) return FAULT_TYPE;
    if ((fault = walk_make(&w, 4, views)) || (fault = walk_apart(&w, &copies, 4, views))) return fault;
    const uint8_t dtype[] = {d->dtype, a->dtype, b->dtype, c->dtype};
    each_row(&w, dtype, 3, ROW_A | ROW_B | ROW_C, 0, call_fma, &ints);
    sources_free(&copies);
    return FAULT_NONE;
}

static void call_select(const void *context, void *d, const void *const *a, int64_t n, int single) {
    int size = *(const int *)context;
    tk_kernels->select[size >> 1](d, a[3], a[1], a[2], n, single);
}

int tk_select(tile *d, const tile *c, const tile *a, const tile *b) {
    walk w;
    source_copies copies;
    const tile *views[] = {d, a, b, c};
    int size = tk_size[d->dtype], fault = check_l1(4, views);
    if (fault) return fault;
    if (c->dtype != DT_BOOL || a->dtype != b->dtype || a->dtype != d->dtype) return FAULT_TYPE;
    if ((fault = walk_make(&w, 4, views)) || (fault = walk_apart(&w, &copies, 4, views))) return fault;
    const uint8_t dtype[] = {d->dtype, a->dtype, b->dtype, c->dtype};
    each_row(&w, dtype, 3, ROW_A | ROW_B, RAW_D | RAW_SOURCES, call_select, &size);
    sources_free(&copies);
    return FAULT_NONE;
}

int tk_fill(tile *d, reg a) {
    int fault = check_l1(1, (const tile *const[]){d});
    return fault ? fault : tk_dma_set(d, a);
}

int tk_iota(tile *d, reg a, reg b, int axis) {
    int fault = check_l1(1, (const tile *const[]){d});
    if (fault) return fault;
    if (axis < 0 || axis >= d->rank) return FAULT_SHAPE;
    int64_t n = d->n[axis];
    int size = tk_size[d->dtype];
    uint8_t *line = malloc((size_t)(n * size + 1));
    if (!line) return FAULT_MEMORY;
    scalar_tile(&a, d->dtype);
    scalar_tile(&b, d->dtype);
    for (int64_t i = 0; i < n; i++) {
        reg value;
        if (is_float(d)) {
            float product = b.f * (float)i;
            value.f = tk_canonical(a.f + product);
        } else {
            value.u = a.u + b.u * (uint32_t)i;
        }
        tk_store(line + i * size, d->dtype, value);
    }
    tile source = {.p = line, .dtype = d->dtype, .rank = (uint8_t)(d->rank - axis), .inside = 1, .space = SPACE_L1};
    for (int k = 0; k < source.rank; k++) source.n[k] = 1;
    source.n[0] = (int32_t)n;
    source.stride[0] = size;
    fault = tk_dma_copy(d, &source);
    free(line);
    return fault;
}
