/* Running the threads of one block in their fixed order, between barriers. */
#ifndef TOPS_BLOCK_H
#define TOPS_BLOCK_H
#include "context.h"

/* What a host thread has for running blocks. */
typedef struct worker {
    launch *launch;
    machine_function run;
    context **spare; /* contexts that no thread has */
    int32_t spares, spare_capacity;
    arena l2;
    store_log stores;
    print_log prints;
    int64_t *counts;
    int32_t counts_capacity;
    fault fault; /* the first, in the order of blocks */
    bool launching, log_stores;
} worker;

/* A block that has begun. */
typedef struct {
    worker *worker;
    int32_t number, unit;
    struct sanitizer_block *sanitizer; /* NULL in other modes */
    uint8_t *l2;
    context **thread; /* by local number; NULL: not begun, or ended */
    uint8_t *state;   /* THREAD_*, by local number */
} block_run;

context *worker_take(worker *w); /* NULL: no memory */
void worker_give(worker *w, context *c);
void worker_fault(worker *w, const fault *f);

/* Runs the block until every thread has ended or waits at a grid barrier; false: w->fault is set. */
bool block_advance(block_run *b);
/* Whether some thread waits at a grid barrier, and whether all do. */
int32_t block_waiting(const block_run *b);
void block_show_barrier(block_run *b); /* to the sanitizer: all threads meet */
void block_release(block_run *b);  /* from the grid barrier */
void block_drop(block_run *b);     /* contexts go back */
bool block_barrier_fault(block_run *b); /* the lowest waiting thread faults: FAULT_BARRIER; false */

/* One thread to its end, without others. */
bool thread_run_alone(worker *w, int32_t id);

#endif
