/* The sanitizer of a launch: its blocks and threads, and what is compared at their barriers and ends. */
#include <stdlib.h>
#include "state.h"
#include "../sanitizer.h"
#include "../tiles/elements.h"
#include "../views.h"

enum { LITTLE_WORK = 1 << 20 };

/* Arrays whose ranges of addresses overlap become one region, which begins at the lowest of them. */
static bool find_regions(struct sanitizer *s) {
    const launch *const l = s->launch;
    const int32_t count = l->kernel->pointers;
    uintptr_t *const low = calloc((size_t)count + 1, 2 * sizeof *low), *const high = low + count;
    s->region_of = calloc((size_t)count + 1, sizeof *s->region_of);
    s->base = calloc((size_t)count + 1, sizeof *s->base);
    if (!low || !s->region_of || !s->base) {
        free(low);
        return false;
    }
    for (int32_t k = 0; k < count; k++) {
        view_range(&l->arrays[k], tk_size[l->arrays[k].dtype], &low[k], &high[k]);
        s->region_of[k] = REGION_L3 + k;
    }
    for (bool again = true; again;) {
        again = false;
        for (int32_t a = 0; a < count; a++) {
            for (int32_t b = 0; b < a; b++) {
                if (s->region_of[a] <= s->region_of[b] || low[a] >= high[b] || low[b] >= high[a]) continue;
                const int32_t old = s->region_of[a];
                for (int32_t k = 0; k < count; k++) s->region_of[k] = s->region_of[k] == old ? s->region_of[b] : s->region_of[k];
                again = true;
            }
        }
    }
    for (int32_t a = 0; a < count; a++) {
        bool written = false;
        s->base[a] = low[a];
        for (int32_t b = 0; b < count; b++) {
            if (s->region_of[a] != s->region_of[b] || low[b] == high[b]) continue;
            written = written || l->kernel->pointer[b].stored || l->kernel->pointer[b].atomic;
            if (low[b] < s->base[a]) s->base[a] = low[b];
        }
        s->base[a] &= ~(uintptr_t)127; /* so that elements stay aligned in it */
        if (!written) low[a] = UINTPTR_MAX;
    }
    for (int32_t a = 0; a < count; a++) s->region_of[a] = low[a] == UINTPTR_MAX ? REGION_NONE : s->region_of[a];
    free(low);
    return true;
}

struct sanitizer *sanitizer_new(launch *l) {
    struct sanitizer *const s = calloc(1, sizeof *s);
    if (!s) return NULL;
    s->launch = l;
    s->single = l->blocks == 1;
    s->regions = REGION_L3 + l->kernel->pointers;
    if (find_regions(s) && slot_table_make(&s->slots, l->kernel)) return s;
    sanitizer_free(s);
    return NULL;
}

static void block_free(sanitizer_block *b) {
    const struct sanitizer *const s = b->run;
    for (int32_t k = 0; b->thread && k < s->launch->block_threads; k++) {
        slots_free(b->thread[k].l1, s->slots.l1);
        free(b->thread[k].queue);
        free(b->thread[k].flight);
        free(b->thread[k].reach);
    }
    free(b->thread);
    slots_free(b->l2, s->slots.l2);
    accesses_free(&b->log);
    free(b);
}

static void blocks_free(sanitizer_block *b) {
    while (b) {
        sanitizer_block *const next = b->next;
        block_free(b);
        b = next;
    }
}

void sanitizer_free(struct sanitizer *s) {
    if (!s) return;
    blocks_free(s->running); /* only where memory ran out in between */
    blocks_free(s->spare);
    accesses_free(&s->log);
    slot_table_free(&s->slots);
    findings_free(&s->findings);
    free(s->region_of);
    free(s->base);
    free(s);
}

const findings *sanitizer_findings(const struct sanitizer *s) { return &s->findings; }

sanitizer_block *sanitizer_block_begin(struct sanitizer *s) {
    sanitizer_block *b = s->spare;
    if (b) {
        s->spare = b->next;
    } else {
        b = calloc(1, sizeof *b);
        if (!b) return NULL;
        b->run = s;
        b->thread = calloc((size_t)s->launch->block_threads, sizeof *b->thread);
        b->l2 = calloc((size_t)s->slots.l2 + 1, sizeof *b->l2);
        if (!b->thread || !b->l2) {
            block_free(b);
            return NULL;
        }
    }
    b->next = s->running;
    s->running = b;
    slots_forget(b->l2, s->slots.l2);
    return b;
}

bool sanitizer_thread_begin(sanitizer_block *b, thread *t) {
    sanitizer_thread *const x = &b->thread[t->local];
    if (!x->l1) x->l1 = calloc((size_t)b->run->slots.l1 + 1, sizeof *x->l1);
    if (!x->reach) x->reach = calloc((size_t)b->run->regions, 2 * sizeof *x->reach);
    if (!x->l1 || !x->reach) return false;
    slots_forget(x->l1, b->run->slots.l1);
    flights_forget(x, b->run->regions);
    x->first = b->run->slots.first;
    x->block = b;
    t->sanitizer = x;
    return true;
}

static actor actor_of(const struct sanitizer *s, const shared_access *x) {
    return (actor){.pc = x->pc, .thread = x->thread, .block = x->thread / s->launch->block_threads, .access = x->access, .transfer = x->transfer,
                   .open = x->transfer && x->block.complete == NEVER};
}

/* Of two accesses that race, the one to name first: who writes; of two that write the earlier instruction, then thread. */
static bool comes_first(const shared_access *x, const shared_access *y) {
    const bool x_reads = x->access == ACCESS_READ, y_reads = y->access == ACCESS_READ;
    if (x_reads != y_reads) return y_reads;
    return x->pc != y->pc ? x->pc < y->pc : x->thread < y->thread;
}

static void found_race(void *data, const shared_access *x, const shared_access *y, int64_t from, int64_t to) {
    struct sanitizer *const s = data;
    const shared_access *const first = comes_first(x, y) ? x : y, *const second = first == x ? y : x;
    const kernel *const k = s->launch->kernel;
    finding found = {.first = actor_of(s, first), .second = actor_of(s, second)};
    const bool l2 = first->where.region == REGION_L2;
    int64_t origin;
    if (l2) {
        const buffer *const b = &k->buffer[first->object];
        found.slot = (int32_t)((from - b->offset_bytes) / b->slot_bytes);
        origin = b->offset_bytes + found.slot * b->slot_bytes;
    } else {
        origin = (int64_t)((uintptr_t)s->launch->arrays[first->object].p - s->base[first->object]);
    }
    found.from = from - origin;
    found.to = to - origin;
    found.fault = (fault){.kind = FAULT_RACE, .pc = first->pc, .thread = first->thread, .block = found.first.block, .epoch = first->block.issued,
                          .grid_epoch = first->grid.issued, .object = first->object, .space = l2 ? SPACE_L2 : SPACE_L3, .rank = {-1, -1}};
    findings_add(&s->findings, &found);
}

/* Once the launch has to end, for one reason or another. */
static bool goes_on(void *data) {
    struct sanitizer *const s = data;
    return launch_poll(s->launch, true) == s->stopped;
}

static void compare(struct sanitizer *s, access_log *log, race_scope scope) {
    s->stopped = atomic_load(&s->launch->stop);
    /* nobody waits for what is compared after a signal; a little is worth it where time is up */
    const int64_t work = s->stopped == FAULT_STOPPED ? 0 : s->stopped ? LITTLE_WORK : MAX_WORK;
    const comparison c = {.scope = scope, .block_threads = s->launch->block_threads, .most_work = work, .race = found_race,
                          .goes_on = goes_on, .data = s};
    if (!accesses_compare(log, &c)) s->findings.limits |= LIMIT_RACES;
    if (log->full) s->findings.limits |= LIMIT_ACCESSES;
}

static uint64_t oldest_flight(const sanitizer_block *b, race_scope scope, uint64_t epoch) {
    for (int32_t k = 0; k < b->run->launch->block_threads; k++) {
        const sanitizer_thread *const t = &b->thread[k];
        for (int32_t m = 0; t->block == b && m < t->flights; m++) {
            const flight *const f = &t->flight[t->queue[m].flight];
            const uint64_t issued = scope == WITHIN_BLOCK ? f->epoch + f->grid_epoch : f->grid_epoch;
            if (issued < epoch) epoch = issued;
        }
    }
    return epoch;
}

void sanitizer_block_barrier(sanitizer_block *b, uint32_t epoch) {
    compare(b->run, &b->log, WITHIN_BLOCK);
    accesses_retire(&b->log, WITHIN_BLOCK, oldest_flight(b, WITHIN_BLOCK, epoch), b->run->single ? NULL : &b->run->log);
}

void sanitizer_block_end(sanitizer_block *b) {
    struct sanitizer *const s = b->run;
    compare(s, &b->log, WITHIN_BLOCK);
    accesses_retire(&b->log, WITHIN_BLOCK, UINT64_MAX, s->single ? NULL : &s->log);
    accesses_clear(&b->log);
    for (int32_t k = 0; k < s->launch->block_threads; k++) b->thread[k].block = NULL;
    sanitizer_block **at = &s->running;
    while (*at != b) at = &(*at)->next;
    *at = b->next;
    b->next = s->spare;
    s->spare = b;
}

void sanitizer_grid_barrier(struct sanitizer *s, uint32_t epoch) {
    uint64_t oldest = epoch; /* what is still to come may have been issued that early */
    for (const sanitizer_block *b = s->running; b; b = b->next) {
        oldest = oldest_flight(b, BETWEEN_BLOCKS, oldest);
        for (int64_t k = 0; k < b->log.count; k++) oldest = b->log.item[k].grid.issued < oldest ? b->log.item[k].grid.issued : oldest;
    }
    compare(s, &s->log, BETWEEN_BLOCKS);
    accesses_retire(&s->log, BETWEEN_BLOCKS, oldest, NULL);
}

void sanitizer_finish(struct sanitizer *s) {
    compare(s, &s->log, BETWEEN_BLOCKS);
    const int stop = atomic_load(&s->launch->stop);
    if (!stop) return;
    /* perhaps no thread was there any more to end by it */
    const fault f = {.kind = stop, .pc = -1, .thread = -1, .block = -1, .object = -1, .rank = {-1, -1}};
    sanitizer_fault(s, &f);
}

void sanitizer_fault(struct sanitizer *s, const fault *f) {
    const bool stops = f->kind == FAULT_TIMEOUT || f->kind == FAULT_STOPPED || f->kind == FAULT_MEMORY;
    for (int32_t k = 0; stops && k < s->findings.count; k++) { /* many threads may notice that the launch has to end */
        if (s->findings.item[k].fault.kind == f->kind) return;
    }
    const finding found = {.fault = *f, .first = {.pc = f->pc, .thread = f->thread, .block = f->block}, .second.pc = -1, .slot = -1};
    findings_add(&s->findings, &found);
    s->findings.limits |= LIMIT_ENDED;
}
