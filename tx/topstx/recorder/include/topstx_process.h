/* topstx_process.h - the state of the recorder in one process (internal to topstx.h).
 *
 * The state is one object per linked program or library: `weak` and `hidden` merge the copies of several translation units,
 * and keep those of different libraries apart (each then counts as a producer of its own, under the same pid).
 */
#ifndef TOPSTX_PROCESS_H
#define TOPSTX_PROCESS_H

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif
#include "topstx_layout.h"

#if !defined(MREMAP_MAYMOVE)
#error "topstx.h needs the GNU declarations: include it before any other header, or compile with -D_GNU_SOURCE"
#endif

#define TOPSTXI_LIKELY(x) __builtin_expect(!!(x), 1)
#define TOPSTXI_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define TOPSTXI_SLOW static __attribute__((noinline, unused))
#ifdef TOPSTX_ONE_UNIT /* the whole producer lives in one translation unit (the C extension) */
#define TOPSTXI_GLOBAL static
#else
#define TOPSTXI_GLOBAL __attribute__((weak, visibility("hidden")))
#endif
#ifndef TOPSTX_BACKEND
#define TOPSTX_BACKEND TOPSTX_BACKEND_HEADER
#endif

#define TOPSTXI_EXCLUDED 0xFFFFFFFFu /* attr of a domain that the tool filtered out: record nothing */
#define TOPSTXI_NAME_BYTES_MAX 4096u /* a longer name is cut */
#define TOPSTXI_ORPHAN (~(uint64_t)0) /* context of what an ended thread left open */
#define TOPSTXI_PATIENCE 255u        /* a file that could not be had is not tried for at each record */

typedef struct topstxi_context { /* an asyncio task (or whatever the language calls it) with ranges open in a ring */
    uint64_t key;
    uint32_t top;   /* index + 1 of its innermost open range */
    uint32_t depth; /* its open ranges */
} topstxi_context;

typedef struct topstxi_payload { /* what did not fit into the open slot */
    uint8_t tag;
    uint8_t truncated;
    uint32_t bytes;
    uint8_t data[1];
} topstxi_payload;

typedef struct topstxi_ring { /* the producer's private view of its ring; outlives the mapping, which grows by succession */
    topstx_open *open;
    topstx_record *records;
    topstx_ring_header *header;
    uint64_t mask;
    uint64_t head;      /* copy of header->head */
    uint64_t limit;     /* head may reach it before the tail must be read again */
    uint64_t raw;       /* context as last seen */
    uint64_t context;   /* its key; 0: the thread itself */
    uint32_t task;
    uint32_t top;       /* of the current context */
    uint32_t depth;
    uint32_t free_head; /* index + 1 of the first free open slot */
    uint32_t tid;
    uint32_t open_count; /* in all contexts */
    uint32_t hidden;     /* of these, pushes that are not recorded */
    uint32_t unplaced;   /* pushes that found no place in a full table; their pops come first */
    uint32_t epoch;      /* other than the process's: the ring is dead */
    uint64_t serial;
    uint64_t bytes;
    uint64_t first_context;
    uint32_t open_capacity;
    uint32_t shared;
    topstxi_context *contexts; /* hash by key; the current context is not in it */
    uint32_t context_capacity;
    uint32_t context_used;
    topstxi_payload **payloads; /* by open slot; NULL until a long payload comes */
    uint32_t payload_capacity;
    uint32_t pooled;
    uint32_t patience; /* full moments to let pass before growth is tried again */
    struct topstxi_ring *next;
    struct topstxi_ring *next_pooled;
} topstxi_ring;

typedef struct topstxi_old_ring { /* a superseded ring file that the consumer may not have deleted yet */
    uint64_t serial;
    uint64_t bytes;
    struct topstxi_old_ring *next;
} topstxi_old_ring;

typedef struct topstxi_name_slot {
    uint32_t hash;
    uint32_t id; /* 0: free */
    uint64_t at; /* offset of its topstxi_name in the arena */
} topstxi_name_slot;

typedef struct topstxi_process {
    pthread_mutex_t lock;        /* attach, rings, pool */
    pthread_mutex_t names_lock;  /* names; held across fork, so never while waiting */
    pthread_mutex_t shared_lock; /* the shared ring */
    topstx_control *control;
    topstx_names_header *names;
    uint64_t names_bytes; /* size of the names file and its mapping */
    uint64_t serial;
    uint64_t next_ring;
    uint64_t parent_serial; /* of the files that a fork child continues */
    uint32_t parent_count;
    uint64_t ring_bytes; /* of all ring files that may exist */
    uint64_t dead_heartbeat;
    topstxi_ring *rings;
    topstxi_ring *pool;
    topstxi_ring *shared;
    topstxi_old_ring *old_rings;
    topstxi_name_slot *slots; /* hash of names */
    uint32_t slot_capacity;
    uint32_t name_count;
    char *arena;
    uint64_t arena_bytes;
    uint64_t arena_capacity;
    uint32_t epoch;         /* counts attachments and forks; rings and ids of another epoch are void */
    uint32_t name_epoch;    /* counts attachments: ids survive a fork, but no change of session */
    uint32_t clock;
    uint32_t forked;        /* a fork child that has not opened its own files yet */
    uint32_t registered;    /* atfork, exit and thread-end handlers are in place */
    uint32_t default_attr;  /* 0, or TOPSTXI_EXCLUDED */
    uint32_t wait_name;
    uint32_t names_patience; /* the same for the names file */
    uint64_t start_count;   /* start/end ranges begun; never reset, so a parent's handle means nothing in its child */
    uint64_t foreign_starts; /* of those: begun in a process that forked this one, or in a session that was left */
    pthread_key_t key;
    char folder[3072];
} topstxi_process;

/* Zeros throughout are its right beginning: unlocked mutexes (PTHREAD_MUTEX_INITIALIZER on Linux), no session. */
TOPSTXI_GLOBAL topstxi_process topstxi_state;
TOPSTXI_GLOBAL uint32_t topstxi_never = 0;
TOPSTXI_GLOBAL uint32_t *topstxi_switch = &topstxi_never; /* &control->recording while attached */
TOPSTXI_GLOBAL __thread topstxi_ring *topstxi_mine __attribute__((tls_model("initial-exec"))) = NULL;
TOPSTXI_GLOBAL __thread uint32_t topstxi_lost __attribute__((tls_model("initial-exec"))) = 0;
TOPSTXI_GLOBAL __thread uint32_t topstxi_hurry __attribute__((tls_model("initial-exec"))) = 0; /* this thread can't wait for room now */

static inline uint32_t topstxi_recording(void) { return __atomic_load_n(topstxi_switch, __ATOMIC_RELAXED); }

static inline uint64_t topstxi_monotonic(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline uint64_t topstxi_now(void) {
#if defined(__x86_64__)
    if (TOPSTXI_LIKELY(topstxi_state.clock == TOPSTX_CLOCK_TSC)) return __rdtsc();
#endif
    return topstxi_monotonic();
}

static inline uint32_t topstxi_tid(void) { return (uint32_t)syscall(SYS_gettid); }

/* The same, without a system call where the thread has a ring. */
static inline uint32_t topstxi_my_tid(void) { return topstxi_mine ? topstxi_mine->tid : topstxi_tid(); }

static inline void topstxi_count(uint64_t *counter) { __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED); }

/* Create (bytes > 0) or open a file, allocate it up to `bytes`, and map that much. NULL: it can't be had; nothing is left behind. */
TOPSTXI_SLOW void *topstxi_map_file(const char *path, uint64_t bytes, int create) {
    struct rlimit limit;
    void *map;
    int fd, error;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && bytes > limit.rlim_cur)
        return NULL; /* beyond the limit the kernel sends SIGXFSZ, which ends a program that expects none */
    fd = open(path, O_RDWR | O_CLOEXEC | (create ? O_CREAT | O_EXCL : 0), 0600);
    if (fd < 0) return NULL;
    do error = posix_fallocate(fd, 0, (off_t)bytes);
    while (error == EINTR);
    map = error ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | (create ? MAP_POPULATE : 0), fd, 0);
    close(fd);
    if (map == MAP_FAILED) {
        if (create) unlink(path);
        return NULL;
    }
    return map;
}

TOPSTXI_SLOW void topstxi_ring_path(char *path, size_t bytes, uint64_t ring) {
    snprintf(path, bytes, "%s/rings/%016llx-%llu.ring", topstxi_state.folder, (unsigned long long)topstxi_state.serial,
             (unsigned long long)ring);
}

TOPSTXI_SLOW uint64_t topstxi_random_serial(void) {
    uint64_t serial = 0;
    if (getrandom(&serial, sizeof serial, 0) != (ssize_t)sizeof serial)
        serial = topstxi_monotonic() * 0x9E3779B97F4A7C15ull ^ ((uint64_t)getpid() << 32);
    return serial ? serial : 1;
}

/* Field 22 of /proc/self/stat, in clock ticks since boot; 0 when it can't be read. */
TOPSTXI_SLOW uint64_t topstxi_proc_start(void) {
    char text[1024], *at;
    ssize_t got;
    int field, fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    got = read(fd, text, sizeof text - 1);
    close(fd);
    if (got <= 0) return 0;
    text[got] = 0;
    at = strrchr(text, ')'); /* the command's name may hold blanks and brackets */
    for (field = 2; at && field < 22; field++) at = strchr(at + 1, ' ');
    return at ? strtoull(at + 1, NULL, 10) : 0;
}
#endif /* TOPSTX_PROCESS_H */
