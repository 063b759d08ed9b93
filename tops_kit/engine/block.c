#include "block.h"
#include <stdlib.h>
#include "sanitizer.h"

context *worker_take(worker *w) {
    if (w->spares) return w->spare[--w->spares];
    return calloc(1, sizeof(context));
}

void worker_give(worker *w, context *c) {
    if (w->spares == w->spare_capacity) {
        const int32_t capacity = w->spare_capacity ? 2 * w->spare_capacity : 32;
        context **const grown = realloc(w->spare, (size_t)capacity * sizeof *grown);
        if (!grown) {
            context_free(c);
            free(c);
            return;
        }
        w->spare = grown;
        w->spare_capacity = capacity;
    }
    w->spare[w->spares++] = c;
}

void worker_fault(worker *w, const fault *f) {
    struct sanitizer *const s = w->launch->sanitizer;
    if (s) sanitizer_fault(s, f);
    if (!s || w->fault.kind == FAULT_NONE) w->fault = *f;
}

static bool no_memory(worker *w, int32_t id) {
    const fault f = {.kind = FAULT_MEMORY, .pc = -1, .thread = id, .block = id / w->launch->block_threads, .object = -1, .rank = {-1, -1}};
    worker_fault(w, &f);
    return false;
}

static bool begin(worker *w, context *c, int32_t id, int32_t unit, uint8_t *l2) {
    if (!c || !context_start(c, w->launch, id, l2)) return false;
    thread *const t = &c->thread;
    t->unit = unit;
    t->launching = w->launching;
    t->stores = w->log_stores ? &w->stores : NULL;
    t->prints = &w->prints;
    t->counts = w->counts;
    return true;
}

static int step(worker *w, thread *t) {
    t->slice = SLICE_POLLS;
    t->ticks = atomic_load(&w->launch->stop) ? 1 : POLL_JUMPS; /* perhaps what ends it was seen at a barrier */
    while (w->run(t) == THREAD_AFTER_BRK) {} /* nobody stops here */
    return t->state;
}

bool thread_run_alone(worker *w, int32_t id) {
    context *const c = worker_take(w);
    w->stores.unit = id;
    bool good = begin(w, c, id, id, NULL);
    if (!good) {
        no_memory(w, id);
    } else {
        while (step(w, &c->thread) == THREAD_READY) {}
        good = c->thread.state == THREAD_ENDED;
        if (!good) worker_fault(w, &c->thread.fault);
    }
    if (c) worker_give(w, c);
    return good;
}

/* One turn of a thread; false: it can't have memory. */
static bool turn(block_run *b, int32_t local) {
    worker *const w = b->worker;
    const int32_t id = b->number * w->launch->block_threads + local;
    if (!b->thread[local]) {
        b->thread[local] = worker_take(w);
        if (!begin(w, b->thread[local], id, b->unit, b->l2)) return no_memory(w, id);
        if (b->sanitizer && !sanitizer_thread_begin(b->sanitizer, &b->thread[local]->thread)) return no_memory(w, id);
    }
    context *const c = b->thread[local];
    b->state[local] = (uint8_t)step(w, &c->thread);
    if (b->state[local] == THREAD_ENDED) {
        b->thread[local] = NULL;
        worker_give(w, c);
    }
    return true;
}

static int32_t count(const block_run *b, int state) {
    int32_t n = 0;
    for (int32_t k = 0; k < b->worker->launch->block_threads; k++) n += b->state[k] == state;
    return n;
}

/* All threads to a barrier or their end. A fault of one lets those before it run on: theirs would come first. The sanitizer wants
   to see them all, unless the launch has to stop. */
static bool run_to_barrier(block_run *b) {
    int32_t limit = b->worker->launch->block_threads;
    const int32_t all = limit;
    for (bool again = true; again;) {
        again = false;
        for (int32_t k = 0; k < limit; k++) {
            if (b->state[k] != THREAD_READY) continue;
            if (!turn(b, k)) return false;
            if (b->state[k] == THREAD_FAULTED && (!b->sanitizer || atomic_load(&b->worker->launch->stop))) limit = k;
            again = again || b->state[k] == THREAD_READY;
        }
    }
    bool good = true;
    for (int32_t k = 0; k < all && (good || b->sanitizer); k++) {
        if (b->state[k] != THREAD_FAULTED || (k > limit && !b->sanitizer)) continue;
        worker_fault(b->worker, &b->thread[k]->thread.fault);
        good = false;
    }
    return good;
}

bool block_barrier_fault(block_run *b) {
    for (int32_t k = 0; k < b->worker->launch->block_threads; k++) {
        if (b->state[k] != THREAD_AT_BARRIER && b->state[k] != THREAD_AT_GRID_BARRIER) continue;
        thread *const t = &b->thread[k]->thread;
        fault_set(t, FAULT_BARRIER, NULL, count(b, THREAD_AT_BARRIER), count(b, THREAD_AT_GRID_BARRIER), count(b, THREAD_ENDED), 0);
        fault_place(t, t->pc - 1);
        worker_fault(b->worker, &t->fault);
        break;
    }
    return false;
}

void block_show_barrier(block_run *b) {
    const thread *const t = &b->thread[0]->thread;
    sanitizer_block_barrier(b->sanitizer, t->epoch + t->grid_epoch);
}

bool block_advance(block_run *b) {
    const int32_t threads = b->worker->launch->block_threads;
    for (;;) {
        if (!run_to_barrier(b)) return false;
        const int32_t waiting = count(b, THREAD_AT_BARRIER), grid = count(b, THREAD_AT_GRID_BARRIER);
        if (waiting + grid == 0) return true;
        if (waiting == 0 && grid == threads) return true;
        if (waiting != threads) return block_barrier_fault(b);
        if (b->sanitizer) block_show_barrier(b);
        for (int32_t k = 0; k < threads; k++) b->state[k] = THREAD_READY;
    }
}

int32_t block_waiting(const block_run *b) { return count(b, THREAD_AT_GRID_BARRIER); }

void block_release(block_run *b) {
    for (int32_t k = 0; k < b->worker->launch->block_threads; k++) {
        if (b->state[k] == THREAD_AT_GRID_BARRIER) b->state[k] = THREAD_READY;
    }
}

void block_drop(block_run *b) {
    for (int32_t k = 0; k < b->worker->launch->block_threads; k++) {
        if (b->thread[k]) worker_give(b->worker, b->thread[k]);
        b->thread[k] = NULL;
    }
}
