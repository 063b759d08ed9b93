/* Vector registers: 128 bytes, the lanes of a type, computed as rows of a tile are. Scalars: rows of one element. */
#include "exact.h"
#include "rows.h"

enum { VECTOR_BYTES = 128 };

static int lanes_of(int dtype) { return VECTOR_BYTES / tk_size[dtype]; }
static int is_type(int dtype) { return dtype >= 0 && dtype < DT_COUNT; }

/* The row of a dense view's elements: FAULT_SPACE, FAULT_BOUNDS, FAULT_VIEW, FAULT_INDEX. */
static int vector_in(const tile *t, int32_t i) {
    int64_t dense = tk_size[t->dtype], elements = tile_elements(t);
    if (t->space != SPACE_L1) return FAULT_SPACE;
    if (!t->inside) return FAULT_BOUNDS;
    for (int axis = t->rank - 1; axis >= 0; axis--) {
        if (t->n[axis] != 1 && t->stride[axis] != dense) return FAULT_VIEW;
        dense *= t->n[axis];
    }
    return i < 0 || i + (int64_t)lanes_of(t->dtype) > elements ? FAULT_INDEX : FAULT_NONE;
}

int tk_vload(vreg *d, const tile *a, int32_t i) {
    int fault = vector_in(a, i);
    if (!fault) memcpy(d->b, a->p + (int64_t)i * tk_size[a->dtype], VECTOR_BYTES);
    return fault;
}

int tk_vstore(const tile *d, int32_t i, const vreg *a) {
    int fault = vector_in(d, i);
    if (!fault) memcpy(d->p + (int64_t)i * tk_size[d->dtype], a->b, VECTOR_BYTES);
    return fault;
}

void tk_vsplat(vreg *d, reg a, int dtype) {
    if (!is_type(dtype)) return;
    for (int i = 0; i < lanes_of(dtype); i++) tk_store(d->b + i * tk_size[dtype], dtype, a);
}

void tk_viota(vreg *d, int dtype) {
    if (!is_type(dtype)) return;
    for (int i = 0; i < lanes_of(dtype); i++)
        tk_store(d->b + i * tk_size[dtype], dtype, tk_is_float(dtype) ? (reg){.f = (float)i} : (reg){.i = i});
}

typedef struct {
    _Alignas(64) reg x[VECTOR_BYTES]; /* room for the lanes of a byte each */
} wide;

static __attribute__((noinline)) const void *widened(const vreg *a, int dtype, wide *w) {
    if (tk_size[dtype] == 4) return a->b;
    fetch(w->x, a->b, tk_size[dtype], lanes_of(dtype), dtype);
    return w->x;
}

static void narrowed(vreg *d, const wide *w, int dtype) { put(d->b, w->x, tk_size[dtype], lanes_of(dtype), dtype); }

int tk_vbinary(int op, vreg *d, const vreg *a, const vreg *b, int dtype) {
    wide wa, wb, wd;
    if (!is_type(dtype)) return FAULT_TYPE;
    int ints = !tk_is_float(dtype), n = lanes_of(dtype);
    binary_row *kernel = tk_kernels->binary[ints][op - TK_ADD][0];
    if (!kernel) return FAULT_TYPE;
    const void *pa = widened(a, dtype, &wa), *pb = widened(b, dtype, &wb);
    if (ints && (op == TK_DIV || op == TK_FLOORDIV || op == TK_MOD) && tk_kernels->find[1](pb, n, (reg){.i = 0}) < n)
        return FAULT_DIVIDE;
    kernel(wd.x, pa, pb, n);
    narrowed(d, &wd, dtype);
    return FAULT_NONE;
}

int tk_vcompare(int op, vreg *d, const vreg *a, const vreg *b, int dtype) {
    wide wa, wb, wd;
    uint8_t truth[VECTOR_BYTES];
    if (!is_type(dtype)) return FAULT_TYPE;
    int ints = !tk_is_float(dtype), n = lanes_of(dtype);
    const void *pa = widened(a, dtype, &wa), *pb = widened(b, dtype, &wb);
    tk_kernels->compare[ints][op - TK_LT][0](truth, pa, pb, n);
    for (int i = 0; i < n; i++) wd.x[i] = ints ? (reg){.i = truth[i]} : (reg){.f = truth[i]};
    narrowed(d, &wd, dtype);
    return FAULT_NONE;
}

int tk_vunary(int op, vreg *d, const vreg *a, int dtype) {
    wide wa, wd;
    if (!is_type(dtype)) return FAULT_TYPE;
    int ints = !tk_is_float(dtype), n = lanes_of(dtype);
    unary_row *kernel = tk_kernels->unary[ints][op - TK_NEG];
    if (!kernel) return FAULT_TYPE;
    const void *pa = widened(a, dtype, &wa);
    if (dtype == DT_BOOL && op == TK_NOT) tk_kernels->binary[1][TK_XOR][ROW_B](wd.x, pa, &(int32_t){1}, n);
    else kernel(wd.x, pa, n);
    narrowed(d, &wd, dtype);
    return FAULT_NONE;
}

int tk_vfma(vreg *d, const vreg *a, const vreg *b, const vreg *c, int dtype) {
    wide wa, wb, wc, wd;
    if (!is_type(dtype)) return FAULT_TYPE;
    tk_kernels->fma[!tk_is_float(dtype)](wd.x, widened(a, dtype, &wa), widened(b, dtype, &wb), widened(c, dtype, &wc),
                                         lanes_of(dtype), 0);
    narrowed(d, &wd, dtype);
    return FAULT_NONE;
}

int tk_vselect(vreg *d, const vreg *c, const vreg *a, const vreg *b, int dtype) {
    wide wc;
    uint8_t truth[VECTOR_BYTES];
    if (!is_type(dtype)) return FAULT_TYPE;
    int n = lanes_of(dtype);
    tk_kernels->compare[!tk_is_float(dtype)][TK_NE - TK_LT][ROW_B](truth, widened(c, dtype, &wc), &(int32_t){0}, n);
    tk_kernels->select[tk_size[dtype] >> 1](d->b, truth, a->b, b->b, n, 0);
    return FAULT_NONE;
}

reg tk_vreduce(int op, const vreg *a, int dtype) {
    wide wa;
    if (!is_type(dtype)) return (reg){.i = 0};
    int which = op == TK_SUM ? 0 : op == TK_MAX ? 1 : 2;
    return tk_kernels->reduce[!tk_is_float(dtype)][which](widened(a, dtype, &wa), lanes_of(dtype));
}

float tk_scalar_binary(int op, float x, float y) {
    float result;
    tk_kernels->binary[0][op - TK_ADD][0](&result, &x, &y, 1);
    return result;
}

float tk_scalar(int op, float x) {
    float result;
    tk_kernels->unary[0][op - TK_NEG](&result, &x, 1);
    return result;
}
