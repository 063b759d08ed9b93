/* What the sanitized mode shows to the sanitizer, before it happens. It reports and lets the thread go on: what ends a thread is
   the machine's (and is told by sanitizer_fault). Views may be of any space; only their [lo, hi) is touched. */
#ifndef TOPS_SANITIZER_H
#define TOPS_SANITIZER_H
#include "sanitizer/state.h"
#include "tiles/elements.h"

/* A launch, its blocks and threads. */
struct sanitizer *sanitizer_new(launch *l); /* NULL: no memory */
void sanitizer_free(struct sanitizer *s);
sanitizer_block *sanitizer_block_begin(struct sanitizer *s); /* NULL: no memory */
bool sanitizer_thread_begin(sanitizer_block *b, thread *t);                  /* false: no memory */
void sanitizer_block_barrier(sanitizer_block *b, uint32_t epoch);            /* all threads of it meet; the epoch that begins */
void sanitizer_block_end(sanitizer_block *b);
void sanitizer_grid_barrier(struct sanitizer *s, uint32_t epoch);            /* all blocks meet, after their own barriers */
void sanitizer_finish(struct sanitizer *s);
void sanitizer_fault(struct sanitizer *s, const fault *f); /* a thread ended with a fault */
const findings *sanitizer_findings(const struct sanitizer *s);

/* Accesses. */
void sanitizer_read(thread *self, int32_t pc, const tile *view);
void sanitizer_write(thread *self, int32_t pc, const tile *view);
void sanitizer_read_bytes(thread *self, int32_t pc, const tile *view, const uint8_t *at, int size_bytes);
void sanitizer_write_bytes(thread *self, int32_t pc, const tile *view, const uint8_t *at, int size_bytes);
void sanitizer_read_vector(thread *self, int32_t pc, const tile *view, int32_t i);
void sanitizer_write_vector(thread *self, int32_t pc, const tile *view, int32_t i);
void sanitizer_atomic(thread *self, int32_t pc, const tile *view);
void sanitizer_scatter(thread *self, int32_t pc, const tile *d, const tile *b, const tile *a, int axis, bool reads);
void sanitizer_transfer(thread *self, int32_t pc, uint32_t event, const tile *d, const tile *a, uint32_t after, int channel);
void sanitizer_wait(thread *self, uint32_t event);
void sanitizer_wait_all(thread *self);
void sanitizer_end(thread *self);

/* Nothing can be wrong with a slot of L1 that is all written and that no transfer touches: the common case, without a call. */
static inline bool sanitizer_settled(const thread *self, const tile *view) {
    const sanitizer_thread *const t = self->sanitizer;
    const slot *const s = &t->l1[t->first[view->object] + view->slot];
    return s->state == SLOT_WRITTEN && s->in_flight == 0;
}

/* Tiles of the vector and matrix units: the machine refuses other memories than L1. */
static inline void sanitizer_tile_read(thread *self, int32_t pc, const tile *view) {
    if (view->space == SPACE_L1 && !sanitizer_settled(self, view)) sanitizer_read(self, pc, view);
}

static inline void sanitizer_tile_write(thread *self, int32_t pc, const tile *view) {
    if (view->space == SPACE_L1 && !sanitizer_settled(self, view)) sanitizer_write(self, pc, view);
}

static inline void sanitizer_element_read(thread *self, int32_t pc, const tile *view, const uint8_t *at, int size_bytes) {
    if (view->space != SPACE_L1 || !sanitizer_settled(self, view)) sanitizer_read_bytes(self, pc, view, at, size_bytes);
}

static inline void sanitizer_element_write(thread *self, int32_t pc, const tile *view, const uint8_t *at, int size_bytes) {
    if (view->space != SPACE_L1 || !sanitizer_settled(self, view)) sanitizer_write_bytes(self, pc, view, at, size_bytes);
}

/* A view without axes. One element of L3, in a loop that came by before, is the common case of counting: without a call. */
static inline void sanitizer_element_atomic(thread *self, int32_t pc, const tile *view) {
    const sanitizer_thread *const t = self->sanitizer;
    if (view->space == SPACE_L3 && t->flights == 0 &&
        accesses_add_another_spot(&t->block->log, pc, self->id, self->epoch + self->grid_epoch, view->object, view->p, tk_size[view->dtype]))
        return;
    sanitizer_atomic(self, pc, view);
}

/* 128 bytes from element i of a view, which may lie outside: then the machine faults next. */
static inline void sanitizer_vector_read(thread *self, int32_t pc, const tile *view, int32_t i) {
    if (view->space == SPACE_L1 && !sanitizer_settled(self, view)) sanitizer_read_vector(self, pc, view, i);
}

static inline void sanitizer_vector_write(thread *self, int32_t pc, const tile *view, int32_t i) {
    if (view->space == SPACE_L1 && !sanitizer_settled(self, view)) sanitizer_write_vector(self, pc, view, i);
}

#endif
