/* What units of a launch stored to L3, and whether two of them stored to the same place: then the order matters, and the
   launch is run again in order (schedule.c). */
#ifndef TOPS_STORES_H
#define TOPS_STORES_H
#include "kernel.h"

void stores_add(store_log *log, const tile *d); /* the part of `d` that exists */
/* Whether rectangles of different units overlap; true, too, where that is too much work to tell. Sorts `item`. */
bool stores_overlap(rectangle *item, int64_t count);

#endif
