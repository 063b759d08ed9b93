/* Matrix products of tiles. */
#include "exact.h"
#include "rows.h"

enum { NARROW = 8 }; /* products with fewer columns, and more rows, are computed transposed */

static matrix matrix_of(const tile *t, int64_t batch, int transposed) {
    int last = t->rank - 1;
    const uint8_t *p = t->p + (t->rank == 3 && t->n[0] > 1 ? batch * t->stride[0] : 0);
    int64_t row = t->n[last - 1] == 1 ? 0 : t->stride[last - 1], column = t->n[last] == 1 ? tk_size[t->dtype] : t->stride[last];
    return transposed ? (matrix){p, column, row} : (matrix){p, row, column};
}

/* d += a @ b by way of a dense (columns, rows) or (rows, columns) copy of it. */
static int through_copy(const tile *d, uint8_t *pd, int dtype, int64_t k, matrix a, matrix b, int zero, int transposed) {
    int last = d->rank - 1;
    tile plane = *d, copy;
    plane.rank = 2;
    plane.p = pd;
    for (int axis = 0; axis < 2; axis++) {
        int from = transposed ? last - axis : last - 1 + axis;
        plane.n[axis] = d->n[from];
        plane.stride[axis] = d->stride[from];
    }
    copy = plane;
    copy.stride[1] = 4;
    copy.stride[0] = 4 * (int64_t)copy.n[1];
    copy.p = malloc((size_t)(copy.stride[0] * copy.n[0]));
    if (!copy.p) return FAULT_MEMORY;
    if (!zero) tk_dma_copy(&copy, &plane);
    tk_kernels->product(dtype, copy.n[0], copy.n[1], k, copy.p, copy.n[1], a, b, zero);
    tk_dma_copy(&plane, &copy);
    free(copy.p);
    return FAULT_NONE;
}

static int multiply(tile *d, const tile *a, const tile *b, int zero) {
    tile exact = *d;
    source_copies copies;
    int fault = check_l1(3, (const tile *const[]){d, a, b});
    if (fault) return fault;
    if (a->dtype != b->dtype || a->dtype == DT_BOOL || d->dtype != (tk_is_float(a->dtype) ? DT_F32 : DT_I32)) return FAULT_TYPE;
    exact.result = 0;
    if (tk_shape_matmul(&exact, a, b)) return FAULT_SHAPE;
    int last = d->rank - 1;
    int64_t m = d->n[last - 1], n = d->n[last], k = a->n[a->rank - 1], batches = 1;
    for (int axis = 0; axis < last - 1; axis++) batches *= d->n[axis];
    if (m == 0 || n == 0 || batches == 0) return FAULT_NONE;
    if (k == 0) return zero ? tk_dma_set(d, (reg){.i = 0}) : FAULT_NONE;
    const tile *views[] = {d, a, b};
    if ((fault = sources_apart(&copies, 3, views, 0))) return fault;
    a = views[1], b = views[2];
    int transposed = n < NARROW && m > n, dense = d->stride[last] == 4 && d->stride[last - 1] % 4 == 0;
    for (int64_t batch = 0; batch < batches && !fault; batch++) {
        uint8_t *pd = d->p + (last >= 2 ? batch * d->stride[last - 2] : 0);
        matrix left = matrix_of(a, batch, 0), right = matrix_of(b, batch, 0);
        if (transposed) fault = through_copy(d, pd, a->dtype, k, matrix_of(b, batch, 1), matrix_of(a, batch, 1), zero, 1);
        else if (!dense) fault = through_copy(d, pd, a->dtype, k, left, right, zero, 0);
        else tk_kernels->product(a->dtype, m, n, k, pd, d->stride[last - 1] / 4, left, right, zero);
    }
    sources_free(&copies);
    return fault;
}

int tk_mma(tile *d, const tile *a, const tile *b) { return multiply(d, a, b, 0); }
int tk_matmul(tile *d, const tile *a, const tile *b) { return multiply(d, a, b, 1); }
