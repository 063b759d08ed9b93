/* Which accesses race. Two passes do it: the first sweeps over whole footprints and compares those whose hulls overlap, which is
   all that is needed where threads keep to parts of their own. Where footprints lie in each other's gaps, as columns do, that
   is every pair of them. So it ends when it has cost more than the second pass would, which sweeps over their rows: these
   overlap only where something is shared. */
#include <stdlib.h>
#include <string.h>
#include "accesses.h"

enum {
    WORDS = SPOT_CHUNK / 64,
    MAX_PIECES = 1 << 22, /* of the second pass */
    MAX_PAIRS = 1 << 21,  /* that race and are told apart */
    WORK_BETWEEN_LOOKS = 1 << 16
};

static int64_t spots_start(const shared_access *x) { return x->where.start & -((int64_t)SPOT_CHUNK << x->shift); }

static bool has_spot(const shared_access *x, int64_t start) {
    const int64_t number = (start - spots_start(x)) >> x->shift;
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
        *from = spots_start(x) + ((int64_t)(64 * k + __builtin_ctzll(both)) << x->shift);
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

/* `work` is counted down; below 0 the answer is false. */
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

static bool can_race(const comparison *c, const shared_access *x, const shared_access *y) {
    if (x->thread == y->thread || (x->access == y->access && x->access != ACCESS_WRITE) || (x->compared && y->compared)) return false;
    const bool same_block = x->thread / c->block_threads == y->thread / c->block_threads;
    return c->scope == WITHIN_BLOCK ? !ordered(x->block, y->block) : !same_block && !ordered(x->grid, y->grid);
}

/* An access, or a row of one. */
typedef struct {
    int64_t start, end;
    int32_t region, number; /* of the access */
} piece;

static int by_place(const void *a, const void *b) {
    const piece *const x = a, *const y = b;
    if (x->region != y->region) return x->region < y->region ? -1 : 1;
    if (x->start != y->start) return x->start < y->start ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

/* Pairs of accesses that were told of: a set of their numbers, 0 where nothing is. */
typedef struct {
    uint64_t *item;
    uint64_t capacity, count;
} pair_set;

static uint64_t *pair_place(const pair_set *s, uint64_t pair) {
    uint64_t at = pair * 0x9E3779B97F4A7C15u;
    for (at ^= at >> 32;; at++) {
        uint64_t *const place = &s->item[at & (s->capacity - 1)];
        if (*place == 0 || *place == pair) return place;
    }
}

static bool pair_set_grow(pair_set *s) {
    if (2 * s->count < s->capacity) return true;
    const pair_set grown = {.capacity = s->capacity ? 2 * s->capacity : 256, .count = s->count};
    if (s->count >= MAX_PAIRS) return false;
    pair_set to = grown;
    to.item = calloc(grown.capacity, sizeof *to.item);
    if (!to.item) return false;
    for (uint64_t k = 0; k < s->capacity; k++) {
        if (s->item[k]) *pair_place(&to, s->item[k]) = s->item[k];
    }
    free(s->item);
    *s = to;
    return true;
}

typedef enum { SWEPT, TOO_MUCH, ENDED } sweep_result;

/* Those that began before the place where the sweep is, and may not have ended: by what they do. */
typedef struct {
    const piece **item;
    int64_t count, capacity;
} active;

typedef struct {
    const comparison *c;
    const access_log *log;
    bool rows; /* pieces are rows: those that overlap have bytes in common */
    active running[3];
    pair_set told;
    int64_t work, looked_at_work;
} sweep;

static bool active_add(active *a, const piece *x) {
    if (a->count == a->capacity) {
        const int64_t capacity = a->capacity ? 2 * a->capacity : 64;
        const piece **const grown = realloc(a->item, (size_t)capacity * sizeof *grown);
        if (!grown) return false;
        a->item = grown;
        a->capacity = capacity;
    }
    a->item[a->count++] = x;
    return true;
}

static void drop_ended(active *a, const piece *x) {
    int64_t kept = 0;
    for (int64_t k = 0; k < a->count; k++) {
        if (a->item[k]->region == x->region && a->item[k]->end > x->start) a->item[kept++] = a->item[k];
    }
    a->count = kept;
}

/* Tells of two pieces that overlap, if they race. False: there are too many to tell apart. */
static bool meet(sweep *s, const piece *x, const piece *y) {
    const shared_access *const a = &s->log->item[x->number], *const b = &s->log->item[y->number];
    if (!can_race(s->c, a, b)) return true;
    int64_t from = y->start, to = x->end < y->end ? x->end : y->end;
    if (!s->rows && !accesses_meet(a, b, &from, &to, &s->work)) return true;
    const uint64_t low = (uint64_t)(x->number < y->number ? x->number : y->number), high = (uint64_t)(x->number ^ y->number) ^ low;
    if (!pair_set_grow(&s->told)) return false;
    uint64_t *const place = pair_place(&s->told, low << 32 | high); /* high is not 0: the two differ */
    if (*place) return true;
    *place = low << 32 | high;
    s->told.count++;
    s->c->race(s->c->data, a, b, from, to);
    return true;
}

static sweep_result look(sweep *s) {
    if (s->work < 0) return TOO_MUCH;
    if (s->looked_at_work - s->work < WORK_BETWEEN_LOOKS) return SWEPT;
    s->looked_at_work = s->work;
    return s->c->goes_on(s->c->data) ? SWEPT : ENDED;
}

static sweep_result sweep_over(sweep *s, piece *pieces, int64_t count, int64_t work) {
    for (int k = 0; k < 3; k++) s->running[k].count = 0;
    s->work = s->looked_at_work = work;
    qsort(pieces, (size_t)count, sizeof *pieces, by_place);
    for (const piece *x = pieces; x < pieces + count; x++) {
        const int own = s->log->item[x->number].access;
        for (int access = ACCESS_READ; access <= ACCESS_ATOMIC; access++) {
            active *const a = &s->running[access];
            if (access == own && access != ACCESS_WRITE) continue;
            s->work -= a->count;
            drop_ended(a, x);
            for (int64_t m = 0; m < a->count; m++) {
                if (!meet(s, a->item[m], x)) return ENDED;
                const sweep_result result = look(s);
                if (result != SWEPT) return result;
            }
        }
        s->work--;
        if (!active_add(&s->running[own], x)) return ENDED;
        const sweep_result result = look(s);
        if (result != SWEPT) return result;
    }
    return SWEPT;
}

/* How many rows an access has; of single elements: how many runs of them. */
static int64_t rows_in(const shared_access *x) {
    int64_t count = 0;
    if (!x->spots) {
        count = 1;
        for (int32_t k = 0; k < x->where.axes && count <= MAX_PIECES; k++) count *= x->where.axis[k].n;
        return count;
    }
    uint64_t before = 0;
    for (int k = 0; k < WORDS; k++) {
        count += __builtin_popcountll(x->spots[k] & ~(x->spots[k] << 1 | before >> 63));
        before = x->spots[k];
    }
    return count;
}

typedef struct {
    piece *next;
    int32_t region, number;
} piece_writer;

static bool write_row(void *data, int64_t start, int64_t bytes) {
    piece_writer *const w = data;
    *w->next++ = (piece){start, start + bytes, w->region, w->number};
    return true;
}

static void write_runs(piece_writer *w, const shared_access *x) {
    const int64_t first = spots_start(x), size = (int64_t)1 << x->shift;
    for (int k = 0, begun = -1; k <= SPOT_CHUNK; k++) {
        const bool set = k < SPOT_CHUNK && x->spots[k / 64] >> (k % 64) & 1;
        if (set && begun < 0) begun = k;
        if (set || begun < 0) continue;
        write_row(w, first + begun * size, (k - begun) * size);
        begun = -1;
    }
}

static sweep_result sweep_hulls(sweep *s, int64_t work) {
    const access_log *const log = s->log;
    piece *const pieces = malloc((size_t)log->count * sizeof *pieces);
    if (!pieces) return ENDED;
    for (int64_t k = 0; k < log->count; k++) {
        const footprint *const f = &log->item[k].where;
        pieces[k] = (piece){f->start, f->end, f->region, (int32_t)k};
    }
    s->rows = false;
    const sweep_result result = sweep_over(s, pieces, log->count, work);
    free(pieces);
    return result;
}

static sweep_result sweep_rows(sweep *s, int64_t rows) {
    const access_log *const log = s->log;
    piece *const pieces = malloc((size_t)rows * sizeof *pieces);
    if (!pieces) return ENDED;
    piece_writer w = {.next = pieces};
    for (int64_t k = 0; k < log->count; k++) {
        const shared_access *const x = &log->item[k];
        w.region = x->where.region;
        w.number = (int32_t)k;
        if (x->spots) write_runs(&w, x);
        else footprint_rows(&x->where, write_row, &w);
    }
    s->rows = true;
    const sweep_result result = sweep_over(s, pieces, rows, s->c->most_work);
    free(pieces);
    return result;
}

bool accesses_compare(access_log *log, const comparison *c) {
    if (!log->writes || log->count < 2) return true;
    if (c->most_work <= 0) return false;
    int64_t rows = 0;
    for (int64_t k = 0; k < log->count && rows <= MAX_PIECES; k++) rows += rows_in(&log->item[k]);
    const int64_t worth = 4 * rows + WORK_BETWEEN_LOOKS;
    const bool has_second = rows <= MAX_PIECES && worth < c->most_work;
    sweep s = {.c = c, .log = log};
    sweep_result result = sweep_hulls(&s, has_second ? worth : c->most_work);
    if (result == TOO_MUCH && has_second) result = sweep_rows(&s, rows);
    for (int k = 0; k < 3; k++) free(s.running[k].item);
    free(s.told.item);
    return result == SWEPT;
}
