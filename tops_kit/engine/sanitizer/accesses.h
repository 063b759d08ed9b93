/* Accesses to memory that threads share (L2 and L3), and the pairs of them that nothing orders.

   An access lasts from its issue to its completion: for transfers that is until they were awaited. Two accesses are ordered
   when one is complete before a barrier that the other was issued behind: block barriers for threads of a block, grid barriers
   for all. Accesses of one thread, two reads, two atomics never race. */
#ifndef TOPS_ACCESSES_H
#define TOPS_ACCESSES_H
#include "findings.h"
#include "footprint.h"

enum { NEVER = UINT32_MAX }; /* an epoch that does not come */
enum { SPOT_CHUNK = 4096, LAST_SPOTS = 8 }; /* elements whose accesses are kept together */

/* Epochs count barriers: of the block (both kinds), of the grid. */
typedef struct {
    uint32_t issued, complete;
} lifetime;

typedef struct {
    uint64_t *spots; /* single elements: a bit for each element of a chunk */
    lifetime block, grid;
    int32_t pc, thread;
    int16_t object; /* buffer or pointer parameter */
    uint8_t access, transfer, compared, shift; /* shift: of the element's size */
    footprint where; /* of single elements: the hull of those of one chunk that were touched */
} shared_access;

/* Where an instruction last touched an element: loops come back to it. */
typedef struct {
    uint64_t *spots;       /* NULL: none yet */
    uintptr_t base, begin; /* of its region and its chunk, in memory */
    int64_t number;        /* of the item */
    int32_t pc, thread;
    uint32_t epoch;
    int16_t object;
    uint8_t shift;
} latest_spot;

typedef struct {
    shared_access *item;
    int64_t count, capacity, chunks; /* chunks: those with spots */
    int32_t *bucket; /* hashed: number + 1 of the latest access of an instruction by a thread (and in a chunk) */
    int64_t buckets, used;
    latest_spot latest[LAST_SPOTS]; /* by instruction */
    bool writes; /* some are not reads */
    bool full;   /* some are missing */
} access_log;

/* Adds an access; those of one instruction that lie together become one. */
void accesses_add(access_log *log, const shared_access *x);
/* Adds one of a single element of `1 << x->shift` bytes at x->where.start; `base`: where its region begins in memory. */
void accesses_add_spot(access_log *log, const shared_access *x, uintptr_t base);
/* Whether an element like this one (of this instruction, thread, epoch) was added last, in the same chunk: then it is added too. */
static inline bool accesses_add_another_spot(access_log *log, int32_t pc, int32_t thread, uint32_t epoch, int object, const uint8_t *element,
                                             int size_bytes) {
    const latest_spot *const last = &log->latest[(uint32_t)pc % LAST_SPOTS];
    const uintptr_t number = ((uintptr_t)element - last->begin) >> last->shift;
    if (!last->spots || last->pc != pc || last->thread != thread || last->epoch != epoch || last->object != object || number >= SPOT_CHUNK ||
        1 << last->shift != size_bytes) {
        return false;
    }
    uint64_t *const word = &last->spots[number / 64];
    const uint64_t bit = (uint64_t)1 << (number % 64);
    if (*word & bit) return true;
    *word |= bit;
    footprint *const hull = &log->item[last->number].where;
    const int64_t start = (int64_t)((uintptr_t)element - last->base);
    if (start < hull->start) hull->start = start;
    if (start + size_bytes > hull->end) hull->end = start + size_bytes;
    return true;
}

typedef enum { WITHIN_BLOCK, BETWEEN_BLOCKS } race_scope;
/* How to compare, and who wants to know. */
typedef struct {
    race_scope scope;
    int32_t block_threads;
    int64_t most_work; /* pieces looked at */
    /* two that nothing orders and that were not compared before, once; [from, to) is some of what they share */
    void (*race)(void *data, const shared_access *x, const shared_access *y, int64_t from, int64_t to);
    bool (*goes_on)(void *data); /* asked now and then */
    void *data;
} comparison;
enum { MAX_WORK = 1 << 27 };
/* False: not everything was compared: too much, no memory, or it was not to go on. */
bool accesses_compare(access_log *log, const comparison *c);
/* Lets go of those that were complete before `epoch` (of the block, or of the grid); what lies in L3 goes on to `to`, if that is
   not NULL. The others count as compared. */
void accesses_retire(access_log *log, race_scope scope, uint64_t epoch, access_log *to);
void accesses_clear(access_log *log); /* memory stays */
void accesses_free(access_log *log);

#endif
