/* Reads of /proc/PID/task/TID and of perf events. Files stay open between samples where the limit of open files allows it. */
#define _GNU_SOURCE
#include "kernel.h"
#include "rows.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NOT_OPEN = -1, NOT_THERE = -2, PERF_PAGES = 2 };

void os_begin(os_thread *thread, pid_t pid, pid_t tid)
{
    *thread = (os_thread){pid, tid, NOT_OPEN, NOT_OPEN, NOT_OPEN, NULL, false};
}

void os_end(os_thread *thread)
{
    if (thread->sched_fd >= 0) close(thread->sched_fd);
    if (thread->syscall_fd >= 0) close(thread->syscall_fd);
    os_unwatch(thread);
    thread->sched_fd = thread->syscall_fd = NOT_OPEN;
}

/* Whether a file may be kept open: half of the numbers that we may have are left to the rest of our process. */
static bool may_stay_open(int fd)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_NOFILE, &limit) == 0 && (rlim_t)fd < limit.rlim_cur / 2;
}

/* Reads a file of the thread, from its beginning; `*fd` stays open. The text is ended by 0. */
static enum os_result read_file(os_thread *thread, int *fd, const char *name, char *text, size_t room)
{
    char path[64];
    if (*fd == NOT_THERE) return OS_UNKNOWN;
    bool opened = *fd == NOT_OPEN;
    if (opened) {
        snprintf(path, sizeof path, "/proc/%d/task/%d/%s", (int)thread->pid, (int)thread->tid, name);
        *fd = open(path, O_RDONLY | O_CLOEXEC);
        if (*fd < 0) {
            int error = errno;
            snprintf(path, sizeof path, "/proc/%d/task/%d", (int)thread->pid, (int)thread->tid);
            bool away = access(path, F_OK) != 0;
            *fd = away || error == EMFILE || error == ENFILE ? NOT_OPEN : NOT_THERE;
            return away ? OS_GONE : OS_UNKNOWN;
        }
    }
    ssize_t got = pread(*fd, text, room - 1, 0);
    bool gone = got < 0 && errno == ESRCH;
    if (opened && !may_stay_open(*fd)) {
        close(*fd);
        *fd = NOT_OPEN;
        if (got > 0) text[got] = 0;
        return gone ? OS_GONE : got > 0 ? OS_OK : OS_UNKNOWN;
    }
    if (gone) return OS_GONE;
    if (got <= 0) {
        close(*fd);
        *fd = NOT_THERE;
        return OS_UNKNOWN;
    }
    text[got] = 0;
    return OS_OK;
}

enum os_result os_ran(os_thread *thread, uint64_t *ran_ns, uint64_t *slices)
{
    char text[96], *end;
    enum os_result result = read_file(thread, &thread->sched_fd, "schedstat", text, sizeof text);
    if (result != OS_OK) return result;
    *ran_ns = strtoull(text, &end, 10);
    strtoull(end, &end, 10);
    *slices = strtoull(end, &end, 10);
    return *slices ? OS_OK : OS_UNKNOWN;        /* a kernel that does not count them says 0 */
}

/* What kind of thing a descriptor of the process is. */
static uint8_t kind_of_file(pid_t pid, uint64_t fd)
{
    char path[64], target[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%u", (int)pid, (unsigned)fd);
    ssize_t got = readlink(path, target, sizeof target - 1);
    if (got <= 0) return FOR_FILE;
    target[got] = 0;
    if (!strncmp(target, "socket:", 7)) return FOR_SOCKET;
    if (!strncmp(target, "pipe:", 5) || !strncmp(target, "anon_inode:", 11)) return FOR_PIPE;
    return FOR_FILE;
}

static uint8_t wait_of(pid_t pid, long number, uint64_t argument)
{
    switch (number) {
    case SYS_futex:
#ifdef SYS_futex_waitv
    case SYS_futex_waitv:
#endif
        return FOR_LOCK;
    case SYS_nanosleep: case SYS_clock_nanosleep:
        return FOR_SLEEP;
    case SYS_read: case SYS_write: case SYS_readv: case SYS_writev:
        return kind_of_file(pid, argument);
    case SYS_pread64: case SYS_pwrite64: case SYS_preadv: case SYS_pwritev: case SYS_fsync: case SYS_fdatasync: case SYS_openat:
    case SYS_ftruncate: case SYS_fallocate: case SYS_getdents64: case SYS_unlinkat: case SYS_flock: case SYS_sync_file_range:
    case SYS_sendfile: case SYS_copy_file_range: case SYS_splice: case SYS_statx: case SYS_close: case SYS_msync:
#ifdef SYS_open
    case SYS_open: case SYS_stat: case SYS_lstat: case SYS_unlink: case SYS_rename: case SYS_mkdir: case SYS_rmdir: case SYS_getdents:
#endif
        return FOR_FILE;
    case SYS_recvfrom: case SYS_recvmsg: case SYS_recvmmsg: case SYS_sendto: case SYS_sendmsg: case SYS_sendmmsg: case SYS_accept:
    case SYS_accept4: case SYS_connect: case SYS_shutdown:
        return FOR_SOCKET;
    case SYS_ppoll: case SYS_pselect6: case SYS_epoll_pwait:
#ifdef SYS_epoll_pwait2
    case SYS_epoll_pwait2:
#endif
#ifdef SYS_poll
    case SYS_poll: case SYS_select: case SYS_epoll_wait:
#endif
    case SYS_io_getevents:
        return FOR_POLL;
    case SYS_wait4: case SYS_waitid:
#ifdef SYS_vfork
    case SYS_vfork:
#endif
        return FOR_CHILD;
    case SYS_rt_sigtimedwait: case SYS_rt_sigsuspend:
#ifdef SYS_pause
    case SYS_pause:
#endif
        return FOR_SIGNAL;
    case SYS_mmap: case SYS_munmap: case SYS_brk: case SYS_madvise: case SYS_mprotect: case SYS_mremap:
        return FOR_MEMORY;
    case SYS_ioctl:
        return FOR_DEVICE;
    default:
        return FOR_OTHER;
    }
}

/* The letter of the thread's state; 0: not told. */
static char letter(os_thread *thread)
{
    char text[512];
    int fd = NOT_OPEN;
    enum os_result result = read_file(thread, &fd, "stat", text, sizeof text);
    if (fd >= 0) close(fd);
    if (result != OS_OK) return 0;
    const char *name_end = strrchr(text, ')');
    return name_end && name_end[1] == ' ' ? name_end[2] : 0;
}

static void by_letter(os_thread *thread, os_state *state, uint8_t asleep)
{
    char c = letter(thread);
    state->known = c != 0;
    state->running = c == 'R';
    state->wait = c == 'R' ? FOR_NONE : c == 'T' || c == 't' ? FOR_STOPPED : c == 'D' ? FOR_MEMORY : asleep;
}

bool os_stopped(os_thread *thread)
{
    char c = letter(thread);
    return c == 'T' || c == 't';
}

enum os_result os_look(os_thread *thread, os_state *state)
{
    char text[256], *end;
    *state = (os_state){.syscall = -1};
    enum os_result result = read_file(thread, &thread->syscall_fd, "syscall", text, sizeof text);
    if (result == OS_GONE) return result;
    if (result == OS_UNKNOWN) {
        by_letter(thread, state, FOR_OTHER);
        return state->known ? OS_OK : OS_UNKNOWN;
    }
    state->known = true;
    if (text[0] == 'r') {
        state->running = true;
        return OS_OK;
    }
    long number = strtol(text, &end, 10);
    uint64_t words[8] = {0};
    int count = 0;
    while (count < 8 && *end == ' ') words[count++] = strtoull(end + 1, &end, 16);
    state->pc = count ? words[count - 1] : 0;
    if (number < 0) {               /* blocked outside of a system call: in a page fault, or stopped */
        by_letter(thread, state, FOR_MEMORY);
        return OS_OK;
    }
    state->syscall = (int16_t)number;
    state->argument = words[0];
    state->wait = wait_of(thread->pid, number, words[0]);
    return OS_OK;
}

bool os_watch(os_thread *thread, int64_t period_ns)
{
    if (thread->perf_fd == NOT_THERE) return false;
    if (thread->perf_fd >= 0) {
        if (!thread->perf_on) thread->perf_on = ioctl(thread->perf_fd, PERF_EVENT_IOC_ENABLE, 0) == 0;
        return true;
    }
    struct perf_event_attr attributes = {
        .type = PERF_TYPE_SOFTWARE, .size = sizeof attributes, .config = PERF_COUNT_SW_CPU_CLOCK,
        .sample_period = (uint64_t)period_ns, .sample_type = PERF_SAMPLE_IP, .exclude_kernel = 1, .exclude_hv = 1,
    };
    int fd = (int)syscall(SYS_perf_event_open, &attributes, thread->tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
    thread->perf_fd = NOT_THERE;
    if (fd < 0) return false;
    if (!may_stay_open(fd)) {
        close(fd);
        return false;
    }
    void *page = mmap(NULL, (size_t)getpagesize() * PERF_PAGES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED) {
        close(fd);
        return false;
    }
    thread->perf_fd = fd;
    thread->perf_page = page;
    thread->perf_on = true;
    return true;
}

void os_rest(os_thread *thread)
{
    if (thread->perf_on) ioctl(thread->perf_fd, PERF_EVENT_IOC_DISABLE, 0);
    thread->perf_on = false;
}

void os_unwatch(os_thread *thread)
{
    if (thread->perf_fd < 0) return;
    munmap(thread->perf_page, (size_t)getpagesize() * PERF_PAGES);
    close(thread->perf_fd);
    thread->perf_fd = NOT_OPEN;
    thread->perf_page = NULL;
    thread->perf_on = false;
}

uint64_t os_pointer(os_thread *thread)
{
    if (thread->perf_fd < 0) return 0;
    struct perf_event_mmap_page *page = thread->perf_page;
    const uint8_t *data = (const uint8_t *)page + getpagesize();
    uint64_t head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE), tail = page->data_tail, pointer = 0;
    while (tail < head) {
        struct {
            struct perf_event_header header;
            uint64_t ip;
        } record;
        for (size_t k = 0; k < sizeof record; k++) ((uint8_t *)&record)[k] = data[(tail + k) % (uint64_t)getpagesize()];
        if (record.header.size < sizeof record.header) {
            tail = head;
            break;
        }
        if (record.header.type == PERF_RECORD_SAMPLE) pointer = record.ip;
        tail += record.header.size;
    }
    __atomic_store_n(&page->data_tail, tail, __ATOMIC_RELEASE);
    return pointer;
}
