/* Single elements: scalar loads and stores, atomics. */
#ifndef TOPS_ACCESS_H
#define TOPS_ACCESS_H
#include "kernel.h"
#include "tiles/elements.h"
#include "views.h"

/* Where an element lies: as many of i, j, k as the view has axes. Needs L1 or L2 (FAULT_SPACE), at most three axes
   (FAULT_SHAPE), and each index in [lo, hi) (FAULT_INDEX: axis, index, lo, hi). */
static inline int element_address(thread *self, const tile *a, const int32_t *index, uint8_t **at) {
    if (unlikely(a->space != SPACE_L1 && a->space != SPACE_L2)) return fault_set(self, FAULT_SPACE, a, 0, 0, 0, 0);
    if (unlikely(a->rank > MAX_RANK)) return fault_tiles(self, FAULT_SHAPE, a, a, NULL);
    uint8_t *p = a->p;
    for (int k = 0; k < a->rank; k++) {
        if (unlikely(index[k] < a->lo[k] || index[k] >= a->hi[k])) {
            return fault_set(self, FAULT_INDEX, a, k, index[k], a->lo[k], a->hi[k]);
        }
        p += index[k] * a->stride[k];
    }
    *at = p;
    return FAULT_NONE;
}

/* The declarations of a kernel's pointers decide whether a launch may use several host threads: so they bind. */
static inline int array_allows(thread *self, const tile *a, int what) {
    if (unlikely(a->space == SPACE_L3 && !(a->slot & what))) return fault_set(self, FAULT_SPACE, a, 0, 0, 0, 0);
    return FAULT_NONE;
}

enum { ATOMIC_ADD, ATOMIC_MIN, ATOMIC_MAX, ATOMIC_AND, ATOMIC_OR, ATOMIC_XOR, ATOMIC_EXCHANGE };

/* One element of a view without axes (else FAULT_SHAPE). Floats are computed in f32 and rounded to the element; bits of
   floats have no and, or, xor (FAULT_TYPE). */
static inline int atomic_check(thread *self, const tile *a, bool bitwise) {
    if (unlikely(a->space == SPACE_NONE)) return fault_set(self, FAULT_SPACE, a, 0, 0, 0, 0);
    if (unlikely(a->rank != 0)) return fault_tiles(self, FAULT_SHAPE, a, NULL, NULL);
    if (unlikely(array_allows(self, a, MAY_STORE))) return FAULT_SPACE;
    if (unlikely(bitwise && tk_is_float(a->dtype))) return fault_tiles(self, FAULT_TYPE, a, NULL, NULL);
    return FAULT_NONE;
}

static inline reg atomic_value(int operation, int dtype, reg old, reg b) {
    reg value = b;
    if (tk_is_float(dtype)) {
        switch (operation) {
        case ATOMIC_ADD: value.f = tk_canonical(old.f + b.f); break;
        case ATOMIC_MIN: value.f = tk_canonical((old.f < b.f || old.f != old.f) ? old.f : b.f); break;
        case ATOMIC_MAX: value.f = tk_canonical((old.f > b.f || old.f != old.f) ? old.f : b.f); break;
        default: break;
        }
        return value;
    }
    switch (operation) {
    case ATOMIC_ADD: value.u = old.u + b.u; break;
    case ATOMIC_MIN: value.i = old.i < b.i ? old.i : b.i; break;
    case ATOMIC_MAX: value.i = old.i > b.i ? old.i : b.i; break;
    case ATOMIC_AND: value.u = old.u & b.u; break;
    case ATOMIC_OR: value.u = old.u | b.u; break;
    case ATOMIC_XOR: value.u = old.u ^ b.u; break;
    default: break;
    }
    return value;
}

static inline reg atomic_apply(const tile *a, int operation, reg b) {
    const reg old = tk_load(a->p, a->dtype);
    tk_store(a->p, a->dtype, atomic_value(operation, a->dtype, old, b));
    return old;
}

/* `b` into the element if its bits are those of `expected`, narrowed to its type. */
static inline reg atomic_compare_and_set(const tile *a, reg expected, reg b) {
    const reg old = tk_load(a->p, a->dtype);
    uint8_t wanted[4];
    tk_store(wanted, a->dtype, expected);
    if (memcmp(wanted, a->p, tk_size[a->dtype]) == 0) tk_store(a->p, a->dtype, b);
    return old;
}

#endif
