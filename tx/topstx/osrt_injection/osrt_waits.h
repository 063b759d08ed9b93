/* osrt_waits.h - wrappers of calls on sockets, and of those that wait: for events, time, locks. */
#ifndef OSRT_WAITS_H
#define OSRT_WAITS_H

ssize_t __recv_chk(int, void *, size_t, size_t, int);
ssize_t __recvfrom_chk(int, void *, size_t, size_t, int, struct sockaddr *, socklen_t *);
int __poll_chk(struct pollfd *, nfds_t, int, size_t);
int __ppoll_chk(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *, size_t);
#define OSRT_WAIT(name, params, args) OSRT_CALL(int, name, params, args, -1, OSRT_NO_BYTES, NULL)

/* ---- sockets -------------------------------------------------------------------------------------------------------- */

OSRT_EXPORT int socket(int domain, int type, int protocol) {
    __typeof__(&socket) real = OSRT_REAL(socket);
    int result;
    if (TOPSTXI_UNLIKELY(!real)) OSRT_MISSING(-1);
    result = real(domain, type, protocol);
    if (result >= 0) osrt_forget(result);
    return result;
}
OSRT_FD(bind, (int fd, const struct sockaddr *to, socklen_t bytes), (fd, to, bytes))
OSRT_FD(listen, (int fd, int backlog), (fd, backlog))
OSRT_FD(shutdown, (int fd, int how), (fd, how))
OSRT_NEW(accept, (int fd, struct sockaddr *from, socklen_t *bytes), (fd, from, bytes), NULL, 1)
OSRT_NEW(accept4, (int fd, struct sockaddr *from, socklen_t *bytes, int flags), (fd, from, bytes, flags), NULL, 1)
OSRT_IO(send, (int fd, const void *from, size_t bytes, int flags), (fd, from, bytes, flags))
OSRT_IO(sendto, (int fd, const void *from, size_t bytes, int flags, const struct sockaddr *to, socklen_t size),
        (fd, from, bytes, flags, to, size))
OSRT_IO(sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags))
OSRT_FD(sendmmsg, (int fd, struct mmsghdr *messages, unsigned count, int flags), (fd, messages, count, flags))
OSRT_IO(recv, (int fd, void *to, size_t bytes, int flags), (fd, to, bytes, flags))
OSRT_IO(recvfrom, (int fd, void *to, size_t bytes, int flags, struct sockaddr *from, socklen_t *size),
        (fd, to, bytes, flags, from, size))
OSRT_IO(recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags))
OSRT_FD(recvmmsg, (int fd, struct mmsghdr *messages, unsigned count, int flags, struct timespec *longest),
        (fd, messages, count, flags, longest))
OSRT_IO(__recv_chk, (int fd, void *to, size_t bytes, size_t room, int flags), (fd, to, bytes, room, flags))
OSRT_IO(__recvfrom_chk, (int fd, void *to, size_t bytes, size_t room, int flags, struct sockaddr *from, socklen_t *size),
        (fd, to, bytes, room, flags, from, size))

/* Before and after it the socket has different names; one that goes on in the background has its address alone. */
OSRT_EXPORT int connect(int fd, const struct sockaddr *to, socklen_t bytes) {
    __typeof__(&connect) real = OSRT_REAL(connect);
    char text[OSRT_TEXT_BYTES] = "";
    uint64_t begin;
    int result, saved;
    if (TOPSTXI_UNLIKELY(!real)) OSRT_MISSING(-1);
    osrt_forget(fd);
    if (!osrt_watching()) return real(fd, to, bytes);
    begin = osrt_begin();
    result = real(fd, to, bytes);
    saved = errno;
    osrt_address(text, to, bytes, 0);
    errno = saved;
    osrt_end(OSRT_connect, begin, fd, OSRT_NO_BYTES, result, *text ? text : NULL);
    return result;
}

OSRT_EXPORT int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **found) {
    __typeof__(&getaddrinfo) real = OSRT_REAL(getaddrinfo);
    osrt_call call = {OSRT_getaddrinfo, -1, 0, 0, 0, 0, OSRT_NO_BYTES, 0};
    if (TOPSTXI_UNLIKELY(!real)) return EAI_SYSTEM;
    if (!osrt_watching()) return real(node, service, hints, found);
    call.begin = osrt_begin();
    call.result = real(node, service, hints, found);
    call.end = topstxi_now();
    if (call.end - call.begin < osrt_threshold_ticks) {
        osrt_count_short(OSRT_getaddrinfo, call.end - call.begin, 0);
    } else {
        call.error = call.result == EAI_SYSTEM ? errno : 0;
        osrt_record(&call, node);
    }
    return (int)call.result;
}

/* Two descriptors at once. */
#define OSRT_PAIR(name, params, args)                                       \
    OSRT_EXPORT int name params {                                           \
        __typeof__(&name) real = OSRT_REAL(name);                           \
        int result;                                                         \
        if (TOPSTXI_UNLIKELY(!real)) OSRT_MISSING(-1);                      \
        result = real args;                                                 \
        if (result == 0) {                                                  \
            osrt_forget(fds[0]);                                            \
            osrt_forget(fds[1]);                                            \
        }                                                                   \
        return result;                                                      \
    }
OSRT_PAIR(pipe, (int fds[2]), (fds))
OSRT_PAIR(pipe2, (int fds[2], int flags), (fds, flags))
OSRT_PAIR(socketpair, (int domain, int type, int protocol, int fds[2]), (domain, type, protocol, fds))

/* ---- events ----------------------------------------------------------------------------------------------------------- */

OSRT_WAIT(poll, (struct pollfd * fds, nfds_t count, int ms), (fds, count, ms))
OSRT_WAIT(ppoll, (struct pollfd * fds, nfds_t count, const struct timespec *longest, const sigset_t *mask), (fds, count, longest, mask))
OSRT_WAIT(__poll_chk, (struct pollfd * fds, nfds_t count, int ms, size_t room), (fds, count, ms, room))
OSRT_WAIT(__ppoll_chk, (struct pollfd * fds, nfds_t count, const struct timespec *longest, const sigset_t *mask, size_t room),
          (fds, count, longest, mask, room))
OSRT_WAIT(select, (int count, fd_set *r, fd_set *w, fd_set *e, struct timeval *longest), (count, r, w, e, longest))
OSRT_WAIT(pselect, (int count, fd_set *r, fd_set *w, fd_set *e, const struct timespec *longest, const sigset_t *mask),
          (count, r, w, e, longest, mask))
OSRT_FD(epoll_wait, (int fd, struct epoll_event *events, int count, int ms), (fd, events, count, ms))
OSRT_FD(epoll_pwait, (int fd, struct epoll_event *events, int count, int ms, const sigset_t *mask), (fd, events, count, ms, mask))
OSRT_FD(epoll_pwait2, (int fd, struct epoll_event *events, int count, const struct timespec *longest, const sigset_t *mask),
        (fd, events, count, longest, mask))

/* ---- time, signals -------------------------------------------------------------------------------------------------------- */

OSRT_CALL(unsigned, sleep, (unsigned seconds), (seconds), -1, OSRT_NO_BYTES, NULL)
OSRT_WAIT(usleep, (useconds_t microseconds), (microseconds))
OSRT_WAIT(nanosleep, (const struct timespec *length, struct timespec *rest), (length, rest))
OSRT_WAIT(pause, (void), ())
OSRT_WAIT(sigsuspend, (const sigset_t *mask), (mask))
OSRT_WAIT(sigwaitinfo, (const sigset_t *mask, siginfo_t *info), (mask, info))
OSRT_WAIT(sigtimedwait, (const sigset_t *mask, siginfo_t *info, const struct timespec *longest), (mask, info, longest))

/* These return their error. */
#define OSRT_RETURNS_ERROR(name, params, args, what, address)                       \
    OSRT_EXPORT int name params {                                                   \
        __typeof__(&name) real = OSRT_REAL(name);                                   \
        osrt_call call = {OSRT_##name, -1, 0, 0, 0, 0, OSRT_NO_BYTES, 0};           \
        if (TOPSTXI_UNLIKELY(!real)) return ENOSYS;                                 \
        if (!osrt_watching()) return real args;                                     \
        call.begin = osrt_begin();                                                  \
        call.error = real args;                                                     \
        if (what) {                                                                 \
            osrt_end_lock(call.function, call.begin, call.error, what, address);    \
            return call.error;                                                      \
        }                                                                           \
        call.end = topstxi_now();                                                   \
        call.result = call.error;                                                   \
        if (call.end - call.begin < osrt_threshold_ticks)                           \
            osrt_count_short(call.function, call.end - call.begin, 0);              \
        else                                                                        \
            osrt_record(&call, NULL);                                               \
        return call.error;                                                          \
    }
OSRT_RETURNS_ERROR(clock_nanosleep, (clockid_t clock, int flags, const struct timespec *length, struct timespec *rest),
                   (clock, flags, length, rest), NULL, NULL)
OSRT_RETURNS_ERROR(sigwait, (const sigset_t *mask, int *number), (mask, number), NULL, NULL)
OSRT_RETURNS_ERROR(pthread_join, (pthread_t thread, void **result), (thread, result), "thread", (void *)thread)

/* ---- locks: one that is free is taken without a look at the clock ----------------------------------------------------------- */

#define OSRT_LOCK(name, attempt, params, args, lock, what)                          \
    OSRT_EXPORT int name params {                                                   \
        __typeof__(&name) real = OSRT_REAL(name);                                   \
        __typeof__(&attempt) first = OSRT_REAL(attempt);                            \
        uint64_t begin;                                                             \
        int error;                                                                  \
        if (TOPSTXI_UNLIKELY(!real)) return 0; /* within dlsym: there is one thread */ \
        if (!first || !osrt_watching()) return real args;                           \
        error = first(lock);                                                        \
        if (error != EBUSY) return error;                                           \
        begin = osrt_begin();                                                       \
        error = real args;                                                          \
        osrt_end_lock(OSRT_##name, begin, error, what, lock);                       \
        return error;                                                               \
    }
OSRT_LOCK(pthread_mutex_lock, pthread_mutex_trylock, (pthread_mutex_t * lock), (lock), lock, "mutex")
OSRT_LOCK(pthread_mutex_timedlock, pthread_mutex_trylock, (pthread_mutex_t * lock, const struct timespec *until), (lock, until), lock,
          "mutex")
OSRT_LOCK(pthread_mutex_clocklock, pthread_mutex_trylock, (pthread_mutex_t * lock, clockid_t clock, const struct timespec *until),
          (lock, clock, until), lock, "mutex")
OSRT_LOCK(pthread_rwlock_rdlock, pthread_rwlock_tryrdlock, (pthread_rwlock_t * lock), (lock), lock, "rwlock")
OSRT_LOCK(pthread_rwlock_wrlock, pthread_rwlock_trywrlock, (pthread_rwlock_t * lock), (lock), lock, "rwlock")
OSRT_RETURNS_ERROR(pthread_cond_wait, (pthread_cond_t * condition, pthread_mutex_t *lock), (condition, lock), "condition", condition)
OSRT_RETURNS_ERROR(pthread_cond_timedwait, (pthread_cond_t * condition, pthread_mutex_t *lock, const struct timespec *until),
                   (condition, lock, until), "condition", condition)
OSRT_RETURNS_ERROR(pthread_cond_clockwait,
                   (pthread_cond_t * condition, pthread_mutex_t *lock, clockid_t clock, const struct timespec *until),
                   (condition, lock, clock, until), "condition", condition)
OSRT_RETURNS_ERROR(pthread_barrier_wait, (pthread_barrier_t * barrier), (barrier), "barrier", barrier)

/* A semaphore's wait is a point of cancellation even where it need not wait. */
#define OSRT_SEMAPHORE(name, params, args)                                          \
    OSRT_EXPORT int name params {                                                   \
        __typeof__(&name) real = OSRT_REAL(name);                                   \
        __typeof__(&sem_trywait) first = OSRT_REAL(sem_trywait);                    \
        uint64_t begin;                                                             \
        int result, saved = errno;                                                  \
        if (TOPSTXI_UNLIKELY(!real)) OSRT_MISSING(-1);                              \
        if (!first || !osrt_watching()) return real args;                           \
        pthread_testcancel();                                                       \
        if (first(semaphore) == 0) return 0;                                        \
        errno = saved;                                                              \
        begin = osrt_begin();                                                       \
        result = real args;                                                         \
        osrt_end_lock(OSRT_##name, begin, result, "semaphore", semaphore);          \
        return result;                                                              \
    }
OSRT_SEMAPHORE(sem_wait, (sem_t * semaphore), (semaphore))
OSRT_SEMAPHORE(sem_timedwait, (sem_t * semaphore, const struct timespec *until), (semaphore, until))
OSRT_SEMAPHORE(sem_clockwait, (sem_t * semaphore, clockid_t clock, const struct timespec *until), (semaphore, clock, until))
OSRT_WAIT(semop, (int set, struct sembuf *operations, size_t count), (set, operations, count))
OSRT_WAIT(semtimedop, (int set, struct sembuf *operations, size_t count, const struct timespec *longest),
          (set, operations, count, longest))
#endif /* OSRT_WAITS_H */
