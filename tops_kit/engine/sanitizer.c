/* What each access means: whether what is read was written, whether a transfer has its hands on it, and (L2, L3) a record of it
   for the search for races. */
#include "sanitizer.h"
#include "tiles/tiles.h"

slot *slots_of(const thread *self, int space) { return space == SPACE_L1 ? self->sanitizer->l1 : self->sanitizer->block->l2; }

bool place_of(const thread *self, const tile *view, footprint *where) {
    const struct sanitizer *const s = run_of(self);
    where->region = REGION_NONE;
    switch (view->space) {
    case SPACE_L1: return footprint_of(where, view, REGION_L1, self->l1);
    case SPACE_L2: return footprint_of(where, view, REGION_L2, self->l2);
    case SPACE_L3:
        if (s->region_of[view->object] == REGION_NONE) return false;
        return footprint_of(where, view, s->region_of[view->object], (const uint8_t *)s->base[view->object]);
    default: return false;
    }
}

void report(thread *self, int kind, int32_t pc, uint8_t access, const tile *view, int64_t from, int64_t to, const actor *second,
            bool transfer) {
    struct sanitizer *const s = run_of(self);
    int64_t origin = 0;
    if (view->space == SPACE_L1 || view->space == SPACE_L2) {
        const buffer *const b = &self->kernel->buffer[view->object];
        origin = b->offset_bytes + view->slot * b->slot_bytes;
    } else if (view->space == SPACE_L3) {
        origin = (int64_t)((uintptr_t)s->launch->arrays[view->object].p - s->base[view->object]);
    }
    finding found = {
        .fault = {.kind = kind, .pc = pc, .thread = self->id, .block = self->block, .epoch = self->epoch, .grid_epoch = self->grid_epoch,
                  .object = view->object, .space = view->space, .rank = {-1, -1}},
        .first = {.pc = pc, .thread = self->id, .block = self->block, .access = access, .transfer = transfer},
        .second.pc = -1,
        .slot = view->space == SPACE_L3 ? -1 : view->slot,
        .from = from - origin,
        .to = to - origin,
    };
    if (from == to) found.from = found.to = 0;
    if (second) found.second = *second;
    findings_add(&s->findings, &found);
}

/* Whether the view is its slot from end to end. */
static bool is_whole(const tile *view, const buffer *b) {
    int64_t count = 1, all = 1;
    for (int k = 0; k < view->rank; k++) count *= (int64_t)view->hi[k] - view->lo[k];
    for (int k = 0; k < b->view.rank; k++) all *= b->view.n[k];
    return count == all;
}

/* After a report what was missing counts as written: it is not reported again at every later use. */
static void check_written(thread *self, int32_t pc, const tile *view, const footprint *where, bool whole, bool transfer) {
    const slot_place at = slot_place_of(&run_of(self)->slots, slots_of(self, view->space), view);
    int64_t from, to;
    if (slot_is_written(&at, where, whole, &from, &to)) return;
    report(self, FAULT_UNINITIALISED, pc, ACCESS_READ, view, from, to, NULL, transfer);
    slot_write(&at, where, whole);
}

static void mark_written(thread *self, const tile *view, const footprint *where, bool whole) {
    const slot_place at = slot_place_of(&run_of(self)->slots, slots_of(self, view->space), view);
    if (!slot_write(&at, where, whole)) run_of(self)->findings.limits |= LIMIT_MEMORY;
}

static void check_flights(thread *self, int32_t pc, const tile *view, const footprint *where, bool writes) {
    if (self->sanitizer->flights == 0) return;
    const user u = {.view = view, .where = where, .pc = pc, .writes = writes, .channel = -1};
    flights_check(self, &u);
}

static void log_access(thread *self, int32_t pc, const tile *view, const footprint *where, uint8_t access, bool element) {
    if (where->region <= REGION_L1) return;
    const uint32_t block = self->epoch + self->grid_epoch, grid = self->grid_epoch;
    access_log *const log = &self->sanitizer->block->log;
    const uintptr_t base = view->space == SPACE_L3 ? run_of(self)->base[view->object] : (uintptr_t)self->l2;
    const uint8_t *const at = (const uint8_t *)(base + (uintptr_t)where->start);
    if (element && accesses_add_another_spot(log, pc, self->id, block, view->object, at, tk_size[view->dtype])) return;
    shared_access x;
    x.block = (lifetime){block, block};
    x.grid = (lifetime){grid, grid};
    x.pc = pc;
    x.thread = self->id;
    x.object = view->object;
    x.access = access;
    x.spots = NULL;
    x.transfer = x.compared = 0;
    x.shift = element ? (uint8_t)__builtin_ctz((unsigned)tk_size[view->dtype]) : 0;
    footprint_copy(&x.where, where);
    if (element) accesses_add_spot(log, &x, base);
    else accesses_add(log, &x);
}

static void read_at(thread *self, int32_t pc, const tile *view, const footprint *where, bool whole, bool element) {
    if (view->space != SPACE_L3) check_written(self, pc, view, where, whole, false);
    check_flights(self, pc, view, where, false);
    log_access(self, pc, view, where, ACCESS_READ, element);
}

static void write_at(thread *self, int32_t pc, const tile *view, const footprint *where, bool whole, bool element) {
    check_flights(self, pc, view, where, true);
    if (view->space != SPACE_L3) mark_written(self, view, where, whole);
    log_access(self, pc, view, where, ACCESS_WRITE, element);
}

void sanitizer_read(thread *self, int32_t pc, const tile *view) {
    footprint where;
    if (!place_of(self, view, &where)) return;
    read_at(self, pc, view, &where, view->space != SPACE_L3 && is_whole(view, &self->kernel->buffer[view->object]), false);
}

void sanitizer_write(thread *self, int32_t pc, const tile *view) {
    footprint where;
    if (!place_of(self, view, &where)) return;
    /* a compiler's tile is read with the extents it was written with */
    write_at(self, pc, view, &where, view->result || is_whole(view, &self->kernel->buffer[view->object]), false);
}

void sanitizer_read_bytes(thread *self, int32_t pc, const tile *view, const uint8_t *at, int size_bytes) {
    const bool l1 = view->space == SPACE_L1;
    footprint where;
    footprint_row(&where, l1 ? REGION_L1 : REGION_L2, at - (l1 ? self->l1 : self->l2), size_bytes);
    read_at(self, pc, view, &where, false, true);
}

void sanitizer_write_bytes(thread *self, int32_t pc, const tile *view, const uint8_t *at, int size_bytes) {
    const bool l1 = view->space == SPACE_L1;
    footprint where;
    footprint_row(&where, l1 ? REGION_L1 : REGION_L2, at - (l1 ? self->l1 : self->l2), size_bytes);
    write_at(self, pc, view, &where, false, true);
}

static bool vector_inside(const tile *view, int32_t i) {
    int64_t count = 1;
    for (int k = 0; k < view->rank; k++) count *= view->n[k];
    return view->space == SPACE_L1 && view->inside && i >= 0 && (int64_t)i + 128 / tk_size[view->dtype] <= count;
}

void sanitizer_read_vector(thread *self, int32_t pc, const tile *view, int32_t i) {
    if (vector_inside(view, i)) sanitizer_read_bytes(self, pc, view, view->p + (int64_t)i * tk_size[view->dtype], 128);
}

void sanitizer_write_vector(thread *self, int32_t pc, const tile *view, int32_t i) {
    if (vector_inside(view, i)) sanitizer_write_bytes(self, pc, view, view->p + (int64_t)i * tk_size[view->dtype], 128);
}

void sanitizer_atomic(thread *self, int32_t pc, const tile *view) {
    footprint where;
    if (!place_of(self, view, &where)) return;
    if (view->space != SPACE_L3) check_written(self, pc, view, &where, false, false);
    check_flights(self, pc, view, &where, false);
    check_flights(self, pc, view, &where, true);
    log_access(self, pc, view, &where, ACCESS_ATOMIC, where.axes == 0 && where.row_bytes == tk_size[view->dtype]);
}

typedef struct {
    thread *self;
    int32_t pc;
    bool reads;
    tile *d; /* without the axis that is indexed */
    const tile *b;
    int64_t step;
    int32_t extent;
} scatter;

static void scatter_element(const scatter *s, const uint8_t *index, const uint8_t *to) {
    const int32_t i = tk_load(index, s->b->dtype).i, size = tk_size[s->d->dtype];
    if (i < 0 || i >= s->extent) return; /* the machine faults next */
    footprint where;
    footprint_row(&where, REGION_L1, to + i * s->step - s->self->l1, size);
    if (s->reads) check_written(s->self, s->pc, s->d, &where, false, false);
    mark_written(s->self, s->d, &where, false);
}

static void scatter_axis(const scatter *s, int k, const uint8_t *index, const uint8_t *to) {
    if (k == s->d->rank) {
        scatter_element(s, index, to);
        return;
    }
    const int own = k - (s->d->rank - s->b->rank);
    const int64_t stride = own >= 0 && s->b->n[own] > 1 ? s->b->stride[own] : 0;
    for (int32_t i = 0; i < s->d->n[k]; i++) scatter_axis(s, k + 1, index + i * stride, to + i * s->d->stride[k]);
}

/* Whether what is scattered, or its indices, broadcasts to the extents that the scatter runs over. */
static bool broadcasts(const tile *t, const tile *over) {
    for (int k = 0; k < t->rank; k++) {
        if (t->n[k] != 1 && t->n[k] != over->n[k + over->rank - t->rank]) return false;
    }
    return true;
}

void sanitizer_scatter(thread *self, int32_t pc, const tile *d, const tile *b, const tile *a, int axis, bool reads) {
    footprint where;
    if (d->space != SPACE_L1 || b->space != SPACE_L1 || a->space != SPACE_L1 || !d->inside || !b->inside || !place_of(self, d, &where)) return;
    check_flights(self, pc, d, &where, true);
    const slot_place at = slot_place_of(&run_of(self)->slots, self->sanitizer->l1, d);
    if (at.slot->state == SLOT_WRITTEN) return;
    /* only the elements that the indices name are touched; a and b broadcast, and d has their extents but for the axis */
    const int rank = a->rank > b->rank ? a->rank : b->rank, own = axis + d->rank - rank;
    if (own < 0 || own >= d->rank || rank > d->rank) return;
    tile over = *d;
    scatter s = {.self = self, .pc = pc, .reads = reads, .d = &over, .b = b, .step = d->stride[own], .extent = d->n[own]};
    const int of_b = axis - (rank - b->rank), of_a = axis - (rank - a->rank);
    const int32_t along_b = of_b >= 0 ? b->n[of_b] : 1, along_a = of_a >= 0 ? a->n[of_a] : 1;
    over.n[own] = along_b > along_a ? along_b : along_a;
    over.stride[own] = 0;
    if (!broadcasts(a, &over) || !broadcasts(b, &over)) return; /* the machine faults next */
    scatter_axis(&s, 0, b->p, d->p);
}

/* What of `a` a transfer to `d` reads: where `d` reaches outside of its array, less than all. False: nothing. */
static bool part_read(tile *part, const tile *d, const tile *a) {
    int with[MAX_AXES];
    if (tk_pair_axes(d, a, with)) return false; /* the machine faults next */
    *part = *a;
    for (int k = 0; k < d->rank; k++) {
        if (d->lo[k] >= d->hi[k]) return false;
        const int own = with[k];
        if (own < 0 || a->n[own] != d->n[k]) continue; /* repeated along this axis */
        if (d->lo[k] > part->lo[own]) part->lo[own] = d->lo[k];
        if (d->hi[k] < part->hi[own]) part->hi[own] = d->hi[k];
    }
    return true;
}

/* One side of a transfer: where it lies, checked. */
static void take_side(thread *self, transfer_side *side, const tile *view, const tile *part, user *u) {
    side->object = view->object;
    side->space = view->space;
    side->slot = view->slot;
    if (!place_of(self, part, &side->where)) {
        footprint_row(&side->where, REGION_NONE, 0, 0);
        return;
    }
    u->view = view;
    u->where = &side->where;
    const bool local = view->space != SPACE_L3, whole = local && is_whole(part, &self->kernel->buffer[view->object]);
    if (local && !u->writes) check_written(self, u->pc, view, &side->where, whole, true);
    if (self->sanitizer->flights) flights_check(self, u);
    if (local && u->writes) mark_written(self, view, &side->where, whole || view->result);
}

void sanitizer_transfer(thread *self, int32_t pc, uint32_t event, const tile *d, const tile *a, uint32_t after, int channel) {
    transfer_side read, written;
    read.object = -1;
    read.space = SPACE_NONE;
    read.slot = 0;
    footprint_row(&read.where, REGION_NONE, 0, 0);
    user u = {.pc = pc, .transfer = true, .after = after, .channel = channel};
    tile part;
    if (a && d->inside) take_side(self, &read, a, a, &u);
    else if (a && part_read(&part, d, a)) take_side(self, &read, a, &part, &u);
    u.writes = true;
    take_side(self, &written, d, d, &u);
    const queued order = {.event = event, .after = after, .channel = (uint16_t)channel};
    flights_begin(self, pc, &order, &read, &written);
}

void sanitizer_wait(thread *self, uint32_t event) { flights_complete(self, event); }
void sanitizer_wait_all(thread *self) { flights_complete_all(self); }
void sanitizer_end(thread *self) { flights_left_open(self); }
