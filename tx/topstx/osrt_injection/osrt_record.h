/* osrt_record.h - from a call that has returned to a row in the thread's ring, in whatever place the program is.
 *
 * A row without a new name needs neither lock nor system call. All else (a thread's first ring, a full one, a name) is done with signals
 * and cancellation held back, so that no handler finds a lock taken by the thread that it interrupts. A call from a handler that
 * interrupted us is not recorded, but counted.
 */
#ifndef OSRT_RECORD_H
#define OSRT_RECORD_H

#define OSRT_KIND 49u         /* rows.py: KIND_OSRT */
#define OSRT_SHORT_KIND 50u   /* rows.py: KIND_OSRT_SHORT */
#define OSRT_NO_BYTES (-1)    /* the call moves none */
#define OSRT_STACK_NEED 24576 /* bytes that the slow way may take of a signal handler's stack */
#define OSRT_SHARDS 16u
#define OSRT_FLUSH_NS 1000000000u

typedef struct osrt_body { /* as rows.py has it */
    int64_t return_value;
    int64_t size_bytes;
    uint32_t target;
    int32_t fd;
    uint16_t error;
} __attribute__((packed)) osrt_body;

typedef struct osrt_short_body {
    uint64_t calls;
    uint64_t total_ns;
    uint64_t size_bytes;
} __attribute__((packed)) osrt_short_body;

typedef struct osrt_call { /* one that has returned */
    int function;
    int fd;          /* -1: none */
    uint32_t target; /* name id; 0: that of the descriptor, if any */
    int error;
    uint64_t begin;
    uint64_t end;
    int64_t bytes; /* OSRT_NO_BYTES */
    int64_t result;
} osrt_call;

typedef struct osrt_count { /* calls too short for a row */
    uint64_t calls;
    uint64_t ticks;
    uint64_t bytes;
} osrt_count;

static __thread int osrt_busy __attribute__((tls_model("initial-exec")));         /* this thread is within this file */
static __thread int osrt_vforking __attribute__((tls_model("initial-exec")));     /* it called vfork: who runs may be the child */
static __thread uint32_t osrt_shard __attribute__((tls_model("initial-exec")));   /* 1 + which; 0: not chosen yet */
static volatile uint32_t *osrt_alive; /* a page that the kernel zeroes in a child that no atfork handler sees; 1 elsewhere */
static uint32_t osrt_pid;
static int osrt_sandboxed; /* seccomp is on: no system calls of ours any more */
static uint64_t osrt_threshold_ticks;
static uint64_t osrt_threshold_ns;
static uint64_t osrt_flush_ticks;
static uint64_t osrt_flushed; /* when the short ones were written last, ticks */
static double osrt_ns_per_tick = 1;
static uint32_t osrt_ids[OSRT_COUNT]; /* name ids of the functions; valid in fork children, too */
static osrt_count osrt_counts[OSRT_SHARDS][OSRT_COUNT];
static uint64_t osrt_lost; /* calls that could not be written where they came from */
static uint32_t osrt_next_shard;

static uint32_t osrt_target_of(int fd); /* osrt_targets.h */

typedef struct osrt_hold { /* signals and cancellation, held back */
    uint64_t mask;
    int cancel;
} osrt_hold;

static void osrt_hold_back(osrt_hold *hold) {
    uint64_t all = ~(uint64_t)0;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &hold->cancel);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &hold->mask, sizeof all);
}

static void osrt_let_go(const osrt_hold *hold) {
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &hold->mask, NULL, sizeof hold->mask);
    pthread_setcancelstate(hold->cancel, NULL);
}

/* Is there room on this stack for the slow way? A handler's own stack may be tiny. */
static int osrt_has_stack(void) {
    stack_t stack;
    char *here = (char *)__builtin_frame_address(0);
    if (syscall(SYS_sigaltstack, NULL, &stack) || !(stack.ss_flags & SS_ONSTACK)) return 1;
    return here - (char *)stack.ss_sp > OSRT_STACK_NEED;
}

/* A child that was made without the handlers of fork (a bare clone): what they do, done late. */
static void osrt_child_begins(void);

/* Shall the call that begins now be recorded? In the child of a vfork everything is the parent's, so nothing is touched. */
static inline int osrt_watching(void) {
    if (TOPSTXI_LIKELY(topstxi_recording() != TOPSTX_RECORDING_ON) || osrt_busy) return 0;
    if (TOPSTXI_UNLIKELY(osrt_vforking)) {
        if (osrt_sandboxed || (uint32_t)syscall(SYS_getpid) != osrt_pid) return 0;
        osrt_vforking = 0;
    }
    return !(topstxi_state.control->rows_off >> OSRT_KIND & 1);
}

/* May tables of this process be changed? (While recording is off, too: descriptors come and go.) */
static inline int osrt_is_vfork_child(void) {
    return TOPSTXI_UNLIKELY(osrt_vforking) && !osrt_sandboxed && (uint32_t)syscall(SYS_getpid) != osrt_pid;
}

static inline uint64_t osrt_begin(void) { return topstxi_now(); }

static inline int osrt_put(topstxi_ring *r, const osrt_call *call, uint32_t target) {
    osrt_body body = {call->result, call->bytes, target, call->fd, (uint16_t)call->error};
    return topstxi_row(r, OSRT_KIND, call->begin, call->end, osrt_ids[call->function], 0, &body, sizeof body);
}

/* Write what the counters of short calls have, as far as the ring has room; all of it when `last`. */
static void osrt_flush(topstxi_ring *r, int last) {
    for (int function = 0; function < OSRT_COUNT; function++) {
        osrt_short_body body = {0, 0, 0};
        uint64_t ticks = 0;
        if (!last && r->head + 2 > r->limit && !topstxi_room(r, 2)) return;
        for (unsigned shard = 0; shard < OSRT_SHARDS; shard++) {
            osrt_count *count = &osrt_counts[shard][function];
            if (!__atomic_load_n(&count->calls, __ATOMIC_RELAXED)) continue;
            body.calls += __atomic_exchange_n(&count->calls, 0, __ATOMIC_RELAXED);
            body.size_bytes += __atomic_exchange_n(&count->bytes, 0, __ATOMIC_RELAXED);
            ticks += __atomic_exchange_n(&count->ticks, 0, __ATOMIC_RELAXED);
        }
        if (!body.calls) continue;
        body.total_ns = (uint64_t)((double)ticks * osrt_ns_per_tick);
        const uint64_t now = topstxi_now();
        topstxi_row(r, OSRT_SHORT_KIND, now, now, osrt_ids[function], 0, &body, sizeof body);
    }
}

/* A call that can't be written where it comes from: counted in the thread's ring, or, before there is one, for the next that comes. */
static void osrt_lose(void) {
    topstxi_ring *r = topstxi_mine;
    if (r && *osrt_alive && r->epoch == topstxi_state.epoch && !topstxi_state.forked) topstxi_count(&r->header->dropped);
    else __atomic_fetch_add(&osrt_lost, 1, __ATOMIC_RELAXED);
}

/* The slow way: whatever the record needs, it is made. */
static __attribute__((noinline)) void osrt_record_slowly(const osrt_call *call, const char *path) {
    topstxi_ring *r = NULL;
    osrt_hold hold;
    if (osrt_sandboxed || !osrt_has_stack()) {
        osrt_lose();
        return;
    }
    osrt_hold_back(&hold);
    if (!*osrt_alive) osrt_child_begins();
    if ((r = topstxi_ring_mine())) {
        if (TOPSTXI_UNLIKELY(osrt_lost))
            __atomic_fetch_add(&r->header->dropped, __atomic_exchange_n(&osrt_lost, 0, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
        uint32_t target = call->target;
        if (path) target = osrt_is_ours(path) ? OSRT_OURS : osrt_intern(path);
        else if (!target && call->fd >= 0) target = osrt_target_of(call->fd);
        if (target != OSRT_OURS) osrt_put(r, call, target);
        if (call->end - osrt_flushed > osrt_flush_ticks) {
            osrt_flushed = call->end;
            osrt_flush(r, 0);
        }
    }
    osrt_let_go(&hold);
}

static uint32_t osrt_known_target(int fd);

/* `path`: the target, where it is no descriptor's. errno stays what it was. */
static __attribute__((noinline)) void osrt_record(const osrt_call *call, const char *path) {
    const int saved = errno;
    topstxi_ring *r = topstxi_mine;
    uint32_t target = call->target;
    osrt_busy = 1;
    __asm__ volatile("" ::: "memory");
    if (!target && call->fd >= 0) target = osrt_known_target(call->fd);
    if (TOPSTXI_UNLIKELY(target == OSRT_OURS)) {
        osrt_busy = 0;
        return;
    }
    if (osrt_sandboxed && r && *osrt_alive && r->epoch == topstxi_state.epoch) { /* no wait for room, but a look at what there is */
        r->limit = __atomic_load_n(&r->header->tail, __ATOMIC_ACQUIRE) + r->mask + 1;
        path = NULL;
        if (r->head + 2 <= r->limit) osrt_put(r, call, target);
        else osrt_lose();
    } else if (!path && (target || call->fd < 0) && r && *osrt_alive && r->epoch == topstxi_state.epoch && !topstxi_state.forked &&
        r->head + 2 <= r->limit && call->end - osrt_flushed <= osrt_flush_ticks)
        osrt_put(r, call, target);
    else
        osrt_record_slowly(call, path);
    __asm__ volatile("" ::: "memory");
    osrt_busy = 0;
    errno = saved;
}

static inline void osrt_count_short(int function, uint64_t ticks, int64_t bytes) {
    osrt_count *count;
    if (TOPSTXI_UNLIKELY(!osrt_shard)) osrt_shard = 1 + __atomic_fetch_add(&osrt_next_shard, 1, __ATOMIC_RELAXED) % OSRT_SHARDS;
    count = &osrt_counts[osrt_shard - 1][function];
    __atomic_fetch_add(&count->calls, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&count->ticks, ticks, __ATOMIC_RELAXED);
    if (bytes > 0) __atomic_fetch_add(&count->bytes, (uint64_t)bytes, __ATOMIC_RELAXED);
}

/* A call returned: -1 with errno set where it failed, unless `error` says so itself. */
static inline void osrt_end(int function, uint64_t begin, int fd, int64_t bytes, int64_t result, const char *path) {
    osrt_call call = {function, fd, 0, 0, begin, topstxi_now(), bytes, result};
    if (call.end - begin < osrt_threshold_ticks) {
        osrt_count_short(function, call.end - begin, bytes);
        return;
    }
    call.error = result == -1 ? errno : 0;
    osrt_record(&call, path);
}

/* The same for functions that return their error, and wait for the thing at `address`. */
static inline void osrt_end_lock(int function, uint64_t begin, int error, const char *what, const void *address) {
    osrt_call call = {function, -1, 0, error, begin, topstxi_now(), OSRT_NO_BYTES, error};
    char text[48], *to = text;
    uintptr_t rest = (uintptr_t)address;
    int shift = 60;
    if (call.end - begin < osrt_threshold_ticks) {
        osrt_count_short(function, call.end - begin, 0);
        return;
    }
    if (error == -1) call.error = errno;
    while (*what) *to++ = *what++;
    memcpy(to, " 0x", 3);
    to += 3;
    while (shift > 0 && !(rest >> shift & 15)) shift -= 4;
    for (; shift >= 0; shift -= 4) *to++ = "0123456789abcdef"[rest >> shift & 15];
    *to = 0;
    osrt_record(&call, text);
}
#endif /* OSRT_RECORD_H */
