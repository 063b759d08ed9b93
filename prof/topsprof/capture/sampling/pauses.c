/* A pause begins and ends between two ticks: half way, so that the sum is right where single ones are not. Which generation it was is
 * known when the counter of that grew, which is at its end; only calls of gc.callbacks may follow it then. Grows one again while the flag
 * stays, there were two collections, and no tick between them. */
#include "pauses.h"
#include <stdlib.h>

enum { PAUSES_MAX = 1 << 20 };

static void put(pause_list *list, const gc_watch *w, int64_t end_ns)
{
    if (list->count == list->room) {
        int32_t room = list->room ? list->room * 2 : 64;
        gc_pause *more = room <= PAUSES_MAX ? realloc(list->pauses, (size_t)room * sizeof *more) : NULL;
        if (!more) {
            list->lost++;
            return;
        }
        list->pauses = more;
        list->room = room;
    }
    int32_t stack = w->stack == GC_STACK_UNSEEN ? -1 : w->stack;
    list->pauses[list->count++] = (gc_pause){w->begin_ns, end_ns, w->tid, stack, w->generation};
}

void pauses_tick(pause_list *list, gc_watch *w, bool collecting, uint64_t thread, int32_t tid, int64_t now_ns)
{
    int64_t between = list->tick_ns ? now_ns - (now_ns - list->tick_ns) / 2 : now_ns;
    int32_t grown = -1;
    for (int32_t g = 0; g < GC_GENERATIONS; g++) {
        if (w->known && w->now[g] != w->counted[g]) grown = g;
        w->counted[g] = w->now[g];
    }
    w->known = true;
    if (w->open && grown >= 0) {
        if (w->boundary_ns) {
            put(list, w, w->boundary_ns);
            w->begin_ns = w->boundary_ns;
            w->stack = w->next_stack;
        }
        w->generation = grown;
        w->boundary_ns = between;
        w->next_stack = GC_STACK_UNSEEN;
    }
    if (w->open && !collecting) {
        put(list, w, between);
        w->open = false;
    } else if (collecting && !w->open) {
        w->open = true;
        w->begin_ns = between;
        w->boundary_ns = 0;
        w->thread = 0;
        w->tid = 0;
        w->stack = w->next_stack = GC_STACK_UNSEEN;
        w->generation = -1;
    }
    if (collecting) w->last_ns = now_ns;
    if (w->open && !w->thread && tid) w->thread = thread;
    if (w->open && w->thread == thread && tid) w->tid = tid;    /* again: of a new thread it may have been its maker's */
}

void pauses_stack(gc_watch *w, uint64_t thread, int32_t stack)
{
    if (!w->open || w->thread != thread) return;
    if (w->stack == GC_STACK_UNSEEN) w->stack = stack;
    else if (w->boundary_ns && w->next_stack == GC_STACK_UNSEEN) w->next_stack = stack;
}

void pauses_end(pause_list *list, gc_watch *w)
{
    if (w->open && w->last_ns > w->begin_ns) put(list, w, w->last_ns);
    w->open = false;
}
