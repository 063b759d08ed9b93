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
    w->views = views;
    w->rows = 1;
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
    for (int axis = 0; axis < w->axes - 1; axis++) w->rows *= w->n[axis];
    if (w->n[w->axes - 1] == 0) w->rows = 0;
    return FAULT_NONE;
}

int walk_make(walk *w, int views, const tile *const *t) { return walk_over(w, t[0]->rank, t[0]->n, views, t); }

/* The addresses [low, high) between the first and the last byte of a view; low is high when it has no element. */
typedef struct {
    uintptr_t low, high;
} byte_range;

static inline byte_range bytes_of(const tile *t) {
    byte_range r = {(uintptr_t)t->p, (uintptr_t)t->p + tk_size[t->dtype]};
    for (int axis = 0; axis < t->rank; axis++) {
        int64_t reach = (t->n[axis] - 1) * t->stride[axis];
        if (t->n[axis] == 0) return (byte_range){0, 0};
        if (reach < 0) r.low += (uintptr_t)reach;
        else r.high += (uintptr_t)reach;
    }
    return r;
}

static inline int bytes_apart(byte_range d, byte_range a) { return d.high <= a.low || a.high <= d.low; }

/* Views with the same outer strides: side by side when their innermost runs of bytes lie apart within the outer stride. */
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

static int elements_collide(const tile *d, const tile *a, int same_is_fine) {
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

int views_collide(const tile *d, const tile *a, int same_is_fine) {
    return !bytes_apart(bytes_of(d), bytes_of(a)) && elements_collide(d, a, same_is_fine);
}

static int copy_source(source_copies *s, const tile **a) {
    tile *view = &s->view[s->count];
    int64_t bytes = tk_size[(*a)->dtype];
    *view = **a;
    for (int axis = view->rank - 1; axis >= 0; axis--) {
        view->stride[axis] = bytes;
        bytes *= view->n[axis];
    }
    view->p = s->memory[s->count] = malloc((size_t)bytes);
    if (!view->p) return FAULT_MEMORY;
    s->count++;
    int fault = tk_dma_copy(view, *a);
    *a = view;
    return fault;
}

int sources_apart(source_copies *s, int views, const tile **t, int same_is_fine) {
    byte_range written = bytes_of(t[0]);
    s->count = 0;
    for (int v = 1; v < views; v++) {
        if (bytes_apart(written, bytes_of(t[v])) || !elements_collide(t[0], t[v], same_is_fine)) continue;
        int fault = copy_source(s, &t[v]);
        if (!fault) continue;
        sources_free(s);
        return fault;
    }
    return FAULT_NONE;
}
