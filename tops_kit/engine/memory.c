#include "memory.h"
#include <stdlib.h>
#include <string.h>
#if defined(__unix__) || defined(__APPLE__)
#include <sys/mman.h>
#include <unistd.h>

static bool map(arena *a, size_t size) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t inner = (size + page - 1) / page * page;
    uint8_t *const mapping = mmap(NULL, inner + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED) return false;
    if (mprotect(mapping + page, inner, PROT_READ | PROT_WRITE) != 0) {
        munmap(mapping, inner + 2 * page);
        return false;
    }
    *a = (arena){.bytes = mapping + page, .size = inner, .mapping = mapping, .mapped = inner + 2 * page};
    return true;
}

static void unmap(arena *a) { munmap(a->mapping, a->mapped); }
#else
static bool map(arena *a, size_t size) {
    uint8_t *const mapping = calloc(1, size + 128);
    if (!mapping) return false;
    *a = (arena){.bytes = (uint8_t *)(((uintptr_t)mapping + 127) & ~(uintptr_t)127), .size = size, .mapping = mapping, .mapped = size};
    return true;
}

static void unmap(arena *a) { free(a->mapping); }
#endif

bool arena_reserve(arena *a, size_t size) {
    if (size > a->size) {
        arena_free(a);
        if (!map(a, size)) return false;
    } else if (a->used) {
        memset(a->bytes, 0, a->used);
    }
    a->used = size;
    return true;
}

void arena_free(arena *a) {
    if (a->mapping) unmap(a);
    *a = (arena){0};
}
