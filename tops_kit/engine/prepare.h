/* Making a program ready for the machine (kernel.c). */
#ifndef TOPS_PREPARE_H
#define TOPS_PREPARE_H
#include "kernel.h"

/* Zeroed tables of these sizes; the caller fills code, registers, buffers (space, dtype, rank, n of the view) and pointers. */
kernel *kernel_new(int32_t count, int32_t scalars, int32_t tiles, int32_t vectors, int32_t buffers, int32_t pointers);
const char *kernel_validate(const kernel *k, int32_t strings); /* NULL, or what is wrong */
bool kernel_finish(kernel *k); /* after validation; false: it needs more L1 or L2 than any part has */
void kernel_free(kernel *k);

#endif
