/* asyncio's current task of a thread. */
#ifndef TOPSPROF_TASKS_H
#define TOPSPROF_TASKS_H
#include "walk.h"

enum { TASK_NAME = 64 };

typedef struct {
    uint64_t address, coro;
    char name[TASK_NAME];
} task_entry;

typedef struct {
    uint64_t current;               /* address of the dict {loop: task}; 0: not known (yet) */
    bool wanted;                    /* coroutines were seen, and `current` is not known */
    task_entry *tasks;              /* by id; 0: none */
    int32_t count, room;
    uint32_t *slots, mask;
} task_table;

bool tasks_begin(task_table *tasks);
void tasks_end(task_table *tasks);

/* The id of the task that runs the frames of `w`; 0: none, -1: no memory. */
int32_t tasks_of(task_table *tasks, remote *from, const walker *w, const code_table *codes);
#endif
