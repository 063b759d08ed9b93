#include "trace.h"
#include <stdlib.h>
#include "launch.h"
#include "tiles/elements.h"
#include "views.h"

static int64_t bytes_of(const tile *view) { return view ? view_elements(view) * tk_size[view->dtype] : 0; }

/* Room for more events. Beyond the limit, or without memory, the launch ends (at its next poll, or when it has run). */
static bool grow(thread *self, event_log *log) {
    launch *const l = self->launch;
    /* few at first: a launch may have millions of threads that do nothing */
    const int64_t capacity = log->capacity == 0 ? 2 : log->capacity < 512 ? 4 * log->capacity : 2 * log->capacity;
    const int64_t more = (capacity - log->capacity) * (int64_t)sizeof(tevent);
    tevent *grown = NULL;
    if (!log->failed && atomic_fetch_add(&l->traced_bytes, more) + more <= TRACE_LIMIT_BYTES) {
        grown = realloc(log->item, (size_t)capacity * sizeof *grown);
    }
    if (!grown) {
        log->failed = true;
        atomic_store(&l->stop, FAULT_MEMORY);
        return false;
    }
    log->item = grown;
    log->capacity = capacity;
    return true;
}

/* The next event, with what all have in common; NULL when there is no memory. */
static tevent *append(thread *self, int32_t pc, int64_t cycles, int unit) {
    event_log *const log = self->trace;
    if (log->count + 1 >= log->capacity && !grow(self, log)) return NULL;
    while (cycles > UINT32_MAX) { /* more than the field holds: a wait for nothing takes a part */
        cycles -= UINT32_MAX;
        tevent *const filler = append(self, pc, UINT32_MAX, EV_WAIT);
        if (!filler) return NULL;
    }
    tevent *const e = &log->item[log->count++];
    *e = (tevent){.pc = (uint32_t)pc, .scalar_cycles = (uint32_t)cycles, .kind = (uint8_t)unit};
    for (int k = 0; k < 4; k++) e->key[k] = KEY_NONE;
    return e;
}

static void use(thread *self, tevent *e, int place, const tile *view) {
    const uint16_t key = trace_key(self, view);
    e->key[place] = key;
    if (key != KEY_NONE) self->touched[key] = 1;
}

void trace_tile(thread *self, int32_t pc, int64_t cycles, int unit, double work, double flops, const tile *d, const tile *a, const tile *b, const tile *c) {
    tevent *const e = append(self, pc, cycles, unit);
    if (!e) return;
    const tile *const each[] = {d, a, b, c};
    e->work = work;
    e->flops = flops;
    e->dtype = d->dtype;
    for (int k = 0; k < 4; k++) {
        if (!each[k]) continue;
        use(self, e, k, each[k]);
        e->bytes += bytes_of(each[k]);
        if (tk_size[each[k]->dtype] > tk_size[e->dtype]) e->dtype = each[k]->dtype;
    }
    if (unit == EV_MATRIX) {
        e->dtype = a->dtype;
        e->bytes += bytes_of(d); /* read and written */
    }
    e->from = e->to = SPACE_L1;
}

void trace_vector(thread *self, int32_t pc, int64_t cycles, int dtype, double work, double flops, const tile *view) {
    tevent *const e = append(self, pc, cycles, EV_VECTOR);
    if (!e) return;
    e->work = work;
    e->flops = flops;
    e->dtype = (uint8_t)dtype;
    e->bytes = view ? (int64_t)sizeof(vreg) : 0;
    if (view) use(self, e, 0, view);
}

void trace_transfer(thread *self, int32_t pc, int64_t cycles, uint32_t event, const tile *d, const tile *a, uint32_t after, int channel) {
    tevent *const e = append(self, pc, cycles, EV_DMA);
    if (!e) return;
    int64_t count = 1; /* of what is written: a clipped transfer leaves the rest out */
    for (int k = 0; k < d->rank; k++) count *= d->hi[k] > d->lo[k] ? (int64_t)d->hi[k] - d->lo[k] : 0;
    e->bytes = count * tk_size[d->dtype];
    e->event = event;
    e->after = after;
    e->dtype = d->dtype;
    e->from = a ? a->space : SPACE_NONE;
    e->to = d->space;
    e->channel = (uint16_t)channel;
    use(self, e, 0, d);
    use(self, e, 1, a);
}

void trace_atomic(thread *self, int32_t pc, int64_t cycles, const tile *view, const tile *source, double flops) {
    tevent *const e = append(self, pc, cycles, EV_ATOMIC);
    if (!e) return;
    const tile *const counted = source ? source : view;
    e->work = (double)view_elements(counted);
    e->bytes = bytes_of(counted);
    e->flops = flops;
    e->dtype = view->dtype;
    e->from = source ? source->space : SPACE_NONE;
    e->to = view->space;
    use(self, e, 0, view);
    use(self, e, 1, source);
}

void trace_wait(thread *self, int32_t pc, int64_t cycles, int unit, uint32_t event) {
    tevent *const e = append(self, pc, cycles, unit);
    if (e) e->event = event;
}

void trace_sync(thread *self, int32_t pc, int64_t cycles, const tile *view) {
    tevent *const e = append(self, pc, cycles, EV_SYNC);
    if (!e || !view) return;
    e->key[0] = trace_key(self, view);
    self->touched[e->key[0]] = 0;
}

int trace_clock(thread *self, int32_t pc, int64_t cycles, int32_t *now) {
    const launch *const l = self->launch;
    const kernel *const k = self->kernel;
    *now = 0;
    if (!l->part) return FAULT_NONE; /* no part, no time */
    trace_wait(self, pc, cycles, EV_WAIT, 0); /* for nothing: it carries the scalar unit's cycles */
    if (!self->clock) self->clock = timing_create(l->part, 1, 1, kernel_keys(k), k->count + 1, l->flags, false);
    const event_log *const log = self->trace;
    if (!self->clock || log->failed) return fault_set(self, FAULT_MEMORY, NULL, 0, 0, 0, 0);
    int status = timing_feed(self->clock, 0, log->item + self->clocked, log->count - self->clocked);
    if (status == TIMING_OK) status = timing_advance(self->clock);
    if (status != TIMING_OK) return fault_set(self, FAULT_MEMORY, NULL, 0, 0, 0, 0);
    self->clocked = log->count;
    const int64_t time = timing_clock(self->clock, 0);
    *now = (int32_t)(time > 0 ? time : 0);
    return FAULT_NONE;
}
