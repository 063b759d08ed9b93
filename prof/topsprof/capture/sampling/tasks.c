/* The current task of each loop stands in a dict of asyncio's. It belongs to a thread when its coroutine is among the thread's frames:
 * so neither loops nor threads have to be looked up, and what was read too late is noticed. */
#include "tasks.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEYS_BYTES = 1024, ENTRIES_MAX = 64, TASK_BLOCK = 256, TASKS_MAX = 1 << 20, CO_AWAITS = 0x180 };

bool tasks_begin(task_table *tasks)
{
    memset(tasks, 0, sizeof *tasks);
    tasks->room = 256;
    tasks->mask = 511;
    tasks->count = 1;
    tasks->tasks = calloc((size_t)tasks->room, sizeof *tasks->tasks);
    tasks->slots = calloc((size_t)tasks->mask + 1, sizeof *tasks->slots);
    return tasks->tasks && tasks->slots;
}

void tasks_end(task_table *tasks)
{
    free(tasks->tasks);
    free(tasks->slots);
    memset(tasks, 0, sizeof *tasks);
}

static uint32_t hash(const task_entry *task)
{
    uint64_t h = task->address * 0x9E3779B97F4A7C15ULL ^ task->coro;
    for (const char *c = task->name; *c; c++) h = (h ^ (uint8_t)*c) * 0x100000001B3ULL;
    return (uint32_t)(h ^ h >> 32);
}

static int32_t intern(task_table *tasks, const task_entry *task)
{
    uint32_t k = hash(task) & tasks->mask;
    for (; tasks->slots[k]; k = (k + 1) & tasks->mask) {
        const task_entry *known = &tasks->tasks[tasks->slots[k]];
        if (known->address == task->address && known->coro == task->coro && !strcmp(known->name, task->name))
            return (int32_t)tasks->slots[k];
    }
    if (tasks->count == TASKS_MAX) return 0;
    if (tasks->count == tasks->room) {
        task_entry *more = realloc(tasks->tasks, (size_t)tasks->room * 2 * sizeof *more);
        if (!more) return -1;
        tasks->tasks = more;
        uint32_t mask = tasks->mask * 2 + 1, *slots = calloc((size_t)mask + 1, sizeof *slots);
        if (!slots) return -1;
        tasks->room *= 2;
        for (int32_t id = 1; id < tasks->count; id++) {
            uint32_t j = hash(&more[id]) & mask;
            while (slots[j]) j = (j + 1) & mask;
            slots[j] = (uint32_t)id;
        }
        free(tasks->slots);
        tasks->slots = slots;
        tasks->mask = mask;
        return intern(tasks, task);
    }
    tasks->tasks[tasks->count] = *task;
    tasks->slots[k] = (uint32_t)tasks->count;
    return tasks->count++;
}

/* The values of a small dict; returns how many. */
static int values_of(remote *from, uint64_t dict, uint64_t *values)
{
    const py_layout *at = &from->at;
    uint8_t head[64], keys[KEYS_BYTES];
    if (!remote_read(from, dict, head, (size_t)at->dict_keys + 8) || !word_at(head, at->dict_used)) return 0;
    uint64_t where = word_at(head, at->dict_keys);
    if (!plausible(where) || !remote_read(from, where, keys, (size_t)at->keys_indices)) return 0;
    uint64_t entries = word_at(keys, at->keys_entries);
    uint64_t start = (uint64_t)at->keys_indices + (1ULL << (keys[at->keys_log2_bytes] & 31));
    uint64_t bytes = keys[at->keys_kind] ? 16 : 24;     /* with the hash or, where all keys are str, without */
    if (entries > ENTRIES_MAX || entries * bytes > sizeof keys || !remote_read(from, where + start, keys, entries * bytes)) return 0;
    int count = 0;
    for (uint64_t k = 0; k < entries; k++) {
        uint64_t value = word_at(keys, (int64_t)((k + 1) * bytes - 8));
        if (plausible(value)) values[count++] = value;
    }
    return count;
}

static void read_name(remote *from, uint64_t name, char *to)
{
    uint8_t head[32];
    if (remote_text(from, name, to, TASK_NAME) >= 0) return;
    to[0] = 0;                      /* from 3.12 on a name that nobody has asked for is a number */
    if (!plausible(name) || !remote_read(from, name, head, (size_t)from->at.int_digits + 4)) return;
    if (word_at(head, from->at.object_type) == from->int_type) snprintf(to, TASK_NAME, "Task-%d", int_at(head, from->at.int_digits));
}

int32_t tasks_of(task_table *tasks, remote *from, const walker *w, const code_table *codes)
{
    uint64_t values[ENTRIES_MAX];
    uint8_t block[TASK_BLOCK];
    int outermost = w->count;
    while (outermost-- > 0)
        if (w->frames[outermost].owner == OWNED_BY_GENERATOR && codes->codes[w->ids[outermost]].flags & CO_AWAITS) break;
    if (outermost < 0) return 0;
    tasks->wanted = !tasks->current;
    if (tasks->wanted) return 0;
    int count = values_of(from, tasks->current, values);
    for (int k = 0; k < count; k++) {
        task_entry task = {.address = values[k]};
        if (!remote_read(from, values[k], block, (size_t)from->at.task_name + 8)) continue;
        task.coro = word_at(block, from->at.task_coro);
        for (int j = outermost; j >= 0; j--) {
            if (w->frames[j].address - (uint64_t)from->at.gen_frame != task.coro) continue;
            read_name(from, word_at(block, from->at.task_name), task.name);
            return intern(tasks, &task);
        }
    }
    return 0;
}
