/* What the machine, the tile library, the timing and the sanitizer share: registers, views, faults, events.
   tops_kit/isa/table.py states the instructions, tops_kit/isa/program.py the program. */
#ifndef TOPS_MACHINE_H
#define TOPS_MACHINE_H
#include <stddef.h>
#include <stdint.h>

enum { DT_F32, DT_I32, DT_F16, DT_BF16, DT_I8, DT_I16, DT_U8, DT_BOOL, DT_COUNT };
enum { SPACE_NONE, SPACE_L1, SPACE_L2, SPACE_L3 };
enum { MAX_AXES = 5 };

typedef union {
    int32_t i;
    uint32_t u;
    float f;
} reg;

typedef struct {
    uint16_t op, o[7];
} ins;

typedef struct {
    _Alignas(64) uint8_t b[128];
} vreg;

/* A view of memory: what a tile register holds. `p` is the element at index 0 of every axis, even where that lies outside
   its object: only indices in [lo, hi) of each axis exist (tover makes others). */
typedef struct {
    uint8_t *p;
    int64_t stride[MAX_AXES]; /* bytes */
    int32_t n[MAX_AXES];      /* extents */
    int32_t lo[MAX_AXES], hi[MAX_AXES];
    int32_t slot;
    int16_t object; /* buffer index, or pointer parameter for L3 */
    uint8_t rank, dtype, space;
    uint8_t result; /* a compiler's tile: extents follow from what is written, within those of its buffer */
    uint8_t inside; /* no axis reaches outside */
    int32_t capacity[3]; /* result tiles: the buffer's extents */
} tile;

/* Faults. The same numbers stand in tops_kit/isa/faults.py; a test compares. */
enum {
    FAULT_NONE,
    FAULT_SLOT,      /* no such slot of a buffer */
    FAULT_VIEW,      /* part of a view that reaches outside of it */
    FAULT_BOUNDS,    /* transfer that reaches outside of its array */
    FAULT_INDEX,     /* element index outside of its view */
    FAULT_SHAPE,     /* extents that do not fit together */
    FAULT_DIVIDE,    /* integer division by 0 */
    FAULT_ASSERT,
    FAULT_GATHER,    /* gather or scatter index outside */
    FAULT_SPACE,     /* wrong memory space for the operation */
    FAULT_TYPE,      /* element type that the operation has no meaning for */
    FAULT_EVENT,     /* waits for an event that was never triggered */
    FAULT_BARRIER,   /* divergent barrier: some threads of the block ended or wait elsewhere */
    FAULT_TIMEOUT,   /* launch budget used up */
    FAULT_STOPPED,   /* a signal arrived */
    FAULT_MEMORY,    /* the host has no memory for the launch */
    FAULT_UNINITIALISED = 32, /* the rest only the sanitizer finds */
    FAULT_NOT_AWAITED,        /* read of what a transfer is still writing */
    FAULT_IN_USE,             /* write to what a transfer is still reading or writing */
    FAULT_RACE,               /* two threads, at least one writes, nothing orders them */
    FAULT_LEFT_OPEN           /* the kernel ends with a transfer that was never awaited */
};

/* One event of the timed mode, for timing.h: what left the scalar unit, in order, per thread. */
enum { EV_VECTOR = 1, EV_MATRIX, EV_DMA, EV_WAIT, EV_WAITALL, EV_BARRIER, EV_GRIDBARRIER, EV_END, EV_SYNC, EV_ATOMIC };
enum { KEY_NONE = 0xFFFF };

typedef struct {
    uint32_t pc;
    uint32_t scalar_cycles; /* issue cycles of the scalar unit since the previous event */
    double work;            /* V, M: the cost expression's value, units of work; ATOMIC: elements */
    int64_t bytes;          /* DMA and tile atomics: bytes moved; V, M: bytes read and written in L1 */
    double flops;
    uint32_t event, after;  /* DMA: its event id (from 1, per thread) and what it starts after; WAIT: the id */
    uint16_t key[4];        /* L1 and L2 slots it depends on: d (written), then what is read; SYNC: key[0] */
    uint8_t kind, dtype, from, to; /* dtype: of the inputs (M) or of the widest operand (V); DMA: memory spaces */
    uint16_t channel;
    uint16_t sip_pad;
} tevent;

#endif
