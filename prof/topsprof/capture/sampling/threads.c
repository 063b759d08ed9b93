/* Follows the interpreters and threads of a process. New thread states stand at the head of their interpreter's list, so a changed head
 * tells of them; that one ended is noticed when the kernel or its memory says so, and once in a while by reading the whole list. */
#define _GNU_SOURCE
#include "process.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { INTERP_BLOCK = 1024, HEAD_TICKS = 16, INTERPRETERS_MAX = 1024, THREADS_MAX = 1 << 17 };

py_interp *interp_of(process *p, const py_thread *t)
{
    for (int k = 0; k < p->interp_count; k++)
        if (p->interps[k].address == t->interp) return &p->interps[k];
    return NULL;
}

int32_t holder_of(const process *p, const py_interp *interp)
{
    for (int k = 0; interp->holder && k < p->thread_count; k++)
        if (p->threads[k]->state == interp->holder) return p->threads[k]->tid;
    return 0;
}

static bool add_interp(process *p, uint64_t address)
{
    if (p->interp_count == p->interp_room) {
        int room = p->interp_room ? p->interp_room * 2 : 4;
        py_interp *more = realloc(p->interps, (size_t)room * sizeof *more);
        if (!more) return false;
        p->interps = more;
        p->interp_room = room;
    }
    p->interps[p->interp_count++] = (py_interp){.address = address};
    return true;
}

/* The list of interpreters, from the runtime. */
static bool list_interps(process *p)
{
    const py_layout *at = &p->from.at;
    uint64_t address = 0;
    if (!remote_read(&p->from, p->from.runtime + (uint64_t)at->runtime_interp_head, &address, 8)) return false;
    for (int k = 0; k < p->interp_count; k++) pauses_end(&p->pauses, &p->interps[k].gc);
    p->interp_count = 0;
    while (address && p->interp_count < INTERPRETERS_MAX) {
        if (!plausible(address) || !add_interp(p, address)) return false;
        py_interp *interp = &p->interps[p->interp_count - 1];
        if (!remote_read(&p->from, address + (uint64_t)at->interp_next, &interp->next, 8) ||
            !remote_read(&p->from, address + (uint64_t)at->interp_id, &interp->id, 8)) {
            p->interp_count--;              /* it is being ended: the next scan sees what is left */
            break;
        }
        if (at->interp_gil < 0) interp->gil = p->from.runtime + (uint64_t)at->runtime_gil;
        else if (!remote_read(&p->from, address + (uint64_t)at->interp_gil, &interp->gil, 8)) interp->gil = 0;
        address = interp->next;
    }
    return true;
}

bool interps_read(process *p, bool *changed)
{
    enum { PARTS = 2, MANY = 64, GIL_BLOCK = 64 };
    const py_layout *at = &p->from.at;
    int64_t first = at->interp_next, last = at->interp_next;
    const int64_t fields[] = {at->interp_threads_head, at->interp_collecting, at->interp_collections,
                              at->interp_collections + (GC_GENERATIONS - 1) * at->collections_step};
    for (int k = 0; k < 4; k++) {
        if (fields[k] < first) first = fields[k];
        if (fields[k] > last) last = fields[k];
    }
    size_t bytes = (size_t)(last - first) + 8, gil_bytes = (size_t)(at->gil_locked - at->gil_holder) + 4;
    remote_item items[MANY * PARTS];
    uint8_t blocks[MANY][INTERP_BLOCK], gils[MANY][GIL_BLOCK];
    int count = p->interp_count < MANY ? p->interp_count : MANY;
    *changed = count == 0 || count < p->interp_count;
    if (p->tick % HEAD_TICKS == 0) {
        uint64_t head = 0;
        if (!remote_read(&p->from, p->from.runtime + (uint64_t)at->runtime_interp_head, &head, 8)) return false;
        if (!count || head != p->interps[0].address) *changed = true;
    }
    for (int k = 0; k < count; k++) {
        items[k * PARTS] = (remote_item){p->interps[k].address + (uint64_t)first, blocks[k], bytes};
        items[k * PARTS + 1] = (remote_item){p->interps[k].gil + (uint64_t)at->gil_holder, gils[k], gil_bytes};
    }
    int whole = count ? remote_read_items(&p->from, items, count * PARTS) : 0;
    if (whole < count * PARTS) *changed = true;
    for (int k = 0; k < count && whole == count * PARTS; k++) {
        py_interp *interp = &p->interps[k];
        if (word_at(blocks[k], at->interp_next - first) != interp->next ||
            word_at(blocks[k], at->interp_threads_head - first) != interp->head) *changed = true;
        interp->holder = word_at(gils[k], 0);
        interp->locked = int_at(gils[k], at->gil_locked - at->gil_holder) == 1;
        interp->collecting = int_at(blocks[k], at->interp_collecting - first) != 0;
        for (int g = 0; g < GC_GENERATIONS; g++)
            interp->gc.now[g] = word_at(blocks[k], at->interp_collections + g * at->collections_step - first);
    }
    return true;
}

void thread_drop(process *p, int index)
{
    os_end(&p->threads[index]->os);
    hint_end(&p->threads[index]->hint);
    free(p->threads[index]);
    p->threads[index] = p->threads[--p->thread_count];
    p->counts.ended++;
}

static py_thread *known_thread(process *p, uint64_t state, uint64_t interp, int32_t tid)
{
    for (int k = 0; k < p->thread_count; k++) {
        py_thread *t = p->threads[k];
        if (t->state == state && t->interp == interp && t->tid == tid) return t;
    }
    return NULL;
}

static py_thread *add_thread(process *p, uint64_t state, const py_interp *interp, int32_t tid, uint64_t ident)
{
    if (p->thread_count == p->thread_room) {
        int room = p->thread_room ? p->thread_room * 2 : 16;
        py_thread **more = realloc(p->threads, (size_t)room * sizeof *more);
        if (!more) return NULL;
        p->threads = more;
        p->thread_room = room;
    }
    py_thread *t = calloc(1, sizeof *t);
    if (!t) return NULL;
    *t = (py_thread){.state = state, .interp = interp->address, .interp_id = interp->id, .tid = tid, .ident = ident};
    t->last.stack = STACK_NONE;
    os_begin(&t->os, p->from.pid, tid);
    p->threads[p->thread_count++] = t;
    p->counts.started++;
    return t;
}

/* Reads an interpreter's list of threads up to the first that is known, or all of it. */
static bool list_threads(process *p, py_interp *interp, bool whole)
{
    const py_layout *at = &p->from.at;
    uint64_t address = 0;
    uint8_t block[LAYOUT_BLOCK];
    if (!remote_read(&p->from, interp->address + (uint64_t)at->interp_threads_head, &address, 8)) return true;
    interp->head = address;
    for (int count = 0; address && count < THREADS_MAX; count++) {
        if (!plausible(address) || !remote_read(&p->from, address, block, (size_t)at->thread_tid + 8)) {
            p->rescan = true;
            return true;
        }
        if (word_at(block, at->thread_interp) != interp->address) {
            p->rescan = true;               /* it went while we read */
            return true;
        }
        int32_t tid = (int32_t)word_at(block, at->thread_tid);
        py_thread *t = known_thread(p, address, interp->address, tid);
        if (t && !whole) return true;
        if (!t && tid > 0) {
            t = add_thread(p, address, interp, tid, word_at(block, at->thread_ident));
            if (!t) {
                errno = ENOMEM;
                return false;
            }
        } else if (!t) {
            p->rescan = true;               /* made, but not begun: it has no number yet */
        }
        if (t) t->seen = true;
        address = word_at(block, at->thread_next);
    }
    return true;
}

/* One OS thread can have a state in several interpreters: the newest of them is the one that it is in. A thread that has just been made
 * bears, in 3.11, its maker's number: it is told apart when it has begun. */
static void find_shadowed(process *p)
{
    for (int k = 0; k < p->thread_count; k++) p->threads[k]->shadowed = false;
    if (p->thread_count > 64 && p->interp_count == 1) return;
    for (int k = 0; k < p->thread_count; k++)
        for (int j = 0; j < p->thread_count; j++) {
            py_thread *a = p->threads[k], *b = p->threads[j];
            if (k == j || a->tid != b->tid) continue;
            if (a->interp_id < b->interp_id) a->shadowed = true;
            else if (a->interp_id == b->interp_id && (pid_t)a->tid == p->from.pid) p->rescan = true;
        }
}

bool threads_scan(process *p)
{
    bool first = p->interp_count == 0, whole = first || p->rescan;
    uint64_t head = 0;
    p->rescan = false;
    p->counts.rescans++;
    p->scanned_tick = p->tick;
    if (!remote_read(&p->from, p->from.runtime + (uint64_t)p->from.at.runtime_interp_head, &head, 8)) return false;
    bool same = p->interp_count && head == p->interps[0].address;
    for (int k = 0; same && k < p->interp_count; k++) {
        uint64_t next = 0;
        same = remote_read(&p->from, p->interps[k].address + (uint64_t)p->from.at.interp_next, &next, 8) && next == p->interps[k].next;
    }
    if (!same) {
        whole = true;
        if (!list_interps(p)) return false;
    }
    for (int k = 0; k < p->thread_count; k++) p->threads[k]->seen = !whole;
    for (int k = 0; k < p->interp_count; k++)
        if (!list_threads(p, &p->interps[k], whole)) return false;
    if (whole && !p->rescan)
        for (int k = p->thread_count - 1; k >= 0; k--)
            if (!p->threads[k]->seen) thread_drop(p, k);
    find_shadowed(p);
    return true;
}
