/* Memory that simulates L1 and L2: pages of its own between pages that nobody may touch, so that even an error of the engine
   itself stays within it. */
#ifndef TOPS_MEMORY_H
#define TOPS_MEMORY_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint8_t *bytes;
    size_t size;      /* usable bytes */
    uint8_t *mapping; /* with the guards */
    size_t mapped;
    size_t used; /* bytes that may differ from 0 */
} arena;

bool arena_reserve(arena *a, size_t size); /* zeroed; false: no memory */
void arena_free(arena *a);

#endif
