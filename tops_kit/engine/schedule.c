/* Which threads of a launch run when, and on which host threads. Results never depend on how many of those there are:

   - In order: blocks one after another, the threads of a block in turn (block.c). Blocks of a cooperative grid all run up to
     each grid barrier.
   - In parallel, a unit (a block, or a thread where neither barriers nor L2 join them) at a time: only when nothing that the
     kernel stores is also loaded, nor reached through two pointers, and there are no atomics. Stores are logged; should two
     units have stored to the same place, the launch is run once more in order.
   - The fault that counts is the first in order; of units behind it nothing is wanted. */
#include <stdlib.h>
#include <string.h>
#include "block.h"
#include "helpers.h"
#include "print.h"
#include "sanitizer.h"
#include "stores.h"
#include "tiles/tiles.h"
#include "views.h"

enum { WORTH_HELP_NS = 60000, KEPT_TRACE_BYTES = 64 << 20 };

static const machine_function machines[MODE_COUNT] = {machine_fast, machine_counted, machine_timed, machine_sanitized, machine_debug};

struct engine {
    worker *worker;
    int32_t workers;
    helpers *helpers;
    event_log *traces;
    int64_t trace_count;
};

engine *engine_new(void) { return calloc(1, sizeof(engine)); }

static void worker_free(worker *w) {
    for (int32_t k = 0; k < w->spares; k++) {
        context_free(w->spare[k]);
        free(w->spare[k]);
    }
    free(w->spare);
    free(w->stores.item);
    free(w->prints.bytes);
    free(w->counts);
    arena_free(&w->l2);
}

static void free_traces(engine *e) {
    for (int64_t t = 0; t < e->trace_count; t++) free(e->traces[t].item);
    free(e->traces);
    e->traces = NULL;
    e->trace_count = 0;
}

void engine_tidy(engine *e) {
    int64_t bytes = 0;
    for (int64_t t = 0; t < e->trace_count; t++) bytes += e->traces[t].capacity * (int64_t)sizeof(tevent);
    if (bytes > KEPT_TRACE_BYTES) free_traces(e);
}

void engine_free(engine *e) {
    if (!e) return;
    free_traces(e);
    helpers_free(e->helpers);
    for (int32_t k = 0; k < e->workers; k++) worker_free(&e->worker[k]);
    free(e->worker);
    free(e);
}

/* Workers beside the first take what is left of the units. */
typedef struct {
    launch *launch;
    worker *worker;
    int32_t units;
    bool by_block;
    _Atomic int32_t next;
} shared_run;

static bool worker_begin(worker *w, launch *l, bool launching, bool log_stores) {
    w->launch = l;
    /* who reads the clock needs events to tell it by */
    w->run = machines[l->kernel->has_clock && l->mode < MODE_TIMED ? MODE_TIMED : l->mode];
    w->launching = launching;
    w->log_stores = log_stores;
    w->stores.count = 0;
    w->stores.overflow = false;
    w->prints.size = 0;
    w->prints.dropped = 0;
    w->fault.kind = FAULT_NONE;
    const int32_t counts = l->counts || l->kernel->has_clock ? l->kernel->count + 2 : 0;
    if (counts > w->counts_capacity) {
        free(w->counts);
        w->counts = malloc((size_t)counts * sizeof *w->counts);
        w->counts_capacity = w->counts ? counts : 0;
        if (!w->counts) return false;
    }
    if (counts) memset(w->counts, 0, (size_t)counts * sizeof *w->counts);
    return true;
}

static bool workers_begin(engine *e, launch *l, int32_t count, bool log_stores) {
    if (count > e->workers) {
        worker *const grown = realloc(e->worker, (size_t)count * sizeof *grown);
        if (!grown) return false;
        memset(grown + e->workers, 0, (size_t)(count - e->workers) * sizeof *grown);
        e->worker = grown;
        e->workers = count;
    }
    for (int32_t k = 0; k < count; k++) {
        if (!worker_begin(&e->worker[k], l, k == 0, log_stores)) return false;
    }
    return true;
}

static bool traces_begin(engine *e, launch *l) {
    const int64_t count = l->mode == MODE_TIMED || l->kernel->has_clock ? (int64_t)l->blocks * l->block_threads : 0;
    if (count > e->trace_count) {
        event_log *const grown = realloc(e->traces, (size_t)count * sizeof *grown);
        if (!grown) return false;
        memset(grown + e->trace_count, 0, (size_t)(count - e->trace_count) * sizeof *grown);
        e->traces = grown;
        e->trace_count = count;
    }
    l->traces = count ? e->traces : NULL;
    return true;
}

static bool block_begin(block_run *b, worker *w, int32_t number, arena *l2) {
    const size_t threads = (size_t)w->launch->block_threads;
    *b = (block_run){.worker = w, .number = number, .unit = number};
    w->stores.unit = number;
    b->thread = calloc(threads, sizeof *b->thread + sizeof *b->state);
    b->state = (uint8_t *)(b->thread + threads);
    struct sanitizer *const s = w->launch->sanitizer;
    b->sanitizer = s ? sanitizer_block_begin(s) : NULL;
    const bool good = b->thread && !s == !b->sanitizer && arena_reserve(l2, (size_t)w->launch->kernel->l2_bytes);
    b->l2 = l2->bytes;
    if (good) return true;
    const fault f = {.kind = FAULT_MEMORY, .pc = -1, .thread = number * (int32_t)threads, .block = number, .object = -1, .rank = {-1, -1}};
    worker_fault(w, &f);
    return false;
}

static void block_end(block_run *b) {
    if (b->sanitizer) sanitizer_block_end(b->sanitizer);
    if (b->thread) block_drop(b);
    free(b->thread);
}

static bool run_block(worker *w, int32_t number) {
    block_run b;
    const bool good = block_begin(&b, w, number, &w->l2) && block_advance(&b);
    block_end(&b);
    return good;
}

static void run_in_order(worker *w) {
    const launch *const l = w->launch;
    for (int32_t number = 0; number < l->blocks; number++) {
        if (!run_block(w, number) && (!l->sanitizer || w->fault.kind == FAULT_MEMORY)) return;
        if (l->sanitizer && atomic_load(&l->stop)) return;
    }
}

/* Whether every block stands at the grid barrier, or all have ended (`*over`); else a fault. */
static bool grid_meets(block_run *b, int32_t blocks, bool *over) {
    const int32_t threads = b->worker->launch->block_threads;
    int32_t waiting = 0;
    for (int32_t k = 0; k < blocks; k++) waiting += block_waiting(&b[k]) == threads;
    *over = waiting == 0;
    if (waiting == 0 || waiting == blocks) return true;
    for (int32_t k = 0; k < blocks; k++) {
        if (block_waiting(&b[k])) return block_barrier_fault(&b[k]);
    }
    return true;
}

static void show_grid_barrier(worker *w, block_run *b, int32_t blocks) {
    for (int32_t k = 0; k < blocks; k++) block_show_barrier(&b[k]);
    sanitizer_grid_barrier(w->launch->sanitizer, b[0].thread[0]->thread.grid_epoch);
}

static void run_grid(worker *w) {
    const int32_t blocks = w->launch->blocks;
    block_run *const b = calloc((size_t)blocks, sizeof *b);
    arena *const l2 = calloc((size_t)blocks, sizeof *l2);
    bool good = b && l2, over = false;
    if (!good) w->fault = (fault){.kind = FAULT_MEMORY, .pc = -1, .object = -1, .rank = {-1, -1}};
    int32_t begun = 0;
    while (good && begun < blocks) {
        good = block_begin(&b[begun], w, begun, &l2[begun]);
        begun++; /* also one that could not begin has memory to give back */
    }
    while (good && !over) {
        for (int32_t k = 0; k < blocks && (good || w->launch->sanitizer); k++) good = block_advance(&b[k]) && good;
        good = good && grid_meets(b, blocks, &over);
        if (good && !over && w->launch->sanitizer) show_grid_barrier(w, b, blocks);
        for (int32_t k = 0; good && !over && k < blocks; k++) block_release(&b[k]);
    }
    for (int32_t k = 0; k < begun; k++) block_end(&b[k]);
    for (int32_t k = 0; l2 && k < blocks; k++) arena_free(&l2[k]);
    free(b);
    free(l2);
}

/* A unit's fault: units behind it need not run. */
static void set_limit(launch *l, int32_t unit) {
    int32_t limit = atomic_load(&l->limit);
    while (unit < limit && !atomic_compare_exchange_weak(&l->limit, &limit, unit)) {}
}

static void run_share(void *data, int32_t number) {
    shared_run *const s = data;
    launch *const l = s->launch;
    worker *const w = &s->worker[number];
    const uint32_t control = tk_fp_begin();
    for (;;) {
        const int32_t unit = atomic_fetch_add(&s->next, 1);
        if (unit >= s->units || unit >= atomic_load(&l->limit) || atomic_load(&l->stop)) break;
        if (s->by_block ? run_block(w, unit) : thread_run_alone(w, unit)) continue;
        if (w->fault.kind == FAULT_STOPPED && !atomic_load(&l->stop)) {
            w->fault.kind = FAULT_NONE; /* only an earlier unit's fault stopped this one */
        } else {
            set_limit(l, unit);
        }
        break;
    }
    tk_fp_end(control);
}

static int look_at_signals(void *data) {
    thread self = {.launch = data, .launching = true, .unit = -1};
    return machine_poll(&self);
}

/* Runs the units on the launching thread and on those helpers that come in time. */
static void run_parallel(engine *e, launch *l, int32_t count, int32_t units, bool by_block) {
    shared_run s = {.launch = l, .worker = e->worker, .units = units, .by_block = by_block};
    if (!e->helpers) e->helpers = helpers_new();
    const int64_t last = l->kernel->last_run_ns;
    if (e->helpers && (last == 0 || last > WORTH_HELP_NS)) helpers_call(e->helpers, count - 1, run_share, &s);
    run_share(&s, 0);
    if (e->helpers) helpers_dismiss(e->helpers, look_at_signals, l);
}

static bool stored_twice(engine *e, int32_t count) {
    int64_t total = 0;
    for (int32_t k = 0; k < count; k++) {
        if (e->worker[k].stores.overflow) return true;
        total += e->worker[k].stores.count;
    }
    rectangle *const all = malloc((size_t)(total + 1) * sizeof *all);
    if (!all) return true;
    int64_t at = 0;
    for (int32_t k = 0; k < count; k++) {
        const store_log *const log = &e->worker[k].stores;
        if (log->count) memcpy(all + at, log->item, (size_t)log->count * sizeof *all);
        at += log->count;
    }
    const bool twice = stores_overlap(all, total);
    free(all);
    return twice;
}

/* The fault that counts: what stopped the launch, else the first in order. */
static void choose_fault(launch *l, const worker *w, int32_t count) {
    const int stop = atomic_load(&l->stop);
    l->fault = (fault){.kind = stop, .pc = -1, .thread = -1, .block = -1, .object = -1, .rank = {-1, -1}};
    for (int32_t k = 0; k < count; k++) {
        const fault *const f = &w[k].fault;
        if (f->kind == FAULT_NONE || (stop && f->kind != stop)) continue;
        const bool earlier = l->fault.pc < 0 || f->grid_epoch < l->fault.grid_epoch ||
                             (f->grid_epoch == l->fault.grid_epoch && f->thread < l->fault.thread);
        if (l->fault.kind == FAULT_NONE || earlier) l->fault = *f;
    }
}

static void gather(launch *l, worker *w, int32_t count) {
    choose_fault(l, w, count);
    for (int32_t k = 0; k < count; k++) {
        prints_append(&l->prints, &w[k].prints);
        for (int32_t pc = 0; l->counts && pc < l->kernel->count + 2; pc++) l->counts[pc] += w[k].counts[pc];
    }
    prints_sort(&l->prints, l->fault.kind && l->fault.thread >= 0 ? &l->fault : NULL);
}

static void start(launch *l) {
    atomic_store(&l->stop, 0);
    atomic_store(&l->limit, INT32_MAX);
    atomic_store(&l->traced_bytes, 0);
    for (int64_t t = 0; l->traces && t < (int64_t)l->blocks * l->block_threads; t++) {
        l->traces[t].count = 0;
        l->traces[t].failed = false;
    }
}

static void run_serial(engine *e, launch *l) {
    start(l);
    const uint32_t control = tk_fp_begin();
    if (l->kernel->has_grid_barrier) {
        run_grid(&e->worker[0]);
    } else {
        run_in_order(&e->worker[0]);
    }
    tk_fp_end(control);
}

void engine_run(engine *e, launch *l) {
    const int64_t began = monotonic_ns();
    const kernel *const k = l->kernel;
    const bool by_block = k->has_barrier || k->l2_bytes > 0;
    const int32_t units = by_block ? l->blocks : l->blocks * l->block_threads;
    const bool parallel = l->host_threads > 1 && units > 1 && launch_is_parallel(l);
    int32_t count = !parallel ? 1 : l->host_threads < units ? l->host_threads : units;
    l->next_signals_ns = began + SIGNALS_NS;
    if (l->mode == MODE_SANITIZED) l->sanitizer = sanitizer_new(l);
    if (!workers_begin(e, l, count, parallel) || !traces_begin(e, l) || (l->mode == MODE_SANITIZED && !l->sanitizer)) {
        l->fault = (fault){.kind = FAULT_MEMORY, .pc = -1, .thread = -1, .block = -1, .object = -1, .rank = {-1, -1}};
        return;
    }
    if (parallel) {
        start(l);
        run_parallel(e, l, count, units, by_block);
        l->ran_parallel = true;
        if (!atomic_load(&l->stop) && atomic_load(&l->limit) == INT32_MAX && stored_twice(e, count)) {
            l->ran_again = true;
            count = 1;
            if (!workers_begin(e, l, count, false)) atomic_store(&l->stop, FAULT_MEMORY);
            run_serial(e, l);
        }
    } else {
        run_serial(e, l);
    }
    if (l->sanitizer) sanitizer_finish(l->sanitizer);
    gather(l, e->worker, count);
    ((kernel *)k)->last_run_ns = monotonic_ns() - began;
}

bool launch_is_parallel(const launch *l) {
    const kernel *const k = l->kernel;
    if (k->has_atomics || k->has_grid_barrier || l->mode == MODE_SANITIZED || l->mode == MODE_DEBUG) return false;
    for (int a = 0; a < k->pointers; a++) {
        if (!k->pointer[a].stored) continue;
        if (k->pointer[a].loaded) return false;
        uintptr_t low, high;
        view_range(&l->arrays[a], tk_size[l->arrays[a].dtype], &low, &high);
        for (int b = 0; b < k->pointers; b++) {
            if (b == a || !(k->pointer[b].loaded || k->pointer[b].stored)) continue;
            uintptr_t other_low, other_high;
            view_range(&l->arrays[b], tk_size[l->arrays[b].dtype], &other_low, &other_high);
            if (low < other_high && other_low < high) return false;
        }
    }
    return true;
}

void launch_clear(launch *l) {
    sanitizer_free(l->sanitizer);
    l->sanitizer = NULL;
    free(l->prints.bytes);
    l->prints = (print_log){0};
}
