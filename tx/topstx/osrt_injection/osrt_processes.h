/* osrt_processes.h - wrappers of calls that make, replace and await processes, or leave our frames behind. */
#ifndef OSRT_PROCESSES_H
#define OSRT_PROCESSES_H

extern char **environ;
#define OSRT_NOTES_MOST (1 << 16) /* bytes of the session's notes: who starts a thousand static programs is told of the first */

/* ---- programs that no library can be loaded into: told in the session's notes ----------------------------------------------- */

/* Why the file can't have us; NULL: it can, or nobody knows. Only system calls, as the child of a vfork may ask. */
static const char *osrt_obstacle(const char *path, int depth) {
    unsigned char head[256];
    Elf64_Phdr part;
    Elf64_Ehdr *elf = (Elf64_Ehdr *)(void *)head;
    struct stat info;
    const char *found = NULL;
    int fd = osrt_plain_open(path, O_RDONLY | O_CLOEXEC), i, interpreted = 0;
    ssize_t got;
    if (fd < 0) return NULL;
    got = osrt_plain_read(fd, head, sizeof head - 1);
    if (got > 2 && head[0] == '#' && head[1] == '!' && !depth) {
        char *name = (char *)head + 2, *end;
        head[got] = 0;
        name += strspn(name, " \t");
        end = name + strcspn(name, " \t\n");
        *end = 0;
        found = osrt_obstacle(name, 1);
    } else if (got >= (ssize_t)sizeof *elf && memcmp(elf->e_ident, ELFMAG, SELFMAG) == 0) {
        if (elf->e_ident[EI_CLASS] != (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32)) {
            found = "is built for another word size";
        } else if (sizeof(void *) == 8 && elf->e_phentsize == sizeof part) {
            for (i = 0; i < elf->e_phnum && i < 128 && !interpreted; i++)
                if (syscall(SYS_pread64, fd, &part, sizeof part, (off_t)(elf->e_phoff + (size_t)i * sizeof part)) == sizeof part)
                    interpreted = part.p_type == PT_INTERP;
            if (!interpreted) found = "is linked statically";
        }
        if (!found && syscall(SYS_fstat, fd, &info) == 0 &&
            (((info.st_mode & S_ISUID) && info.st_uid != geteuid()) || ((info.st_mode & S_ISGID) && info.st_gid != getegid())))
            found = "runs as another user";
    }
    osrt_plain_close(fd);
    return found;
}

static void osrt_tell(const char *path, const char *why) {
    char file[sizeof topstxi_state.folder + 8], line[1024];
    struct stat info;
    int fd, length;
    snprintf(file, sizeof file, "%s/notes", topstxi_state.folder);
    fd = (int)syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return;
    length = snprintf(line, sizeof line, "osrt: %.700s %s: its calls are not recorded\n", path, why);
    if (syscall(SYS_fstat, fd, &info) == 0 && info.st_size < OSRT_NOTES_MOST && length > 0 && (size_t)length < sizeof line)
        (void)!syscall(SYS_write, fd, line, (size_t)length);
    osrt_plain_close(fd);
}

/* A program is about to be started: by its path, or found in PATH. */
static void osrt_starts(const char *path, int search) {
    const int saved = errno;
    const char *folders = getenv("PATH"), *why = NULL, *end;
    char whole[PATH_MAX];
    size_t length;
    if (!path || osrt_sandboxed || !topstxi_state.control || topstxi_recording() != TOPSTX_RECORDING_ON ||
        topstxi_state.control->rows_off >> OSRT_KIND & 1)
        return;
    if (!search || strchr(path, '/')) {
        why = osrt_obstacle(path, 0);
    } else {
        for (; folders && *folders; folders = *end ? end + 1 : end) {
            end = strchrnul(folders, ':');
            length = (size_t)(end - folders);
            if (length + strlen(path) + 2 > sizeof whole) continue;
            memcpy(whole, folders, length);
            whole[length] = '/';
            strcpy(whole + length + (length > 0), path);
            if (syscall(SYS_faccessat, AT_FDCWD, whole, X_OK)) continue;
            why = osrt_obstacle(whole, 0);
            path = whole;
            break;
        }
    }
    if (why) osrt_tell(path, why);
    errno = saved;
}

/* ---- exec ------------------------------------------------------------------------------------------------------------------- */

/* The program is about to be replaced: what is known is written, the last moment that it can be. */
static void osrt_leaves(int function, const char *path) {
    const int saved = errno;
    if (osrt_watching()) {
        osrt_call call = {function, -1, 0, 0, topstxi_now(), 0, OSRT_NO_BYTES, 0};
        call.end = call.begin;
        osrt_record(&call, path);
    }
    if (!osrt_is_vfork_child() && topstxi_state.control && !osrt_busy && !osrt_sandboxed) {
        osrt_hold hold;
        osrt_busy = 1;
        osrt_hold_back(&hold);
        if (!topstxi_state.forked && topstxi_mine && topstxi_mine->epoch == topstxi_state.epoch) osrt_flush(topstxi_mine, 1);
        topstxi_note_exit(2, 0);
        osrt_let_go(&hold);
        osrt_busy = 0;
    }
    errno = saved;
}

static void osrt_stays(void) {
    const int saved = errno;
    if (!osrt_is_vfork_child() && topstxi_state.control && !osrt_busy && !osrt_sandboxed) {
        osrt_hold hold;
        osrt_hold_back(&hold);
        topstxi_note_exit(0, 0);
        osrt_let_go(&hold);
    }
    errno = saved;
}

#define OSRT_EXEC(name, params, args, search)              \
    OSRT_EXPORT int name params {                          \
        __typeof__(&name) real = OSRT_REAL(name);          \
        int result;                                        \
        if (TOPSTXI_UNLIKELY(!real)) OSRT_MISSING(-1);     \
        osrt_starts(path, search);                         \
        osrt_leaves(OSRT_##name, path);                    \
        result = real args;                                \
        osrt_stays();                                      \
        return result;                                     \
    }
OSRT_EXEC(execve, (const char *path, char *const argv[], char *const envp[]), (path, argv, envp), 0)
OSRT_EXEC(execv, (const char *path, char *const argv[]), (path, argv), 0)
OSRT_EXEC(execvp, (const char *path, char *const argv[]), (path, argv), 1)
OSRT_EXEC(execvpe, (const char *path, char *const argv[], char *const envp[]), (path, argv, envp), 1)
OSRT_EXEC(execveat, (int folder, const char *path, char *const argv[], char *const envp[], int flags), (folder, path, argv, envp, flags), 0)

OSRT_EXPORT int fexecve(int fd, char *const argv[], char *const envp[]) {
    __typeof__(&fexecve) real = OSRT_REAL(fexecve);
    int result;
    if (TOPSTXI_UNLIKELY(!real)) OSRT_MISSING(-1);
    osrt_leaves(OSRT_fexecve, NULL);
    result = real(fd, argv, envp);
    osrt_stays();
    return result;
}

/* Their words come one by one: counted, then put into an array on the stack, as the C library does. */
#define OSRT_EXECL(name, tail, call)                                           \
    OSRT_EXPORT int name(const char *path, const char *first, ...) {           \
        const char *word = first;                                              \
        size_t count = 0, i;                                                   \
        va_list list;                                                          \
        __asm__("" : "+r"(word)); /* which may be NULL, whatever the header says */ \
        va_start(list, first);                                                 \
        for (; word; count++) word = va_arg(list, const char *);               \
        va_end(list);                                                          \
        {                                                                      \
            char *argv[count + 1];                                             \
            argv[0] = (char *)first;                                           \
            va_start(list, first);                                             \
            for (i = 1; i <= count; i++) argv[i] = va_arg(list, char *);       \
            tail;                                                              \
            va_end(list);                                                      \
            return call;                                                       \
        }                                                                      \
    }
OSRT_EXECL(execl, (void)0, execv(path, argv))
OSRT_EXECL(execlp, (void)0, execvp(path, argv))
OSRT_EXECL(execle, char *const *envp = va_arg(list, char *const *), execve(path, argv, envp))

/* ---- processes ---------------------------------------------------------------------------------------------------------------- */

OSRT_EXPORT pid_t fork(void) {
    __typeof__(&fork) real = OSRT_REAL(fork);
    uint64_t begin;
    pid_t result;
    int watching = osrt_watching();
    if (TOPSTXI_UNLIKELY(!real)) OSRT_MISSING(-1);
    begin = topstxi_now();
    result = real();
    if (watching && result) osrt_end(OSRT_fork, begin, -1, OSRT_NO_BYTES, result, NULL);
    return result;
}

OSRT_CALL(pid_t, wait, (int *status), (status), -1, OSRT_NO_BYTES, NULL)
OSRT_CALL(pid_t, waitpid, (pid_t pid, int *status, int options), (pid, status, options), -1, OSRT_NO_BYTES, NULL)
OSRT_WAIT(waitid, (idtype_t type, id_t id, siginfo_t *info, int options), (type, id, info, options))
OSRT_CALL(pid_t, wait3, (int *status, int options, struct rusage *usage), (status, options, usage), -1, OSRT_NO_BYTES, NULL)
OSRT_CALL(pid_t, wait4, (pid_t pid, int *status, int options, struct rusage *usage), (pid, status, options, usage), -1, OSRT_NO_BYTES,
          NULL)
OSRT_CALL(int, system, (const char *command), (command), -1, OSRT_NO_BYTES, command)

OSRT_EXPORT int pclose(FILE *stream) {
    __typeof__(&pclose) real = OSRT_REAL(pclose);
    uint64_t begin;
    int result;
    if (TOPSTXI_UNLIKELY(!real)) OSRT_MISSING(-1);
    if (stream) osrt_forget(fileno_unlocked(stream));
    if (!osrt_watching()) return real(stream);
    begin = osrt_begin();
    result = real(stream);
    osrt_end(OSRT_pclose, begin, -1, OSRT_NO_BYTES, result, NULL);
    return result;
}

OSRT_EXPORT FILE *popen(const char *command, const char *type) {
    __typeof__(&popen) real = OSRT_REAL(popen);
    uint64_t begin;
    FILE *result;
    if (TOPSTXI_UNLIKELY(!real)) OSRT_MISSING(NULL);
    if (!osrt_watching()) return real(command, type);
    begin = osrt_begin();
    result = real(command, type);
    if (result) osrt_forget(fileno_unlocked(result));
    osrt_end(OSRT_popen, begin, result ? fileno_unlocked(result) : -1, OSRT_NO_BYTES, result ? 0 : -1, command);
    return result;
}

#define OSRT_SPAWN(name, search)                                                                                                  \
    OSRT_EXPORT int name(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attr,  \
                         char *const argv[], char *const envp[]) {                                                                \
        __typeof__(&name) real = OSRT_REAL(name);                                                                                 \
        osrt_call call = {OSRT_##name, -1, 0, 0, 0, 0, OSRT_NO_BYTES, 0};                                                         \
        if (TOPSTXI_UNLIKELY(!real)) return ENOSYS;                                                                               \
        osrt_starts(path, search);                                                                                                \
        if (!osrt_watching()) return real(pid, path, actions, attr, argv, envp);                                                  \
        call.begin = osrt_begin();                                                                                                \
        call.error = real(pid, path, actions, attr, argv, envp);                                                                  \
        call.end = topstxi_now();                                                                                                 \
        call.result = call.error;                                                                                                 \
        osrt_record(&call, path);                                                                                                 \
        return call.error;                                                                                                        \
    }
OSRT_SPAWN(posix_spawn, 0)
OSRT_SPAWN(posix_spawnp, 1)

/* From seccomp on a system call that the program does not make itself may end it. */
OSRT_EXPORT int prctl(int option, ...) {
    __typeof__(&prctl) real = OSRT_REAL(prctl);
    unsigned long a[4];
    va_list list;
    int i;
    va_start(list, option);
    for (i = 0; i < 4; i++) a[i] = va_arg(list, unsigned long);
    va_end(list);
    if (TOPSTXI_UNLIKELY(!real)) OSRT_MISSING(-1);
    if (option == PR_SET_SECCOMP) osrt_sandboxed = 1;
    return real(option, a[0], a[1], a[2], a[3]);
}

/* Jumps out of a signal handler may leave a call of ours behind, half done. */
#define OSRT_JUMP(name, buffer)                             \
    OSRT_EXPORT void name(buffer, int value) {              \
        __typeof__(&name) real = OSRT_REAL(name);           \
        osrt_busy = 0;                                      \
        real(to, value);                                    \
        __builtin_unreachable();                            \
    }
void __longjmp_chk(struct __jmp_buf_tag *, int) __attribute__((noreturn));
OSRT_JUMP(longjmp, struct __jmp_buf_tag to[1])
OSRT_JUMP(_longjmp, struct __jmp_buf_tag to[1])
OSRT_JUMP(siglongjmp, struct __jmp_buf_tag to[1])
OSRT_JUMP(__longjmp_chk, struct __jmp_buf_tag *to)

#if defined(__x86_64__)
/* vfork returns twice into the frame of who called it, and syscall may do so: both are jumped to, not called. */
__attribute__((used)) static void *osrt_before_vfork(void) {
    osrt_vforking = 1;
    return osrt_real(OSRT_vfork);
}
__attribute__((used)) static void *osrt_before_syscall(long number) {
    if (number == SYS_seccomp) osrt_sandboxed = 1;
    return osrt_real(OSRT_syscall);
}
__asm__(".pushsection .text\n"
        ".globl vfork\n.type vfork,@function\nvfork:\n"
        "endbr64\nsubq $8, %rsp\ncall osrt_before_vfork\naddq $8, %rsp\njmp *%rax\n"
        ".size vfork, .-vfork\n"
        ".globl syscall\n.type syscall,@function\nsyscall:\n"
        "endbr64\n"
        "pushq %rdi\npushq %rsi\npushq %rdx\npushq %rcx\npushq %r8\npushq %r9\nsubq $8, %rsp\n"
        "call osrt_before_syscall\n"
        "addq $8, %rsp\npopq %r9\npopq %r8\npopq %rcx\npopq %rdx\npopq %rsi\npopq %rdi\njmp *%rax\n"
        ".size syscall, .-syscall\n"
        ".popsection\n");
#endif
#endif /* OSRT_PROCESSES_H */
