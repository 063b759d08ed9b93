/* Code objects of the process: read once, and looked at again in each sample, since their addresses are used again. */
#ifndef TOPSPROF_CODE_H
#define TOPSPROF_CODE_H
#include "remote.h"

enum { PROOF_TEXT = 64, PROOF_TABLE = 32, CODE_CUT = 0, CODE_LOST = -1, CODE_NO_MEMORY = -2, AT_CALL = 1 << 30 };

/* A function as people know it: the same again at another address is the same one. */
typedef struct {
    uint64_t length;                            /* of the code, in units of 2 bytes */
    int32_t firstlineno, flags;
    bool hidden;                                /* a trampoline of the interpreter: no function of anyone's */
    uint32_t hash;
    char *name, *file;
    int32_t *lines;                             /* of each unit, with AT_CALL where a call stands */
} py_code;

/* An address at which a code object was found, and how to see that it is still that one. */
typedef struct {
    uint64_t address, text_at, table_at;
    uint64_t checked;                           /* the last time (a tick's number) that found it as it was */
    uint32_t proofs;                            /* how often it was found so */
    int32_t id;
    uint32_t text_bytes, table_bytes;
    uint8_t header[CODE_BLOCK], text[PROOF_TEXT], table[PROOF_TABLE];
} py_place;

typedef struct {
    uint32_t *slots;                            /* hash -> index + 1 */
    uint32_t mask, used;
} hash_index;

typedef struct {
    py_code *codes;                             /* by id; CODE_CUT stands for frames that were cut off */
    py_place *places;
    int32_t count, room, place_count, place_room;
    hash_index by_address, by_content;
    uint64_t replaced, lost;                    /* addresses that were used again; reads that made no sense */
} code_table;

bool codes_begin(code_table *codes);
void codes_end(code_table *codes);

/* Finds what the `count` addresses hold now: ids, or CODE_LOST at the first that is none (those behind it are not told). The known ones
 * are looked at in one read; of the last `stable` ones, whose frames are where they were, those that have long been what they are only
 * now and then. `time` grows from tick to tick. False: no memory. */
bool codes_resolve(code_table *codes, remote *from, const uint64_t *addresses, int32_t *ids, int count, int stable, uint64_t time);

/* The line of an instruction, at a byte offset into the code; 0: none. */
int32_t code_line(const py_code *code, int64_t offset);

/* Whether the instruction there is a call. */
bool code_at_call(const py_code *code, int64_t offset);
#endif
