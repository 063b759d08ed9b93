/* Transfers: order within their channels, what they wait for, and how fast they flow. */
#include <stdlib.h>
#include <string.h>
#include "timing_state.h"

/* A transfer is complete when what is left would take less than this part of a cycle: sums of rates are rounded. */
static const double CLOSE = 1.0 / 1024.0;

/* At the same time: by SIP, and within one by event, so that how events were fed makes no difference. */
static int64_t order_of(int32_t sip, uint32_t event) { return (int64_t)sip << 32 | event; }

static bool before(appointment a, appointment b) { return a.time < b.time || (a.time == b.time && a.order < b.order); }

void appointment_add(timing *t, int64_t time, int32_t sip, uint32_t event, int32_t what) {
    if (t->heap_count == t->heap_capacity) {
        const int32_t capacity = t->heap_capacity ? 2 * t->heap_capacity : 64;
        appointment *const grown = realloc(t->heap, (size_t)capacity * sizeof *grown);
        if (!grown) {
            t->status = TIMING_NO_MEMORY;
            return;
        }
        t->heap = grown;
        t->heap_capacity = capacity;
    }
    const appointment x = {time, order_of(sip, event), what};
    int32_t k = t->heap_count++;
    for (; k > 0 && before(x, t->heap[(k - 1) / 2]); k = (k - 1) / 2) t->heap[k] = t->heap[(k - 1) / 2];
    t->heap[k] = x;
}

appointment appointment_take(timing *t) {
    const appointment first = t->heap[0], x = t->heap[--t->heap_count];
    int32_t k = 0;
    for (;;) {
        int32_t child = 2 * k + 1;
        if (child >= t->heap_count) break;
        if (child + 1 < t->heap_count && before(t->heap[child + 1], t->heap[child])) child++;
        if (!before(t->heap[child], x)) break;
        t->heap[k] = t->heap[child];
        k = child;
    }
    t->heap[k] = x;
    return first;
}

static int32_t new_flow(timing *t) {
    if (t->free_flow != NOBODY) {
        const int32_t number = t->free_flow;
        t->free_flow = t->flow[number].next;
        return number;
    }
    if (t->flows == t->flow_capacity) {
        const int32_t capacity = t->flow_capacity ? 2 * t->flow_capacity : 64;
        flow *const grown = realloc(t->flow, (size_t)capacity * sizeof *grown);
        if (!grown) return NOBODY;
        t->flow = grown;
        t->flow_capacity = capacity;
    }
    return t->flows++;
}

int32_t transfer_find(const timing *t, const sip *s, uint32_t event) {
    int32_t number = s->bucket[event % BUCKETS];
    while (number != NOBODY && t->flow[number].event != event) number = t->flow[number].same_bucket;
    return number;
}

static void schedule(timing *t, const flow *f, int32_t number) { appointment_add(t, f->ready + f->latency, f->sip, f->event, number); }

static int32_t latency_of(const int64_t *by_memory, int from, int to) { return (int32_t)by_memory[from > to ? from : to]; }

static void wait_for_slot(const slot_use *x, bool writes, flow *f) {
    if (x->written > f->ready) {
        f->ready = x->written;
        f->waited_pc = x->written_pc;
    }
    if (writes && x->read > f->ready) {
        f->ready = x->read;
        f->waited_pc = x->read_pc;
    }
}

bool transfer_issue(timing *t, sip *s, const tevent *e) {
    const int32_t place = channel_of(t, e->channel);
    channel_state *const c = &s->channel[place];
    if (c->count >= t->p.channel_depth) return false;
    const int32_t number = new_flow(t);
    if (number == NOBODY) {
        t->status = TIMING_NO_MEMORY;
        return true;
    }
    flow *const f = &t->flow[number];
    *f = (flow){.issued = s->t, .ready = s->t, .bytes = e->bytes, .pc = (int32_t)e->pc, .waited_pc = NOBODY, .event = e->event, .sip = sip_number(t, s),
                .latency = latency_of(t->p.latency, e->from, e->to), .next = NOBODY, .dependents = NOBODY, .sibling = NOBODY, .turn = s->issues++, .active = NOBODY, .left = (double)e->bytes,
                .same_bucket = s->bucket[e->event % BUCKETS], .route = (uint8_t)route_of(e->from, e->to, false), .channel = (uint8_t)place,
                .from = e->from, .to = e->to};
    if (e->key[0] != KEY_NONE) wait_for_slot(&s->use[e->key[0]], true, f);
    if (e->key[1] != KEY_NONE) wait_for_slot(&s->use[e->key[1]], false, f);
    f->slots_ready = f->ready;
    f->slots_pc = f->waited_pc;
    if (c->last != NOBODY) {
        t->flow[c->last].next = number;
        f->waits++;
    }
    const int32_t first = e->after ? transfer_find(t, s, e->after) : NOBODY;
    if (first != NOBODY) {
        f->sibling = t->flow[first].dependents;
        t->flow[first].dependents = number;
        f->waits++;
    }
    c->last = number;
    c->count++;
    s->bucket[e->event % BUCKETS] = number;
    s->transfers++;
    if (!f->waits) schedule(t, f, number);
    return true;
}

void transfer_atomic(timing *t, sip *s, const tevent *e, int64_t ready, int32_t waited_pc) {
    const int32_t number = new_flow(t);
    if (number == NOBODY) {
        t->status = TIMING_NO_MEMORY;
        return;
    }
    flow *const f = &t->flow[number];
    *f = (flow){.issued = s->t, .ready = ready, .bytes = e->bytes, .pc = (int32_t)e->pc, .waited_pc = waited_pc, .event = UINT32_MAX, .sip = sip_number(t, s),
                .latency = latency_of(t->p.atomic, e->from, e->to), .next = NOBODY, .dependents = NOBODY, .sibling = NOBODY, .same_bucket = NOBODY, .turn = s->issues++, .active = NOBODY, .left = (double)e->bytes,
                .route = (uint8_t)route_of(e->from, e->to, true), .channel = NO_CHANNEL, .from = e->from, .to = e->to};
    schedule(t, f, number);
}

static void release(timing *t, int32_t number, int64_t when, int32_t pc) {
    flow *const f = &t->flow[number];
    if (when > f->ready) {
        f->ready = when;
        f->waited_pc = pc;
    }
    if (--f->waits == 0) schedule(t, f, number);
}

static void count_done(timing *t, const flow *f) {
    timing_result *const r = &t->result;
    const int64_t busy = t->now - f->ready;
    r->transfers++;
    r->bytes[f->from][f->to] += f->bytes;
    r->pc[f->pc][PC_BUSY] += busy;
    r->pc[f->pc][PC_BYTES] += f->bytes;
    if (f->channel == NO_CHANNEL) return;
    int64_t *const column = r->channel[(int64_t)f->sip * r->channels + f->channel];
    column[CHANNEL_TRANSFERS]++;
    column[CHANNEL_BUSY] += busy;
    column[CHANNEL_BYTES] += f->bytes;
    if (!t->record || !busy) return;
    const timing_interval x = {.start = f->ready, .end = t->now, .issued = f->issued, .bytes = f->bytes, .pc = f->pc, .waited_pc = f->waited_pc,
                               .thread = t->sip[f->sip].thread, .sip = (int16_t)f->sip, .unit = UNIT_DTE, .detail = f->channel};
    interval_add(t, &x);
}

static void forget(timing *t, sip *s, const flow *f, int32_t number) {
    int32_t *at = &s->bucket[f->event % BUCKETS];
    while (*at != number) at = &t->flow[*at].same_bucket;
    *at = f->same_bucket;
    channel_state *const c = &s->channel[f->channel];
    c->count--;
    if (c->last == number) c->last = NOBODY;
    s->transfers--;
}

/* Complete, now. */
static void complete(timing *t, int32_t number) {
    const flow f = t->flow[number];
    sip *const s = &t->sip[f.sip];
    count_done(t, &f);
    if (f.channel != NO_CHANNEL) forget(t, s, &f, number);
    if (f.next != NOBODY) release(t, f.next, t->now, f.pc);
    for (int32_t k = f.dependents; k != NOBODY;) {
        const int32_t sibling = t->flow[k].sibling;
        release(t, k, t->now, f.pc);
        k = sibling;
    }
    t->flow[number].next = t->free_flow;
    t->free_flow = number;
    const bool wakes = f.channel == NO_CHANNEL ? s->state == AT_ATOMIC
                       : s->state == AT_WAIT   ? s->waited == f.event
                       : s->state == AT_CHANNEL ? s->waited == f.channel
                                                : (s->state == AT_WAIT_ALL || s->state == AT_END) && !s->transfers;
    if (!wakes) return;
    if (f.channel == NO_CHANNEL) thread_wake(t, s, t->now, CAUSE_ATOMIC, f.pc);
    else thread_wake_transferred(t, s, &f);
}

static bool room_for_active(timing *t) {
    if (t->actives < t->active_capacity) return true;
    const int32_t capacity = t->active_capacity ? 2 * t->active_capacity : 64;
    double **const each[] = {&t->left, &t->rate, &t->cycles};
    for (int k = 0; k < 3; k++) {
        double *const grown = realloc(*each[k], (size_t)capacity * sizeof *grown);
        if (!grown) return false;
        *each[k] = grown;
    }
    active_flow *const active = realloc(t->active, (size_t)capacity * sizeof *active);
    if (!active) return false;
    t->active = active;
    done_flow *const done = realloc(t->done, (size_t)capacity * sizeof *done);
    if (!done) return false;
    t->done = done;
    t->active_capacity = capacity;
    return true;
}

/* Takes a transfer out of those that flow; what it has left stays with it. */
static void stop(timing *t, flow *f) {
    const int32_t k = f->active, last = --t->actives;
    f->left = t->left[k];
    f->active = NOBODY;
    if (k == last) return;
    t->active[k] = t->active[last];
    t->left[k] = t->left[last];
    t->rate[k] = t->rate[last];
    t->flow[t->active[k].flow].active = k;
}

static void flow_on(timing *t, flow *f, int32_t number) {
    if (!room_for_active(t)) {
        t->status = TIMING_NO_MEMORY;
        return;
    }
    f->active = t->actives++;
    t->active[f->active] = (active_flow){number, (int16_t)f->sip, f->route};
    t->left[f->active] = f->left;
    t->rate[f->active] = 0.0;
}

/* The first transfer on each route flows. */
static void arrange(timing *t, int32_t number) {
    sip *const s = &t->sip[number];
    uint64_t flows = 0;
    unsigned routes = 0;
    int rank = 0;
    for (int32_t k = s->flowing; k != NOBODY; k = t->flow[k].later) {
        flow *const f = &t->flow[k];
        const bool first = !(routes >> f->route & 1);
        if (first) {
            flows |= (uint64_t)(f->route + 1) << (ROUTE_BITS * rank++);
            routes |= 1u << f->route;
        }
        if (!first && f->active != NOBODY) stop(t, f);
        if (first && f->active == NOBODY) flow_on(t, f, k);
    }
    shares_change(&t->shares, number, flows);
    t->changed = true;
}

void transfer_begin(timing *t, int32_t number) {
    flow *const f = &t->flow[number];
    if (f->bytes == 0) {
        complete(t, number);
        return;
    }
    sip *const s = &t->sip[f->sip];
    if (s->flowing == NOBODY) s->flowing_since = t->now;
    int32_t *at = &s->flowing;
    while (*at != NOBODY && t->flow[*at].turn < f->turn) at = &t->flow[*at].later;
    f->later = *at;
    *at = number;
    arrange(t, f->sip);
}

static void leave(timing *t, int32_t number) {
    int32_t *at = &t->sip[t->flow[number].sip].flowing;
    while (*at != number) at = &t->flow[*at].later;
    *at = t->flow[number].later;
}

/* Takes those that are complete out of the active ones, in the order of their SIPs and events. */
static int32_t take_done(timing *t) {
    const bool alike = t->shares.kind == SHARES_ALL_ALIKE;
    const double alike_close = t->shares.all_alike * CLOSE;
    int32_t count = 0;
    for (int32_t k = 0; k < t->actives;) {
        if (t->left[k] > (alike ? alike_close : t->rate[k] * CLOSE)) {
            k++;
            continue;
        }
        const int32_t number = t->active[k].flow;
        flow *const f = &t->flow[number];
        const done_flow x = {order_of(f->sip, f->event), number};
        int32_t place = count++;
        for (; place > 0 && x.order < t->done[place - 1].order; place--) t->done[place] = t->done[place - 1];
        t->done[place] = x;
        stop(t, f);
        leave(t, number);
    }
    return count;
}

void transfers_advance(timing *t, int64_t when) {
    const double cycles = (double)(when - t->shared_at);
    double *const restrict left = t->left;
    const int32_t count = t->actives;
    if (t->shares.kind == SHARES_ALL_ALIKE) {
        const double moved = t->shares.all_alike * cycles;
        for (int32_t k = 0; k < count; k++) left[k] -= moved;
    } else {
        const double *const restrict rate = t->rate;
        for (int32_t k = 0; k < count; k++) left[k] -= rate[k] * cycles;
    }
    t->shared_at = when;
    if (when < t->next_done) return;
    t->changed = true; /* even where rounding lets none be complete yet */
    const int32_t done = take_done(t);
    int32_t last = NOBODY;
    for (int32_t k = 0; k < done; k++) {
        const int32_t number = t->flow[t->done[k].flow].sip;
        if (number == last) continue;
        last = number;
        arrange(t, number);
        if (t->sip[number].flowing == NOBODY) t->result.sip[number][SIP_DTE] += t->now - t->sip[number].flowing_since;
    }
    for (int32_t k = 0; k < done; k++) complete(t, t->done[k].flow);
}

/* The least of all; in four lanes, which changes nothing. */
static double least_of(const double *x, int32_t count) {
    double lane[4] = {x[0], x[0], x[0], x[0]};
    int32_t k = 0;
    for (; k + 4 <= count; k += 4) {
        for (int i = 0; i < 4; i++) lane[i] = x[k + i] < lane[i] ? x[k + i] : lane[i];
    }
    for (; k < count; k++) lane[0] = x[k] < lane[0] ? x[k] : lane[0];
    for (int i = 1; i < 4; i++) lane[0] = lane[i] < lane[0] ? lane[i] : lane[0];
    return lane[0];
}

/* Cycles until the first is complete. */
static double first_done(timing *t, int32_t count) {
    const shares *const s = &t->shares;
    const double *const restrict left = t->left;
    if (s->kind == SHARES_ALL_ALIKE) return least_of(left, count) / s->all_alike; /* the same as the least quotient */
    double *const restrict rate = t->rate, *const restrict cycles = t->cycles;
    if (s->kind == SHARES_OF_PORTS) {
        for (int32_t k = 0; k < count; k++) rate[k] = s->port_share[t->active[k].sip];
    } else {
        for (int32_t k = 0; k < count; k++) rate[k] = share_of(s, t->active[k].sip, t->active[k].route);
    }
    for (int32_t k = 0; k < count; k++) cycles[k] = left[k] / rate[k];
    return least_of(cycles, count);
}

void transfers_share(timing *t) {
    if (!t->changed) return;
    t->changed = false;
    shares_solve(&t->shares);
    if (t->shares.failed) {
        t->status = TIMING_NO_MEMORY;
        return;
    }
    t->next_done = FOREVER;
    const int32_t count = t->actives;
    if (!count) return;
    const double until = first_done(t, count) - CLOSE;
    int64_t whole = until > 0.0 ? (int64_t)until : 0;
    if ((double)whole < until) whole++;
    t->next_done = t->now + whole;
}
