/* An allocator for LD_PRELOAD that takes a lock and reads a file where it can, as real ones do when they begin. */
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char memory[256 << 20] __attribute__((aligned(4096)));
static size_t used;

void *malloc(size_t bytes) {
    size_t *block;
    pthread_mutex_lock(&lock);
    if (!used) {
        char text[64];
        int fd = open("/proc/sys/vm/overcommit_memory", O_RDONLY);
        if (fd >= 0 && read(fd, text, sizeof text) >= 0) close(fd);
    }
    used = (used + 31) & ~(size_t)15;
    block = (size_t *)(void *)(memory + used);
    used += bytes;
    pthread_mutex_unlock(&lock);
    if (used > sizeof memory) return NULL;
    block[-1] = bytes;
    return block;
}
void free(void *block) { (void)block; }
void *calloc(size_t count, size_t bytes) {
    void *block = malloc(count * bytes);
    return block ? memset(block, 0, count * bytes) : NULL;
}
void *realloc(void *block, size_t bytes) {
    void *fresh = malloc(bytes);
    if (block && fresh) memcpy(fresh, block, ((size_t *)block)[-1] < bytes ? ((size_t *)block)[-1] : bytes);
    return fresh;
}
