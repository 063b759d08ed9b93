/* The cost model: when each thread of a launch does what, from the events of its timed run (tevent in machine.h).
   timing_twin.py does the same in Python, with the same numbers. docs of the model: engine/timing.py. Nothing here knows Python.

   All times are whole cycles; cycle 0 is when the device begins with the launch. Use:
       timing *t = timing_create(&parameters, ...);
       timing_feed(t, thread, events, count);   any number of times, threads in any order
       timing_advance(t);                       as far as the events allow; forgets those that it has used
       timing_finish(t);  timing_results(t);    after the EV_END of every thread
       timing_free(t);
   The result does not depend on how the events are cut into feeds. */
#ifndef TOPS_TIMING_H
#define TOPS_TIMING_H
#include <stdbool.h>
#include "machine.h"

enum { COST_MODEL_VERSION = 2 }; /* grows when the same events give other times */

/* What a SIP's scalar unit waits for. */
enum { CAUSE_DMA, CAUSE_VECTOR, CAUSE_MATRIX, CAUSE_QUEUE, CAUSE_BARRIER, CAUSE_ATOMIC, CAUSES };
enum { UNIT_SCALAR, UNIT_STALL, UNIT_VECTOR, UNIT_MATRIX, UNIT_DTE };
enum { TIMING_OK, TIMING_NO_MEMORY, TIMING_STOPPED, TIMING_INCOMPLETE };
enum { MEMORIES = 4 };
enum { CHANNEL_BLOCK = 255 };  /* a transfer's channel: the block's context instead of one of the SIP's */
/* Flags of an instruction: its unit has to start up (tiles; not vector registers); it is the matrix unit. */
enum { PC_HAS_STARTUP = 1, PC_IS_MATRIX = 2 };

/* Figures of the part (timing_parameters.py packs them: eight bytes each, in this order). */
typedef struct {
    int64_t clusters, sips_per_cluster;
    int64_t scalar_issue, queue_depth, vector_startup, matrix_startup;
    int64_t channels, channel_depth;
    int64_t latency[MEMORIES], atomic[MEMORIES]; /* by SPACE_* */
    int64_t barrier, grid_barrier, launch, dispatch;
    double vector_rate[DT_COUNT], matrix_rate[DT_COUNT];
    double port, l2, link, l3; /* bytes a cycle: of a SIP, of a cluster's L2, from a cluster to L3, of L3 */
} timing_parameters;

/* What a SIP did; cycles, but `threads`. scalar + stalls + launch + tail is the launch's length. */
enum { SIP_SCALAR, SIP_STALL, SIP_LAUNCH = SIP_STALL + CAUSES, SIP_TAIL, SIP_VECTOR, SIP_MATRIX, SIP_DTE, SIP_THREADS, SIP_COLUMNS };
/* By instruction: events, cycles its unit was busy, cycles that anything waited for it, bytes its transfers moved, its own stalls. */
enum { PC_EVENTS, PC_BUSY, PC_BLAMED, PC_BYTES, PC_STALL, PC_COLUMNS = PC_STALL + CAUSES };
/* By SIP and channel: transfers, cycles with one under way (waiting for memory included), bytes. The last channel is the block's. */
enum { CHANNEL_TRANSFERS, CHANNEL_BUSY, CHANNEL_BYTES, CHANNEL_COLUMNS };

typedef struct {
    int64_t start, end;
    int64_t issued; /* when the scalar unit gave it out */
    int64_t bytes;
    int32_t pc, waited_pc; /* what it began so late for: -1 for nothing */
    int32_t thread;
    int16_t sip;
    uint8_t unit;   /* UNIT_* */
    uint8_t detail; /* UNIT_DTE: the channel; UNIT_STALL: CAUSE_* */
} timing_interval;

typedef struct {
    int64_t cycles;
    int32_t sips, pcs, channels;           /* channels: of a SIP, with the block's */
    int64_t (*sip)[SIP_COLUMNS];
    int64_t (*pc)[PC_COLUMNS];
    int64_t (*channel)[CHANNEL_COLUMNS];   /* [sips * channels] */
    int64_t bytes[MEMORIES][MEMORIES];     /* from, to; from SPACE_NONE: fills, atomics of the scalar unit */
    int64_t l1_bytes;                      /* that the vector and matrix units read and wrote */
    double flops[2][DT_COUNT];             /* vector, matrix; by the event's type */
    int64_t transfers, solves;             /* solves: how often bandwidth was shared out anew */
    timing_interval *interval;             /* in no order */
    int64_t intervals;
} timing_result;

typedef struct timing timing;

/* `flags`: PC_* of each instruction, kept by the caller. NULL: no memory, or a block that no cluster holds. */
timing *timing_create(const timing_parameters *p, int32_t blocks, int32_t block_threads, int32_t keys, int32_t pcs, const uint8_t *flags,
                      bool record_intervals);
void timing_free(timing *t);
/* Is called now and then by timing_advance(), which gives TIMING_STOPPED when it returns other than 0. */
void timing_poll(timing *t, int (*poll)(void *), void *data);
/* `events` has to stay where it is until the next timing_advance() returns. */
int timing_feed(timing *t, int32_t thread, const tevent *events, int64_t count);
int timing_advance(timing *t);
int timing_finish(timing *t);
const timing_result *timing_results(const timing *t);
/* Cycles since the start of a thread that has used up its events; -1: it has not. */
int64_t timing_clock(const timing *t, int32_t thread);

#endif
