/* What timing.c, timing_thread.c and timing_transfers.c share: the state of the cost model between two events. */
#ifndef TOPS_TIMING_STATE_H
#define TOPS_TIMING_STATE_H
#include "timing_shares.h"

enum { NOBODY = -1, NO_CHANNEL = 255, MOST_CHANNELS = 30, MOST_SIPS = 4096 };
#define FOREVER INT64_MAX

/* Where a SIP's thread stands. */
enum {
    AT_REST,     /* no thread */
    AT_RUN,      /* can go on */
    AT_STARVED,  /* has used up its events */
    AT_WAIT,     /* for one transfer */
    AT_WAIT_ALL, /* for all its transfers */
    AT_CHANNEL,  /* for room in a channel */
    AT_ATOMIC,   /* for a tile's atomics */
    AT_BARRIER,
    AT_GRID_BARRIER,
    AT_END /* for its transfers, then it is done */
};

/* A transfer from its issue to its completion. Numbers of others, not pointers: they move when there are more. */
typedef struct {
    int64_t issued, ready; /* ready: what it has waited for so far was done then */
    int64_t slots_ready;   /* the vector and matrix units are done with its slots */
    int64_t bytes;
    int32_t pc, waited_pc, slots_pc; /* slots_pc: the last operation that used them; NOBODY: none */
    uint32_t event;
    int32_t sip, latency;
    int32_t next;                /* in its channel; in the list of free ones */
    int32_t dependents, sibling; /* those that start after it */
    int32_t same_bucket;
    int64_t turn;   /* its place among its SIP's transfers: the least goes first */
    int32_t later;  /* the next of its SIP's that could flow */
    int32_t active; /* where it stands among those that flow; NOBODY: another one is before it */
    double left;    /* bytes, when it does not flow */
    uint8_t route, channel, from, to;
    uint8_t waits; /* how many it waits for */
} flow;

/* When the vector and matrix units are done with a slot of a buffer. */
typedef struct {
    int64_t written, read;
    int32_t written_pc, read_pc;
} slot_use;

typedef struct {
    int64_t free; /* from when on it can begin another operation */
    int32_t pc;   /* the last one it was given */
    int32_t place;
} unit_state;

typedef struct {
    int32_t last; /* transfer, NOBODY */
    int32_t count;
} channel_state;

enum { BUCKETS = 16 };

typedef struct {
    int64_t t; /* the scalar unit's clock */
    int64_t begun, start; /* when the thread began; when what the scalar unit does now began (intervals) */
    const tevent *event;
    int64_t at, count;
    int32_t state, thread, block;
    int32_t wait_pc, pc; /* of what it waits at; (intervals) of what it began to do at `start` */
    uint32_t waited;                  /* the event it waits for (AT_WAIT), the channel (AT_CHANNEL) */
    bool issued;                      /* the event at `at` has had its issue cycles */
    unit_state unit[2];
    int64_t *queue;    /* [2][queue_depth]: when the operations before are done */
    int32_t *queue_pc;
    slot_use *use; /* by key */
    channel_state *channel;
    int32_t bucket[BUCKETS]; /* transfers by event */
    int32_t transfers, issues; /* under way; ever issued */
    int32_t flowing;           /* the first of those that could flow */
    int64_t flowing_since, idle_since; /* idle_since: the end of the last thread */
} sip;

/* SIPs of a cluster that one block at a time has. */
typedef struct {
    int32_t cluster, first, block; /* block: NOBODY */
    int32_t arrived, ended;
    int64_t release, end;
} slot;

typedef struct {
    int64_t free;       /* from when on it can dispatch another block */
    int32_t next_block; /* of this cluster */
} cluster_state;

typedef struct {
    int64_t time;
    int64_t order;
    int32_t what; /* a transfer that begins to flow, or -1 - slot: its block has ended */
} appointment;

typedef struct {
    int32_t flow;
    int16_t sip;
    uint8_t route;
} active_flow;

typedef struct {
    int64_t order;
    int32_t flow;
} done_flow;

typedef struct {
    const tevent *event;
    tevent *own; /* `event` is its own copy */
    int64_t count;
    bool ended;
} thread_events;

struct timing {
    timing_parameters p;
    const uint8_t *flags;
    int32_t blocks, block_threads, keys, sips;
    int32_t slots;
    int32_t channel_mask; /* of the channels that transfers name: as many as are a power of two */
    bool record;
    int (*poll)(void *);
    void *poll_data;
    int32_t poll_in;
    int status;

    int64_t now;
    sip *sip;
    slot *slot;
    cluster_state *cluster;
    thread_events *thread; /* by global number */
    int32_t *fed;          /* threads whose events lie with the caller */
    int32_t fed_count, fed_capacity;
    int32_t *run; /* SIPs that can go on */
    int32_t run_count;
    int32_t starved, blocks_ended;
    int32_t grid_arrived;
    int64_t grid_release;

    flow *flow;
    int32_t flows, flow_capacity, free_flow;
    appointment *heap;
    int32_t heap_count, heap_capacity;
    /* those that flow: bytes that are left and rate as of `shared_at` */
    active_flow *active; /* in no order */
    done_flow *done;
    double *left, *rate, *cycles; /* cycles: until it is complete, as of the last sharing */
    int32_t actives, active_capacity;
    int64_t shared_at, next_done;
    bool changed;
    shares shares;

    timing_result result;
    int64_t interval_capacity;
    void *room; /* of each SIP's arrays */
};

/* timing_thread.c */
void thread_run(timing *t, sip *s);               /* until it waits, starves or ends */
void thread_wake(timing *t, sip *s, int64_t when, int cause, int32_t blamed);
/* A transfer that it waited for is complete: until its slots were ready the wait was for the unit that used them. */
void thread_wake_transferred(timing *t, sip *s, const flow *f);
void thread_begin(timing *t, sip *s, int32_t thread, int32_t block, int64_t when);
void thread_end(timing *t, sip *s); /* with nothing under way any more */

/* timing_transfers.c */
bool transfer_issue(timing *t, sip *s, const tevent *e); /* false: its channel has no room */
void transfer_atomic(timing *t, sip *s, const tevent *e, int64_t ready, int32_t waited_pc);
int32_t transfer_find(const timing *t, const sip *s, uint32_t event); /* NOBODY: complete */
void transfers_advance(timing *t, int64_t when); /* those that flow, up to then: completes what is done */
void transfer_begin(timing *t, int32_t number);  /* begins to flow now */
void transfers_share(timing *t);                 /* after changes: rates, and when the next is complete */
void appointment_add(timing *t, int64_t time, int32_t sip, uint32_t event, int32_t what);
appointment appointment_take(timing *t);

/* timing_blocks.c */
void blocks_start(timing *t);
void block_dispatch(timing *t, slot *x, int64_t free);
void barrier_arrive(timing *t, sip *s);
void grid_barrier_arrive(timing *t, sip *s);
void block_thread_ended(timing *t, sip *s);

static inline int32_t sip_number(const timing *t, const sip *s) { return (int32_t)(s - t->sip); }
static inline slot *slot_of(timing *t, const sip *s) {
    const int32_t n = sip_number(t, s), each = (int32_t)t->p.sips_per_cluster, slots = each / t->block_threads;
    return &t->slot[n / each * slots + n % each / t->block_threads];
}
static inline int32_t channel_of(const timing *t, int channel) {
    return (int32_t)(channel == CHANNEL_BLOCK ? t->p.channels : channel & t->channel_mask);
}
void interval_add(timing *t, const timing_interval *x);

#endif
