/* topstx_ring.h - rings: how they begin, grow, wait for room, take records, and pass from thread to thread (internal to topstx.h).
 *
 * A ring has one producer at a time. It starts small; when it is full and may grow, a bigger file takes its place (the open
 * ranges move along) and the old one is left for the consumer to drain and delete.
 */
#ifndef TOPSTX_RING_H
#define TOPSTX_RING_H
#include "topstx_names.h"

#ifndef TOPSTX_WAIT_BEGIN /* what to do around a sleep: the C extension lets go of the GIL */
#define TOPSTX_WAIT_BEGIN() do {} while (0)
#define TOPSTX_WAIT_END() do {} while (0)
#endif

#define TOPSTXI_MIN_RECORDS 1024u /* so that the longest payload fits (PAYLOAD_MAX / 30 slots) */
#define TOPSTXI_MIN_OPEN 64u
#define TOPSTXI_LEASH_NS 1000000000u /* a collector silent for longer is taken for dead */

TOPSTXI_SLOW void topstxi_set_state(topstxi_ring *r, uint32_t state) {
    __atomic_store_n(&r->header->state, state, __ATOMIC_RELEASE);
}

/* Would `bytes` more fit the process's budget? Superseded files that the consumer has deleted meanwhile no longer count. */
TOPSTXI_SLOW int topstxi_budget(uint64_t bytes) {
    topstxi_process *p = &topstxi_state;
    topstxi_old_ring **at = &p->old_rings, *old;
    char path[3200];
    if (p->ring_bytes + bytes <= p->control->process_max_bytes) return 1;
    while ((old = *at)) {
        topstxi_ring_path(path, sizeof path, old->serial);
        if (access(path, F_OK) == 0) {
            at = &old->next;
            continue;
        }
        p->ring_bytes -= old->bytes;
        *at = old->next;
        free(old);
    }
    return p->ring_bytes + bytes <= p->control->process_max_bytes;
}

/* Make a ring file of its own for `r`, state BUILDING, and fill in the geometry; p->lock is held. 0: it can't be had. */
TOPSTXI_SLOW int topstxi_ring_create(topstxi_ring *r, uint64_t records, uint64_t open_slots, uint64_t predecessor) {
    topstxi_process *p = &topstxi_state;
    uint64_t bytes = TOPSTX_PAGE + open_slots * sizeof(topstx_open) + records * sizeof(topstx_record), i;
    char path[3200], *map;
    bytes = (bytes + TOPSTX_PAGE - 1) & ~(uint64_t)(TOPSTX_PAGE - 1);
    if (!topstxi_budget(bytes)) return 0;
    topstxi_ring_path(path, sizeof path, p->next_ring + 1);
    map = (char *)topstxi_map_file(path, bytes, 1);
    if (!map) return 0;
    r->serial = ++p->next_ring;
    r->bytes = bytes;
    p->ring_bytes += bytes;
    r->header = (topstx_ring_header *)map;
    r->open = (topstx_open *)(map + TOPSTX_PAGE);
    r->records = (topstx_record *)(map + TOPSTX_PAGE + open_slots * sizeof(topstx_open));
    r->mask = records - 1;
    r->head = 0;
    r->limit = records;
    r->open_capacity = (uint32_t)open_slots;
    r->free_head = 0;
    for (i = open_slots; i > 0; i--) {
        r->open[i - 1].next_free = r->free_head;
        r->free_head = (uint32_t)i;
    }
    r->header->layout_version = TOPSTX_LAYOUT_VERSION;
    r->header->clock = p->clock;
    r->header->process_serial = p->serial;
    r->header->ring_serial = r->serial;
    r->header->predecessor = predecessor;
    r->header->pid = (uint32_t)getpid();
    r->header->shared = r->shared;
    r->header->open_offset = TOPSTX_PAGE;
    r->header->open_capacity = open_slots;
    r->header->record_offset = TOPSTX_PAGE + open_slots * sizeof(topstx_open);
    r->header->record_capacity = records;
    r->header->file_bytes = bytes;
    r->header->tid = r->tid;
    memcpy(r->header->magic, TOPSTX_RING_MAGIC, 8);
    return 1;
}

/* The first record of a ring says whose it is. Only for a ring that is known to have room. */
static inline void topstxi_put_thread(topstxi_ring *r, uint32_t kind, uint32_t tid) {
    topstx_record *record = &r->records[r->head & r->mask];
    memset(record, 0, sizeof *record);
    record->begin_tick = record->end_tick = topstxi_now();
    record->task = tid;
    record->kind = (uint8_t)kind;
    r->tid = tid;
    __atomic_store_n(&r->header->head, ++r->head, __ATOMIC_RELEASE);
}

/* Continue in a bigger file. 0: it can't be had, the ring stays as it is. */
TOPSTXI_SLOW int topstxi_ring_grow(topstxi_ring *r, uint64_t records, uint64_t open_slots) {
    topstxi_process *p = &topstxi_state;
    topstxi_ring fresh;
    topstxi_old_ring *old = (topstxi_old_ring *)malloc(sizeof *old);
    uint32_t i, capacity = r->open_capacity;
    if (!old) return 0;
    memset(&fresh, 0, sizeof fresh);
    fresh.shared = r->shared;
    fresh.tid = r->tid;
    pthread_mutex_lock(&p->lock);
    if (r->epoch != p->epoch || !topstxi_ring_create(&fresh, records, open_slots, r->serial)) {
        pthread_mutex_unlock(&p->lock);
        free(old);
        return 0;
    }
    memcpy(fresh.open, r->open, (size_t)capacity * sizeof(topstx_open));
    /* The free list: new slots first, ending in what was free before. */
    if (open_slots > capacity) {
        for (i = capacity; i < open_slots - 1; i++) fresh.open[i].next_free = i + 2;
        fresh.open[open_slots - 1].next_free = r->free_head;
        fresh.free_head = capacity + 1;
    } else {
        fresh.free_head = r->free_head;
    }
    topstxi_put_thread(&fresh, TOPSTX_KIND_THREAD, r->tid);
    topstxi_set_state(&fresh, TOPSTX_RING_LIVE);
    topstxi_set_state(r, TOPSTX_RING_SUPERSEDED);
    munmap(r->header, r->bytes);
    old->serial = r->serial;
    old->bytes = r->bytes;
    old->next = p->old_rings;
    p->old_rings = old;
    r->header = fresh.header;
    r->open = fresh.open;
    r->records = fresh.records;
    r->mask = fresh.mask;
    r->head = fresh.head;
    r->limit = fresh.limit;
    r->free_head = fresh.free_head;
    r->open_capacity = fresh.open_capacity;
    r->serial = fresh.serial;
    r->bytes = fresh.bytes;
    pthread_mutex_unlock(&p->lock);
    return 1;
}

/* Sleep until `slots` are free, the collector is lost, or recording stopped. Returns whether there is room. */
TOPSTXI_SLOW int topstxi_wait(topstxi_ring *r, uint64_t slots) {
    topstxi_process *p = &topstxi_state;
    uint32_t epoch = r->epoch;
    uint64_t began = topstxi_monotonic(), now = began, heartbeat, begin_tick = topstxi_now();
    struct timespec pause = {0, 50000};
    int room = 0;
    while (!room && epoch == p->epoch && r->epoch == epoch && __atomic_load_n(&p->control->policy, __ATOMIC_RELAXED) == TOPSTX_POLICY_BLOCK) {
        heartbeat = __atomic_load_n(&p->control->heartbeat_ns, __ATOMIC_RELAXED);
        if (heartbeat == p->dead_heartbeat && heartbeat) break;
        now = topstxi_monotonic();
        if (now > (heartbeat > began ? heartbeat : began) + TOPSTXI_LEASH_NS) {
            p->dead_heartbeat = heartbeat ? heartbeat : 1; /* the next full ring doesn't wait for it again */
            break;
        }
        if (!heartbeat && p->dead_heartbeat == 1) break;
        if (r->shared) pthread_mutex_unlock(&p->shared_lock);
        {
            TOPSTX_WAIT_BEGIN();
            nanosleep(&pause, NULL);
            TOPSTX_WAIT_END();
        }
        if (r->shared) pthread_mutex_lock(&p->shared_lock);
        if (epoch != p->epoch || r->epoch != epoch) return 0;
        if (pause.tv_nsec < 1000000) pause.tv_nsec *= 2;
        r->limit = __atomic_load_n(&r->header->tail, __ATOMIC_ACQUIRE) + r->mask + 1;
        room = r->head + slots <= r->limit;
    }
    if (r->epoch != epoch || epoch != p->epoch) return 0;
    now = topstxi_monotonic();
    if (now - began < 1000) return room; /* it did not wait at all */
    r->header->blocked_ns += now - began;
    if (room && r->head + slots < r->limit) {
        topstx_record *record = &r->records[r->head & r->mask];
        memset(record, 0, sizeof *record);
        record->begin_tick = begin_tick;
        record->end_tick = topstxi_now();
        record->name = p->wait_name;
        record->kind = TOPSTX_KIND_OVERHEAD;
        __atomic_store_n(&r->header->head, ++r->head, __ATOMIC_RELEASE);
    }
    return room;
}

static inline int topstxi_try_now(uint32_t *patience) {
    if (!*patience) return 1;
    --*patience;
    return 0;
}

/* Make room for `slots`: look at the tail, grow, or wait. 0: the record is lost, and counted here. */
TOPSTXI_SLOW int topstxi_room(topstxi_ring *r, uint64_t slots) {
    topstxi_process *p = &topstxi_state;
    uint64_t capacity = r->mask + 1, most, next;
    if (r->epoch != p->epoch) return 0;
    r->limit = __atomic_load_n(&r->header->tail, __ATOMIC_ACQUIRE) + capacity;
    if (r->head + slots <= r->limit) return 1;
    for (most = TOPSTXI_MIN_RECORDS; most * 2 <= p->control->ring_max_records; most *= 2) {
    }
    next = capacity * 4 > most ? most : capacity * 4;
    if (next > capacity && topstxi_try_now(&r->patience)) {
        for (; next > capacity; next /= 2)
            if (topstxi_ring_grow(r, next, r->open_capacity)) return 1;
        r->patience = TOPSTXI_PATIENCE;
    }
    if (!topstxi_hurry && topstxi_wait(r, slots)) return 1;
    if (r->epoch == p->epoch) topstxi_count(&r->header->dropped);
    return 0;
}

/* Append one plain record. */
static inline void topstxi_put(topstxi_ring *r, uint64_t begin, uint64_t end, uint32_t name, uint32_t task, uint32_t attr,
                               uint32_t depth, uint32_t kind, uint32_t flags) {
    topstx_record *record;
    if (TOPSTXI_UNLIKELY(r->head >= r->limit) && !topstxi_room(r, 1)) return;
    record = &r->records[r->head & r->mask];
    record->begin_tick = begin;
    record->end_tick = end;
    record->name = name;
    record->task = task;
    record->attr = attr;
    record->depth = (uint16_t)depth;
    record->kind = (uint8_t)kind;
    record->flags = (uint8_t)flags;
    r->head++;
    __atomic_store_n(&r->header->head, r->head, __ATOMIC_RELEASE);
}

/* Append a record and the bytes that belong to it, published together. */
TOPSTXI_SLOW void topstxi_put_more(topstxi_ring *r, const topstx_record *first, const uint8_t *data, uint32_t bytes) {
    uint64_t slots = 1 + (bytes + 29) / 30, i;
    if (r->head + slots > r->limit && !topstxi_room(r, slots)) return;
    r->records[r->head & r->mask] = *first;
    if (bytes) r->records[r->head & r->mask].flags |= TOPSTX_FLAG_MORE;
    for (i = 1; i < slots; i++) {
        topstx_more *more = (topstx_more *)&r->records[(r->head + i) & r->mask];
        uint32_t part = bytes > 30 ? 30 : bytes;
        memcpy(more->data, data, part);
        more->kind = TOPSTX_KIND_MORE;
        more->used = (uint8_t)(part | (bytes > 30 ? 0x80u : 0u));
        data += part;
        bytes -= part;
    }
    r->head += slots;
    __atomic_store_n(&r->header->head, r->head, __ATOMIC_RELEASE);
}

/* Free the hidden slots that the thread before left. Not at its end, when a range of it may be ending elsewhere. */
TOPSTXI_SLOW void topstxi_ring_free_hidden(topstxi_ring *r) {
    uint32_t i;
    for (i = 0; r->hidden && i < r->open_capacity; i++) {
        topstx_open *o = &r->open[i];
        if (!(o->flags & TOPSTX_FLAG_HIDDEN)) continue;
        if (o->previous) r->open[o->previous - 1].following = o->following;
        if (o->following) r->open[o->following - 1].previous = o->previous;
        o->flags = 0;
        o->next_free = r->free_head;
        r->free_head = i + 1;
        r->hidden--;
    }
}

/* A ring for this thread (or the shared one): from the pool, else new. NULL: none can be had. */
TOPSTXI_SLOW topstxi_ring *topstxi_ring_obtain(uint32_t shared) {
    topstxi_process *p = &topstxi_state;
    topstxi_ring *r = NULL;
    uint32_t tid = topstxi_tid();
    pthread_mutex_lock(&p->lock);
    if (!p->control) goto done;
    if (!shared && (r = p->pool)) {
        p->pool = r->next_pooled;
        r->next_pooled = NULL;
        r->pooled = 0;
        topstxi_ring_free_hidden(r);
        r->header->tid = tid;
        topstxi_set_state(r, TOPSTX_RING_LIVE);
        r->limit = __atomic_load_n(&r->header->tail, __ATOMIC_ACQUIRE) + r->mask + 1;
    } else if ((r = (topstxi_ring *)calloc(1, sizeof *r))) {
        uint64_t records = TOPSTXI_MIN_RECORDS, bytes = p->control->ring_initial_bytes, open_slots;
        while (TOPSTX_PAGE + TOPSTXI_MIN_OPEN * sizeof(topstx_open) + records * 2 * sizeof(topstx_record) <= bytes &&
               records * 2 <= p->control->ring_max_records)
            records *= 2;
        open_slots = TOPSTXI_MIN_OPEN;
        if (TOPSTX_PAGE + open_slots * sizeof(topstx_open) + records * sizeof(topstx_record) < bytes)
            open_slots = (bytes - TOPSTX_PAGE - records * sizeof(topstx_record)) / sizeof(topstx_open);
        r->shared = shared;
        r->tid = tid;
        r->epoch = p->epoch;
        if (topstxi_ring_create(r, records, open_slots, 0)) {
            topstxi_set_state(r, TOPSTX_RING_LIVE);
            r->next = p->rings;
            p->rings = r;
        } else {
            free(r);
            r = NULL;
        }
    }
done:
    pthread_mutex_unlock(&p->lock);
    if (!r) return NULL;
    if (r->head < r->limit || topstxi_room(r, 1)) topstxi_put_thread(r, TOPSTX_KIND_THREAD, tid);
    r->tid = tid;
    return r;
}

/* Forget what belongs to the thread that had the ring; its open ranges stay in the table, as unfinished. */
TOPSTXI_SLOW void topstxi_ring_forget_thread(topstxi_ring *r) {
    uint32_t i;
    for (i = 0; r->open_count && i < r->open_capacity; i++) /* no later context is theirs */
        if (r->open[i].begin_tick || (r->open[i].flags & TOPSTX_FLAG_HIDDEN)) r->open[i].context = TOPSTXI_ORPHAN;
    free(r->contexts);
    r->contexts = NULL;
    r->context_capacity = r->context_used = 0;
    r->raw = r->context = r->first_context = 0;
    r->task = r->top = r->depth = r->open_count = r->unplaced = 0;
}

/* The end of a thread: its ring returns to the pool. Runs without any lock of the language. */
TOPSTXI_SLOW void topstxi_thread_end(void *ring) {
    topstxi_process *p = &topstxi_state;
    topstxi_ring *r = (topstxi_ring *)ring;
    topstxi_mine = NULL;
    pthread_mutex_lock(&p->lock);
    if (r->epoch == p->epoch && p->control && !r->pooled) {
        r->limit = __atomic_load_n(&r->header->tail, __ATOMIC_ACQUIRE) + r->mask + 1;
        if (r->head < r->limit) topstxi_put_thread(r, TOPSTX_KIND_THREAD_END, r->tid);
        topstxi_ring_forget_thread(r);
        topstxi_set_state(r, TOPSTX_RING_IDLE);
        r->pooled = 1;
        r->next_pooled = p->pool;
        p->pool = r;
    }
    pthread_mutex_unlock(&p->lock);
}

/* This thread's ring; NULL: recording is lost for now (counted). */
TOPSTXI_SLOW topstxi_ring *topstxi_ring_acquire(void) {
    topstxi_process *p = &topstxi_state;
    topstxi_ring *r = topstxi_mine;
    if (p->forked) topstxi_reincarnate();
    if (r && r->epoch == p->epoch) return r;
    topstxi_mine = NULL;
    if (!p->control || !p->names) return NULL;
    if ((topstxi_lost & 255) == 0) r = topstxi_ring_obtain(0); /* after a failure, try again now and then */
    else r = NULL;
    if (!r) {
        topstxi_count_lost(!topstxi_lost);
        topstxi_lost++;
        return NULL;
    }
    topstxi_lost = 0;
    topstxi_mine = r;
    pthread_setspecific(p->key, r);
    return r;
}

static inline topstxi_ring *topstxi_ring_mine(void) {
    topstxi_ring *r = topstxi_mine;
    if (TOPSTXI_LIKELY(r != NULL) && TOPSTXI_LIKELY(r->epoch == topstxi_state.epoch)) return r;
    return topstxi_ring_acquire();
}
#endif /* TOPSTX_RING_H */
