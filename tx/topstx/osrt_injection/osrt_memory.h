/* osrt_memory.h - memory for the recorder in this library: from the kernel, never from the program's allocator.
 *
 * A call that we record may come from within malloc itself, or from a signal handler that interrupted it. No lock, so a fork
 * may come at any time. Small blocks are never given back: the recorder's are few, and grow by doubling.
 */
#ifndef OSRT_MEMORY_H
#define OSRT_MEMORY_H

#define OSRT_CHUNK ((uintptr_t)1 << 18)
#define OSRT_LARGE ((size_t)1 << 16) /* such a block is a mapping of its own */
#define OSRT_HEAD 16u                /* bytes before a block: its size */

static uintptr_t osrt_free_at; /* where the current chunk's free part begins; chunks are aligned to their size */

static void *osrt_map(size_t bytes) {
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return map == MAP_FAILED ? NULL : map;
}

static void *osrt_malloc(size_t bytes) {
    size_t whole = (bytes + OSRT_HEAD + 15) & ~(size_t)15;
    uintptr_t at, end;
    char *map;
    if (whole < bytes) return NULL;
    if (whole >= OSRT_LARGE) {
        if (!(map = (char *)osrt_map(whole))) return NULL;
        *(size_t *)map = whole;
        return map + OSRT_HEAD;
    }
    at = __atomic_load_n(&osrt_free_at, __ATOMIC_ACQUIRE);
    for (;;) {
        end = (at + OSRT_CHUNK - 1) & ~(OSRT_CHUNK - 1); /* a chunk that is just full: at == end */
        if (at && at + whole <= end) {
            if (!__atomic_compare_exchange_n(&osrt_free_at, &at, at + whole, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) continue;
            break;
        }
        if (!(map = (char *)osrt_map(2 * OSRT_CHUNK))) return NULL;
        end = (((uintptr_t)map + OSRT_CHUNK) & ~(OSRT_CHUNK - 1)) + OSRT_HEAD; /* never a multiple of the chunk */
        if (__atomic_compare_exchange_n(&osrt_free_at, &at, end + whole, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
            at = end;
            break;
        }
        munmap(map, 2 * OSRT_CHUNK); /* another thread was first */
    }
    *(size_t *)at = whole;
    return (char *)at + OSRT_HEAD;
}

static void osrt_free(void *block) {
    char *begin = (char *)block - OSRT_HEAD;
    if (block && *(size_t *)begin >= OSRT_LARGE) munmap(begin, *(size_t *)begin);
}

static void *osrt_calloc(size_t count, size_t bytes) {
    return bytes && count > SIZE_MAX / bytes ? NULL : osrt_malloc(count * bytes); /* fresh from the kernel: zeros */
}

static void *osrt_realloc(void *block, size_t bytes) {
    void *fresh = osrt_malloc(bytes);
    if (block && fresh) {
        size_t had = *(size_t *)((char *)block - OSRT_HEAD) - OSRT_HEAD;
        memcpy(fresh, block, had < bytes ? had : bytes);
        osrt_free(block);
    }
    return fresh;
}
#endif /* OSRT_MEMORY_H */
