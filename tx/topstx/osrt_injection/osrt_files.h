/* osrt_files.h - wrappers of calls on files and descriptors. */
#ifndef OSRT_FILES_H
#define OSRT_FILES_H

/* A function that returns -1 and sets errno where it fails. `fd`, `moved` and `path` are expressions of its arguments and `result`. */
#define OSRT_CALL(type, name, params, args, fd, moved, path)                             \
    OSRT_EXPORT type name params {                                                       \
        __typeof__(&name) real = OSRT_REAL(name);                                        \
        uint64_t begin;                                                                  \
        type result;                                                                     \
        if (TOPSTXI_UNLIKELY(!real)) OSRT_MISSING(-1);                                   \
        if (!osrt_watching()) return real args;                                          \
        begin = osrt_begin();                                                            \
        result = real args;                                                              \
        osrt_end(OSRT_##name, begin, fd, moved, (int64_t)result, path);                  \
        return result;                                                                   \
    }
#define OSRT_IO(name, params, args) OSRT_CALL(ssize_t, name, params, args, fd, result > 0 ? result : 0, NULL)
#define OSRT_FD(name, params, args) OSRT_CALL(int, name, params, args, fd, OSRT_NO_BYTES, NULL)
#define OSRT_PATH(name, params, args) OSRT_CALL(int, name, params, args, -1, OSRT_NO_BYTES, path)
/* One that gives a new descriptor. */
#define OSRT_NEW(name, params, args, path, accepted)                                     \
    OSRT_EXPORT int name params {                                                        \
        __typeof__(&name) real = OSRT_REAL(name);                                        \
        uint64_t begin;                                                                  \
        int result;                                                                      \
        if (TOPSTXI_UNLIKELY(!real)) OSRT_MISSING(-1);                                   \
        if (!osrt_watching()) {                                                          \
            result = real args;                                                          \
            if (result >= 0) osrt_forget(result);                                        \
            return result;                                                               \
        }                                                                                \
        begin = osrt_begin();                                                            \
        result = real args;                                                              \
        osrt_end_new(OSRT_##name, begin, result, path, accepted);                        \
        return result;                                                                   \
    }

/* What fortified programs call, which no header declares. */
ssize_t __read_chk(int, void *, size_t, size_t);
ssize_t __pread_chk(int, void *, size_t, off_t, size_t);
ssize_t __pread64_chk(int, void *, size_t, off64_t, size_t);
int __open_2(const char *, int);
int __open64_2(const char *, int);
int __openat_2(int, const char *, int);
int __openat64_2(int, const char *, int);
size_t __fread_chk(void *, size_t, size_t, size_t, FILE *);
char *__fgets_chk(char *, size_t, int, FILE *);

/* The mode, which is there only where a file may be made. */
#define OSRT_MODE(mode, flags)                                                           \
    do {                                                                                 \
        if ((flags) & (O_CREAT | __O_TMPFILE)) {                                         \
            va_list list;                                                                \
            va_start(list, flags);                                                       \
            mode = va_arg(list, unsigned);                                               \
            va_end(list);                                                                \
        }                                                                                \
    } while (0)
#define OSRT_OPEN(name, params, args)                                                    \
    OSRT_EXPORT int name params {                                                        \
        __typeof__(&name) real = OSRT_REAL(name);                                        \
        unsigned mode = 0;                                                               \
        uint64_t begin;                                                                  \
        int result;                                                                      \
        OSRT_MODE(mode, flags);                                                          \
        if (TOPSTXI_UNLIKELY(!real)) OSRT_MISSING(-1);                                   \
        if (!osrt_watching()) {                                                          \
            result = real args;                                                          \
            if (result >= 0) osrt_forget(result);                                        \
            return result;                                                               \
        }                                                                                \
        begin = osrt_begin();                                                            \
        result = real args;                                                              \
        osrt_end_new(OSRT_##name, begin, result, path, 0);                               \
        return result;                                                                   \
    }

OSRT_OPEN(open, (const char *path, int flags, ...), (path, flags, mode))
OSRT_OPEN(open64, (const char *path, int flags, ...), (path, flags, mode))
OSRT_OPEN(openat, (int folder, const char *path, int flags, ...), (folder, path, flags, mode))
OSRT_OPEN(openat64, (int folder, const char *path, int flags, ...), (folder, path, flags, mode))
OSRT_NEW(creat, (const char *path, mode_t mode), (path, mode), path, 0)
OSRT_NEW(creat64, (const char *path, mode_t mode), (path, mode), path, 0)
OSRT_NEW(__open_2, (const char *path, int flags), (path, flags), path, 0)
OSRT_NEW(__open64_2, (const char *path, int flags), (path, flags), path, 0)
OSRT_NEW(__openat_2, (int folder, const char *path, int flags), (folder, path, flags), path, 0)
OSRT_NEW(__openat64_2, (int folder, const char *path, int flags), (folder, path, flags), path, 0)

/* The name of what is closed is looked up before: afterwards nobody knows it. */
OSRT_EXPORT int close(int fd) {
    __typeof__(&close) real = OSRT_REAL(close);
    osrt_call call = {OSRT_close, fd, 0, 0, 0, 0, OSRT_NO_BYTES, 0};
    if (TOPSTXI_UNLIKELY(!real)) return osrt_plain_close(fd);
    if (!osrt_watching()) {
        osrt_forget(fd);
        return real(fd);
    }
    call.target = osrt_known_target(fd);
    osrt_forget(fd);
    call.begin = osrt_begin();
    call.result = real(fd);
    call.end = topstxi_now();
    if (call.end - call.begin < osrt_threshold_ticks) {
        osrt_count_short(OSRT_close, call.end - call.begin, 0);
    } else {
        call.error = call.result == -1 ? errno : 0;
        if (!call.target) call.fd = -1; /* by now the number may be another file's */
        osrt_record(&call, NULL);
    }
    return (int)call.result;
}

OSRT_EXPORT int close_range(unsigned first, unsigned last, int flags) {
    __typeof__(&close_range) real = OSRT_REAL(close_range);
    if (TOPSTXI_UNLIKELY(!real)) OSRT_MISSING(-1);
    if (!(flags & CLOSE_RANGE_CLOEXEC)) osrt_forget_range(first, last);
    return real(first, last, flags);
}

OSRT_EXPORT void closefrom(int first) {
    __typeof__(&closefrom) real = OSRT_REAL(closefrom);
    osrt_forget_range((unsigned)(first < 0 ? 0 : first), ~0u);
    if (real) real(first);
}

OSRT_IO(read, (int fd, void *to, size_t bytes), (fd, to, bytes))
OSRT_IO(write, (int fd, const void *from, size_t bytes), (fd, from, bytes))
OSRT_IO(pread, (int fd, void *to, size_t bytes, off_t at), (fd, to, bytes, at))
OSRT_IO(pread64, (int fd, void *to, size_t bytes, off64_t at), (fd, to, bytes, at))
OSRT_IO(pwrite, (int fd, const void *from, size_t bytes, off_t at), (fd, from, bytes, at))
OSRT_IO(pwrite64, (int fd, const void *from, size_t bytes, off64_t at), (fd, from, bytes, at))
OSRT_IO(readv, (int fd, const struct iovec *parts, int count), (fd, parts, count))
OSRT_IO(writev, (int fd, const struct iovec *parts, int count), (fd, parts, count))
OSRT_IO(preadv, (int fd, const struct iovec *parts, int count, off_t at), (fd, parts, count, at))
OSRT_IO(preadv64, (int fd, const struct iovec *parts, int count, off64_t at), (fd, parts, count, at))
OSRT_IO(pwritev, (int fd, const struct iovec *parts, int count, off_t at), (fd, parts, count, at))
OSRT_IO(pwritev64, (int fd, const struct iovec *parts, int count, off64_t at), (fd, parts, count, at))
OSRT_IO(preadv2, (int fd, const struct iovec *parts, int count, off_t at, int flags), (fd, parts, count, at, flags))
OSRT_IO(preadv64v2, (int fd, const struct iovec *parts, int count, off64_t at, int flags), (fd, parts, count, at, flags))
OSRT_IO(pwritev2, (int fd, const struct iovec *parts, int count, off_t at, int flags), (fd, parts, count, at, flags))
OSRT_IO(pwritev64v2, (int fd, const struct iovec *parts, int count, off64_t at, int flags), (fd, parts, count, at, flags))
OSRT_IO(sendfile, (int fd, int from, off_t *at, size_t bytes), (fd, from, at, bytes))
OSRT_IO(sendfile64, (int fd, int from, off64_t *at, size_t bytes), (fd, from, at, bytes))
OSRT_IO(copy_file_range, (int from, off64_t *from_at, int fd, off64_t *at, size_t bytes, unsigned flags),
        (from, from_at, fd, at, bytes, flags))
OSRT_IO(splice, (int from, off64_t *from_at, int fd, off64_t *at, size_t bytes, unsigned flags), (from, from_at, fd, at, bytes, flags))
OSRT_IO(tee, (int from, int fd, size_t bytes, unsigned flags), (from, fd, bytes, flags))
OSRT_IO(vmsplice, (int fd, const struct iovec *parts, size_t count, unsigned flags), (fd, parts, count, flags))
OSRT_IO(__read_chk, (int fd, void *to, size_t bytes, size_t room), (fd, to, bytes, room))
OSRT_IO(__pread_chk, (int fd, void *to, size_t bytes, off_t at, size_t room), (fd, to, bytes, at, room))
OSRT_IO(__pread64_chk, (int fd, void *to, size_t bytes, off64_t at, size_t room), (fd, to, bytes, at, room))

OSRT_FD(fsync, (int fd), (fd))
OSRT_FD(fdatasync, (int fd), (fd))
OSRT_FD(syncfs, (int fd), (fd))
OSRT_FD(sync_file_range, (int fd, off64_t at, off64_t bytes, unsigned flags), (fd, at, bytes, flags))
OSRT_FD(ftruncate, (int fd, off_t bytes), (fd, bytes))
OSRT_FD(ftruncate64, (int fd, off64_t bytes), (fd, bytes))
OSRT_FD(posix_fallocate, (int fd, off_t at, off_t bytes), (fd, at, bytes))
OSRT_FD(posix_fallocate64, (int fd, off64_t at, off64_t bytes), (fd, at, bytes))
OSRT_FD(flock, (int fd, int operation), (fd, operation))
OSRT_FD(lockf, (int fd, int command, off_t bytes), (fd, command, bytes))
OSRT_FD(lockf64, (int fd, int command, off64_t bytes), (fd, command, bytes))
OSRT_PATH(truncate, (const char *path, off_t bytes), (path, bytes))
OSRT_PATH(truncate64, (const char *path, off64_t bytes), (path, bytes))
OSRT_PATH(rename, (const char *path, const char *to), (path, to))
OSRT_PATH(renameat, (int folder, const char *path, int folder2, const char *to), (folder, path, folder2, to))
OSRT_PATH(renameat2, (int folder, const char *path, int folder2, const char *to, unsigned flags), (folder, path, folder2, to, flags))
OSRT_PATH(unlink, (const char *path), (path))
OSRT_PATH(unlinkat, (int folder, const char *path, int flags), (folder, path, flags))
OSRT_PATH(mkdir, (const char *path, mode_t mode), (path, mode))
OSRT_PATH(rmdir, (const char *path), (path))

OSRT_EXPORT void sync(void) {
    __typeof__(&sync) real = OSRT_REAL(sync);
    uint64_t begin;
    if (!real) return;
    if (!osrt_watching()) {
        real();
        return;
    }
    begin = osrt_begin();
    real();
    osrt_end(OSRT_sync, begin, -1, OSRT_NO_BYTES, 0, NULL);
}

/* Of fcntl only what waits, for a lock of a file, is recorded. */
#define OSRT_FCNTL(name)                                                                                         \
    OSRT_EXPORT int name(int fd, int command, ...) {                                                             \
        __typeof__(&name) real = OSRT_REAL(name);                                                                \
        uint64_t begin;                                                                                          \
        void *argument;                                                                                          \
        va_list list;                                                                                            \
        int result;                                                                                              \
        va_start(list, command);                                                                                 \
        argument = va_arg(list, void *);                                                                         \
        va_end(list);                                                                                            \
        if (TOPSTXI_UNLIKELY(!real)) OSRT_MISSING(-1);                                                           \
        if ((command != F_SETLKW && command != F_OFD_SETLKW) || !osrt_watching()) {                              \
            result = real(fd, command, argument);                                                                \
            if ((command == F_DUPFD || command == F_DUPFD_CLOEXEC) && result >= 0) osrt_forget(result);          \
            return result;                                                                                       \
        }                                                                                                        \
        begin = osrt_begin();                                                                                    \
        result = real(fd, command, argument);                                                                    \
        osrt_end(OSRT_##name, begin, fd, OSRT_NO_BYTES, result, NULL);                                           \
        return result;                                                                                           \
    }
OSRT_FCNTL(fcntl)
OSRT_FCNTL(fcntl64)

/* Copies of descriptors cost nothing; but theirs is another's target from now on. */
#define OSRT_DUP(name, params, args)                              \
    OSRT_EXPORT int name params {                                 \
        __typeof__(&name) real = OSRT_REAL(name);                 \
        int result;                                               \
        if (TOPSTXI_UNLIKELY(!real)) OSRT_MISSING(-1);            \
        result = real args;                                       \
        if (result >= 0 && result != from) osrt_forget(result);   \
        return result;                                            \
    }
OSRT_DUP(dup, (int from), (from))
OSRT_DUP(dup2, (int from, int to), (from, to))
OSRT_DUP(dup3, (int from, int to, int flags), (from, to, flags))

/* ---- streams of the C library: their calls of the system are its own, so the streams' are recorded ---------------------- */

static void osrt_end_stream(int function, uint64_t begin, FILE *stream, int64_t bytes, int failed) {
    osrt_call call = {function, -1, 0, failed ? errno : 0, begin, topstxi_now(), bytes, failed ? -1 : bytes > 0 ? bytes : 0};
    int saved = errno;
    if (call.end - begin < osrt_threshold_ticks) {
        osrt_count_short(function, call.end - begin, bytes);
        return;
    }
    if (stream) call.fd = fileno_unlocked(stream); /* -1 of one in memory */
    errno = saved;
    osrt_record(&call, NULL);
}

/* `fd` and `path` as in OSRT_CALL; a NULL or EOF is `failed`. */
#define OSRT_STREAM(type, name, params, args, none, stream, moved, failed)               \
    OSRT_EXPORT type name params {                                                       \
        __typeof__(&name) real = OSRT_REAL(name);                                        \
        uint64_t begin;                                                                  \
        type result;                                                                     \
        if (TOPSTXI_UNLIKELY(!real)) OSRT_MISSING(none);                                 \
        if (!osrt_watching()) return real args;                                          \
        begin = osrt_begin();                                                            \
        result = real args;                                                              \
        osrt_end_stream(OSRT_##name, begin, stream, moved, failed);                      \
        return result;                                                                   \
    }
OSRT_STREAM(int, fflush, (FILE *s), (s), EOF, s, OSRT_NO_BYTES, result == EOF)
OSRT_STREAM(size_t, fread, (void *to, size_t size, size_t count, FILE *s), (to, size, count, s), 0, s, (int64_t)(result * size), 0)
OSRT_STREAM(size_t, __fread_chk, (void *to, size_t room, size_t size, size_t count, FILE *s), (to, room, size, count, s), 0, s,
            (int64_t)(result * size), 0)
OSRT_STREAM(size_t, fwrite, (const void *from, size_t size, size_t count, FILE *s), (from, size, count, s), 0, s,
            (int64_t)(result * size), 0)
OSRT_STREAM(char *, fgets, (char *to, int size, FILE *s), (to, size, s), NULL, s, OSRT_NO_BYTES, 0)
OSRT_STREAM(char *, __fgets_chk, (char *to, size_t room, int size, FILE *s), (to, room, size, s), NULL, s, OSRT_NO_BYTES, 0)
OSRT_STREAM(int, fputs, (const char *text, FILE *s), (text, s), EOF, s, OSRT_NO_BYTES, result == EOF)
OSRT_STREAM(int, puts, (const char *text), (text), EOF, stdout, OSRT_NO_BYTES, result == EOF)
OSRT_STREAM(ssize_t, getline, (char **to, size_t *size, FILE *s), (to, size, s), -1, s, result > 0 ? result : 0, 0)
OSRT_STREAM(ssize_t, getdelim, (char **to, size_t *size, int end, FILE *s), (to, size, end, s), -1, s, result > 0 ? result : 0, 0)

OSRT_EXPORT int fclose(FILE *stream) {
    __typeof__(&fclose) real = OSRT_REAL(fclose);
    osrt_call call = {OSRT_fclose, -1, 0, 0, 0, 0, OSRT_NO_BYTES, 0};
    int saved = errno, watching = osrt_watching();
    if (TOPSTXI_UNLIKELY(!real)) OSRT_MISSING(EOF);
    if (stream) call.fd = fileno_unlocked(stream);
    errno = saved;
    if (watching) call.target = osrt_known_target(call.fd);
    osrt_forget(call.fd);
    if (!watching) return real(stream);
    call.begin = osrt_begin();
    call.result = real(stream);
    call.end = topstxi_now();
    if (call.end - call.begin < osrt_threshold_ticks) {
        osrt_count_short(OSRT_fclose, call.end - call.begin, 0);
    } else {
        call.error = call.result == EOF ? errno : 0;
        if (!call.target) call.fd = -1;
        osrt_record(&call, NULL);
    }
    return (int)call.result;
}

#define OSRT_FOPEN(name, params, args)                                                          \
    OSRT_EXPORT FILE *name params {                                                             \
        __typeof__(&name) real = OSRT_REAL(name);                                               \
        uint64_t begin;                                                                         \
        FILE *result;                                                                           \
        int watching = osrt_watching();                                                         \
        if (TOPSTXI_UNLIKELY(!real)) OSRT_MISSING(NULL);                                        \
        begin = watching ? osrt_begin() : 0;                                                    \
        result = real args;                                                                     \
        if (watching) osrt_end_new(OSRT_##name, begin, result ? fileno_unlocked(result) : -1, path, 0); \
        else if (result) osrt_forget(fileno_unlocked(result));                                  \
        return result;                                                                          \
    }
OSRT_FOPEN(fopen, (const char *path, const char *mode), (path, mode))
OSRT_FOPEN(fopen64, (const char *path, const char *mode), (path, mode))
OSRT_FOPEN(freopen, (const char *path, const char *mode, FILE *s), (path, mode, s))
OSRT_FOPEN(freopen64, (const char *path, const char *mode, FILE *s), (path, mode, s))
#endif /* OSRT_FILES_H */
