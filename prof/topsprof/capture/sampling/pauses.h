/* Pauses in which an interpreter collected garbage: what its flag and its counters of collections tell from tick to tick. */
#ifndef TOPSPROF_PAUSES_H
#define TOPSPROF_PAUSES_H
#include <stdbool.h>
#include <stdint.h>

enum { GC_GENERATIONS = 3, GC_STACK_UNSEEN = -3 };

typedef struct {
    int64_t begin_ns, end_ns;
    int32_t tid, stack, generation;     /* tid 0, generation -1: not known */
} gc_pause;

/* What is known of one interpreter. */
typedef struct {
    uint64_t counted[GC_GENERATIONS], now[GC_GENERATIONS];     /* collections: at the last tick, and as just read */
    bool known, open;               /* known: `counted` is */
    int64_t begin_ns, last_ns;      /* of the open one: its begin, and when it was last seen */
    int64_t boundary_ns;            /* when its counter grew; 0: it has not yet */
    uint64_t thread;                /* state of the thread that collects; 0: not known */
    int32_t tid, stack, next_stack, generation;
} gc_watch;

typedef struct {
    gc_pause *pauses;
    int32_t count, room;
    int64_t tick_ns;                /* the last tick; 0: none yet */
    uint64_t lost;                  /* for want of memory, or as nobody took them */
} pause_list;

/* One tick of an interpreter: whether it collects now, and which thread has the GIL: its state and its number (0: not known). */
void pauses_tick(pause_list *list, gc_watch *watch, bool collecting, uint64_t thread, int32_t tid, int64_t now_ns);

/* The thread that collects was seen with this stack. */
void pauses_stack(gc_watch *watch, uint64_t thread, int32_t stack);

/* The interpreter is not seen any more: an open pause ends where it was last seen. */
void pauses_end(pause_list *list, gc_watch *watch);
#endif
