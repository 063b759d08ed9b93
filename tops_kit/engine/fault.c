/* What a fault says besides its kind. */
#include <string.h>
#include "kernel.h"
#include "tiles/elements.h"
#include "views.h"

static void set_object(fault *f, const tile *view) {
    f->object = view && view->space != SPACE_NONE ? view->object : -1;
    f->space = view ? view->space : SPACE_NONE;
}

int fault_set(thread *self, int kind, const tile *view, int64_t a, int64_t b, int64_t c, int64_t d) {
    fault *const f = &self->fault;
    f->kind = kind;
    set_object(f, view);
    f->value[0] = a;
    f->value[1] = b;
    f->value[2] = c;
    f->value[3] = d;
    f->rank[0] = f->rank[1] = -1;
    return kind;
}

static void set_shape(fault *f, int which, const tile *view) {
    f->rank[which] = view->rank;
    memcpy(f->extent[which], view->n, sizeof view->n);
}

int fault_shapes(thread *self, const tile *d, int rank, const int32_t *extent) {
    fault_set(self, FAULT_SHAPE, d, 0, 0, 0, 0);
    set_shape(&self->fault, 0, d);
    self->fault.rank[1] = rank;
    for (int k = 0; k < rank; k++) self->fault.extent[1][k] = extent[k];
    return FAULT_SHAPE;
}

/* The tile that a fault of a tile operation is about, as far as that can be told from outside. */
static const tile *concerned(int kind, const tile *d, const tile *a, const tile *b) {
    const tile *const each[] = {d, a, b};
    for (int k = 0; k < 3; k++) {
        if (!each[k]) continue;
        if (kind == FAULT_SPACE && each[k]->space != SPACE_L1) return each[k];
        if (kind == FAULT_BOUNDS && !each[k]->inside) return each[k];
    }
    return d ? d : a;
}

int fault_tiles(thread *self, int kind, const tile *d, const tile *a, const tile *b) {
    const tile *const view = concerned(kind, d, a, b);
    fault_set(self, kind, view, 0, 0, 0, 0);
    if (kind == FAULT_SHAPE) {
        if (d) set_shape(&self->fault, 0, d);
        if (a) set_shape(&self->fault, 1, a);
    }
    if (kind == FAULT_BOUNDS) {
        for (int k = 0; k < view->rank; k++) {
            if (view->lo[k] == 0 && view->hi[k] == view->n[k]) continue;
            fault_set(self, kind, view, k, view->lo[k], view->hi[k], view->n[k]);
            break;
        }
    }
    if (kind == FAULT_TYPE) {
        self->fault.value[0] = d ? d->dtype : -1;
        self->fault.value[1] = a ? a->dtype : -1;
        self->fault.value[2] = b ? b->dtype : -1;
    }
    return kind;
}

/* Whether two sources may stand beside each other. */
static bool sources_fit(int how, const tile *a, const tile *b) {
    if (how == SOURCES_INDEXED) return false; /* both are needed to see what is wrong */
    if (how == SOURCES_PRODUCT) return a->rank >= 2 && b->rank >= 2 && a->n[a->rank - 1] == b->n[b->rank - 2];
    for (int i = a->rank, k = b->rank; i-- > 0 && k-- > 0;) {
        if (a->n[i] != b->n[k] && a->n[i] != 1 && b->n[k] != 1) return false;
    }
    return true;
}

/* The extents that d should take. */
static void set_result(fault *f, int how, const tile *a, const tile *b, const tile *c) {
    set_shape(f, 1, a);
    if (how == SOURCES_PRODUCT) f->extent[1][a->rank - 1] = b->n[b->rank - 1];
    const tile *const more[] = {b, c};
    for (int which = 0; how == SOURCES_ALIKE && which < 2; which++) {
        const tile *const x = more[which];
        if (!x) continue;
        const int rank = x->rank > f->rank[1] ? x->rank : f->rank[1];
        int32_t n[MAX_AXES];
        for (int k = 0; k < rank; k++) {
            const int own = k - (rank - f->rank[1]), other = k - (rank - x->rank);
            n[k] = own >= 0 && f->extent[1][own] != 1 ? f->extent[1][own] : other >= 0 ? x->n[other] : 1;
        }
        f->rank[1] = rank;
        memcpy(f->extent[1], n, (size_t)rank * sizeof *n);
    }
}

int fault_sources(thread *self, int kind, int how, const tile *d, const tile *a, const tile *b, const tile *c) {
    fault_tiles(self, kind, d, a, b);
    if (kind != FAULT_SHAPE || !a) return kind;
    fault *const f = &self->fault;
    const tile *const pairs[][2] = {{a, b}, {a, c}, {b, c}};
    for (int k = 0; k < 3; k++) {
        if (!pairs[k][0] || !pairs[k][1] || sources_fit(how, pairs[k][0], pairs[k][1])) continue;
        f->value[0] = 1;
        set_shape(f, 0, pairs[k][0]);
        set_shape(f, 1, pairs[k][1]);
        return kind;
    }
    for (int k = 0; d->result && k < d->rank; k++) f->extent[0][k] = d->capacity[k];
    set_result(f, how, a, b, c);
    return kind;
}

int fault_vector(thread *self, int kind, const tile *view, int32_t i) {
    if (kind != FAULT_INDEX) return fault_tiles(self, kind, view, NULL, NULL);
    return fault_set(self, kind, view, -1, i, (int64_t)i + (int64_t)sizeof(vreg) / tk_size[view->dtype], view_elements(view));
}

void fault_index(thread *self, const tile *index, const tile *other, const tile *target, int axis) {
    fault *const f = &self->fault;
    if (f->kind != FAULT_GATHER) return;
    const int along = axis + target->rank - (index->rank > other->rank ? index->rank : other->rank);
    const int32_t extent = along < 0 ? 1 : target->n[along];
    int32_t at[MAX_AXES] = {0};
    const int64_t count = view_elements(index);
    for (int64_t k = 0; k < count; k++) {
        const uint8_t *p = index->p;
        for (int axis_ = 0; axis_ < index->rank; axis_++) p += (int64_t)at[axis_] * index->stride[axis_];
        const int32_t i = tk_load(p, index->dtype).i;
        if (i < 0 || i >= extent) {
            f->value[0] = i;
            f->value[1] = k;
            f->value[2] = axis;
            f->value[3] = extent;
            set_shape(f, 0, index);
            return;
        }
        for (int last = index->rank - 1; last >= 0 && ++at[last] == index->n[last]; last--) at[last] = 0;
    }
}

void fault_place(thread *self, int32_t pc) {
    fault *const f = &self->fault;
    if (f->pc < 0) f->pc = pc;
    f->thread = self->id;
    f->block = self->block;
    f->epoch = self->epoch;
    f->grid_epoch = self->grid_epoch;
}
