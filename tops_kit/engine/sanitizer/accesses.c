#include "accesses.h"
#include <stdlib.h>
#include <string.h>

enum { WORDS = SPOT_CHUNK / 64, MAX_ACCESSES = 1 << 20, MAX_CHUNKS = 1 << 18 };

static int64_t chunk_bytes(const shared_access *x) { return (int64_t)SPOT_CHUNK << x->shift; }

/* Where the chunk begins that holds x's elements. */
static int64_t chunk_start(const shared_access *x) { return x->where.start & -chunk_bytes(x); }

static bool same_lifetime(const shared_access *x, const shared_access *y) {
    return x->block.issued == y->block.issued && x->block.complete == y->block.complete && x->grid.issued == y->grid.issued &&
           x->grid.complete == y->grid.complete;
}

/* Whether the two are of one instruction and thread, and of one chunk where they are spots. */
static bool same_source(const shared_access *x, const shared_access *y) {
    return x->pc == y->pc && x->thread == y->thread && x->access == y->access && x->where.region == y->where.region &&
           x->shift == y->shift && (!x->spots || chunk_start(x) == chunk_start(y));
}

static uint64_t hashed(const shared_access *x, bool spot) {
    uint64_t h = (uint64_t)(uint32_t)x->pc << 32 ^ (uint32_t)x->thread;
    h = (h ^ (uint64_t)x->access << 40) * 0x9E3779B97F4A7C15u;
    if (spot) h = (h ^ (uint64_t)chunk_start(x)) * 0xC2B2AE3D27D4EB4Fu;
    return h ^ h >> 29;
}

/* The bucket of x's like: of the latest one, or a free one. */
static int32_t *find(access_log *log, const shared_access *x, bool spot) {
    const uint64_t mask = (uint64_t)log->buckets - 1;
    for (uint64_t at = hashed(x, spot) & mask;; at = (at + 1) & mask) {
        const int32_t number = log->bucket[at];
        if (!number) return &log->bucket[at];
        const shared_access *const other = &log->item[number - 1];
        if ((other->spots != NULL) == spot && same_source(other, x)) return &log->bucket[at];
    }
}

static bool grow_buckets(access_log *log) {
    if (2 * (log->used + 1) <= log->buckets) return true;
    const int64_t buckets = log->buckets ? 2 * log->buckets : 256;
    int32_t *const grown = calloc((size_t)buckets, sizeof *grown);
    if (!grown) return false;
    free(log->bucket);
    log->bucket = grown;
    log->buckets = buckets;
    log->used = 0;
    for (int64_t k = 0; k < log->count; k++) {
        int32_t *const bucket = find(log, &log->item[k], log->item[k].spots != NULL);
        log->used += *bucket == 0;
        *bucket = (int32_t)k + 1;
    }
    return true;
}

static bool grow_items(access_log *log) {
    if (log->count < log->capacity) return true;
    const int64_t capacity = log->capacity ? 2 * log->capacity : 64;
    shared_access *const grown = capacity > MAX_ACCESSES ? NULL : realloc(log->item, (size_t)capacity * sizeof *grown);
    if (!grown) return false;
    log->item = grown;
    log->capacity = capacity;
    return true;
}

/* Where x is: in the latest of its like (`join` does that), or by itself. NULL: no room. */
static shared_access *put(access_log *log, const shared_access *x, bool spot, bool (*join)(shared_access *, const shared_access *)) {
    if (!grow_buckets(log)) {
        log->full = true;
        return NULL;
    }
    int32_t *const bucket = find(log, x, spot);
    shared_access *const latest = *bucket ? &log->item[*bucket - 1] : NULL;
    if (latest && !latest->compared && same_lifetime(latest, x) && latest->transfer == x->transfer && join(latest, x)) return latest;
    if (!grow_items(log)) {
        log->full = true;
        return NULL;
    }
    log->writes = log->writes || x->access != ACCESS_READ;
    log->used += *bucket == 0;
    shared_access *const added = &log->item[log->count];
    memcpy(added, x, offsetof(shared_access, where)); /* `where` is the last member */
    footprint_copy(&added->where, &x->where);
    *bucket = (int32_t)++log->count;
    return added;
}

static bool join_rows(shared_access *x, const shared_access *y) { return footprint_absorb(&x->where, &y->where); }

void accesses_add(access_log *log, const shared_access *x) { put(log, x, false, join_rows); }

static void set_spot(shared_access *x, int64_t start) {
    const int64_t number = (start - chunk_start(x)) >> x->shift;
    x->spots[number / 64] |= (uint64_t)1 << (number % 64);
}

static bool join_spot(shared_access *x, const shared_access *y) {
    set_spot(x, y->where.start);
    if (y->where.start < x->where.start) x->where.start = y->where.start;
    if (y->where.end > x->where.end) x->where.end = y->where.end;
    return true;
}

void accesses_add_spot(access_log *log, const shared_access *x, uintptr_t base) {
    shared_access *const at = put(log, x, true, join_spot);
    if (!at) return;
    if (!at->spots) {
        at->spots = log->chunks < MAX_CHUNKS ? calloc(WORDS, sizeof *at->spots) : NULL;
        log->chunks += at->spots != NULL;
        if (at->spots) set_spot(at, x->where.start);
        else log->full = true; /* it then counts with its hull, which is this element */
    }
    log->latest[(uint32_t)x->pc % LAST_SPOTS] =
        (latest_spot){.spots = at->spots, .base = base, .begin = base + (uintptr_t)chunk_start(x), .number = at - log->item, .pc = x->pc,
                      .thread = x->thread, .epoch = x->block.issued, .object = x->object, .shift = x->shift};
}

static bool join_spots(shared_access *x, const shared_access *y) {
    for (int k = 0; k < WORDS; k++) x->spots[k] |= y->spots[k];
    if (y->where.start < x->where.start) x->where.start = y->where.start;
    if (y->where.end > x->where.end) x->where.end = y->where.end;
    return true;
}

/* Takes over an access of another log, which gives it up. Only barriers of the grid matter from here on. */
static void take(access_log *log, shared_access *x) {
    const bool spot = x->spots != NULL;
    x->compared = 0;
    x->block = (lifetime){0, 0};
    const shared_access *const at = put(log, x, spot, spot ? join_spots : join_rows);
    if (!at || at->spots != x->spots) free(x->spots);
    else log->chunks += spot;
}

static void forget_buckets(access_log *log) {
    if (log->used) memset(log->bucket, 0, (size_t)log->buckets * sizeof *log->bucket);
    memset(log->latest, 0, sizeof log->latest);
    log->used = 0;
}

void accesses_retire(access_log *log, race_scope scope, uint64_t epoch, access_log *to) {
    int64_t kept = 0;
    forget_buckets(log); /* nothing joins what was compared */
    log->writes = false;
    for (int64_t k = 0; k < log->count; k++) {
        shared_access *const x = &log->item[k];
        if ((scope == WITHIN_BLOCK ? x->block : x->grid).complete < epoch) {
            log->chunks -= x->spots != NULL;
            if (to && x->where.region >= REGION_L3) take(to, x);
            else free(x->spots);
            continue;
        }
        x->compared = 1;
        log->writes = log->writes || x->access != ACCESS_READ;
        if (kept++ != k) log->item[kept - 1] = *x;
    }
    log->count = kept;
}

void accesses_clear(access_log *log) {
    for (int64_t k = 0; k < log->count; k++) free(log->item[k].spots);
    forget_buckets(log);
    log->count = log->chunks = 0;
    log->writes = false;
}

void accesses_free(access_log *log) {
    accesses_clear(log);
    free(log->item);
    free(log->bucket);
    *log = (access_log){0};
}
