/* Transfers that were issued and not awaited: who touches their memory meanwhile, and who never awaits them. The order in which
   they complete is the machine's (transfers.h): after what they start after, and one after another on a channel. */
#include <stdlib.h>
#include "state.h"

enum { FLIGHT_WORK = 8 }; /* what a look at one counts as, in bytes of work between polls */

/* Counts a transfer in, or out, for the slots of L1 that it touches. */
static void count_slots(thread *self, const transfer_side *side, int change) {
    const slot_table *const table = &run_of(self)->slots;
    if (side->where.region != REGION_L1) return;
    slot *const slots = self->sanitizer->l1;
    if (!table->shares_l1) {
        slots[table->first[side->object] + side->slot].in_flight += (uint16_t)change;
        return;
    }
    for (int m = 0; m < table->kernel->buffers; m++) { /* every buffer that lies there */
        const buffer *const b = &table->kernel->buffer[m];
        if (b->view.space != SPACE_L1) continue;
        for (int32_t k = 0; k < b->slots; k++) {
            const int64_t start = b->offset_bytes + k * b->slot_bytes;
            if (start < side->where.end && side->where.start < start + b->slot_bytes) slots[table->first[m] + k].in_flight += (uint16_t)change;
        }
    }
}

/* Widens, or lets go of, what is known of where transfers of a region lie. */
static void count_reach(sanitizer_thread *t, const transfer_side *side, bool reads, int change) {
    const footprint *const f = &side->where;
    if (f->region == REGION_NONE) return;
    reach *const r = &t->reach[2 * f->region + reads];
    if (r->count == 0) {
        r->start = f->start;
        r->end = f->end;
    } else if (change > 0) {
        if (f->start < r->start) r->start = f->start;
        if (f->end > r->end) r->end = f->end;
    }
    r->count += change;
}

static bool within_reach(const reach *r, const footprint *f) { return r->count && f->start < r->end && r->start < f->end; }

/* Where the transfer of `event` is among the first `count`, which are in order; `count`: nowhere. */
static int32_t find_event(const sanitizer_thread *t, int32_t count, uint32_t event) {
    int32_t low = 0, high = count;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (t->queue[middle].event < event) low = middle + 1;
        else high = middle;
    }
    return low < count && t->queue[low].event == event ? low : count;
}

/* Those of a channel among the first `count`: what they need on their channel is marked with them. */
static void mark_channel(sanitizer_thread *t, int32_t count, int channel) {
    for (int32_t k = 0; k < count; k++) {
        queued *const q = &t->queue[k];
        if (q->channel == channel) q->needed = q->with_channel = true;
    }
}

/* Marks what is complete before `event`, or before a transfer that starts after `event` on `channel` (-1: none). What a transfer
   needs was issued before it: one pass from the youngest finds everything, with one more for each channel. */
static void mark_needed(thread *self, uint32_t event, int channel) {
    sanitizer_thread *const t = self->sanitizer;
    for (int32_t k = 0; k < t->flights; k++) t->queue[k].needed = t->queue[k].with_channel = false;
    self->work -= FLIGHT_WORK * (int64_t)t->flights;
    if (channel >= 0) mark_channel(t, t->flights, channel);
    const int32_t at = find_event(t, t->flights, event);
    if (at < t->flights) t->queue[at].needed = true;
    for (int32_t k = t->flights; k-- > 0;) {
        const queued *const q = &t->queue[k];
        if (!q->needed) continue;
        const int32_t earlier = q->after ? find_event(t, k, q->after) : k;
        if (earlier < k) t->queue[earlier].needed = true;
        if (q->with_channel) continue;
        mark_channel(t, k, q->channel);
        self->work -= FLIGHT_WORK * (int64_t)k;
    }
}

static void log_side(thread *self, const flight *f, const transfer_side *side, uint8_t access, bool completes) {
    if (side->where.region <= REGION_L1) return;
    shared_access x;
    footprint_copy(&x.where, &side->where);
    x.spots = NULL;
    x.block = (lifetime){f->epoch + f->grid_epoch, completes ? self->epoch + self->grid_epoch : NEVER};
    x.grid = (lifetime){f->grid_epoch, completes ? self->grid_epoch : NEVER};
    x.pc = f->pc;
    x.thread = self->id;
    x.object = side->object;
    x.access = access;
    x.transfer = 1;
    x.compared = x.shift = 0;
    accesses_add(&self->sanitizer->block->log, &x);
}

static void take_out(thread *self, const queued *q, bool completes) {
    sanitizer_thread *const t = self->sanitizer;
    flight *const f = &t->flight[q->flight];
    count_slots(self, &f->read, -1);
    count_slots(self, &f->written, -1);
    count_reach(t, &f->read, true, -1);
    count_reach(t, &f->written, false, -1);
    log_side(self, f, &f->read, ACCESS_READ, completes);
    log_side(self, f, &f->written, ACCESS_WRITE, completes);
    f->next = t->unused;
    t->unused = q->flight + 1;
}

static void take_out_needed(thread *self) {
    sanitizer_thread *const t = self->sanitizer;
    int32_t kept = 0;
    for (int32_t k = 0; k < t->flights; k++) {
        if (t->queue[k].needed) take_out(self, &t->queue[k], true);
        else t->queue[kept++] = t->queue[k];
    }
    t->flights = kept;
    t->several_channels = false;
    for (int32_t k = 1; k < kept && !t->several_channels; k++) t->several_channels = t->queue[k].channel != t->queue[0].channel;
}

void flights_complete(thread *self, uint32_t event) {
    if (self->sanitizer->flights == 0) return;
    mark_needed(self, event, -1);
    take_out_needed(self);
}

void flights_complete_all(thread *self) {
    sanitizer_thread *const t = self->sanitizer;
    for (int32_t k = 0; k < t->flights; k++) take_out(self, &t->queue[k], true);
    t->flights = 0;
}

static bool grow(sanitizer_thread *t) {
    const int32_t capacity = t->capacity ? 2 * t->capacity : 8;
    queued *const queue = realloc(t->queue, (size_t)capacity * sizeof *queue);
    if (queue) t->queue = queue;
    flight *const flights = queue ? realloc(t->flight, (size_t)capacity * sizeof *flights) : NULL;
    if (!flights) return false;
    t->flight = flights;
    for (int32_t k = t->capacity; k < capacity; k++) {
        flights[k].next = t->unused;
        t->unused = k + 1;
    }
    t->capacity = capacity;
    return true;
}

void flights_begin(thread *self, int32_t pc, const queued *order, const transfer_side *read, const transfer_side *written) {
    sanitizer_thread *const t = self->sanitizer;
    if (t->flights == t->capacity && !grow(t)) {
        run_of(self)->findings.limits |= LIMIT_MEMORY;
        return;
    }
    t->several_channels = t->flights && (t->several_channels || t->queue[0].channel != order->channel);
    queued *const q = &t->queue[t->flights++];
    *q = *order;
    q->flight = t->unused - 1;
    flight *const f = &t->flight[q->flight];
    t->unused = f->next;
    f->epoch = self->epoch;
    f->grid_epoch = self->grid_epoch;
    f->pc = pc;
    transfer_side_copy(&f->read, read);
    transfer_side_copy(&f->written, written);
    count_slots(self, read, 1);
    count_slots(self, written, 1);
    count_reach(t, read, true, 1);
    count_reach(t, written, false, 1);
}

void flights_forget(sanitizer_thread *t, int32_t regions) {
    for (; t->flights; t->flights--) {
        const int32_t number = t->queue[t->flights - 1].flight;
        t->flight[number].next = t->unused;
        t->unused = number + 1;
    }
    memset(t->reach, 0, 2 * (size_t)regions * sizeof *t->reach);
}

/* The side of `f` that `u` gets in the way of; NULL: none. */
static const transfer_side *clash(thread *self, const flight *f, const user *u, int64_t *from, int64_t *to) {
    enum { MOST = 1 << 16 };
    int64_t work = MOST;
    const transfer_side *side = NULL;
    if (footprints_meet(&f->written.where, u->where, from, to, &work)) side = &f->written;
    else if (u->writes && footprints_meet(&f->read.where, u->where, from, to, &work)) side = &f->read;
    if (work < 0) run_of(self)->findings.limits |= LIMIT_RACES;
    self->work -= FLIGHT_WORK * (MOST - work);
    return side;
}

void flights_check(thread *self, const user *u) {
    sanitizer_thread *const t = self->sanitizer;
    const reach *const near = u->where->region == REGION_NONE ? NULL : &t->reach[2 * u->where->region];
    if (!near || !(within_reach(&near[0], u->where) || (u->writes && within_reach(&near[1], u->where)))) return;
    if (u->transfer) {
        if (!t->several_channels && t->queue[0].channel == u->channel) return; /* all are complete before this one starts */
        mark_needed(self, u->after, u->channel);
    }
    for (int32_t k = 0; k < t->flights; k++) t->queue[k].before = u->transfer && t->queue[k].needed;
    self->work -= FLIGHT_WORK * (int64_t)t->flights;
    for (int32_t k = 0; k < t->flights;) {
        const queued q = t->queue[k++];
        if (q.before) continue;
        const flight *const f = &t->flight[q.flight];
        int64_t from, to;
        const transfer_side *const side = clash(self, f, u, &from, &to);
        if (!side) continue;
        const actor second = {.pc = f->pc, .thread = self->id, .block = self->block, .transfer = 1, .open = 1,
                              .access = side == &f->written ? ACCESS_WRITE : ACCESS_READ};
        report(self, u->writes ? FAULT_IN_USE : FAULT_NOT_AWAITED, u->pc, u->writes ? ACCESS_WRITE : ACCESS_READ, u->view, from, to,
               &second, u->transfer);
        /* from here on as if it had been awaited: what follows from this one mistake is not worth another report */
        mark_needed(self, q.event, -1);
        int32_t seen = 0;
        for (int32_t m = 0; m < k; m++) seen += !t->queue[m].needed;
        take_out_needed(self);
        k = seen;
    }
}

void flights_left_open(thread *self) {
    sanitizer_thread *const t = self->sanitizer;
    for (int32_t k = 0; k < t->flights; k++) {
        const flight *const f = &t->flight[t->queue[k].flight];
        const tile written = {.object = f->written.object, .space = f->written.space, .slot = f->written.slot};
        report(self, FAULT_LEFT_OPEN, f->pc, ACCESS_WRITE, &written, f->written.where.start, f->written.where.end, NULL, true);
        take_out(self, &t->queue[k], false);
    }
    t->flights = 0;
}
