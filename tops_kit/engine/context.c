#include "context.h"
#include <stdlib.h>
#include <string.h>
#include "generated/opcodes.h"

static size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

static bool reserve_registers(context *c, size_t bytes) {
    if (bytes > c->registers_bytes) {
        free(c->registers);
        c->registers = aligned_alloc(64, aligned(bytes));
        c->registers_bytes = c->registers ? aligned(bytes) : 0;
    }
    return c->registers != NULL;
}

static void set_specials(int32_t *s, const launch *l, int32_t id, int32_t block, int32_t local) {
    s[SPECIAL_THREAD_ID] = id;
    s[SPECIAL_NUM_THREADS] = l->blocks * l->block_threads;
    s[SPECIAL_LOCAL_ID] = local;
    s[SPECIAL_BLOCK_SIZE] = l->block_threads;
    s[SPECIAL_BLOCK_ID] = block;
    s[SPECIAL_NUM_BLOCKS] = l->blocks;
    s[SPECIAL_LOCAL_X] = local % l->block[0];
    s[SPECIAL_LOCAL_Y] = local / l->block[0] % l->block[1];
    s[SPECIAL_LOCAL_Z] = local / l->block[0] / l->block[1];
    s[SPECIAL_BLOCK_X] = block % l->grid[0];
    s[SPECIAL_BLOCK_Y] = block / l->grid[0] % l->grid[1];
    s[SPECIAL_BLOCK_Z] = block / l->grid[0] / l->grid[1];
    memcpy(&s[SPECIAL_BLOCK_DIM_X], l->block, sizeof l->block);
    memcpy(&s[SPECIAL_GRID_DIM_X], l->grid, sizeof l->grid);
}

bool context_start(context *c, launch *l, int32_t id, uint8_t *l2) {
    const kernel *const k = l->kernel;
    const size_t keys = (size_t)kernel_keys(k);
    const size_t scalars = aligned((size_t)k->scalars * sizeof(reg)), tiles = aligned((size_t)k->tiles * sizeof(tile)),
                 vectors = (size_t)k->vectors * sizeof(vreg), bytes = scalars + vectors + tiles + keys + 64;
    if (!reserve_registers(c, bytes) || !arena_reserve(&c->l1, (size_t)k->l1_bytes)) return false;
    memcpy(c->registers, l->registers, (size_t)k->scalars * sizeof(reg));
    memset(c->registers + scalars, 0, bytes - scalars);

    thread *const t = &c->thread;
    /* what grows with use stays */
    const print_log line = {.bytes = t->line.bytes, .capacity = t->line.capacity};
    transfer *const pending = t->pending;
    const int32_t pending_capacity = t->pending_capacity;
    timing_free(t->clock);
    *t = (thread){
        .kernel = k,
        .launch = l,
        .r = (reg *)c->registers,
        .v = (vreg *)(c->registers + scalars),
        .t = (tile *)(c->registers + scalars + vectors),
        .touched = c->registers + scalars + vectors + tiles,
        .l1 = c->l1.bytes,
        .l2 = l2,
        .arrays = l->arrays,
        .state = THREAD_READY,
        .id = id,
        .local = id % l->block_threads,
        .block = id / l->block_threads,
        .unit = id,
        .work = POLL_WORK,
        .line = line,
        .pending = pending,
        .pending_capacity = pending_capacity,
        .defer = l->defer,
        .breakpoints = l->breakpoints,
        .steps = INT64_MAX,
        .trace = l->traces ? &l->traces[id] : NULL,
        .fault.pc = -1,
    };
    set_specials(t->special, l, id, t->block, t->local);
    return true;
}

void context_free(context *c) {
    free(c->registers);
    free(c->thread.line.bytes);
    free(c->thread.pending);
    timing_free(c->thread.clock);
    arena_free(&c->l1);
    *c = (context){0};
}
