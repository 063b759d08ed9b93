#include "debug.h"
#include <stdlib.h>
#include "tiles/tiles.h"

static int64_t threads_of(const debug_launch *d) { return (int64_t)d->launch.blocks * d->launch.block_threads; }

bool debug_begin(debug_launch *d, const launch *l) {
    d->launch = *l;
    const size_t count = (size_t)l->kernel->count + 2, threads = (size_t)threads_of(d);
    d->context = calloc(threads, sizeof *d->context);
    d->l2 = calloc((size_t)l->blocks, sizeof *d->l2);
    d->breakpoints = calloc(count, 1);
    d->none = calloc(count, 1);
    d->steps_done = calloc(threads, sizeof *d->steps_done);
    d->launch.counts = calloc(count, sizeof *d->launch.counts);
    if (l->kernel->has_clock) d->launch.traces = d->traces = calloc(threads, sizeof *d->traces);
    if (l->kernel->has_clock && !d->traces) return false;
    if (!d->context || !d->l2 || !d->breakpoints || !d->none || !d->steps_done || !d->launch.counts) return false;
    atomic_store(&d->launch.limit, INT32_MAX);
    for (int32_t b = 0; b < l->blocks; b++) {
        if (!arena_reserve(&d->l2[b], (size_t)l->kernel->l2_bytes)) return false;
    }
    for (size_t id = 0; id < threads; id++) {
        context *const c = &d->context[id];
        if (!context_start(c, &d->launch, (int32_t)id, d->l2[id / (size_t)l->block_threads].bytes)) return false;
        c->thread.prints = &d->prints;
        c->thread.counts = d->launch.counts;
    }
    return true;
}

void debug_end(debug_launch *d) {
    for (int64_t id = 0; d->context && id < threads_of(d); id++) context_free(&d->context[id]);
    for (int32_t b = 0; d->l2 && b < d->launch.blocks; b++) arena_free(&d->l2[b]);
    for (int64_t id = 0; d->traces && id < threads_of(d); id++) free(d->traces[id].item);
    free(d->traces);
    free(d->context);
    free(d->l2);
    free(d->breakpoints);
    free(d->none);
    free(d->steps_done);
    free(d->launch.counts);
    free(d->prints.bytes);
    *d = (debug_launch){0};
}

static int64_t run_some(thread *t, const uint8_t *breakpoints, int64_t steps) {
    t->breakpoints = breakpoints;
    t->steps = steps;
    machine_debug(t);
    return steps - t->steps;
}

int debug_run(debug_launch *d, int32_t id, int64_t steps, bool skip) {
    thread *const t = &d->context[id].thread;
    if (steps < 1 || t->state == THREAD_ENDED || t->state == THREAD_FAULTED) return t->state;
    if (t->state == THREAD_READY) { /* else it goes on with its turn */
        t->slice = SLICE_POLLS;
        t->ticks = POLL_JUMPS;
    }
    const uint32_t control = tk_fp_begin();
    int64_t done = skip ? run_some(t, d->none, 1) : 0;
    if (!skip || (t->state == THREAD_STEPPED && steps > 1)) done += run_some(t, d->breakpoints, steps - done);
    tk_fp_end(control);
    d->steps_done[id] += done;
    return t->state;
}
