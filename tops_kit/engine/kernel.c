/* Makes a program ready: validates what the loop trusts, and computes what it looks up. */
#include <stdlib.h>
#include <string.h>
#include "prepare.h"
#include "generated/opcodes.h"
#include "tiles/elements.h"

static int32_t limit_of(const kernel *k, char kind, int32_t strings) {
    switch (kind) {
    case 'r': return k->scalars;
    case 't': return k->tiles;
    case 'v': return k->vectors;
    case 'l': return k->count;
    case 'b': return k->buffers;
    case 'g': return k->pointers;
    case 's': return strings;
    default: return 1 << 16;
    }
}

/* Immediates that the loop uses without a look: 8 types, 18 specials, 3 kinds, ranks of at most 3. */
static bool immediates_fit(const ins *x) {
    const opcode *const o = &opcode_of[x->op];
    for (int m = 0; m < MAX_OPERANDS; m++) {
        if (o->limit[m] && x->o[m] >= o->limit[m]) return false;
    }
    return true;
}

const char *kernel_validate(const kernel *k, int32_t strings) {
    for (int32_t pc = 0; pc < k->count; pc++) {
        const ins *const x = &k->code[pc];
        if (x->op >= OPCODES) return "an opcode that does not exist";
        for (int m = 0; m < MAX_OPERANDS && opcode_of[x->op].operand[m]; m++) {
            if (x->o[m] >= limit_of(k, opcode_of[x->op].operand[m], strings)) return "an operand that does not exist";
        }
        if (!immediates_fit(x)) return "an immediate out of range";
    }
    for (int b = 0; b < k->buffers; b++) {
        const buffer *const x = &k->buffer[b];
        int64_t bytes = tk_size[x->view.dtype];
        for (int a = 0; a < x->view.rank; a++) {
            if (x->view.n[a] < 0 || __builtin_mul_overflow(bytes, x->view.n[a], &bytes)) return "a buffer with impossible extents";
        }
        if (x->offset_bytes < 0 || x->slot_bytes < bytes || x->slots < 1 || x->offset_bytes > INT64_MAX / 4 ||
            x->slot_bytes > INT64_MAX / 4 / x->slots) {
            return "a buffer outside of its memory";
        }
    }
    return NULL;
}

bool kernel_finish(kernel *k) {
    k->code[k->count] = (ins){.op = OP_end};
    k->scalar_cycles[0] = 0;
    for (int32_t pc = 0; pc <= k->count; pc++) k->scalar_cycles[pc + 1] = k->scalar_cycles[pc] + opcode_of[k->code[pc].op].cycles;
    for (int32_t pc = 0; pc < k->count; pc++) {
        const int op = k->code[pc].op;
        k->has_barrier |= op == OP_barrier;
        k->has_grid_barrier |= op == OP_gridbarrier;
        k->has_atomics |= opcode_of[op].atomic != 0;
        k->has_clock |= op == OP_clock;
    }
    int32_t keys = 0;
    for (int m = 0; m < k->buffers; m++) {
        buffer *const b = &k->buffer[m];
        tile *const v = &b->view;
        b->key = (uint16_t)(keys < KEY_NONE - 1 ? keys : KEY_NONE - 1);
        keys += b->slots;
        int64_t stride = tk_size[v->dtype];
        for (int a = v->rank; a-- > 0;) {
            v->lo[a] = 0;
            v->hi[a] = v->capacity[a] = v->n[a];
            v->stride[a] = stride;
            stride *= v->n[a];
        }
        v->inside = 1;
        v->object = (int16_t)m;
        int64_t *const need = v->space == SPACE_L1 ? &k->l1_bytes : &k->l2_bytes;
        const int64_t end = b->offset_bytes + b->slots * b->slot_bytes;
        if (end > *need) *need = end;
    }
    k->keys = keys;
    return k->l1_bytes <= INT32_MAX && k->l2_bytes <= INT32_MAX;
}

kernel *kernel_new(int32_t count, int32_t scalars, int32_t tiles, int32_t vectors, int32_t buffers, int32_t pointers) {
    kernel *const k = calloc(1, sizeof *k);
    if (!k) return NULL;
    *k = (kernel){.count = count, .scalars = scalars, .tiles = tiles, .vectors = vectors, .buffers = buffers, .pointers = pointers};
    k->code = calloc((size_t)count + 1, sizeof *k->code);
    k->registers = calloc((size_t)scalars + 1, sizeof *k->registers);
    k->buffer = calloc((size_t)buffers + 1, sizeof *k->buffer);
    k->pointer = calloc((size_t)pointers + 1, sizeof *k->pointer);
    k->scalar_cycles = calloc((size_t)count + 2, sizeof *k->scalar_cycles);
    if (k->code && k->registers && k->buffer && k->pointer && k->scalar_cycles) return k;
    kernel_free(k);
    return NULL;
}

void kernel_free(kernel *k) {
    if (!k) return;
    free(k->code);
    free(k->registers);
    free(k->buffer);
    free(k->pointer);
    free(k->scalar_cycles);
    free(k);
}
