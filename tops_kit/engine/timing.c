#include "timing.h"
#include <stdlib.h>
#include <string.h>
#include "timing_state.h"

enum { POLL_EVENTS = 1 << 18 }; /* between polls: some tens of ms */

void interval_add(timing *t, const timing_interval *x) {
    timing_result *const r = &t->result;
    if (r->intervals == t->interval_capacity) {
        const int64_t capacity = t->interval_capacity ? 2 * t->interval_capacity : 1024;
        timing_interval *const grown = realloc(r->interval, (size_t)capacity * sizeof *grown);
        if (!grown) {
            t->status = TIMING_NO_MEMORY;
            return;
        }
        r->interval = grown;
        t->interval_capacity = capacity;
    }
    r->interval[r->intervals++] = *x;
}

static bool prepare_sips(timing *t) {
    const size_t depth = (size_t)t->p.queue_depth, channels = (size_t)t->p.channels + 1, keys = (size_t)t->keys;
    const size_t each = 2 * depth * sizeof(int64_t) + keys * sizeof(slot_use) + channels * sizeof(channel_state) + 2 * depth * sizeof(int32_t);
    const size_t stride = (each + 7) / 8 * 8;
    uint8_t *const room = calloc((size_t)t->sips, stride);
    if (!room) return false;
    t->room = room;
    for (int32_t k = 0; k < t->sips; k++) {
        sip *const s = &t->sip[k];
        s->queue = (int64_t *)(void *)(room + (size_t)k * stride);
        s->use = (slot_use *)(void *)(s->queue + 2 * depth);
        s->channel = (channel_state *)(void *)(s->use + keys);
        s->queue_pc = (int32_t *)(void *)(s->channel + channels);
        for (size_t c = 0; c < channels; c++) s->channel[c].last = NOBODY;
        for (int b = 0; b < BUCKETS; b++) s->bucket[b] = NOBODY;
        s->flowing = NOBODY;
    }
    return true;
}

static void prepare_slots(timing *t) {
    const int32_t each = t->slots / (int32_t)t->p.clusters;
    for (int32_t k = 0; k < t->slots; k++) {
        const int32_t cluster = k / each;
        t->slot[k] = (slot){.cluster = cluster, .first = cluster * (int32_t)t->p.sips_per_cluster + k % each * t->block_threads, .block = NOBODY};
    }
    for (int32_t c = 0; c < t->p.clusters; c++) t->cluster[c].next_block = c;
}

timing *timing_create(const timing_parameters *p, int32_t blocks, int32_t block_threads, int32_t keys, int32_t pcs, const uint8_t *flags,
                      bool record_intervals) {
    if (blocks < 1 || block_threads < 1 || block_threads > p->sips_per_cluster || p->channels > MOST_CHANNELS ||
        p->clusters * p->sips_per_cluster > MOST_SIPS)
        return NULL;
    timing *const t = calloc(1, sizeof *t);
    if (!t) return NULL;
    t->p = *p;
    t->flags = flags;
    t->blocks = blocks;
    t->block_threads = block_threads;
    t->keys = keys;
    t->sips = (int32_t)(p->clusters * p->sips_per_cluster);
    t->slots = (int32_t)(p->clusters * (p->sips_per_cluster / block_threads));
    while (2 * (t->channel_mask + 1) <= p->channels) t->channel_mask = 2 * t->channel_mask + 1;
    t->record = record_intervals;
    t->poll_in = POLL_EVENTS;
    t->free_flow = NOBODY;
    t->next_done = FOREVER;
    t->sip = calloc((size_t)t->sips, sizeof *t->sip);
    t->slot = calloc((size_t)t->slots, sizeof *t->slot);
    t->cluster = calloc((size_t)p->clusters, sizeof *t->cluster);
    t->thread = calloc((size_t)blocks * (size_t)block_threads, sizeof *t->thread);
    t->run = calloc((size_t)t->sips, sizeof *t->run);
    timing_result *const r = &t->result;
    r->sips = t->sips;
    r->pcs = pcs;
    r->channels = (int32_t)p->channels + 1;
    r->sip = calloc((size_t)t->sips, sizeof *r->sip);
    r->pc = calloc((size_t)pcs, sizeof *r->pc);
    r->channel = calloc((size_t)t->sips * (size_t)r->channels, sizeof *r->channel);
    const bool good = shares_init(&t->shares, p);
    if (!good || !t->sip || !t->slot || !t->cluster || !t->thread || !t->run || !r->sip || !r->pc || !r->channel || !prepare_sips(t)) {
        timing_free(t);
        return NULL;
    }
    prepare_slots(t);
    blocks_start(t);
    return t;
}

void timing_free(timing *t) {
    if (!t) return;
    if (t->thread) {
        for (int64_t k = 0; k < (int64_t)t->blocks * t->block_threads; k++) free(t->thread[k].own);
    }
    shares_clear(&t->shares);
    void *const each[] = {t->sip, t->slot, t->cluster, t->thread, t->fed, t->run, t->flow, t->heap, t->active, t->done, t->left, t->rate, t->cycles,
                          t->room, t->result.sip, t->result.pc, t->result.channel, t->result.interval};
    for (size_t k = 0; k < sizeof each / sizeof *each; k++) free(each[k]);
    free(t);
}

void timing_poll(timing *t, int (*poll)(void *), void *data) {
    t->poll = poll;
    t->poll_data = data;
}

/* The SIP that has the thread now, or NULL. */
static sip *resident(const timing *t, int32_t thread) {
    for (int32_t k = 0; k < t->sips; k++) {
        if (t->sip[k].state != AT_REST && t->sip[k].thread == thread) return &t->sip[k];
    }
    return NULL;
}

/* Makes what is left of a thread's events its own, with room for `more`. */
static bool own(thread_events *x, int64_t from, int64_t more) {
    const int64_t left = x->count - from;
    if (x->own) memmove(x->own, x->own + from, (size_t)left * sizeof(tevent));
    tevent *const grown = realloc(x->own, (size_t)(left + more ? left + more : 1) * sizeof *grown);
    if (!grown) return false;
    if (!x->own) memcpy(grown, x->event + from, (size_t)left * sizeof(tevent));
    x->own = grown;
    x->event = grown;
    x->count = left;
    return true;
}

int timing_feed(timing *t, int32_t thread, const tevent *events, int64_t count) {
    thread_events *const x = &t->thread[thread];
    if (count <= 0 || x->ended) return t->status;
    sip *const s = resident(t, thread);
    const int64_t from = s ? s->at : 0;
    if (from == x->count) { /* nothing is left */
        free(x->own);
        *x = (thread_events){.event = events, .count = count};
        if (t->fed_count == t->fed_capacity) {
            const int32_t capacity = t->fed_capacity ? 2 * t->fed_capacity : 32;
            int32_t *const grown = realloc(t->fed, (size_t)capacity * sizeof *grown);
            if (!grown) return t->status = TIMING_NO_MEMORY;
            t->fed = grown;
            t->fed_capacity = capacity;
        }
        t->fed[t->fed_count++] = thread;
    } else {
        if (!own(x, from, count)) return t->status = TIMING_NO_MEMORY;
        memcpy(x->own + x->count, events, (size_t)count * sizeof *events);
        x->count += count;
    }
    if (s) {
        s->event = x->event;
        s->count = x->count;
        s->at = 0;
        if (s->state == AT_STARVED) {
            s->state = AT_RUN;
            t->starved--;
            t->run[t->run_count++] = sip_number(t, s);
        }
    }
    return t->status;
}

/* What is left of the events that lie with the caller. */
static void keep_events(timing *t) {
    for (int32_t k = 0; k < t->fed_count; k++) {
        thread_events *const x = &t->thread[t->fed[k]];
        sip *const s = resident(t, t->fed[k]);
        if (x->own || x->ended) continue;
        if (s && s->at == x->count) *x = (thread_events){0};
        else if (!own(x, s ? s->at : 0, 0)) t->status = TIMING_NO_MEMORY;
        if (s) {
            s->at = 0;
            s->event = x->event;
            s->count = x->count;
        }
    }
    t->fed_count = 0;
}

static void run_threads(timing *t) {
    while (t->run_count && t->status == TIMING_OK) {
        thread_run(t, &t->sip[t->run[--t->run_count]]);
        if (t->poll_in > 0) continue;
        t->poll_in = POLL_EVENTS;
        if (t->poll && t->poll(t->poll_data)) t->status = TIMING_STOPPED;
    }
}

/* How far time may go: a thread without events has done nothing after its clock. */
static int64_t limit(const timing *t) {
    int64_t out = FOREVER;
    for (int32_t k = 0; t->starved && k < t->sips; k++) {
        if (t->sip[k].state == AT_STARVED && t->sip[k].t < out) out = t->sip[k].t;
    }
    return out;
}

static void step(timing *t, int64_t when) {
    t->now = when;
    transfers_advance(t, when);
    run_threads(t);
    while (t->heap_count && t->heap[0].time <= when) {
        const appointment x = appointment_take(t);
        if (x.what >= 0) transfer_begin(t, x.what);
        else block_dispatch(t, &t->slot[-1 - x.what], when);
        run_threads(t);
    }
    transfers_share(t);
}

int timing_advance(timing *t) {
    run_threads(t);
    int64_t until = limit(t);
    int32_t starved = t->starved;
    while (t->status == TIMING_OK) {
        const int64_t first = t->heap_count ? t->heap[0].time : FOREVER, next = first < t->next_done ? first : t->next_done;
        if (next == FOREVER || next > until) break;
        step(t, next);
        if (t->starved != starved) {
            starved = t->starved;
            until = limit(t);
        }
    }
    keep_events(t);
    return t->status;
}

int timing_finish(timing *t) {
    if (timing_advance(t) != TIMING_OK) return t->status;
    if (t->blocks_ended < t->blocks) return TIMING_INCOMPLETE;
    timing_result *const r = &t->result;
    for (int32_t k = 0; k < t->sips; k++) {
        r->sip[k][SIP_TAIL] = r->cycles - t->sip[k].idle_since;
    }
    r->solves = t->shares.solves;
    return TIMING_OK;
}

const timing_result *timing_results(const timing *t) { return &t->result; }

int64_t timing_clock(const timing *t, int32_t thread) {
    const sip *const s = resident(t, thread);
    return s && s->state == AT_STARVED ? s->t - s->begun : -1;
}
