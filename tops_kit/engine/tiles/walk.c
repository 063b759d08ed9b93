#include "walk.h"

int check_l1(int views, const tile *const *t) {
    for (int v = 0; v < views; v++)
        if (t[v]->space != SPACE_L1) return FAULT_SPACE;
    for (int v = 0; v < views; v++)
        if (!t[v]->inside) return FAULT_BOUNDS;
    return FAULT_NONE;
}

int64_t tile_elements(const tile *t) {
    int64_t count = 1;
    for (int axis = 0; axis < t->rank; axis++) count *= t->n[axis];
    return count;
}

int walk_over(walk *w, int rank, const int32_t *n, int views, const tile *const *t) {
    int64_t total = 1;
    w->views = views;
    w->axes = 0;
    for (int v = 0; v < views; v++) {
        w->p[v] = t[v]->p;
        for (int axis = 0; axis < t[v]->rank - rank; axis++)
            if (t[v]->n[axis] != 1) return FAULT_SHAPE;
    }
    for (int axis = 0; axis < rank; axis++) {
        int64_t stride[WALK_VIEWS];
        for (int v = 0; v < views; v++) {
            int own = axis + t[v]->rank - rank;
            int32_t extent = own < 0 ? 1 : t[v]->n[own];
            if (extent != n[axis] && extent != 1) return FAULT_SHAPE;
            stride[v] = extent == 1 ? 0 : t[v]->stride[own];
        }
        total *= n[axis];
        if (n[axis] == 1) continue;
        int merges = w->axes > 0;
        for (int v = 0; v < views && merges; v++) merges = w->stride[v][w->axes - 1] == stride[v] * n[axis];
        int to = merges ? w->axes - 1 : w->axes++;
        w->n[to] = merges ? w->n[to] * n[axis] : n[axis];
        for (int v = 0; v < views; v++) w->stride[v][to] = stride[v];
    }
    if (w->axes == 0) { /* one element */
        w->axes = 1;
        w->n[0] = 1;
        for (int v = 0; v < views; v++) w->stride[v][0] = tk_size[t[v]->dtype];
    }
    w->rows = total ? total / w->n[w->axes - 1] : 0;
    return FAULT_NONE;
}

int walk_make(walk *w, int views, const tile *const *t) { return walk_over(w, t[0]->rank, t[0]->n, views, t); }

static void extent_bytes(const tile *t, uintptr_t *low, uintptr_t *high) {
    *low = *high = (uintptr_t)t->p;
    for (int axis = 0; axis < t->rank; axis++) {
        int64_t reach = (t->n[axis] - 1) * t->stride[axis];
        if (reach < 0) *low += (uintptr_t)reach;
        else *high += (uintptr_t)reach;
    }
    *high += tk_size[t->dtype];
}

/* Views with the same strides but for the innermost run of bytes: side by side when the runs lie apart within the outer stride. */
static int side_by_side(const tile *d, const tile *a) {
    if (d->rank < 2 || d->rank != a->rank) return 0;
    int last = d->rank - 1;
    int64_t outer = d->stride[last - 1], width_d = tk_size[d->dtype], width_a = tk_size[a->dtype];
    if (outer <= 0) return 0;
    for (int axis = 0; axis < last; axis++)
        if (d->stride[axis] != a->stride[axis] || d->stride[axis] % outer != 0) return 0;
    if (d->stride[last] <= 0 || a->stride[last] <= 0) return 0;
    width_d += (d->n[last] - 1) * d->stride[last];
    width_a += (a->n[last] - 1) * a->stride[last];
    int64_t apart = (int64_t)((uintptr_t)a->p - (uintptr_t)d->p) % outer;
    if (apart < 0) apart += outer;
    return apart >= width_d && apart + width_a <= outer;
}

int views_collide(const tile *d, const tile *a, int same_is_fine) {
    uintptr_t low_d, high_d, low_a, high_a;
    for (int axis = 0; axis < d->rank; axis++)
        if (d->n[axis] == 0) return 0;
    for (int axis = 0; axis < a->rank; axis++)
        if (a->n[axis] == 0) return 0;
    extent_bytes(d, &low_d, &high_d);
    extent_bytes(a, &low_a, &high_a);
    if (high_d <= low_a || high_a <= low_d) return 0;
    if (same_is_fine && d->p == a->p && tk_size[d->dtype] == tk_size[a->dtype]) {
        int axis_d = d->rank - 1, axis_a = a->rank - 1;
        for (; axis_d >= 0 && axis_a >= 0; axis_d--, axis_a--) {
            if (d->n[axis_d] != a->n[axis_a]) break;
            if (d->n[axis_d] != 1 && d->stride[axis_d] != a->stride[axis_a]) break;
        }
        if (axis_d < 0 && axis_a < 0) return 0;
        while (axis_d >= 0 && axis_a < 0 && d->n[axis_d] == 1) axis_d--;
        while (axis_a >= 0 && axis_d < 0 && a->n[axis_a] == 1) axis_a--;
        if (axis_d < 0 && axis_a < 0) return 0;
    }
    return !side_by_side(d, a);
}

int source_make(const tile *d, const tile **a, int same_is_fine, source_copy *storage) {
    storage->memory = NULL;
    if (!views_collide(d, *a, same_is_fine)) return FAULT_NONE;
    int64_t size = tk_size[(*a)->dtype], bytes = size;
    storage->copy = **a;
    for (int axis = storage->copy.rank - 1; axis >= 0; axis--) {
        storage->copy.stride[axis] = bytes;
        bytes *= storage->copy.n[axis];
    }
    storage->memory = malloc((size_t)bytes);
    if (!storage->memory) return FAULT_MEMORY;
    storage->copy.p = storage->memory;
    int fault = tk_dma_copy(&storage->copy, *a);
    *a = &storage->copy;
    return fault;
}
