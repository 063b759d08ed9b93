/* _osrt.c - records a program's calls of the operating system into the session of `topsprof run -t osrt`.
 *
 * A plain shared library in LD_PRELOAD; it needs no Python. Its functions stand before those of the C library: each calls the next one of
 * its name and, where that took long enough, writes a row. It is a producer of its own beside the recorder of `topstx`, as the library for
 * NVTX is.
 *
 * The program must not notice: errno, cancellation, signals, descriptors and memory stay as they are without us. osrt_record.h says how.
 * Not seen: system calls that go past the C library (static programs, Go, io_uring), and calls within the C library itself.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#undef _FORTIFY_SOURCE /* its inline functions would be in the way of ours */
#undef _FILE_OFFSET_BITS
#define TOPSTX_ONE_UNIT
#include <arpa/inet.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <dlfcn.h>
#include <linux/close_range.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "osrt_memory.h"
#include "osrt_real.h"

#define malloc osrt_malloc
#define calloc osrt_calloc
#define realloc osrt_realloc
#define free osrt_free
#define open osrt_plain_open
#define close osrt_plain_close
#define read osrt_plain_read
#define unlink osrt_plain_unlink
#define nanosleep osrt_plain_nanosleep
#define pthread_mutex_lock osrt_plain_lock
#define pthread_mutex_timedlock osrt_plain_timedlock
#include "topstx.h"
#undef malloc
#undef calloc
#undef realloc
#undef free
#undef open
#undef close
#undef read
#undef unlink
#undef nanosleep
#undef pthread_mutex_lock
#undef pthread_mutex_timedlock

#define OSRT_EXPORT __attribute__((visibility("default")))
/* __init__.py looks for this text in the file of the library, which it can't load. Raise both numbers when the layout of the session's
 * files changes: a library built from other sources is then not used. */
__attribute__((used)) static const char interface_stamp[] = "topstx _osrt interface 1;";

/* osrt_targets.h */
#define OSRT_OURS 0xFFFFFFFFu /* a target: a file of the session, which recorders use; not recorded */
static uint32_t osrt_intern(const char *text);
static int osrt_is_ours(const char *path);
#include "osrt_record.h"
#include "osrt_targets.h"
#include "osrt_files.h"
#include "osrt_waits.h"
#include "osrt_processes.h"

/* ---- begin, fork, end --------------------------------------------------------------------------------------------------------- */

static void osrt_mine_again(void) {
    memset(osrt_counts, 0, sizeof osrt_counts); /* what it counted before is its parent's */
    osrt_lost = 0;
    osrt_busy = osrt_vforking = 0;
    osrt_pid = (uint32_t)syscall(SYS_getpid);
    if (osrt_alive) *osrt_alive = 1;
}

static void osrt_child_begins(void) {
    topstxi_after_fork_child();
    osrt_mine_again();
    osrt_busy = 1;
}

/* The end of a process that exits: runs after its own handlers, before the recorder's. */
static void osrt_at_exit(void) {
    topstxi_ring *r;
    osrt_hold hold;
    if (osrt_busy || osrt_sandboxed || topstxi_recording() != TOPSTX_RECORDING_ON || osrt_is_vfork_child()) return;
    osrt_busy = 1;
    osrt_hold_back(&hold);
    if (!*osrt_alive) osrt_child_begins();
    if ((r = topstxi_ring_mine())) {
        osrt_flush(r, 0);
        __atomic_fetch_add(&r->header->dropped, __atomic_exchange_n(&osrt_lost, 0, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
    }
    osrt_let_go(&hold);
    osrt_busy = 0;
}

/* Before the recorder attaches: its calls, and those of what else begins, pass by until we are ready. */
__attribute__((constructor(101))) static void osrt_prepare(void) {
    osrt_busy = 1;
    for (int function = 0; function < OSRT_COUNT; function++) osrt_real(function);
}

/* The name that a person knows: __read_chk and __open_2 are what fortified programs call for read and open. */
static const char *osrt_said(int function, char name[32]) {
    const char *text = osrt_names[function] + (strncmp(osrt_names[function], "__", 2) ? 0 : 2);
    size_t length = strlen(text);
    if (text == osrt_names[function]) return text;
    if (strcmp(text + length - 4, "_chk") == 0) length -= 4;
    else if (strcmp(text + length - 2, "_2") == 0) length -= 2;
    memcpy(name, text, length);
    name[length] = 0;
    return name;
}

/* The recorder's own constructor, in topstx.h, has run: it is the earlier of this file. */
__attribute__((constructor)) static void osrt_construct(void) {
    const char *text = getenv("TOPSTX_OSRT_THRESHOLD_NS");
    const int saved = errno;
    uint64_t ticks, ns;
    char name[32];
    void *alive;
    if (!topstxi_state.control) {
        osrt_busy = 0;
        return;
    }
    osrt_threshold_ns = text && *text ? strtoull(text, NULL, 10) : 1000;
    ticks = topstxi_now(), ns = topstxi_monotonic();
    for (int function = 0; function < OSRT_COUNT; function++) osrt_ids[function] = topstxi_name_id(osrt_said(function, name));
    osrt_more_targets = topstxi_name_id("(more targets)");
    if (topstxi_state.clock == TOPSTX_CLOCK_TSC) { /* how fast it ticks: the recorder's start has taken long enough to tell */
        while (topstxi_monotonic() - ns < 20000) {
        }
        ticks = topstxi_now() - ticks, ns = topstxi_monotonic() - ns;
        osrt_ns_per_tick = ticks ? (double)ns / (double)ticks : 1;
    }
    osrt_threshold_ticks = (uint64_t)((double)osrt_threshold_ns / osrt_ns_per_tick);
    osrt_flush_ticks = (uint64_t)(OSRT_FLUSH_NS / osrt_ns_per_tick);
    osrt_flushed = topstxi_now();
    osrt_fds = (uint32_t *)osrt_map(OSRT_FDS * sizeof *osrt_fds);
    alive = osrt_map(TOPSTX_PAGE);
    if (!alive || madvise(alive, TOPSTX_PAGE, MADV_WIPEONFORK)) { /* an older kernel: bare clones are not told apart */
        static uint32_t always;
        alive = alive ? alive : &always;
    }
    osrt_alive = (volatile uint32_t *)alive;
    osrt_mine_again();
    pthread_atfork(NULL, NULL, osrt_mine_again); /* after the recorder's, which it stands on */
    atexit(osrt_at_exit);
    errno = saved;
}
