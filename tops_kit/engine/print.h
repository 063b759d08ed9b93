/* What kernels print. A record: size_bytes, format (a string's index), thread, block, epoch, grid epoch (32 bits each), then
   the arguments, each a tag and its values in 32 bits: 0 i32, 1 f32, 2 bool; 3 a tile: type, rank, extents, elements as scalar
   registers have them. Python puts the text together (printing.py). */
#ifndef TOPS_PRINT_H
#define TOPS_PRINT_H
#include "kernel.h"

enum { PRINT_TILE = 3, PRINT_HEADER_BYTES = 24, PRINT_LIMIT_BYTES = 1 << 20 /* a thread */ };

int print_check(thread *self, const tile *a); /* only what lies in L1 or L2, and is whole, can be printed */
void print_scalar(thread *self, int tag, reg value);
void print_tile(thread *self, const tile *a);
void print_finish(thread *self, int format);

/* Of a launch: what workers wrote, in the order of (grid epoch, block, epoch, thread); `until`: what comes behind that fault
   is left out. */
void prints_append(print_log *all, const print_log *some);
void prints_sort(print_log *all, const fault *until);

#endif
