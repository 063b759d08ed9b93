/* Views: the instructions that make one tile register from another. Every view that exists lies within its object,
   except along axes that `tover` made: there, only indices in [lo, hi) exist.

   The rules, which the oracle follows too:
   tbuf    slot in [0, slots), else FAULT_SLOT (slot, slots).
   tindex  index in [0, n) and in [lo, hi), else FAULT_INDEX (axis, index, lo, hi).
   tslice  0 <= start <= stop <= n, else FAULT_VIEW (axis, start, stop, n); n becomes stop - start; lo, hi move along.
   tover   start <= stop, and stop - start fits 31 bits, else FAULT_VIEW (axis, start, stop, n); n becomes stop - start;
           lo, hi move along.
   tstep   step >= 1 and the axis whole (lo 0, hi n), else FAULT_VIEW (axis, 0, step, n); n becomes ceil(n / step).
   tperm   a permutation of the axes, else FAULT_VIEW (order, 0, 0, rank).
   tshape  whole, else FAULT_VIEW (0, 0, 0, 0); as many elements, each extent >= 0, and dense or (any strides) the same
           extents but for those of 1, else FAULT_SHAPE.
   tdim, and the axis of all these: axis < rank, else FAULT_VIEW (axis, 0, 0, -1).
   A register that holds no view yet: FAULT_SPACE. Only tbuf and tcopyview give result tiles. */
#ifndef TOPS_VIEWS_H
#define TOPS_VIEWS_H
#include <string.h>
#include "kernel.h"

static inline int64_t clamp(int64_t x, int64_t low, int64_t high) { return x < low ? low : x > high ? high : x; }

static inline int64_t view_elements(const tile *a) {
    int64_t count = 1;
    for (int k = 0; k < a->rank; k++) count *= a->n[k];
    return count;
}

/* 128-byte vectors that a tile occupies, row by row. */
static inline int64_t view_groups(const tile *a, int element_bytes) {
    if (a->rank == 0) return 1;
    int64_t rows = 1;
    for (int k = 0; k < a->rank - 1; k++) rows *= a->n[k];
    return rows * (((int64_t)a->n[a->rank - 1] * element_bytes + 127) / 128);
}

static inline void view_whole(tile *d) {
    d->inside = 1;
    for (int k = 0; k < d->rank; k++) {
        if (d->lo[k] != 0 || d->hi[k] != d->n[k]) d->inside = 0;
    }
}

/* Whether elements lie one behind another, the last axis fastest. */
static inline bool view_dense(const tile *a, int element_bytes) {
    int64_t step = element_bytes;
    for (int k = a->rank; k-- > 0;) {
        if (a->n[k] == 0) return true;
        if (a->n[k] != 1 && a->stride[k] != step) {
            for (int m = k; m-- > 0;) {
                if (a->n[m] == 0) return true;
            }
            return false;
        }
        step *= a->n[k];
    }
    return true;
}

/* The addresses that a view's elements lie in: [low, high), empty where it has none. */
static inline void view_range(const tile *a, int element_bytes, uintptr_t *low, uintptr_t *high) {
    *low = *high = (uintptr_t)a->p;
    for (int k = 0; k < a->rank; k++) {
        if (a->n[k] == 0) {
            *low = *high = (uintptr_t)a->p;
            return;
        }
        const int64_t reach = (a->n[k] - 1) * a->stride[k];
        *(reach < 0 ? low : high) += (uintptr_t)reach;
    }
    *high += (uintptr_t)element_bytes;
}

static inline int view_axis(thread *self, const tile *a, int axis) {
    if (unlikely(a->space == SPACE_NONE)) return fault_set(self, FAULT_SPACE, NULL, 0, 0, 0, 0);
    if (unlikely(axis >= a->rank)) return fault_set(self, FAULT_VIEW, a, axis, 0, 0, -1);
    return FAULT_NONE;
}

static inline int view_buffer(thread *self, tile *d, int number, int32_t slot, int result) {
    const buffer *const b = &self->kernel->buffer[number];
    if (unlikely((uint32_t)slot >= (uint32_t)b->slots)) return fault_set(self, FAULT_SLOT, &b->view, slot, b->slots, 0, 0);
    *d = b->view;
    d->p = (d->space == SPACE_L1 ? self->l1 : self->l2) + b->offset_bytes + slot * b->slot_bytes;
    d->slot = slot;
    d->result = (uint8_t)result;
    return FAULT_NONE;
}

static inline void view_move(tile *d, int axis, int64_t start, int64_t n) {
    d->p = (uint8_t *)((uintptr_t)d->p + (uintptr_t)(start * d->stride[axis]));
    d->lo[axis] = (int32_t)clamp(d->lo[axis] - start, 0, n);
    d->hi[axis] = (int32_t)clamp(d->hi[axis] - start, 0, n);
    d->n[axis] = (int32_t)n;
    d->result = 0;
    view_whole(d);
}

static inline int view_index(thread *self, tile *d, const tile *a, int axis, int32_t index) {
    const int kind = view_axis(self, a, axis);
    if (unlikely(kind)) return kind;
    if (unlikely(index < a->lo[axis] || index >= a->hi[axis])) {
        return fault_set(self, FAULT_INDEX, a, axis, index, a->lo[axis], a->hi[axis]);
    }
    if (d != a) *d = *a;
    d->p += index * d->stride[axis];
    d->rank--;
    for (int k = axis; k < d->rank; k++) {
        d->stride[k] = d->stride[k + 1];
        d->n[k] = d->n[k + 1];
        d->lo[k] = d->lo[k + 1];
        d->hi[k] = d->hi[k + 1];
    }
    d->result = 0;
    if (!d->inside) view_whole(d);
    return FAULT_NONE;
}

static inline int view_slice(thread *self, tile *d, const tile *a, int axis, int32_t start, int32_t stop) {
    const int kind = view_axis(self, a, axis);
    if (unlikely(kind)) return kind;
    if (unlikely((uint32_t)start > (uint32_t)stop || (uint32_t)stop > (uint32_t)a->n[axis])) { /* also where one is below 0 */
        return fault_set(self, FAULT_VIEW, a, axis, start, stop, a->n[axis]);
    }
    if (d != a) *d = *a;
    view_move(d, axis, start, stop - start);
    return FAULT_NONE;
}

static inline int view_over(thread *self, tile *d, const tile *a, int axis, int32_t start, int32_t stop) {
    const int kind = view_axis(self, a, axis);
    if (unlikely(kind)) return kind;
    const int64_t n = (int64_t)stop - start;
    if (unlikely(n < 0 || n > INT32_MAX)) return fault_set(self, FAULT_VIEW, a, axis, start, stop, a->n[axis]);
    if (d != a) *d = *a;
    view_move(d, axis, start, n);
    return FAULT_NONE;
}

static inline int view_step(thread *self, tile *d, const tile *a, int axis, int32_t step) {
    const int kind = view_axis(self, a, axis);
    if (unlikely(kind)) return kind;
    if (unlikely(step < 1 || a->lo[axis] != 0 || a->hi[axis] != a->n[axis])) {
        return fault_set(self, FAULT_VIEW, a, axis, 0, step, a->n[axis]);
    }
    if (d != a) *d = *a;
    d->n[axis] = (int32_t)(((int64_t)d->n[axis] + step - 1) / step);
    d->hi[axis] = d->n[axis];
    d->stride[axis] *= step;
    d->result = 0;
    return FAULT_NONE;
}

static inline int view_permute(thread *self, tile *d, const tile *a, int order) {
    if (unlikely(a->space == SPACE_NONE)) return fault_set(self, FAULT_SPACE, NULL, 0, 0, 0, 0);
    const tile from = *a;
    unsigned seen = 0;
    for (int k = 0; k < from.rank; k++) seen |= 1u << ((order >> (3 * k)) & 7);
    if (unlikely(seen != (1u << from.rank) - 1)) return fault_set(self, FAULT_VIEW, a, order, 0, 0, from.rank);
    *d = from;
    for (int k = 0; k < from.rank; k++) {
        const int axis = (order >> (3 * k)) & 7;
        d->stride[k] = from.stride[axis];
        d->n[k] = from.n[axis];
        d->lo[k] = from.lo[axis];
        d->hi[k] = from.hi[axis];
    }
    d->result = 0;
    return FAULT_NONE;
}

/* The strides of other extents, where they are the same but for those of 1, which may come and go; else false. */
static inline bool view_same_extents(const tile *a, int rank, const int32_t *n, int element_bytes, int64_t *strides) {
    int k = 0;
    for (int i = 0; i < rank; i++) {
        strides[i] = element_bytes;
        if (n[i] == 1) continue;
        while (k < a->rank && a->n[k] == 1) k++;
        if (k == a->rank || a->n[k] != n[i]) return false;
        strides[i] = a->stride[k++];
    }
    while (k < a->rank && a->n[k] == 1) k++;
    return k == a->rank;
}

static inline int view_reshape(thread *self, tile *d, const tile *a, int element_bytes, int rank, const int32_t *n) {
    if (unlikely(a->space == SPACE_NONE)) return fault_set(self, FAULT_SPACE, NULL, 0, 0, 0, 0);
    if (unlikely(!a->inside)) return fault_set(self, FAULT_VIEW, a, 0, 0, 0, 0);
    int64_t count = 1;
    bool fits = true, empty = false;
    for (int k = 0; k < rank; k++) {
        fits = fits && n[k] >= 0;
        empty = empty || n[k] == 0;
    }
    for (int k = 0; k < rank && !empty; k++) fits = !__builtin_mul_overflow(count, n[k], &count) && fits;
    if (empty) count = 0;
    if (unlikely(!fits || count != view_elements(a))) return fault_shapes(self, a, rank, n);
    int64_t strides[MAX_AXES];
    if (view_dense(a, element_bytes)) {
        int64_t stride = element_bytes;
        for (int k = rank; k-- > 0;) {
            strides[k] = stride;
            stride *= n[k];
        }
    } else if (unlikely(!view_same_extents(a, rank, n, element_bytes, strides))) {
        return fault_shapes(self, a, rank, n);
    }
    if (d != a) *d = *a;
    d->rank = (uint8_t)rank;
    for (int k = 0; k < rank; k++) {
        d->n[k] = d->hi[k] = n[k];
        d->lo[k] = 0;
        d->stride[k] = strides[k];
    }
    d->result = 0;
    return FAULT_NONE;
}

#endif
