/* A thread's memory: registers, L1 and what the modes keep of it. Used again by thread after thread. */
#ifndef TOPS_CONTEXT_H
#define TOPS_CONTEXT_H
#include "launch.h"

typedef struct context {
    thread thread;
    uint8_t *registers; /* r, v, t and touched behind one another */
    size_t registers_bytes;
    arena l1;
} context;

/* The thread `id` of a launch, ready to run; false: no memory. `thread.stores`, `prints`, `counts` are the caller's to set. */
bool context_start(context *c, launch *l, int32_t id, uint8_t *l2);
void context_free(context *c);

#endif
