/* Counted mode: how often each instruction ran. Only jumps pay: `counts` holds differences, whose running sum gives the
   counts. */
#define HOOK_ENTER(pc) (self->counts[pc]++)
#define HOOK_LEAVE(next) (self->counts[next]--)
#define HOOK_JUMP(from, to) (self->counts[(from) + 1]--, self->counts[to]++)
#include "hooks_common.h"
