/* Growing columns, and the tree of stacks. */
#include "rows.h"
#include <stdlib.h>
#include <string.h>

bool stacks_begin(stack_tree *tree)
{
    memset(tree, 0, sizeof *tree);
    tree->room = 1024;
    tree->mask = 2047;
    tree->nodes = malloc((size_t)tree->room * sizeof *tree->nodes);
    tree->slots = calloc((size_t)tree->mask + 1, sizeof *tree->slots);
    return tree->nodes && tree->slots;
}

void stacks_end(stack_tree *tree)
{
    free(tree->nodes);
    free(tree->slots);
    memset(tree, 0, sizeof *tree);
}

static uint32_t hash(const stack_node *node)
{
    uint64_t h = (uint64_t)(uint32_t)node->parent * 0x9E3779B97F4A7C15ULL;
    h = (h ^ (uint32_t)node->code) * 0xC2B2AE3D27D4EB4FULL;
    h = (h ^ (uint32_t)node->line) * 0x165667B19E3779F9ULL;
    return (uint32_t)(h >> 32);
}

static bool grow(stack_tree *tree)
{
    stack_node *nodes = realloc(tree->nodes, (size_t)tree->room * 2 * sizeof *nodes);
    if (!nodes) return false;
    tree->nodes = nodes;
    uint32_t mask = tree->mask * 2 + 1, *slots = calloc((size_t)mask + 1, sizeof *slots);
    if (!slots) return false;
    free(tree->slots);
    tree->slots = slots;
    tree->mask = mask;
    tree->room *= 2;
    for (int32_t id = 0; id < tree->count; id++) {
        uint32_t k = hash(&nodes[id]) & mask;
        while (slots[k]) k = (k + 1) & mask;
        slots[k] = (uint32_t)id + 1;
    }
    return true;
}

int32_t stacks_node(stack_tree *tree, int32_t parent, int32_t code, int32_t line)
{
    stack_node node = {parent, code, line};
    uint32_t k = hash(&node) & tree->mask;
    for (; tree->slots[k]; k = (k + 1) & tree->mask) {
        const stack_node *known = &tree->nodes[tree->slots[k] - 1];
        if (known->parent == parent && known->code == code && known->line == line) return (int32_t)tree->slots[k] - 1;
    }
    if (tree->count == tree->room) {
        if (!grow(tree)) return -1;
        return stacks_node(tree, parent, code, line);
    }
    tree->nodes[tree->count] = node;
    tree->slots[k] = (uint32_t)tree->count + 1;
    return tree->count++;
}

#define COLUMNS(C) \
    C(time_ns) C(weight_ns) C(tid) C(stack) C(native) C(task) C(holder) C(syscall) C(state) C(wait) C(flags)

int32_t rows_add(sample_rows *rows, const sample_row *row)
{
    if (rows->count == rows->room) {
        int32_t room = rows->room ? rows->room * 2 : 4096;
        void *more;
#define C(name) \
        more = realloc(rows->name, (size_t)room * sizeof *rows->name); \
        if (!more) return -1; \
        rows->name = more;
        COLUMNS(C)
#undef C
        rows->room = room;
    }
#define C(name) rows->name[rows->count] = row->name;
    COLUMNS(C)
#undef C
    return rows->count++;
}

void rows_end(sample_rows *rows)
{
#define C(name) free(rows->name);
    COLUMNS(C)
#undef C
    memset(rows, 0, sizeof *rows);
}
