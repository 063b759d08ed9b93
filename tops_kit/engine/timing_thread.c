/* One thread's scoreboard: the scalar unit issues in order, the vector and matrix units work in the order of issue. */
#include <stdlib.h>
#include <string.h>
#include "timing_state.h"

static void note(timing *t, const sip *s, int unit, int detail, int64_t start, int64_t end, int64_t issued, int32_t pc, int32_t waited_pc) {
    if (end <= start) return;
    const timing_interval x = {.start = start, .end = end, .issued = issued, .pc = pc, .waited_pc = waited_pc, .thread = s->thread,
                               .sip = (int16_t)sip_number(t, s), .unit = (uint8_t)unit, .detail = (uint8_t)detail};
    interval_add(t, &x);
}

/* The scalar unit waits at `pc` until `when`, for what the instruction at `blamed` does. */
static void wait_until(timing *t, sip *s, int64_t when, int cause, int32_t pc, int32_t blamed) {
    if (when <= s->t) return;
    const int64_t cycles = when - s->t;
    t->result.sip[sip_number(t, s)][SIP_STALL + cause] += cycles;
    t->result.pc[pc][PC_STALL + cause] += cycles;
    t->result.pc[blamed][PC_BLAMED] += cycles;
    if (t->record) {
        note(t, s, UNIT_SCALAR, 0, s->start, s->t, s->start, s->pc, NOBODY);
        note(t, s, UNIT_STALL, cause, s->t, when, s->t, pc, blamed);
        s->start = when;
        s->pc = pc;
    }
    s->t = when;
}

static int cause_of(const timing *t, int32_t pc) { return t->flags[pc] & PC_IS_MATRIX ? CAUSE_MATRIX : CAUSE_VECTOR; }

static inline void later(int64_t *start, int32_t *waited, int64_t when, int32_t pc) {
    if (when > *start) {
        *start = when;
        *waited = pc;
    }
}

static int64_t whole(double x) { /* rounded up */
    const int64_t down = (int64_t)x;
    return down + ((double)down < x);
}

static void operate(timing *t, sip *s, const tevent *e) {
    const int kind = e->kind == EV_MATRIX;
    const int32_t pc = (int32_t)e->pc, depth = (int32_t)t->p.queue_depth;
    unit_state *const u = &s->unit[kind];
    int64_t *const queue = s->queue + kind * depth;
    int32_t *const queue_pc = s->queue_pc + kind * depth;
    wait_until(t, s, queue[u->place], CAUSE_QUEUE, pc, queue_pc[u->place]);
    int64_t start = s->t;
    int32_t waited = NOBODY;
    later(&start, &waited, u->free, u->pc);
    for (int k = 1; k < 4; k++) {
        if (e->key[k] == KEY_NONE) continue;
        const slot_use *const x = &s->use[e->key[k]];
        later(&start, &waited, x->written, x->written_pc);
    }
    slot_use *const d = e->key[0] == KEY_NONE ? NULL : &s->use[e->key[0]];
    if (d) {
        later(&start, &waited, d->written, d->written_pc);
        later(&start, &waited, d->read, d->read_pc);
    }
    const double rate = kind ? t->p.matrix_rate[e->dtype] : t->p.vector_rate[e->dtype];
    int64_t cycles = whole(e->work / rate);
    if (t->flags[pc] & PC_HAS_STARTUP) cycles += kind ? t->p.matrix_startup : t->p.vector_startup;
    const int64_t end = start + cycles;
    for (int k = 1; k < 4; k++) {
        if (e->key[k] == KEY_NONE) continue;
        slot_use *const x = &s->use[e->key[k]];
        later(&x->read, &x->read_pc, end, pc);
    }
    if (d) {
        d->written = end;
        d->written_pc = pc;
    }
    u->free = end;
    u->pc = pc;
    queue[u->place] = end;
    queue_pc[u->place] = pc;
    u->place = u->place + 1 == depth ? 0 : u->place + 1;
    t->result.sip[sip_number(t, s)][kind ? SIP_MATRIX : SIP_VECTOR] += cycles;
    t->result.pc[pc][PC_BUSY] += cycles;
    t->result.l1_bytes += e->bytes;
    t->result.flops[kind][e->dtype] += e->flops;
    if (t->record) note(t, s, kind ? UNIT_MATRIX : UNIT_VECTOR, 0, start, end, s->t, pc, start > s->t ? waited : NOBODY);
}

static void drain(timing *t, sip *s, int32_t pc) {
    const unit_state *const last = &s->unit[s->unit[1].free > s->unit[0].free];
    wait_until(t, s, last->free, cause_of(t, last->pc), pc, last->pc);
}

/* Until the vector and matrix units are done with what a scalar access is about to touch. */
static void sync_with(timing *t, sip *s, int key, int32_t pc) {
    if (key == KEY_NONE) {
        wait_until(t, s, s->unit[0].free, CAUSE_VECTOR, pc, s->unit[0].pc);
        return;
    }
    const slot_use *const x = &s->use[key];
    const int32_t last = x->read > x->written ? x->read_pc : x->written_pc;
    wait_until(t, s, x->read > x->written ? x->read : x->written, cause_of(t, last), pc, last);
}

static void atomics(timing *t, sip *s, const tevent *e) {
    const int32_t pc = (int32_t)e->pc;
    if (e->from == SPACE_NONE) { /* one element, by the scalar unit */
        if (e->key[0] != KEY_NONE) sync_with(t, s, e->key[0], pc);
        wait_until(t, s, s->t + t->p.atomic[e->to], CAUSE_ATOMIC, pc, pc);
        t->result.bytes[SPACE_NONE][e->to] += e->bytes;
        t->result.pc[pc][PC_BYTES] += e->bytes;
        return;
    }
    int64_t ready = s->t;
    int32_t waited = NOBODY;
    for (int k = 0; k < 2; k++) {
        if (e->key[k] == KEY_NONE) continue;
        const slot_use *const x = &s->use[e->key[k]];
        later(&ready, &waited, x->written, x->written_pc);
        if (k == 0) later(&ready, &waited, x->read, x->read_pc);
    }
    t->result.flops[0][e->dtype] += e->flops;
    s->state = AT_ATOMIC;
    transfer_atomic(t, s, e, ready, waited);
}

/* True: the thread goes on with its next event. */
static bool consume(timing *t, sip *s, const tevent *e) {
    const int32_t pc = (int32_t)e->pc;
    switch (e->kind) {
    case EV_VECTOR:
    case EV_MATRIX:
        operate(t, s, e);
        break;
    case EV_DMA:
        if (transfer_issue(t, s, e)) break;
        s->state = AT_CHANNEL;
        s->waited = (uint32_t)channel_of(t, e->channel);
        s->wait_pc = pc;
        return false;
    case EV_WAIT:
        if (transfer_find(t, s, e->event) != NOBODY) s->state = AT_WAIT;
        s->waited = e->event;
        break;
    case EV_WAITALL:
        if (s->transfers) s->state = AT_WAIT_ALL;
        break;
    case EV_SYNC:
        sync_with(t, s, e->key[0], pc);
        break;
    case EV_ATOMIC:
        atomics(t, s, e);
        break;
    case EV_BARRIER:
    case EV_GRIDBARRIER:
        drain(t, s, pc);
        s->state = e->kind == EV_BARRIER ? AT_BARRIER : AT_GRID_BARRIER;
        break;
    default: /* EV_END */
        drain(t, s, pc);
        s->state = AT_END;
    }
    s->wait_pc = pc;
    t->result.pc[pc][PC_EVENTS]++;
    s->issued = false;
    s->at++;
    return s->state == AT_RUN;
}

void thread_run(timing *t, sip *s) {
    const int64_t issue = t->p.scalar_issue;
    int64_t *const busy = &t->result.sip[sip_number(t, s)][SIP_SCALAR];
    do {
        if (s->at == s->count) {
            s->state = AT_STARVED;
            t->starved++;
            return;
        }
        const tevent *const e = &s->event[s->at];
        if (!s->issued) {
            const int64_t cycles = e->scalar_cycles * issue;
            if (t->record && s->start == s->t) s->pc = (int32_t)e->pc;
            s->t += cycles;
            *busy += cycles;
            s->issued = true;
        }
        t->poll_in--;
        if (!consume(t, s, e)) break;
    } while (true);
    if (s->state == AT_BARRIER) barrier_arrive(t, s);
    else if (s->state == AT_GRID_BARRIER) grid_barrier_arrive(t, s);
    else if (s->state == AT_END && !s->transfers) thread_end(t, s);
}

void thread_wake(timing *t, sip *s, int64_t when, int cause, int32_t blamed) {
    wait_until(t, s, when, cause, s->wait_pc, blamed);
    if (s->state == AT_END) {
        thread_end(t, s);
        return;
    }
    s->state = AT_RUN;
    t->run[t->run_count++] = sip_number(t, s);
}

void thread_wake_transferred(timing *t, sip *s, const flow *f) {
    if (f->slots_pc != NOBODY) wait_until(t, s, f->slots_ready, cause_of(t, f->slots_pc), s->wait_pc, f->slots_pc);
    thread_wake(t, s, t->now, CAUSE_DMA, f->pc);
}

void thread_begin(timing *t, sip *s, int32_t thread, int32_t block, int64_t when) {
    const int32_t depth = (int32_t)t->p.queue_depth;
    t->result.sip[sip_number(t, s)][SIP_LAUNCH] += when - s->idle_since;
    t->result.sip[sip_number(t, s)][SIP_THREADS]++;
    s->t = s->begun = s->start = when;
    s->thread = thread;
    s->block = block;
    s->at = 0;
    s->event = t->thread[thread].event;
    s->count = t->thread[thread].count;
    s->issued = false;
    memset(s->unit, 0, sizeof s->unit);
    memset(s->queue, 0, 2 * (size_t)depth * sizeof *s->queue);
    memset(s->use, 0, (size_t)t->keys * sizeof *s->use);
    s->state = AT_RUN;
    t->run[t->run_count++] = sip_number(t, s);
}

void thread_end(timing *t, sip *s) {
    if (t->record) note(t, s, UNIT_SCALAR, 0, s->start, s->t, s->start, s->pc, NOBODY);
    s->state = AT_REST;
    s->idle_since = s->t;
    thread_events *const x = &t->thread[s->thread];
    free(x->own);
    *x = (thread_events){.ended = true};
    block_thread_ended(t, s);
}
