/* What the sanitizer found: one finding for each (kind, instruction, other instruction), with the first case of it and a count. */
#ifndef TOPS_FINDINGS_H
#define TOPS_FINDINGS_H
#include "../kernel.h"

enum { ACCESS_READ, ACCESS_WRITE, ACCESS_ATOMIC };
enum { MAX_FINDINGS = 1000 };
/* Why something could not be checked; findings.py says it in words. */
enum {
    LIMIT_MEMORY = 1,   /* the host has no memory for it */
    LIMIT_ACCESSES = 2, /* too many accesses to L2 and L3 to keep */
    LIMIT_RACES = 4,    /* too many to compare */
    LIMIT_FINDINGS = 8, /* more kinds of findings than MAX_FINDINGS */
    LIMIT_ENDED = 16    /* the launch ended before its threads did */
};

/* Who did what with memory, the first time. */
typedef struct {
    int32_t pc, thread, block;
    uint8_t access;   /* ACCESS_* */
    uint8_t transfer; /* of the DTE: from its issue until it was awaited */
    uint8_t open;     /* and it was not awaited when something else came */
} actor;

typedef struct {
    fault fault; /* kind, place, thread, object; numbers of faults that end a thread */
    actor first, second; /* second.pc -1: nobody else has to do with it */
    int32_t slot;
    int64_t from, to; /* bytes concerned, from the beginning of the slot or from element 0 of the array; from == to: none */
    int64_t count;
} finding;

typedef struct {
    finding *item;
    int32_t count, capacity;
    int32_t *bucket; /* hashed: number + 1 of a finding */
    uint32_t limits;
} findings;

/* The finding that `like` is a case of, with one more case counted; a new one begins as a copy. */
void findings_add(findings *all, const finding *like);
void findings_free(findings *all);

#endif
