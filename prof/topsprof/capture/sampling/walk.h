/* One thread's frames, from the copy of its stack chunks. */
#ifndef TOPSPROF_WALK_H
#define TOPSPROF_WALK_H
#include "code.h"

enum walk_result { WALK_OK, WALK_TORN, WALK_GONE, WALK_NO_MEMORY };
enum { OWNED_BY_GENERATOR = 1, OWNED_BY_C_STACK = 3, APART = 8 };

typedef struct {
    uint64_t address, code, instr;
    uint8_t owner;
} raw_frame;

/* What the last walk of a thread learned, so that the next needs a single read. */
typedef struct {
    uint64_t cframe, chunk, chunk_bytes, used;
    raw_frame *frames;          /* of the last walk, innermost first */
    int count, room;
    uint64_t apart[APART];      /* frames that lay in no chunk: of generators, and on the C stack */
    int apart_count;
} walk_hint;

typedef struct {
    uint64_t base, bytes;
    uint8_t *copy;
    uint64_t room;
} chunk_copy;

typedef struct {
    raw_frame *frames;          /* innermost first */
    uint64_t *codes;
    int32_t *ids, *lines;
    int count, max;
    bool cut;                   /* there were more than `max` */
    bool at_call;               /* the innermost frame stands at a call: of C, since a Python function would have a frame */
    int attempts;
    uint64_t loose;             /* an outermost frame of a generator, met in the attempt before: met again it is what it seems */
    chunk_copy *chunks;
    int chunk_count, chunk_room;
    uint8_t apart[APART][FRAME_BLOCK];      /* the hint's, as they are now */
    int apart_count;
} walker;

bool walker_begin(walker *w, int max);
void walker_end(walker *w);

/* Fills `w` with the frames of the thread whose state lies at `thread`. WALK_GONE: another thread's state, or none, lies there;
 * WALK_TORN: what was read makes no sense, also when read again. */
enum walk_result walk(walker *w, remote *from, code_table *codes, walk_hint *hint, uint64_t thread, uint64_t interp, int32_t tid,
                      uint64_t time);

void hint_end(walk_hint *hint);
#endif
