/* The machine's loop, included once by each machine_<mode>.c after its hooks: HOOK_* macros are what the modes differ in.
   The bodies of the instructions (generated/machine_bodies.inc) come from tops_kit/isa/table.py. */
#include <math.h>
#include "access.h"
#include "kernel.h"
#include "print.h"
#include "stores.h"
#include "tiles/tiles.h"
#include "transfers.h"
#include "views.h"
#include "generated/opcodes.h"

#define PC ((int32_t)(ip - code))
#define R(k) (r[ip->o[k]])
#define T(k) (&t[ip->o[k]])
#define V(k) (&v[ip->o[k]])
#define I(k) ((int)ip->o[k])

#define OP(name) run_##name:
#define DISPATCH \
    do { \
        HOOK_ISSUE; \
        goto *labels[ip->op]; \
    } while (0)
#define NEXT \
    do { \
        ip++; \
        DISPATCH; \
    } while (0)
/* Ends the thread when `call` gives a fault. */
#define CHECK(call) \
    do { \
        if (unlikely((kind = (call)))) goto faulted; \
    } while (0)
/* The same for a call of the tile library, which says only what kind of fault it is. */
#define CHECK_TILES(call, d, a, b) \
    do { \
        if (unlikely((kind = (call)))) { \
            fault_tiles(self, kind, d, a, b); \
            goto faulted; \
        } \
    } while (0)
/* The same of an operation of tiles. */
#define CHECK_SOURCES(call, how, d, a, b, c) \
    do { \
        if (unlikely((kind = (call)))) { \
            fault_sources(self, kind, how, d, a, b, c); \
            goto faulted; \
        } \
    } while (0)
/* A source that is the destination's register is read as it was before. */
#define SEPARATE(source, destination) \
    tile source##_before; \
    if (source == destination) source = memcpy(&source##_before, source, sizeof *source)
#define LOG_STORE(view) \
    do { \
        if (self->stores && (view)->space == SPACE_L3) stores_add(self->stores, view); \
    } while (0)
#define JUMP(target) \
    do { \
        const int32_t from = PC, to = (target); \
        HOOK_JUMP(from, to); \
        ip = code + to; \
        if (to <= from && unlikely(--ticks == 0)) { \
            self->fault.pc = from; /* should it have to end: the loop's jump, not what stands behind it */ \
            goto poll; \
        } \
        DISPATCH; \
    } while (0)
#define LEAVE(next, state_) \
    do { \
        self->pc = (next); \
        self->ticks = ticks; \
        self->state = (state_); \
        HOOK_LEAVE(self->pc); \
        return self->state; \
    } while (0)
/* Long-running instructions look at the stop flag too, every POLL_WORK bytes. */
#define WORK(bytes) \
    do { \
        if (unlikely((self->work -= (bytes)) < 0)) CHECK(machine_poll(self)); \
    } while (0)

/* The names that cost expressions use. */
#define elements(view) ((double)view_elements(view))
#define max(x, y) ((x) > (y) ? (x) : (y))
#define groups(view) ((double)view_groups(view, tk_size[(view)->dtype]))
#define tile_bytes(view) (view_elements(view) * tk_size[(view)->dtype])

int MACHINE(thread *self) {
    static const void *const labels[] = {
#define LABEL(name) &&run_##name,
        FOR_EACH_OPCODE(LABEL)
#undef LABEL
    };
    const ins *const code = self->kernel->code;
    const ins *ip = code + self->pc;
    reg *const r = self->r;
    tile *const t = self->t;
    vreg *const v = self->v;
    int32_t ticks = self->ticks;
    int kind;
    HOOK_ENTER(PC);
    DISPATCH;

#include "generated/machine_bodies.inc"

poll: /* before the instruction at ip */
    ticks = POLL_JUMPS;
    CHECK(machine_poll(self));
    self->fault.pc = -1;
    if (--self->slice == 0) LEAVE(PC, THREAD_READY);
    DISPATCH;

faulted:
    self->fault.kind = kind;
    fault_place(self, PC);
    HOOK_LEAVE(PC + 1);
    self->pc = PC;
    self->state = THREAD_FAULTED;
    return THREAD_FAULTED;
    HOOK_STOPPED_LABEL
}
