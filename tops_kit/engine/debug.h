/* A launch under a debugger: every thread has its own memory, and runs when it is told to. Who schedules is outside
   (debug.py); reading and writing registers and memory is possible whenever nothing runs. */
#ifndef TOPS_DEBUG_H
#define TOPS_DEBUG_H
#include "context.h"

typedef struct {
    launch launch;
    context *context; /* by thread */
    arena *l2;        /* by block */
    print_log prints;
    uint8_t *breakpoints; /* per pc */
    uint8_t *none;        /* no breakpoints */
    int64_t *steps_done;  /* by thread: instructions run */
    event_log *traces;    /* by thread, when the kernel reads its clock */
} debug_launch;

/* Every thread at its first instruction; `l` is copied. False: no memory. */
bool debug_begin(debug_launch *d, const launch *l);
void debug_end(debug_launch *d);
/* Runs a thread for at most `steps` instructions, until a breakpoint, a barrier, its end or a fault; `skip`: a breakpoint at
   its first instruction is passed. Gives its state. */
int debug_run(debug_launch *d, int32_t id, int64_t steps, bool skip);

#endif
