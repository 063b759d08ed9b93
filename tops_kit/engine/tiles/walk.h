/* Walking the elements of several views in step: axes of extent 1 dropped, neighbouring axes merged where every view allows it,
   and the last axis taken as a row. */
#ifndef TOPS_TILES_WALK_H
#define TOPS_TILES_WALK_H
#include "kernels.h"
#include <stdlib.h>

enum { WALK_VIEWS = 4 };

/* n[axes - 1] is the length of a row; strides in bytes, 0 where a view is broadcast. */
typedef struct {
    int axes, views;
    int64_t rows; /* product of the other extents; 0 when there is no element */
    int64_t n[MAX_AXES], stride[WALK_VIEWS][MAX_AXES];
    uint8_t *p[WALK_VIEWS];
} walk;

/* Views t[1], t[2], ... broadcast to t[0], the destination. FAULT_SHAPE where they do not fit. */
int walk_make(walk *w, int views, const tile *const *t);
/* The same over given extents, to which all views broadcast; `n` has `rank` axes. */
int walk_over(walk *w, int rank, const int32_t *n, int views, const tile *const *t);
/* Advance to the next row: `index` starts at zeros, `p` at w->p. */
static inline void walk_next(const walk *w, int64_t *index, uint8_t **p) {
    for (int axis = w->axes - 2; axis >= 0; axis--) {
        if (++index[axis] < w->n[axis]) {
            for (int v = 0; v < w->views; v++) p[v] += w->stride[v][axis];
            return;
        }
        for (int v = 0; v < w->views; v++) p[v] -= w->stride[v][axis] * (w->n[axis] - 1);
        index[axis] = 0;
    }
}

/* All operands in L1 and inside: FAULT_SPACE, FAULT_BOUNDS. */
int check_l1(int views, const tile *const *t);

/* Whether two views may share bytes. Views of the very same elements in the same places do not count when `same_is_fine`. */
int views_collide(const tile *d, const tile *a, int same_is_fine);

/* Copies of sources that collide with the destination. */
typedef struct {
    int count;
    tile view[WALK_VIEWS - 1];
    void *memory[WALK_VIEWS - 1];
} source_copies;
/* Sources t[1], t[2], ... that collide with t[0] are replaced by copies, which sources_free gives back. 0 or FAULT_MEMORY. */
int sources_apart(source_copies *s, int views, const tile **t, int same_is_fine);
static inline void sources_free(source_copies *s) {
    while (s->count > 0) free(s->memory[--s->count]);
}

int64_t tile_elements(const tile *t);
#endif
