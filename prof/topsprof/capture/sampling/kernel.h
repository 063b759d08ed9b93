/* What the kernel tells of a thread: whether it ran, what it waits for, and where its instruction pointer was. */
#ifndef TOPSPROF_KERNEL_H
#define TOPSPROF_KERNEL_H
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct {
    pid_t pid, tid;
    int sched_fd, syscall_fd;       /* kept open; -1: not open, -2: not to be had */
    int perf_fd;
    void *perf_page;
    bool perf_on;
} os_thread;

typedef struct {
    bool known, running;            /* known: false where /proc tells nothing */
    int16_t syscall;                /* -1: none */
    uint8_t wait;                   /* enum wait_cause */
    uint64_t argument, pc;          /* first argument of the system call */
} os_state;

enum os_result { OS_OK, OS_UNKNOWN, OS_GONE };

void os_begin(os_thread *thread, pid_t pid, pid_t tid);
void os_end(os_thread *thread);

/* CPU time and number of time slices so far: while both stay, a blocked thread has not run. */
enum os_result os_ran(os_thread *thread, uint64_t *ran_ns, uint64_t *slices);

/* Whether the thread runs, else what it waits for. */
enum os_result os_look(os_thread *thread, os_state *state);

/* Whether the thread was stopped (by a signal or a debugger): the system call that it was in before is then no wait of its own. */
bool os_stopped(os_thread *thread);

/* Asks the kernel to note the thread's instruction pointer every `period_ns` of its CPU time: each costs the thread an interrupt. False: not permitted. */
bool os_watch(os_thread *thread, int64_t period_ns);

/* Lets the kernel rest: it notes nothing until the next os_watch. */
void os_rest(os_thread *thread);

void os_unwatch(os_thread *thread);

/* The newest instruction pointer noted since the last call; 0: none. */
uint64_t os_pointer(os_thread *thread);
#endif
