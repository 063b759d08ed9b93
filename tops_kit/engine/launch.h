/* A launch: a kernel, its arguments, a grid, and how it is to be run. Nothing here knows Python. */
#ifndef TOPS_LAUNCH_H
#define TOPS_LAUNCH_H
#include <stdatomic.h>
#include "kernel.h"
#include "memory.h"
#include "timing.h"

enum { TRACE_LIMIT_BYTES = 0x7FFFFFFF }; /* of all events of a launch */
enum { SIGNALS_NS = 50000000 }; /* between looks at signals */

struct sanitizer;

typedef struct launch {
    const kernel *kernel;
    int mode;
    const reg *registers; /* at the start: constants and scalar arguments */
    const tile *arrays;   /* views of the pointer arguments; MAY_LOAD, MAY_STORE in `slot` */
    int32_t grid[3], block[3];
    int32_t blocks, block_threads;
    int host_threads;
    bool defer;
    int64_t deadline_ns; /* of CLOCK_MONOTONIC; 0: none */
    /* looks at signals: not 0 when the launch has to stop; called by the launching thread only */
    int (*signals)(void *);
    void *signals_data;
    const uint8_t *breakpoints; /* debug: zeros, one a pc */
    /* the cost model: figures of the part (NULL: no times), flags of the instructions, whether to record intervals */
    const timing_parameters *part;
    const uint8_t *flags;
    bool intervals;
    /* while it runs */
    event_log *traces;     /* timed: one a thread; the engine's */
    _Atomic int stop;      /* a fault that ends everything: FAULT_STOPPED, FAULT_TIMEOUT, FAULT_MEMORY */
    _Atomic int64_t traced_bytes;
    _Atomic int32_t limit; /* units from here on are not wanted: an earlier one has a fault */
    int64_t next_signals_ns;
    /* results */
    struct sanitizer *sanitizer; /* sanitized: what it found, after the run */
    fault fault; /* kind FAULT_NONE: all went well */
    print_log prints;
    int64_t *counts; /* kernel->count + 2 differences; NULL in fast mode */
    bool ran_parallel, ran_again;
} launch;

/* What launches use again and again: memories of threads, host threads. One launch at a time. */
typedef struct engine engine;
engine *engine_new(void);
void engine_free(engine *e);
/* Runs it; the results stand in the launch, its traces in the engine until engine_tidy. */
void engine_run(engine *e, launch *l);
void engine_tidy(engine *e);  /* frees memory that is too much to keep */
void launch_clear(launch *l); /* frees results */

int64_t monotonic_ns(void);
/* Whether it has to end: 0, or the fault that ends it. Only the launching thread looks at signals. */
int launch_poll(launch *l, bool launching);
/* Keys of slots as events have them. */
static inline int32_t kernel_keys(const kernel *k) { return k->keys < KEY_NONE ? k->keys : KEY_NONE; }
/* Whether a kernel's pointers allow several host threads: what is stored is neither loaded nor stored otherwise. */
bool launch_is_parallel(const launch *l);

#endif
