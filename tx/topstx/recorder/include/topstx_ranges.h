/* topstx_ranges.h - open ranges and the records they become (internal to topstx.h).
 *
 * An open range lies in the open table of its ring, in the shared mapping, so it outlives its process. The ranges of one
 * context (an asyncio task; 0: the thread itself) form a chain through `previous` (outer) and `following` (inner).
 * While a slot is taken, `next_free` holds the domain entry of its attr, by which a pop finds its range.
 * A push above open ranges that is not recorded takes a slot as well, hidden: no begin_tick, so that no reader sees it, and
 * its pop ends it instead of one of those.
 */
#ifndef TOPSTX_RANGES_H
#define TOPSTX_RANGES_H
#include "topstx_ring.h"
#include "topstx_switch.h"

typedef struct topstxi_value { /* a payload; tag 0: none */
    const void *data;
    uint32_t bytes;
    uint8_t tag; /* TOPSTX_MORE_* */
} topstxi_value;

typedef struct topstxi_handle { /* names one open range: ring, slot and, against reuse, its begin */
    topstxi_ring *ring;
    uint64_t begin_tick;
    uint32_t index; /* slot + 1; 0: nothing was opened */
    uint32_t epoch;
} topstxi_handle;

/* ---- contexts ----------------------------------------------------------------------------------------------------- */

/* Where the context `key` is in the table, or the free place where it belongs. */
static inline topstxi_context *topstxi_context_place(topstxi_ring *r, uint64_t key) {
    uint32_t mask = r->context_capacity - 1, i = (uint32_t)((key * 0x9E3779B97F4A7C15ull) >> 40) & mask;
    while (r->contexts[i].top && r->contexts[i].key != key) i = (i + 1) & mask;
    return &r->contexts[i];
}

static inline topstxi_context *topstxi_context_find(topstxi_ring *r, uint64_t key) {
    topstxi_context *c = r->context_capacity ? topstxi_context_place(r, key) : NULL;
    return c && c->top ? c : NULL;
}

static inline void topstxi_context_remove(topstxi_ring *r, topstxi_context *c) {
    uint32_t mask = r->context_capacity - 1, hole = (uint32_t)(c - r->contexts), i, home;
    for (i = (hole + 1) & mask; r->contexts[i].top; i = (i + 1) & mask) { /* close the gap that probing would stop at */
        home = (uint32_t)((r->contexts[i].key * 0x9E3779B97F4A7C15ull) >> 40) & mask;
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            r->contexts[hole] = r->contexts[i];
            hole = i;
        }
    }
    memset(&r->contexts[hole], 0, sizeof r->contexts[hole]);
    r->context_used--;
}

static inline int topstxi_context_reserve(topstxi_ring *r) {
    topstxi_context *old = r->contexts;
    uint32_t capacity = r->context_capacity, i;
    if ((r->context_used + 1) * 2 <= capacity) return 1;
    r->contexts = (topstxi_context *)calloc(capacity ? capacity * 2 : 16, sizeof *old);
    if (!r->contexts) {
        r->contexts = old;
        return r->context_used + 1 < capacity;
    }
    r->context_capacity = capacity ? capacity * 2 : 16;
    for (i = 0; i < capacity; i++)
        if (old[i].top) *topstxi_context_place(r, old[i].key) = old[i];
    free(old);
    return 1;
}

/* Make `key` the current context. Contexts without open ranges are not kept. */
TOPSTXI_SLOW void topstxi_switch_context(topstxi_ring *r, uint64_t raw, uint64_t key) {
    topstxi_context *c;
    r->raw = raw;
    if (key == r->context) return;
    if (r->top && topstxi_context_reserve(r)) {
        c = topstxi_context_place(r, r->context);
        c->key = r->context;
        c->top = r->top;
        c->depth = r->depth;
        r->context_used++;
    }
    r->context = key;
    r->top = r->depth = 0;
    c = topstxi_context_find(r, key);
    if (c) {
        r->top = c->top;
        r->depth = c->depth;
        topstxi_context_remove(r, c);
    }
    if (key && !r->first_context) r->first_context = key;
    if (!key || key == r->first_context) {
        r->task = 0;
    } else {
        uint64_t hash = key * 0x9E3779B97F4A7C15ull;
        r->task = (uint32_t)(hash >> 32) ? (uint32_t)(hash >> 32) : 1;
    }
}

/* ---- open and close ----------------------------------------------------------------------------------------------- */

/* Bytes of a payload that are kept: a text is not cut within a character. */
static inline uint32_t topstxi_value_bytes(const topstxi_value *value) {
    if (value->bytes <= TOPSTX_PAYLOAD_MAX) return value->bytes;
    return value->tag == TOPSTX_MORE_BYTES ? TOPSTX_PAYLOAD_MAX : topstxi_whole(value->data, TOPSTX_PAYLOAD_MAX);
}

/* A payload that doesn't fit into the slot goes to our own memory: it is lost on a kill, its first bytes are not. */
TOPSTXI_SLOW void topstxi_keep_payload(topstxi_ring *r, uint32_t index, const topstxi_value *value) {
    topstx_open *o = &r->open[index - 1];
    uint32_t bytes = topstxi_value_bytes(value), part = bytes > 14 ? 14 : bytes;
    o->payload[0] = value->tag;
    o->payload[1] = (uint8_t)part;
    memcpy(o->payload + 2, value->data, part);
    o->flags |= TOPSTX_FLAG_MORE;
    if (bytes <= 14) return;
    if (r->payload_capacity < r->open_capacity) {
        topstxi_payload **grown = (topstxi_payload **)realloc(r->payloads, r->open_capacity * sizeof *grown);
        if (!grown) {
            o->flags |= TOPSTX_FLAG_TRUNCATED;
            return;
        }
        memset(grown + r->payload_capacity, 0, (r->open_capacity - r->payload_capacity) * sizeof *grown);
        r->payloads = grown;
        r->payload_capacity = r->open_capacity;
    }
    free(r->payloads[index - 1]);
    r->payloads[index - 1] = (topstxi_payload *)malloc(sizeof(topstxi_payload) + bytes);
    if (!r->payloads[index - 1]) {
        o->flags |= TOPSTX_FLAG_TRUNCATED;
        return;
    }
    r->payloads[index - 1]->tag = value->tag;
    r->payloads[index - 1]->bytes = bytes;
    memcpy(r->payloads[index - 1]->data, value->data, bytes);
    if (bytes < value->bytes) o->flags |= TOPSTX_FLAG_TRUNCATED;
}

/* No free slot: continue in a ring with a table twice as large. */
TOPSTXI_SLOW int topstxi_more_open(topstxi_ring *r) {
    if (topstxi_try_now(&r->patience)) {
        if (topstxi_ring_grow(r, r->mask + 1, (uint64_t)r->open_capacity * 2)) return 1;
        r->patience = TOPSTXI_PATIENCE;
    }
    return 0;
}

/* Put a slot on top of the current context's chain. */
static inline void topstxi_link(topstxi_ring *r, topstx_open *o, uint32_t index) {
    o->previous = r->top;
    o->following = 0;
    if (r->top) r->open[r->top - 1].following = index;
    r->top = index;
    r->open_count++;
}

/* Open a range in the ring's current context. Returns its index (slot + 1), 0 when there is no room. */
static inline uint32_t topstxi_open(topstxi_ring *r, uint32_t name, uint32_t attr, uint32_t domain, uint32_t flags) {
    uint32_t index = r->free_head;
    topstx_open *o;
    if (TOPSTXI_UNLIKELY(!index)) {
        if (!topstxi_more_open(r)) {
            topstxi_count(&r->header->dropped);
            if (flags & TOPSTX_FLAG_PUSHED) r->unplaced++;
            return 0;
        }
        index = r->free_head;
    }
    o = &r->open[index - 1];
    r->free_head = o->next_free;
    o->context = r->context;
    o->name = name;
    o->attr = attr;
    o->tid = r->tid;
    o->task = r->task;
    o->depth = (uint16_t)(r->depth < 65535 ? r->depth : 65535);
    o->kind = TOPSTX_KIND_RANGE;
    o->flags = (uint8_t)flags;
    o->next_free = domain;
    o->payload[0] = 0;
    topstxi_link(r, o, index);
    r->depth++;
    __atomic_store_n(&o->begin_tick, topstxi_now(), __ATOMIC_RELEASE);
    return index;
}

/* A push in a domain that is not recorded while ranges are open in this ring: its pop must not end one of them. */
TOPSTXI_SLOW void topstxi_hide(topstxi_ring *r, uint32_t domain) {
    uint32_t index;
    topstx_open *o;
    if (!r->free_head && !topstxi_more_open(r)) {
        r->unplaced++;
        return;
    }
    index = r->free_head;
    o = &r->open[index - 1];
    r->free_head = o->next_free;
    o->context = r->context;
    o->flags = TOPSTX_FLAG_PUSHED | TOPSTX_FLAG_HIDDEN;
    o->next_free = domain;
    topstxi_link(r, o, index);
    r->hidden++;
}

/* Take the range out of its chain, and out of its context's depth. */
static inline void topstxi_unlink(topstxi_ring *r, topstx_open *o, uint32_t index) {
    uint32_t depth = !(o->flags & TOPSTX_FLAG_HIDDEN);
    topstxi_context *c;
    if (o->previous) r->open[o->previous - 1].following = o->following;
    if (o->following) r->open[o->following - 1].previous = o->previous;
    if (TOPSTXI_LIKELY(o->context == r->context)) {
        if (r->top == index) r->top = o->previous;
        r->depth -= depth;
    } else if (o->context == TOPSTXI_ORPHAN) {
        return; /* its thread ended; it counts no more */
    } else if ((c = topstxi_context_find(r, o->context))) {
        c->depth -= depth;
        if (c->top == index) c->top = o->previous;
        if (!c->top) {
            c->top = index; /* its place is found by it */
            topstxi_context_remove(r, c);
        }
    }
    r->open_count--;
}

static inline void topstxi_free_slot(topstxi_ring *r, uint32_t index) {
    topstx_open *o = &r->open[index - 1];
    o->next_free = r->free_head;
    __atomic_store_n(&o->begin_tick, 0, __ATOMIC_RELEASE);
    r->free_head = index;
}

/* Append `tag`, length and bytes to a MORE buffer. */
static inline uint32_t topstxi_more_item(uint8_t *to, uint32_t at, uint32_t tag, const void *data, uint32_t bytes) {
    uint16_t length = (uint16_t)bytes;
    to[at] = (uint8_t)tag;
    memcpy(to + at + 1, &length, 2);
    memcpy(to + at + 3, data, bytes);
    return at + 3 + bytes;
}

#define TOPSTXI_MORE_MAX (TOPSTX_PAYLOAD_MAX + 3 + 7 + 259)

/* The end of a range with payload, error or capture. The record goes to `to`, its own ring or the shared one. */
TOPSTXI_SLOW void topstxi_close_slow(topstxi_ring *r, topstxi_ring *to, uint32_t index, uint64_t end, const char *error, uint32_t end_tid) {
    topstx_open o = r->open[index - 1];
    topstxi_payload *long_payload = index <= r->payload_capacity ? r->payloads[index - 1] : NULL;
    uint8_t more[TOPSTXI_MORE_MAX];
    uint32_t bytes = 0, epoch = r->epoch;
    topstx_record record;
    memset(&record, 0, sizeof record);
    if (o.flags & TOPSTX_FLAG_MORE) {
        if (long_payload) {
            bytes = topstxi_more_item(more, bytes, long_payload->tag, long_payload->data, long_payload->bytes);
        } else { /* all of it, or, without memory for more, its begin */
            int cut = o.flags & TOPSTX_FLAG_TRUNCATED && o.payload[0] != TOPSTX_MORE_BYTES;
            bytes = topstxi_more_item(more, bytes, o.payload[0], o.payload + 2, cut ? topstxi_whole(o.payload + 2, o.payload[1]) : o.payload[1]);
        }
    }
    if (error) {
        bytes = topstxi_more_item(more, bytes, TOPSTX_MORE_ERROR, error, topstxi_fit(error, strlen(error), 255));
        o.flags |= TOPSTX_FLAG_ERROR;
    }
    if (end_tid) bytes = topstxi_more_item(more, bytes, TOPSTX_MORE_END_TID, &end_tid, 4);
    record.begin_tick = o.begin_tick;
    record.end_tick = end;
    record.name = o.name;
    record.task = o.task;
    record.attr = o.attr;
    record.depth = o.depth;
    record.kind = o.kind;
    record.flags = (uint8_t)(o.flags & ~(TOPSTX_FLAG_CAPTURE | TOPSTX_FLAG_PUSHED | TOPSTX_FLAG_MORE));
    if (to) topstxi_put_more(to, &record, more, bytes);
    if (r->epoch != epoch || epoch != topstxi_state.epoch) return; /* the session was left while we waited for room */
    if (long_payload) {
        free(long_payload);
        r->payloads[index - 1] = NULL;
    }
    topstxi_free_slot(r, index);
    if (o.flags & TOPSTX_FLAG_CAPTURE) topstxi_capture_end();
}

/* The pop of a hidden push. */
TOPSTXI_SLOW void topstxi_reveal(topstxi_ring *r, uint32_t index) {
    r->open[index - 1].flags = 0;
    r->hidden--;
    topstxi_free_slot(r, index);
}

/* End a range of this thread's ring. `error`: type name of the exception that left it, or NULL. */
static inline void topstxi_close(topstxi_ring *r, uint32_t index, uint64_t end, const char *error) {
    topstx_open *o = &r->open[index - 1];
    topstxi_unlink(r, o, index);
    if (TOPSTXI_UNLIKELY(o->flags & TOPSTX_FLAG_HIDDEN)) {
        topstxi_reveal(r, index);
        return;
    }
    r->header->last_tick = end;
    if (TOPSTXI_UNLIKELY((o->flags & ~TOPSTX_FLAG_PUSHED) || error)) {
        topstxi_close_slow(r, r, index, end, error, 0);
        return;
    }
    topstxi_put(r, o->begin_tick, end, o->name, o->task, o->attr, o->depth, TOPSTX_KIND_RANGE, 0);
    if (TOPSTXI_LIKELY(r->epoch == topstxi_state.epoch)) topstxi_free_slot(r, index);
}

/* End the innermost pushed range of a domain in the current context, else outside any context. */
TOPSTXI_SLOW void topstxi_pop_slow(topstxi_ring *r, uint32_t domain, uint64_t end) {
    topstxi_context *outside = r->context ? topstxi_context_find(r, 0) : NULL;
    uint32_t chain, at;
    for (chain = r->top; chain != 0xFFFFFFFFu; chain = outside ? outside->top : 0xFFFFFFFFu, outside = NULL)
        for (at = chain; at; at = r->open[at - 1].previous)
            if ((r->open[at - 1].flags & TOPSTX_FLAG_PUSHED) && r->open[at - 1].next_free == domain) {
                topstxi_close(r, at, end, NULL);
                return;
            }
    if (topstxi_recording() == TOPSTX_RECORDING_ON) r->header->unbalanced++;
}

static inline void topstxi_pop(topstxi_ring *r, uint32_t domain) {
    uint64_t end = topstxi_now();
    uint32_t index = r->top;
    if (TOPSTXI_UNLIKELY(r->unplaced)) {
        r->unplaced--;
        return;
    }
    if (TOPSTXI_LIKELY(index) && TOPSTXI_LIKELY(r->open[index - 1].flags & TOPSTX_FLAG_PUSHED) &&
        TOPSTXI_LIKELY(r->open[index - 1].next_free == domain))
        topstxi_close(r, index, end, NULL);
    else
        topstxi_pop_slow(r, domain, end);
}

/* ---- records that are no ranges of a thread ----------------------------------------------------------------------- */

TOPSTXI_SLOW void topstxi_put_value(topstxi_ring *r, const topstx_record *record, const topstxi_value *value) {
    uint8_t more[TOPSTXI_MORE_MAX];
    topstx_record copy = *record;
    uint32_t bytes = topstxi_value_bytes(value);
    if (bytes < value->bytes) copy.flags |= TOPSTX_FLAG_TRUNCATED;
    topstxi_put_more(r, &copy, more, topstxi_more_item(more, 0, value->tag, value->data, bytes));
}

static inline void topstxi_mark(topstxi_ring *r, uint32_t name, uint32_t attr, const topstxi_value *value) {
    uint64_t now = topstxi_now();
    if (TOPSTXI_UNLIKELY(value && value->tag)) {
        topstx_record record = {now, now, name, r->task, attr, (uint16_t)r->depth, TOPSTX_KIND_MARK, 0};
        topstxi_put_value(r, &record, value);
    } else {
        topstxi_put(r, now, now, name, r->task, attr, r->depth, TOPSTX_KIND_MARK, 0);
    }
}

static inline void topstxi_sample(topstxi_ring *r, uint32_t counter, double value) {
    uint64_t bits;
    memcpy(&bits, &value, 8);
    topstxi_put(r, topstxi_now(), bits, counter, r->task, 0, 0, TOPSTX_KIND_COUNTER, 0);
}

/* ---- start/end: ranges of the process ------------------------------------------------------------------------------ */

/* The shared ring, made at its first use; shared_lock is held. */
static inline topstxi_ring *topstxi_shared_ring(void) {
    topstxi_process *p = &topstxi_state;
    if (p->forked) topstxi_reincarnate();
    if (!p->shared || p->shared->epoch != p->epoch) {
        if (!p->control) return NULL;
        p->shared = topstxi_ring_obtain(1);
        if (!p->shared) topstxi_count_lost(0);
    }
    return p->shared;
}

/* Room in the shared ring for the record of an open range of `r`, under the thread that began it. 0: there is none (counted). */
TOPSTXI_SLOW int topstxi_shared_ready(topstxi_ring *to, topstxi_ring *r, uint32_t index) {
    uint32_t tid = r->open[index - 1].tid;
    uint64_t bytes = index <= r->payload_capacity && r->payloads[index - 1] ? r->payloads[index - 1]->bytes : 14;
    uint64_t slots = 2 + (bytes + TOPSTXI_MORE_MAX - TOPSTX_PAYLOAD_MAX + 29) / 30;
    if (to->head + slots > to->limit && !topstxi_room(to, slots)) return 0;
    if (to->tid != tid) topstxi_put_thread(to, TOPSTX_KIND_THREAD, tid);
    return 1;
}

/* Begin a range that any thread may end. Returns its handle, 0 when nothing was recorded. */
TOPSTXI_SLOW uint64_t topstxi_start(uint32_t name, uint32_t attr, const topstxi_value *value, uint32_t task, uint32_t flags) {
    topstxi_process *p = &topstxi_state;
    uint32_t tid = topstxi_my_tid(), index = 0;
    uint64_t handle = 0;
    topstxi_ring *r;
    pthread_mutex_lock(&p->shared_lock);
    r = topstxi_shared_ring();
    if (r && (r->free_head || topstxi_more_open(r))) {
        topstx_open *o;
        index = r->free_head;
        o = &r->open[index - 1];
        r->free_head = o->next_free;
        handle = ((++p->start_count & 0xFFFFFFFFFFull) << 23) | index;
        o->context = handle;
        o->name = name;
        o->attr = attr;
        o->tid = tid;
        o->task = task;
        o->depth = 0;
        o->kind = TOPSTX_KIND_RANGE;
        o->flags = (uint8_t)(TOPSTX_FLAG_START_END | flags);
        o->next_free = o->previous = o->following = 0;
        o->payload[0] = 0;
        if (value && value->tag) topstxi_keep_payload(r, index, value);
        __atomic_store_n(&o->begin_tick, topstxi_now(), __ATOMIC_RELEASE);
    }
    if (r && !handle) topstxi_count(&r->header->dropped);
    pthread_mutex_unlock(&p->shared_lock);
    return handle;
}

TOPSTXI_SLOW void topstxi_end(uint64_t handle) {
    topstxi_process *p = &topstxi_state;
    uint32_t index = (uint32_t)(handle & 0x7FFFFF), tid = topstxi_my_tid();
    uint64_t end = topstxi_now();
    topstxi_ring *r;
    int bad = 0;
    pthread_mutex_lock(&p->shared_lock);
    r = p->shared;
    if (r && r->epoch == p->epoch && index && index <= r->open_capacity && r->open[index - 1].begin_tick &&
        r->open[index - 1].context == handle) {
        uint32_t begun_by = r->open[index - 1].tid;
        int room;
        r->open[index - 1].context = 0; /* a second end of it, while this one waits for room, finds nothing */
        r->header->last_tick = end;
        room = topstxi_shared_ready(r, r, index);
        if (r->epoch == p->epoch) topstxi_close_slow(r, room ? r : NULL, index, end, NULL, tid == begun_by ? 0 : tid);
    } else if (topstxi_recording() == TOPSTX_RECORDING_ON && (handle >> 23 > p->foreign_starts || !(handle >> 23))) {
        if (r && r->epoch == p->epoch) r->header->unbalanced++;
        else bad = 1;
    }
    pthread_mutex_unlock(&p->shared_lock);
    if (bad) topstxi_count_bad(1);
}

/* End a range by its handle, in whatever thread: in another one than it began in the record goes to the shared ring. */
TOPSTXI_SLOW void topstxi_close_foreign(topstxi_ring *r, uint32_t index, const char *error) {
    topstxi_process *p = &topstxi_state;
    uint64_t end = topstxi_now();
    topstxi_ring *to;
    pthread_mutex_lock(&p->lock); /* its thread may be ending */
    topstxi_unlink(r, &r->open[index - 1], index);
    pthread_mutex_unlock(&p->lock);
    pthread_mutex_lock(&p->shared_lock);
    to = topstxi_shared_ring();
    if (to && !topstxi_shared_ready(to, r, index)) to = NULL;
    if (r->epoch == p->epoch) topstxi_close_slow(r, to, index, end, error, topstxi_my_tid());
    pthread_mutex_unlock(&p->shared_lock);
}

static inline void topstxi_close_handle(const topstxi_handle *h, const char *error) {
    topstxi_ring *r = h->ring;
    if (TOPSTXI_UNLIKELY(!h->index) || TOPSTXI_UNLIKELY(h->epoch != topstxi_state.epoch)) return;
    if (TOPSTXI_UNLIKELY(r->open[h->index - 1].begin_tick != h->begin_tick)) return; /* already ended */
    if (TOPSTXI_LIKELY(r == topstxi_mine) && TOPSTXI_LIKELY(r->open[h->index - 1].tid == r->tid))
        topstxi_close(r, h->index, topstxi_now(), error);
    else
        topstxi_close_foreign(r, h->index, error);
}
#endif /* TOPSTX_RANGES_H */
