/* The samples of one process. Threads that have not run since their last sample keep its stack: they are not walked again, and where
 * there are many they are only looked at in turn, their time being accounted when they are. */
#define _GNU_SOURCE
#include "process.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FEW_THREADS = 12, LONGEST_PAUSE_TICKS = 64, LIVES_TICKS = 16, SCAN_TICKS = 1000, PENDING_TICKS = 8, WATCH_IDLE = 1000, STOPPED_IDLE = 8, POINTER_PERIODS = 4, ROWS_MAX = 1 << 22 };
enum { EXITING = 4 };                           /* the kernel's PF_EXITING */
static const int64_t merged_ns = 100000000;     /* a row of an idle thread stands for at most this */

bool process_begin(process *p, int depth)
{
    char path[48];
    snprintf(path, sizeof path, "/proc/%d/mem", (int)p->from.pid);
    p->memory_fd = open(path, O_RDONLY | O_CLOEXEC);
    p->pointer_room = 256;
    p->pointer_mask = 511;
    p->pointer_count = 1;
    p->pointers = calloc((size_t)p->pointer_room, sizeof *p->pointers);
    p->pointer_slots = calloc((size_t)p->pointer_mask + 1, sizeof *p->pointer_slots);
    p->rescan = true;
    pthread_mutex_init(&p->lock, NULL);
    return p->pointers && p->pointer_slots && codes_begin(&p->codes) && stacks_begin(&p->stacks) && tasks_begin(&p->tasks) &&
        walker_begin(&p->walker, depth);
}

void process_end(process *p)
{
    while (p->thread_count) thread_drop(p, p->thread_count - 1);
    if (p->memory_fd >= 0) close(p->memory_fd);
    codes_end(&p->codes);
    stacks_end(&p->stacks);
    tasks_end(&p->tasks);
    rows_end(&p->rows);
    free(p->pauses.pauses);
    walker_end(&p->walker);
    free(p->interps);
    free(p->threads);
    free(p->interpreter);
    free(p->pointers);
    free(p->pointer_slots);
    pthread_mutex_destroy(&p->lock);
}

/* Why the process can't be read any more. */
static enum process_end why_gone(const process *p)
{
    char path[48], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)p->from.pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0) close(fd);
    if (got <= 0) return EXITED;
    text[got] = 0;
    const char *name_end = strrchr(text, ')');
    char letter;
    unsigned flags;
    if (!name_end || sscanf(name_end + 1, " %c %*d %*d %*d %*d %*d %u", &letter, &flags) != 2) return EXITED;
    return strchr("ZXx", letter) || flags & EXITING ? EXITED : EXECUTED;
}

/* Whether the program that we know still runs: its memory is gone once the process ends or executes another. */
static bool lives(process *p)
{
    uint64_t word;
    if (p->memory_fd < 0) return true;
    if (pread(p->memory_fd, &word, 8, (off_t)p->from.runtime) == 8) return true;
    p->end = why_gone(p);
    return false;
}

bool process_scan(process *p)
{
    if (lives(p) && threads_scan(p)) return true;
    if (p->end == LIVES && errno != ENOMEM) p->end = why_gone(p);
    return false;
}

/* The id of an instruction pointer. */
static int32_t pointer_id(process *p, uint64_t pointer)
{
    uint32_t k = (uint32_t)(pointer * 0x9E3779B97F4A7C15ULL >> 32) & p->pointer_mask;
    for (; p->pointer_slots[k]; k = (k + 1) & p->pointer_mask)
        if (p->pointers[p->pointer_slots[k]] == pointer) return (int32_t)p->pointer_slots[k];
    if (p->pointer_count == p->pointer_room) {
        uint64_t *more = realloc(p->pointers, (size_t)p->pointer_room * 2 * sizeof *more);
        uint32_t mask = p->pointer_mask * 2 + 1, *slots = more ? calloc((size_t)mask + 1, sizeof *slots) : NULL;
        if (more) p->pointers = more;
        if (!slots) return -1;
        for (int32_t id = 1; id < p->pointer_count; id++) {
            uint32_t j = (uint32_t)(more[id] * 0x9E3779B97F4A7C15ULL >> 32) & mask;
            while (slots[j]) j = (j + 1) & mask;
            slots[j] = (uint32_t)id;
        }
        free(p->pointer_slots);
        p->pointer_slots = slots;
        p->pointer_mask = mask;
        p->pointer_room *= 2;
        return pointer_id(p, pointer);
    }
    p->pointers[p->pointer_count] = pointer;
    p->pointer_slots[k] = (uint32_t)p->pointer_count;
    return p->pointer_count++;
}

static bool in_interpreter(const process *p, uint64_t pointer)
{
    for (int k = 0; k < p->range_count; k++)
        if (pointer >= p->interpreter[k].start && pointer < p->interpreter[k].end) return true;
    return false;
}

/* Where a running thread is in machine code. The kernel notes it only while that is of use, since it costs the thread interrupts: from
 * the second sample on that finds it at the same call. What was noted holds as long as it stays there. */
static uint64_t pointer_of(process *p, py_thread *t, const sample_row *row)
{
    const raw_frame *leaf = p->walker.count ? &p->walker.frames[0] : NULL;
    bool at_call = row->flags & FLAG_AT_CALL && leaf, same = at_call && leaf->address == t->leaf && leaf->instr == t->leaf_instr;
    if (!same) t->pointer = 0;
    t->leaf = at_call ? leaf->address : 0;
    t->leaf_instr = at_call ? leaf->instr : 0;
    uint64_t noted = os_pointer(&t->os);
    if (noted && same && t->os.perf_on) t->pointer = noted;
    if (same) p->perf_denied |= !os_watch(&t->os, p->period_ns * POINTER_PERIODS);
    else if (t->os.perf_on) os_rest(&t->os);
    return t->pointer;
}

/* Native code: what is outside of the interpreter, and what a call of C runs inside of it. */
static void name_native(process *p, py_thread *t, sample_row *row, const os_state *os)
{
    uint64_t pointer = os->running ? pointer_of(p, t, row) : os->pc;
    if (row->state == STATE_NATIVE && in_interpreter(p, pointer)) pointer = 0;     /* of before: without the GIL it can't be there */
    if (pointer) {
        row->native = pointer_id(p, pointer);
        if (row->native > 0) p->counts.native_named++;
    } else if (os->running && row->flags & FLAG_AT_CALL) {
        row->native = -1;
        p->counts.native_unnamed++;
    }
}

/* Whether a thread that sleeps has the GIL: it may have given it back after we looked. */
static bool still_holds(process *p, const py_thread *t, const py_interp *interp)
{
    uint64_t holder = 0;
    int32_t locked = 0;
    remote_item items[] = {{interp->gil + (uint64_t)p->from.at.gil_holder, &holder, 8},
                           {interp->gil + (uint64_t)p->from.at.gil_locked, &locked, 4}};
    return remote_read_items(&p->from, items, 2) == 2 && locked == 1 && holder == t->state;
}

enum walk_result thread_look(process *p, py_thread *t, sample_row *row, os_state *os, bool want_pointer)
{
    const py_interp *interp = interp_of(p, t);
    if (!interp || os_look(&t->os, os) == OS_GONE) return WALK_GONE;
    bool holds = interp->locked && interp->holder == t->state;
    if (holds && os->known && !os->running) holds = still_holds(p, t, interp);
    enum walk_result walked = walk(&p->walker, &p->from, &p->codes, &t->hint, t->state, t->interp, t->tid, p->time);
    if (walked == WALK_GONE || walked == WALK_NO_MEMORY) return walked;
    *row = (sample_row){.tid = t->tid, .stack = STACK_NONE, .syscall = os->syscall, .wait = os->wait};
    if (holds) row->flags |= FLAG_HOLDS_GIL;
    if (interp->collecting && holds) row->flags |= FLAG_GC;
    uint64_t gil = interp->gil;
    if (!os->known) row->state = STATE_UNKNOWN;
    else if (!os->running) row->state = STATE_BLOCKED;
    else row->state = STATE_RUNNING;
    bool on_gil = os->wait == FOR_LOCK && gil && os->argument >= gil + (uint64_t)p->from.at.gil_cond &&
        os->argument < gil + (uint64_t)p->from.at.gil_size;
    if (walked == WALK_OK && os->running && p->walker.at_call) {
        row->flags |= FLAG_AT_CALL;
        if (!holds) row->state = STATE_NATIVE;
    } else if (os->running && !holds && interp->locked && walked == WALK_OK && p->walker.count) {
        on_gil = true;          /* it is awake, but in Python code, which another thread has the right to run */
    }
    if (on_gil) {
        row->state = STATE_GIL;
        row->wait = FOR_GIL;
        row->holder = holder_of(p, interp);
    }
    if (want_pointer) name_native(p, t, row, os);
    if (walked == WALK_OK) {
        row->task = tasks_of(&p->tasks, &p->from, &p->walker, &p->codes);
        if (row->task < 0) return WALK_NO_MEMORY;
    }
    return walked;
}

/* The walked frames as a stack. */
static int32_t stack_of(process *p)
{
    const walker *w = &p->walker;
    int32_t stack = STACK_NONE;
    if (w->cut) stack = stacks_node(&p->stacks, stack, CODE_CUT, 0);
    for (int k = w->count - 1; k >= 0; k--) {
        stack = stacks_node(&p->stacks, stack, w->ids[k], w->lines[k]);
        if (stack < 0) return -1;
    }
    return stack;
}

static bool add_row(process *p, py_thread *t, const sample_row *row)
{
    t->last = *row;
    t->last_row = -1;
    if (p->rows.count == ROWS_MAX) {        /* nobody takes them */
        p->counts.rows_lost++;
        return true;
    }
    t->last_row = rows_add(&p->rows, row);
    t->last_take = p->takes;
    if (t->last_row < 0) errno = ENOMEM;
    return t->last_row >= 0;
}

/* The last sample goes on: its row grows where it still is ours, and is not long yet. */
static bool extend(process *p, py_thread *t, int64_t now_ns, int64_t weight_ns)
{
    if (t->last_take == p->takes && t->last_row >= 0 && p->rows.weight_ns[t->last_row] + weight_ns <= merged_ns) {
        p->rows.weight_ns[t->last_row] += weight_ns;
        p->rows.time_ns[t->last_row] = now_ns;
        t->last.time_ns = now_ns;
        return true;
    }
    sample_row row = t->last;
    row.time_ns = now_ns;
    row.weight_ns = weight_ns;
    return add_row(p, t, &row);
}

static void set_pause(process *p, py_thread *t)
{
    uint64_t longest = (uint64_t)p->thread_count / FEW_THREADS, pause = t->idle < 6 ? 1ULL << t->idle : LONGEST_PAUSE_TICKS;
    if (longest < 1) longest = 1;
    if (longest > LONGEST_PAUSE_TICKS) longest = LONGEST_PAUSE_TICKS;
    t->due = p->tick + (pause < longest ? pause : longest);
}

/* How much of a long time since the last sample (ticks came late, or the thread was passed over) what was found now stands for. When
 * it changed is not known, so each gets half; but a thread that slept stood for its sleep until it ran, and how long that was is told. */
static int64_t share_of_new(const process *p, const py_thread *t, int64_t elapsed, int64_t ran_ns, bool running)
{
    static const int64_t untold_ns = 4000000;       /* what a thread may have run since the kernel last accounted for it */
    if (!t->last.time_ns || elapsed <= 2 * p->period_ns) return elapsed;
    int64_t active = elapsed / 2;
    if (ran_ns >= 0 && t->idle) {
        int64_t most = ran_ns + (running ? untold_ns : p->period_ns);
        if (active > most) active = most;
        if (active < ran_ns) active = ran_ns;
    }
    return active < 1 ? 1 : active > elapsed ? elapsed : active;
}

/* Samples one thread. False: no memory. `*gone` says that the thread is no more. */
static bool sample(process *p, py_thread *t, int64_t now_ns, bool *gone)
{
    uint64_t ran_ns = 0, slices = 0;
    int64_t elapsed = t->last.time_ns ? now_ns - t->last.time_ns : p->period_ns;
    enum os_result asked = t->slept ? os_ran(&t->os, &ran_ns, &slices) : OS_UNKNOWN;      /* who ran will have run again */
    *gone = asked == OS_GONE;
    if (*gone) return true;
    p->counts.samples++;
    if (asked == OS_OK && t->ran_known && t->ran_ns == ran_ns && t->slices == slices) {
        t->idle++;
        if (t->idle == STOPPED_IDLE && os_stopped(&t->os)) {
            t->last.wait = FOR_STOPPED;
            t->last_row = -1;               /* a new row */
        }
        if (t->idle == WATCH_IDLE) os_unwatch(&t->os);
        set_pause(p, t);
        return extend(p, t, now_ns, elapsed);
    }
    sample_row row;
    os_state os;
    enum walk_result result = thread_look(p, t, &row, &os, p->native);
    if (result == WALK_NO_MEMORY) errno = ENOMEM;
    if (result == WALK_NO_MEMORY) return false;
    *gone = result == WALK_GONE;
    if (*gone) return true;
    p->counts.retries += (uint64_t)p->walker.attempts - 1;
    if (result == WALK_OK) {
        row.stack = stack_of(p);
        if (p->walker.count && row.stack < 0) {
            errno = ENOMEM;
            return false;
        }
        p->counts.frames += (uint64_t)p->walker.count;
        p->counts.cut += p->walker.cut;
        if (p->walker.cut) row.flags |= FLAG_CUT;
    } else {
        row.stack = STACK_UNRESOLVED;
        p->counts.unresolved++;
    }
    p->counts.gc += (row.flags & FLAG_GC) != 0;
    py_interp *interp = row.flags & FLAG_GC ? interp_of(p, t) : NULL;
    if (interp) pauses_stack(&interp->gc, t->state, row.stack);
    row.time_ns = now_ns;
    int64_t active = share_of_new(p, t, elapsed, asked == OS_OK && t->ran_known ? (int64_t)(ran_ns - t->ran_ns) : -1, os.running);
    bool ok = active == elapsed || extend(p, t, now_ns - active, elapsed - active);
    row.weight_ns = active;
    t->idle = 0;
    t->slept = os.known && !os.running;
    t->due = p->tick + 1;
    t->ran_known = asked == OS_OK;
    t->ran_ns = ran_ns;
    t->slices = slices;
    return ok && add_row(p, t, &row);
}

/* Threads that sleep are looked at in turn; who holds the GIL runs, at any rate. */
static bool is_due(process *p, const py_thread *t)
{
    if (t->shadowed) return false;
    if (t->due <= p->tick) return true;
    const py_interp *interp = interp_of(p, t);
    return interp && interp->locked && interp->holder == t->state;
}

bool process_tick(process *p, int64_t now_ns)
{
    bool changed = false, ok = true;
    p->tick++;
    p->time++;
    p->counts.ticks++;
    if (p->tick % LIVES_TICKS == 0 && !lives(p)) return false;
    if (!interps_read(p, &changed)) {
        p->end = why_gone(p);
        return false;
    }
    uint64_t since = p->tick - p->scanned_tick;
    if (changed || p->scan_soon || (p->rescan && since >= PENDING_TICKS) || since >= SCAN_TICKS) {
        p->rescan = p->rescan || since >= SCAN_TICKS;
        p->scan_soon = false;
        if (!process_scan(p)) return false;
        if (!interps_read(p, &changed)) return false;
    }
    for (int k = 0; k < p->interp_count; k++) {
        py_interp *interp = &p->interps[k];
        int32_t tid = interp->collecting && interp->locked ? holder_of(p, interp) : 0;
        pauses_tick(&p->pauses, &interp->gc, interp->collecting, interp->holder, tid, now_ns);
    }
    p->pauses.tick_ns = now_ns;
    for (int k = 0; ok && k < p->thread_count; k++) {
        bool gone = false;
        if (!is_due(p, p->threads[k])) continue;
        ok = sample(p, p->threads[k], now_ns, &gone);
        if (gone) {
            thread_drop(p, k--);
            p->scan_soon = true;            /* another thread's state may lie where its did */
        }
    }
    return ok;
}
