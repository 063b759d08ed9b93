/* osrt_real.h - the functions that are recorded, and the next definition of each: another preloaded library's, or libc's. */
#ifndef OSRT_REAL_H
#define OSRT_REAL_H

#define OSRT_FUNCTIONS(F)                                                                                                    \
    F(open) F(open64) F(openat) F(openat64) F(creat) F(creat64) F(close) F(close_range) F(closefrom)                          \
    F(read) F(write) F(pread) F(pread64) F(pwrite) F(pwrite64) F(readv) F(writev) F(preadv) F(preadv64) F(pwritev)            \
    F(pwritev64) F(preadv2) F(preadv64v2) F(pwritev2) F(pwritev64v2) F(sendfile) F(sendfile64) F(copy_file_range) F(splice)   \
    F(tee) F(vmsplice) F(fsync) F(fdatasync) F(sync) F(syncfs) F(sync_file_range) F(truncate) F(truncate64) F(ftruncate)      \
    F(ftruncate64) F(posix_fallocate) F(posix_fallocate64) F(rename) F(renameat) F(renameat2) F(unlink) F(unlinkat) F(mkdir)  \
    F(rmdir) F(flock) F(lockf) F(lockf64) F(fcntl) F(fcntl64) F(dup) F(dup2) F(dup3)                                          \
    F(__read_chk) F(__pread_chk) F(__pread64_chk) F(__open_2) F(__open64_2) F(__openat_2) F(__openat64_2)                     \
    F(fopen) F(fopen64) F(freopen) F(freopen64) F(fclose) F(fflush) F(fread) F(fwrite) F(fgets) F(fputs) F(puts) F(getline)   \
    F(getdelim) F(__fread_chk) F(__fgets_chk)                                                                                 \
    F(socket) F(pipe) F(pipe2) F(socketpair) F(bind) F(listen) F(accept) F(accept4) F(connect) F(shutdown) F(send) F(sendto)  \
    F(sendmsg) F(sendmmsg) F(recv) F(recvfrom) F(recvmsg) F(recvmmsg) F(__recv_chk) F(__recvfrom_chk) F(getaddrinfo)          \
    F(poll) F(ppoll) F(select) F(pselect) F(epoll_wait) F(epoll_pwait) F(epoll_pwait2) F(__poll_chk) F(__ppoll_chk)           \
    F(sleep) F(usleep) F(nanosleep) F(clock_nanosleep) F(pause) F(sigsuspend) F(sigwait) F(sigwaitinfo) F(sigtimedwait)       \
    F(pthread_mutex_lock) F(pthread_mutex_timedlock) F(pthread_mutex_clocklock) F(pthread_cond_wait)                          \
    F(pthread_cond_timedwait) F(pthread_cond_clockwait) F(pthread_rwlock_rdlock) F(pthread_rwlock_wrlock)                     \
    F(pthread_barrier_wait) F(pthread_join) F(pthread_mutex_trylock) F(pthread_rwlock_tryrdlock) F(pthread_rwlock_trywrlock)  \
    F(sem_wait) F(sem_timedwait) F(sem_clockwait) F(sem_trywait) F(semop) F(semtimedop)                                       \
    F(fork) F(wait) F(waitpid) F(waitid) F(wait3) F(wait4) F(system) F(popen) F(pclose) F(posix_spawn) F(posix_spawnp)        \
    F(execve) F(execv) F(execvp) F(execvpe) F(fexecve) F(execveat) F(prctl) F(vfork) F(syscall)                               \
    F(longjmp) F(_longjmp) F(siglongjmp) F(__longjmp_chk)

#define OSRT_ENUM(name) OSRT_##name,
enum { OSRT_FUNCTIONS(OSRT_ENUM) OSRT_COUNT };
#undef OSRT_ENUM
#define OSRT_TEXT(name) #name,
static const char *const osrt_names[OSRT_COUNT] = {OSRT_FUNCTIONS(OSRT_TEXT)};
#undef OSRT_TEXT
static void *osrt_reals[OSRT_COUNT];
static __thread int osrt_resolving __attribute__((tls_model("initial-exec")));

/* Look one up. NULL: libc lacks it, or looking it up called it again (an allocator may, of which dlsym asks memory). */
static __attribute__((noinline)) void *osrt_resolve(int function) {
    const char *name = osrt_names[function];
    int saved = errno;
    void *found = NULL;
    if (osrt_resolving) return NULL;
    osrt_resolving = 1;
#if defined(__x86_64__) /* of conditions there is an older layout, which dlsym may prefer */
    if (strncmp(name, "pthread_cond_", 13) == 0) found = dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2");
#endif
    if (!found) found = dlsym(RTLD_NEXT, name);
    osrt_resolving = 0;
    __atomic_store_n(&osrt_reals[function], found, __ATOMIC_RELEASE);
    errno = saved;
    return found;
}

static inline void *osrt_real(int function) {
    void *real = __atomic_load_n(&osrt_reals[function], __ATOMIC_ACQUIRE);
    return __builtin_expect(real != NULL, 1) ? real : osrt_resolve(function);
}

/* Of functions with a prototype in the headers. What is not to be had fails like a system call that the kernel lacks. */
#define OSRT_REAL(name) ((__typeof__(&name))osrt_real(OSRT_##name))
#define OSRT_MISSING(value)  \
    do {                     \
        errno = ENOSYS;      \
        return (value);      \
    } while (0)

/* What topstx.h itself calls: past our wrappers. */
static int osrt_plain_lock(pthread_mutex_t *lock) {
    int (*real)(pthread_mutex_t *) = (int (*)(pthread_mutex_t *))osrt_real(OSRT_pthread_mutex_lock);
    return real ? real(lock) : 0;
}
static int osrt_plain_timedlock(pthread_mutex_t *lock, const struct timespec *until) {
    __typeof__(&osrt_plain_timedlock) real = (__typeof__(&osrt_plain_timedlock))osrt_real(OSRT_pthread_mutex_timedlock);
    return real ? real(lock, until) : ENOSYS;
}
static int osrt_plain_open(const char *path, int flags, ...) { /* not by libc's, which is a point of cancellation */
    va_list list;
    int mode;
    va_start(list, flags);
    mode = flags & O_CREAT ? va_arg(list, int) : 0;
    va_end(list);
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}
static int osrt_plain_close(int fd) { return (int)syscall(SYS_close, fd); }
static ssize_t osrt_plain_read(int fd, void *to, size_t bytes) { return (ssize_t)syscall(SYS_read, fd, to, bytes); }
static int osrt_plain_unlink(const char *path) { return (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0); }
static int osrt_plain_nanosleep(const struct timespec *length, struct timespec *rest) {
    return (int)syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, length, rest);
}
#endif /* OSRT_REAL_H */
