/* Extents of results. */
#include "tiles.h"

/* Give a result tile the extents, or compare: `rank` axes; where d has more, the first ones are 1. */
static int give(tile *d, int rank, const int32_t *n) {
    int more = d->rank - rank;
    if (more < 0) return FAULT_SHAPE;
    for (int axis = 0; axis < d->rank; axis++) {
        int32_t extent = axis < more ? 1 : n[axis - more];
        if (d->result ? extent > d->capacity[axis] : extent != d->n[axis]) return FAULT_SHAPE;
    }
    if (!d->result) return FAULT_NONE;
    for (int axis = 0; axis < d->rank; axis++) {
        d->n[axis] = axis < more ? 1 : n[axis - more];
        d->lo[axis] = 0;
        d->hi[axis] = d->n[axis];
    }
    return FAULT_NONE;
}

/* Broadcast `t` into extents that start as 1s. */
static int join(int rank, int32_t *n, const tile *t) {
    for (int axis = rank - t->rank; axis < rank; axis++) {
        int32_t extent = t->n[axis - (rank - t->rank)];
        if (n[axis] == 1) n[axis] = extent;
        else if (extent != 1 && extent != n[axis]) return FAULT_SHAPE;
    }
    return FAULT_NONE;
}

int tk_shape_broadcast(tile *d, int count, const tile *const *sources) {
    int32_t n[MAX_AXES] = {1, 1, 1, 1, 1};
    int rank = 0;
    for (int i = 0; i < count; i++)
        if (sources[i]->rank > rank) rank = sources[i]->rank;
    for (int i = 0; i < count; i++)
        if (join(rank, n, sources[i])) return FAULT_SHAPE;
    return give(d, rank, n);
}

int tk_shape_same(tile *d, const tile *a) { return give(d, a->rank, a->n); }

int tk_shape_reduce(tile *d, const tile *a, int axis) {
    int32_t n[MAX_AXES];
    if (axis < 0 || axis >= a->rank) return FAULT_SHAPE;
    memcpy(n, a->n, sizeof n);
    n[axis] = 1;
    return give(d, a->rank, n);
}

int tk_shape_matmul(tile *d, const tile *a, const tile *b) {
    int rank = a->rank > b->rank ? a->rank : b->rank;
    int32_t n[3] = {1, 1, 1};
    if (a->rank < 2 || b->rank < 2 || rank > 3 || a->n[a->rank - 1] != b->n[b->rank - 2]) return FAULT_SHAPE;
    if (rank == 3) {
        int32_t batch_a = a->rank == 3 ? a->n[0] : 1, batch_b = b->rank == 3 ? b->n[0] : 1;
        if (batch_a != batch_b && batch_a != 1 && batch_b != 1) return FAULT_SHAPE;
        n[0] = batch_a == 1 ? batch_b : batch_a;
    }
    n[1] = a->n[a->rank - 2];
    n[2] = b->n[b->rank - 1];
    return give(d, rank, n + 3 - rank);
}

int tk_shape_gather(tile *d, const tile *a, const tile *b, int axis) {
    int32_t n[MAX_AXES] = {1, 1, 1, 1, 1};
    int rank = a->rank > b->rank ? a->rank : b->rank;
    if (axis < 0 || axis >= rank) return FAULT_SHAPE;
    tile rest = *a; /* along the axis only the index tile counts */
    if (axis - (rank - a->rank) >= 0) rest.n[axis - (rank - a->rank)] = 1;
    if (join(rank, n, &rest) || join(rank, n, b)) return FAULT_SHAPE;
    n[axis] = axis - (rank - b->rank) >= 0 ? b->n[axis - (rank - b->rank)] : 1;
    return give(d, rank, n);
}

int tk_shape_extent(tile *d, int rank, const int32_t *n) {
    if (!d->result || rank != d->rank) return FAULT_SHAPE;
    for (int axis = 0; axis < rank; axis++)
        if (n[axis] < 0) return FAULT_SHAPE;
    return give(d, rank, n);
}
