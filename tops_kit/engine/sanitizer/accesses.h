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

typedef struct {
    shared_access *item;
    int64_t count, capacity, chunks; /* chunks: those with spots */
    int32_t *bucket; /* hashed: number + 1 of the latest access of an instruction by a thread (and in a chunk) */
    int64_t buckets, used;
    int64_t last_spot[LAST_SPOTS]; /* by instruction: number + 1 of its latest access to elements, for loops come back to it */
    bool writes; /* some are not reads */
    bool full;   /* some are missing */
} access_log;

/* Adds an access; those of one instruction that lie together become one. */
void accesses_add(access_log *log, const shared_access *x);
/* Adds one of a single element of `1 << x->shift` bytes at x->where.start. */
void accesses_add_spot(access_log *log, const shared_access *x);
/* Whether an element like this one (of this instruction, thread, epoch) was added last, in the same chunk: then it is added too. */
static inline bool accesses_add_another_spot(access_log *log, int32_t pc, int32_t thread, uint32_t epoch, int32_t region, int64_t start,
                                             int size_bytes) {
    const int64_t last = log->last_spot[pc % LAST_SPOTS];
    if (last == 0) return false;
    shared_access *const x = &log->item[last - 1];
    const int64_t number = (start - (x->where.start & -((int64_t)SPOT_CHUNK << x->shift))) >> x->shift;
    if (x->pc != pc || x->thread != thread || x->block.issued != epoch || x->where.region != region || !x->spots ||
        (uint64_t)number >= SPOT_CHUNK || 1 << x->shift != size_bytes) {
        return false;
    }
    x->spots[number / 64] |= (uint64_t)1 << (number % 64);
    if (start < x->where.start) x->where.start = start;
    if (start + size_bytes > x->where.end) x->where.end = start + size_bytes;
    return true;
}

typedef enum { WITHIN_BLOCK, BETWEEN_BLOCKS } race_scope;
/* Calls `race` for pairs that nothing orders and that were not compared before; [from, to) is what they share. False: too much
   to compare, not everything was. */
bool accesses_compare(access_log *log, race_scope scope, int32_t block_threads,
                      void (*race)(void *data, const shared_access *x, const shared_access *y, int64_t from, int64_t to), void *data);
/* Lets go of those that were complete before `epoch` (of the block, or of the grid); what lies in L3 goes on to `to`, if that is
   not NULL. The others count as compared. */
void accesses_retire(access_log *log, race_scope scope, uint64_t epoch, access_log *to);
void accesses_clear(access_log *log); /* memory stays */
void accesses_free(access_log *log);

#endif
