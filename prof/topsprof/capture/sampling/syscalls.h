/* Names of the system calls in which programs wait: numbers are those of the machine that this is compiled for. */
#ifndef TOPSPROF_SYSCALLS_H
#define TOPSPROF_SYSCALLS_H
#include <sys/syscall.h>

#define COMMON_CALLS(C) \
    C(futex) C(nanosleep) C(clock_nanosleep) C(read) C(write) C(readv) C(writev) C(pread64) C(pwrite64) C(fsync) C(fdatasync) \
    C(openat) C(close) C(recvfrom) C(recvmsg) C(recvmmsg) C(sendto) C(sendmsg) C(sendmmsg) C(accept) C(accept4) C(connect) \
    C(shutdown) C(sendfile) C(splice) C(flock) C(ppoll) C(pselect6) C(epoll_pwait) C(wait4) C(waitid) C(rt_sigtimedwait) \
    C(rt_sigsuspend) C(mmap) C(munmap) C(madvise) C(mprotect) C(mremap) C(ioctl) C(io_getevents) C(fcntl) C(statx) C(sched_yield) \
    C(msync) C(copy_file_range) C(fallocate) C(ftruncate) C(getdents64) C(unlinkat) C(restart_syscall) C(exit) C(semtimedop) C(msgrcv)
#ifdef SYS_poll
#define OLD_CALLS(C) C(poll) C(select) C(epoll_wait) C(open) C(stat) C(lstat) C(unlink) C(rename) C(mkdir) C(rmdir) C(pause) C(vfork) C(getdents)
#else
#define OLD_CALLS(C)
#endif
#endif
