#include "accesses.h"
#include <stdlib.h>
#include <string.h>

enum { WORDS = SPOT_CHUNK / 64, MAX_ACCESSES = 1 << 20, MAX_CHUNKS = 1 << 18, MAX_WORK = 1 << 24 };

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

static bool has_spot(const shared_access *x, int64_t start) {
    const int64_t number = (start - chunk_start(x)) >> x->shift;
    return x->spots[number / 64] >> (number % 64) & 1;
}

typedef struct {
    const shared_access *x;
    int64_t from, to;
} spot_search;

/* Stops at the first spot within the row. */
static bool no_spot(void *data, int64_t start, int64_t bytes) {
    spot_search *const s = data;
    const int64_t size = (int64_t)1 << s->x->shift;
    const int64_t low = start > s->x->where.start ? start & -size : s->x->where.start;
    const int64_t high = start + bytes < s->x->where.end ? start + bytes : s->x->where.end;
    for (int64_t at = low; at < high; at += size) {
        if (!has_spot(s->x, at)) continue;
        s->from = at > start ? at : start;
        s->to = at + size < start + bytes ? at + size : start + bytes;
        return false;
    }
    return true;
}

static bool spots_meet(const shared_access *x, const shared_access *y, int64_t *from, int64_t *to) {
    for (int k = 0; k < WORDS && x->shift == y->shift; k++) { /* they lie in the same chunk */
        const uint64_t both = x->spots[k] & y->spots[k];
        if (!both) continue;
        *from = chunk_start(x) + ((int64_t)(64 * k + __builtin_ctzll(both)) << x->shift);
        *to = *from + ((int64_t)1 << x->shift);
        return true;
    }
    if (x->shift == y->shift) return false;
    const int64_t low = x->where.start > y->where.start ? x->where.start : y->where.start;
    const int64_t high = x->where.end < y->where.end ? x->where.end : y->where.end;
    const shared_access *const fine = x->shift <= y->shift ? x : y, *const coarse = fine == x ? y : x;
    const int64_t size = (int64_t)1 << fine->shift;
    for (int64_t at = low & -size; at < high; at += size) {
        if (!has_spot(fine, at) || !has_spot(coarse, at)) continue;
        *from = at;
        *to = at + size;
        return true;
    }
    return false;
}

static bool accesses_meet(const shared_access *x, const shared_access *y, int64_t *from, int64_t *to, int64_t *work) {
    if (!x->spots && !y->spots) return footprints_meet(&x->where, &y->where, from, to, work);
    *work -= WORDS;
    if (x->spots && y->spots) return spots_meet(x, y, from, to);
    spot_search s = {.x = x->spots ? x : y};
    if (footprint_rows(x->spots ? &y->where : &x->where, no_spot, &s)) return false;
    *from = s.from;
    *to = s.to;
    return true;
}

static bool ordered(lifetime x, lifetime y) { return x.complete < y.issued || y.complete < x.issued; }

static bool can_race(const shared_access *x, const shared_access *y, race_scope scope, int32_t block_threads) {
    if (x->thread == y->thread || (x->access == y->access && x->access != ACCESS_WRITE) || (x->compared && y->compared)) return false;
    const bool same_block = x->thread / block_threads == y->thread / block_threads;
    return scope == WITHIN_BLOCK ? !ordered(x->block, y->block) : !same_block && !ordered(x->grid, y->grid);
}

typedef struct {
    int32_t region;
    int64_t start, number;
} key;

static int by_place(const void *a, const void *b) {
    const key *const x = a, *const y = b;
    if (x->region != y->region) return x->region < y->region ? -1 : 1;
    if (x->start != y->start) return x->start < y->start ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

/* Those that began before the place where the sweep is, and may not have ended: by what they do. */
typedef struct {
    int64_t *number, count;
} active;

static void drop_ended(active *a, const access_log *log, const shared_access *x) {
    int64_t kept = 0;
    for (int64_t k = 0; k < a->count; k++) {
        const footprint *const f = &log->item[a->number[k]].where;
        if (f->region == x->where.region && f->end > x->where.start) a->number[kept++] = a->number[k];
    }
    a->count = kept;
}

bool accesses_compare(access_log *log, race_scope scope, int32_t block_threads,
                      void (*race)(void *data, const shared_access *x, const shared_access *y, int64_t from, int64_t to), void *data) {
    if (!log->writes || log->count < 2) return true;
    key *const keys = malloc((size_t)log->count * (sizeof *keys + 3 * sizeof(int64_t)));
    if (!keys) return false;
    active running[3];
    for (int k = 0; k < 3; k++) running[k] = (active){.number = (int64_t *)(keys + log->count) + k * log->count};
    for (int64_t k = 0; k < log->count; k++) keys[k] = (key){log->item[k].where.region, log->item[k].where.start, k};
    qsort(keys, (size_t)log->count, sizeof *keys, by_place);
    int64_t work = MAX_WORK;
    for (int64_t k = 0; k < log->count && work > 0; k++) {
        const shared_access *const x = &log->item[keys[k].number];
        for (int access = ACCESS_READ; access <= ACCESS_ATOMIC; access++) {
            active *const a = &running[access];
            if (access == x->access && access != ACCESS_WRITE) continue;
            work -= a->count;
            drop_ended(a, log, x);
            for (int64_t m = 0; m < a->count && work > 0; m++) {
                const shared_access *const y = &log->item[a->number[m]];
                int64_t from, to;
                if (!can_race(x, y, scope, block_threads) || !accesses_meet(y, x, &from, &to, &work)) continue;
                race(data, y, x, from, to);
            }
        }
        running[x->access].number[running[x->access].count++] = keys[k].number;
    }
    free(keys);
    return work > 0;
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
