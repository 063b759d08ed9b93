/* Blocks on clusters: dispatch, barriers, ends. */
#include "timing_state.h"

/* Block after block goes round robin over the clusters; those of one cluster begin in order, as its slots become free. */
void block_dispatch(timing *t, slot *x, int64_t free) {
    cluster_state *const c = &t->cluster[x->cluster];
    x->block = NOBODY;
    if (c->next_block >= t->blocks) return;
    x->block = c->next_block;
    c->next_block += (int32_t)t->p.clusters;
    c->free = (free > c->free ? free : c->free) + t->p.dispatch;
    x->arrived = x->ended = 0;
    x->release = x->end = 0;
    for (int32_t k = 0; k < t->block_threads; k++) thread_begin(t, &t->sip[x->first + k], x->block * t->block_threads + k, x->block, c->free);
}

void blocks_start(timing *t) {
    const int32_t each = t->slots / (int32_t)t->p.clusters;
    for (int32_t k = 0; k < each; k++) {
        for (int32_t c = 0; c < t->p.clusters; c++) block_dispatch(t, &t->slot[c * each + k], t->p.launch);
    }
}

void block_thread_ended(timing *t, sip *s) {
    slot *const x = slot_of(t, s);
    if (s->t > x->end) x->end = s->t;
    if (x->end > t->result.cycles) t->result.cycles = x->end;
    if (++x->ended < t->block_threads) return;
    t->blocks_ended++;
    appointment_add(t, x->end, x->first, 0, -1 - (int32_t)(x - t->slot));
}

static void leave_barrier(timing *t, slot *x, int state, int64_t when) {
    for (int32_t k = 0; k < t->block_threads; k++) {
        sip *const s = &t->sip[x->first + k];
        if (s->state == state) thread_wake(t, s, when, CAUSE_BARRIER, s->wait_pc);
    }
}

void barrier_arrive(timing *t, sip *s) {
    slot *const x = slot_of(t, s);
    if (s->t > x->release) x->release = s->t;
    if (++x->arrived < t->block_threads) return;
    const int64_t when = x->release + t->p.barrier;
    x->arrived = 0;
    x->release = 0;
    leave_barrier(t, x, AT_BARRIER, when);
}

void grid_barrier_arrive(timing *t, sip *s) {
    if (s->t > t->grid_release) t->grid_release = s->t;
    if (++t->grid_arrived < t->blocks * t->block_threads) return;
    const int64_t when = t->grid_release + t->p.grid_barrier;
    t->grid_arrived = 0;
    t->grid_release = 0;
    for (int32_t k = 0; k < t->slots; k++) {
        if (t->slot[k].block != NOBODY) leave_barrier(t, &t->slot[k], AT_GRID_BARRIER, when);
    }
}
