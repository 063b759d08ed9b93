/* What the loop writes: samples as columns, and stacks as a tree of frames that is shared by all of them. */
#ifndef TOPSPROF_ROWS_H
#define TOPSPROF_ROWS_H
#include <stdbool.h>
#include <stdint.h>

enum { STACK_NONE = -1, STACK_UNRESOLVED = -2 };

enum thread_state { STATE_RUNNING, STATE_NATIVE, STATE_GIL, STATE_BLOCKED, STATE_UNKNOWN, STATES };
#define STATE_NAMES "running", "native", "gil", "blocked", "unknown"

enum wait_cause { FOR_NONE, FOR_GIL, FOR_LOCK, FOR_SLEEP, FOR_FILE, FOR_PIPE, FOR_SOCKET, FOR_POLL, FOR_CHILD, FOR_SIGNAL,
                  FOR_MEMORY, FOR_DEVICE, FOR_STOPPED, FOR_OTHER, WAITS };
#define WAIT_NAMES "", "gil", "lock", "sleep", "file", "pipe", "socket", "poll", "child", "signal", "memory", "device", "stopped", "other"

enum { FLAG_GC = 1, FLAG_CUT = 2, FLAG_HOLDS_GIL = 4, FLAG_AT_CALL = 8 };

typedef struct {
    int32_t parent, code, line;
} stack_node;

typedef struct {
    int64_t *time_ns, *weight_ns;
    int32_t *tid, *stack, *native, *task, *holder;
    int16_t *syscall;
    uint8_t *state, *wait, *flags;
    int32_t count, room;
} sample_rows;

/* One row to be. */
typedef struct {
    int64_t time_ns, weight_ns;
    int32_t tid, stack, native, task, holder;
    int16_t syscall;
    uint8_t state, wait, flags;
} sample_row;

typedef struct {
    stack_node *nodes;
    int32_t count, room;
    uint32_t *slots, mask;
} stack_tree;

bool stacks_begin(stack_tree *tree);
void stacks_end(stack_tree *tree);

/* The node of a frame under `parent`; -1: no memory. */
int32_t stacks_node(stack_tree *tree, int32_t parent, int32_t code, int32_t line);

/* Appends a row and returns its index, or -1: no memory. */
int32_t rows_add(sample_rows *rows, const sample_row *row);
void rows_end(sample_rows *rows);
#endif
