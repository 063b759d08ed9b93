/* One process that is sampled: its interpreters and threads, and what was found so far. */
#ifndef TOPSPROF_PROCESS_H
#define TOPSPROF_PROCESS_H
#include "kernel.h"
#include "pauses.h"
#include "rows.h"
#include "tasks.h"
#include <pthread.h>

typedef struct {
    uint64_t address, next, head, gil, holder;
    int64_t id;
    bool locked, collecting, seen;
    gc_watch gc;
} py_interp;

typedef struct {
    uint64_t state, interp, ident;
    int64_t interp_id;
    int32_t tid;
    bool seen, shadowed;            /* shadowed: another interpreter's thread state stands for this OS thread */
    os_thread os;
    walk_hint hint;
    bool ran_known, slept;          /* slept: when it was last looked at */
    uint64_t ran_ns, slices, due;
    uint64_t leaf, leaf_instr, pointer;     /* the innermost frame when it was last seen at a call, and where the machine was */
    uint32_t idle;                  /* polls in a row in which it had not run */
    sample_row last;                /* what the last row said; time 0: none yet */
    int32_t last_row;
    uint64_t last_take;             /* the row's buffer: `takes` when it was written */
} py_thread;

enum process_end { LIVES, EXITED, EXECUTED, DENIED };

typedef struct {
    uint64_t ticks, samples, unresolved, retries, cut, frames, native_named, native_unnamed, started, ended, rescans, gc, rows_lost;
} process_counts;

typedef struct {
    uint64_t start, end;
} text_range;

typedef struct process {
    remote from;
    code_table codes;
    stack_tree stacks;
    task_table tasks;
    sample_rows rows;
    pause_list pauses;
    walker walker;
    py_interp *interps;
    int interp_count, interp_room;
    py_thread **threads;
    int thread_count, thread_room;
    text_range *interpreter;        /* machine code of the interpreter itself */
    int range_count;
    uint64_t *pointers;             /* by native id; 0: none */
    int32_t pointer_count, pointer_room;
    uint32_t *pointer_slots, pointer_mask;
    int memory_fd;                  /* /proc/PID/mem: it belongs to this program, also when the process executes another */
    bool native, rescan, scan_soon, perf_denied;   /* rescan: read whole lists; scan_soon: see what stands at their heads */
    uint64_t tick, time, takes, scanned_tick;
    enum process_end end;                       /* `time` grows with each tick and look */
    process_counts counts;
    int64_t period_ns;
    int32_t given_codes, given_stacks, given_tasks, given_pointers;     /* what `take` has handed out */
    pthread_mutex_t lock;           /* of what `take` hands out and a tick appends to */
} process;

bool process_begin(process *p, int depth);
void process_end(process *p);

/* Finds interpreters and threads anew. False: the process is no more; see `end`. */
bool process_scan(process *p);

/* Takes one sample of each thread that is due. False: the process ended (see `end`) or memory did (errno is ENOMEM). */
bool process_tick(process *p, int64_t now_ns);

/* threads.c */
bool interps_read(process *p, bool *changed);
bool threads_scan(process *p);
void thread_drop(process *p, int index);
py_interp *interp_of(process *p, const py_thread *t);
int32_t holder_of(const process *p, const py_interp *interp);     /* the thread that has the GIL; 0: not known */

/* Looks at one thread now, without a row: state, frames (left in the walker) and task. */
enum walk_result thread_look(process *p, py_thread *t, sample_row *row, os_state *os, bool want_pointer);
#endif
