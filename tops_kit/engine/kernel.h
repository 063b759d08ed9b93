/* A program made ready for the machine, its threads, and a launch of it. Nothing here knows Python. */
#ifndef TOPS_KERNEL_H
#define TOPS_KERNEL_H
#include <stdbool.h>
#include "machine.h"

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

enum { MAX_OPERANDS = 7, MAX_RANK = 3, SPECIALS = 18 };
enum { MODE_FAST, MODE_COUNTED, MODE_TIMED, MODE_SANITIZED, MODE_DEBUG, MODE_COUNT };
enum {
    POLL_JUMPS = 1 << 16, /* backward jumps between looks at the stop flag and the budget */
    SLICE_POLLS = 16,     /* polls after which the next thread gets its turn */
    POLL_WORK = 1 << 23   /* bytes of transfers and tile work between looks */
};

/* Where a thread stands when its loop returns. */
enum {
    THREAD_READY, /* its slice is used up */
    THREAD_AT_BARRIER,
    THREAD_AT_GRID_BARRIER,
    THREAD_ENDED,
    THREAD_FAULTED,
    /* debug mode only: before the instruction at pc */
    THREAD_AT_BREAKPOINT,
    THREAD_STEPPED, /* its steps are used up */
    THREAD_AFTER_BRK
};

typedef struct {
    int64_t offset_bytes, slot_bytes;
    int32_t slots;
    uint16_t key; /* timing: the key of slot 0 */
    tile view;    /* of slot 0 at address 0 */
} buffer;

typedef struct {
    bool loaded, stored, atomic;
    uint8_t dtype, rank;
} pointer;

typedef struct kernel {
    ins *code; /* one more than `count`: an `end` */
    int32_t count;
    int32_t scalars, tiles, vectors, buffers, pointers, keys;
    reg *registers; /* the scalar registers at the start: zeros and constants */
    buffer *buffer;
    pointer *pointer;
    int64_t l1_bytes, l2_bytes;
    int64_t *scalar_cycles; /* scalar_cycles[pc]: issue cycles of the instructions before pc, as if run in order */
    bool has_barrier, has_grid_barrier, has_atomics, has_clock;
    int64_t last_run_ns; /* of the latest launch: whether helping is worth waking anyone */
} kernel;

/* What went wrong, with numbers by kind: launch.py names them (FAULT_FIELDS). */
typedef struct {
    int32_t kind, pc, thread, block;
    uint32_t epoch, grid_epoch; /* barriers that the thread had passed */
    int32_t object, space; /* of the view concerned: buffer or pointer, -1 for none */
    int64_t value[4];
    int32_t rank[2], extent[2][MAX_AXES]; /* shapes that do not fit */
} fault;

/* What a thread stored to L3: `rows` rows of `row_bytes`, `stride` bytes apart (stores.h). */
typedef struct {
    uintptr_t start;
    int64_t row_bytes, rows, stride;
    int32_t unit;
} rectangle;

typedef struct {
    rectangle *item;
    int64_t count, capacity;
    int32_t unit;
    bool overflow; /* no memory, or too many: nothing is known */
} store_log;

/* Bytes of what threads print: records one behind another (print.h). */
typedef struct {
    uint8_t *bytes;
    size_t size, capacity;
    int64_t dropped; /* prints for which there was no room */
} print_log;

/* A transfer whose effect is put off until it is complete (debug and sanitized modes). */
typedef struct {
    uint32_t event, after;
    int32_t pc;
    uint16_t channel;
    uint8_t kind; /* DMA_COPY ... */
    bool needed, with_channel;
    reg value;
    tile d, a;
} transfer;
enum { DMA_COPY, DMA_PAD, DMA_CLIP, DMA_SET };

typedef struct {
    tevent *item;
    int64_t count, capacity;
    bool failed; /* no memory */
} event_log;

/* What a pointer parameter allows: in the `slot` of its views. */
enum { MAY_LOAD = 1, MAY_STORE = 2 };

struct launch;
struct sanitizer_thread;

typedef struct thread {
    const kernel *kernel;
    struct launch *launch;
    reg *r;
    tile *t;
    vreg *v;
    uint8_t *l1, *l2;
    const tile *arrays; /* views of the pointer parameters */
    int32_t pc, state;
    int32_t id, local, block, unit;
    uint32_t epoch, grid_epoch; /* barriers passed */
    int32_t slice, ticks;       /* of its turn are left: polls, and backward jumps until the next */
    int64_t work;               /* bytes that are left until the next poll */
    bool launching;             /* runs on the thread that launched: may look at signals */
    uint32_t events;            /* transfers issued */
    int32_t special[SPECIALS];
    fault fault;
    store_log *stores; /* NULL: not logged */
    print_log line;    /* the print that is being put together */
    print_log *prints; /* where finished prints go */
    size_t printed;    /* bytes of this thread's prints */
    int64_t *counts; /* differences: a running sum gives how often each instruction ran */
    /* timed */
    event_log *trace;
    uint8_t *touched;       /* per key: a unit has used it since the scalar unit last waited for it */
    int64_t scalar_pending; /* issue cycles since the last event, up to the last jump */
    struct timing *clock;   /* of a kernel that reads its clock: the cost model over this thread alone */
    int64_t clocked;        /* events that it has had */
    /* sanitized, debug */
    struct sanitizer_thread *sanitizer;
    bool defer;
    transfer *pending;
    int32_t pendings, pending_capacity;
    const uint8_t *breakpoints; /* per pc */
    int64_t steps;              /* instructions that may still run */
} thread;

typedef int (*machine_function)(thread *);
int machine_fast(thread *self);
int machine_counted(thread *self);
int machine_timed(thread *self);
int machine_sanitized(thread *self);
int machine_debug(thread *self);

/* A fault with numbers; returns its kind. */
int fault_set(thread *self, int kind, const tile *view, int64_t a, int64_t b, int64_t c, int64_t d);
int fault_shapes(thread *self, const tile *d, int rank, const int32_t *extent);
int fault_tiles(thread *self, int kind, const tile *d, const tile *a, const tile *b);
/* The same of an operation of up to three sources (NULL: none), with the two extents that don't fit: of two sources, then
   value[0] is 1, or else of d (what its buffer holds, where it is a result) and of what it should take. */
enum { SOURCES_ALIKE, SOURCES_PRODUCT, SOURCES_INDEXED };
int fault_sources(thread *self, int kind, int how, const tile *d, const tile *a, const tile *b, const tile *c);
/* The same of a vector of `view` from element i on. */
int fault_vector(thread *self, int kind, const tile *view, int32_t i);
/* What fault_tiles() said of a gather (from) or scatter (into) of `target`, with the first index outside of its axis. */
void fault_index(thread *self, const tile *index, const tile *other, const tile *target, int axis);
void fault_place(thread *self, int32_t pc); /* where it happened, unless fault.pc says so already */
/* 0 or the fault that ends the thread: the stop flag, signals, the budget. */
int machine_poll(thread *self);

#endif
