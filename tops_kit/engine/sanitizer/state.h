/* What the sanitizer knows of a launch, its blocks and its threads. */
#ifndef TOPS_SANITIZER_STATE_H
#define TOPS_SANITIZER_STATE_H
#include "accesses.h"
#include "slots.h"
#include "../launch.h"

/* One side of a transfer: the view it reads or writes, in a region that somebody writes (else REGION_NONE). */
typedef struct {
    int32_t slot;
    int16_t object;
    uint8_t space;
    footprint where;
} transfer_side;

static inline void transfer_side_copy(transfer_side *to, const transfer_side *from) {
    memcpy(to, from, offsetof(transfer_side, where));
    footprint_copy(&to->where, &from->where);
}

/* A transfer that was issued and is not known to be complete. */
typedef struct {
    uint32_t epoch, grid_epoch; /* of its issue */
    int32_t pc;
    int32_t next; /* unused ones: number + 1 of another */
    transfer_side read, written;
} flight;

/* The same, as far as the order of completion goes. */
typedef struct {
    uint32_t event, after;
    int32_t flight; /* its number */
    uint16_t channel;
    bool needed;       /* has to be complete for what is looked at */
    bool with_channel; /* found with all of its channel that come before it */
    bool before;       /* complete before the transfer starts that is checked */
} queued;

/* Everything in flight of a region lies in [start, end). */
typedef struct {
    int64_t start, end;
    int32_t count;
} reach;

typedef struct sanitizer_block sanitizer_block;

typedef struct sanitizer_thread {
    sanitizer_block *block; /* NULL: not begun, or its block has ended */
    const int32_t *first;   /* as in slot_table */
    slot *l1;
    queued *queue; /* in order of issue */
    int32_t flights, capacity;
    bool several_channels; /* of those in flight */
    flight *flight; /* places for as many */
    int32_t unused; /* number + 1 of one, each leads to the next */
    reach *reach;   /* two for each region: of what is written, of what is read */
} sanitizer_thread;

struct sanitizer_block {
    struct sanitizer *run;
    sanitizer_block *next; /* of those that run, or of those that nobody uses */
    slot *l2;
    sanitizer_thread *thread; /* by local number */
    access_log log;           /* since the last barrier, and what was not complete then */
};

struct sanitizer {
    launch *launch;
    slot_table slots;
    int32_t *region_of; /* by pointer parameter; REGION_NONE where no pointer of the kernel writes */
    uintptr_t *base;    /* by pointer parameter: where its region begins */
    findings findings;
    access_log log; /* of blocks that ended or passed barriers: what other blocks may race with */
    sanitizer_block *running, *spare;
    int32_t regions; /* numbers below this are used */
    bool single; /* there is one block only */
    int stopped; /* launch.stop when a comparison began */
};

static inline struct sanitizer *run_of(const thread *self) { return self->sanitizer->block->run; }

/* Where `view` lies. False: nothing of it exists, or (L3) nothing ever writes there. */
bool place_of(const thread *self, const tile *view, footprint *where);
slot *slots_of(const thread *self, int space);

/* A finding about `view` at `pc`: [from, to) are offsets in its region. */
void report(thread *self, int kind, int32_t pc, uint8_t access, const tile *view, int64_t from, int64_t to, const actor *second,
            bool transfer);

/* Transfers in flight. */
typedef struct {
    const tile *view;
    const footprint *where;
    int32_t pc;
    bool writes, transfer;
    uint32_t after; /* what a transfer comes after: an event, and earlier ones on its channel */
    int channel;
} user; /* who is about to use memory */
void flights_check(thread *self, const user *u);
void flights_begin(thread *self, int32_t pc, const queued *order, const transfer_side *read, const transfer_side *written);
void flights_forget(sanitizer_thread *t, int32_t regions);
void flights_complete(thread *self, uint32_t event);
void flights_complete_all(thread *self);
void flights_left_open(thread *self);

#endif
