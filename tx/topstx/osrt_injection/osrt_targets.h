/* osrt_targets.h - what descriptors lead to: a path, a peer, a pipe. Kept by number, looked up in /proc when it is not known. */
#ifndef OSRT_TARGETS_H
#define OSRT_TARGETS_H

#define OSRT_FDS (1u << 20)          /* descriptors beyond have no target */
#define OSRT_TARGETS_MAX 100000u     /* different names; then those of the kind serve */
#define OSRT_TEXT_BYTES 512u

static uint32_t *osrt_fds; /* name ids; 0: not known. Sparse: memory comes page by page */
static uint32_t osrt_more_targets; /* name id */

static uint32_t osrt_known_target(int fd) {
    return osrt_fds && (uint32_t)fd < OSRT_FDS ? __atomic_load_n(&osrt_fds[fd], __ATOMIC_RELAXED) : 0;
}

/* A descriptor is closed, or new: nothing is known of it. */
static inline void osrt_forget(int fd) {
    if (osrt_fds && (uint32_t)fd < OSRT_FDS && osrt_fds[fd] && !osrt_is_vfork_child())
        __atomic_store_n(&osrt_fds[fd], 0, __ATOMIC_RELAXED);
}

static void osrt_forget_range(unsigned first, unsigned last) {
    if (!osrt_fds || osrt_is_vfork_child()) return;
    if (last >= OSRT_FDS) last = OSRT_FDS - 1;
    if (last - first > 65536 && first <= last) { /* the rest of the table: cheaper to have it anew */
        unsigned from = (first + 1023) & ~1023u;
        for (unsigned fd = first; fd < from; fd++) osrt_fds[fd] = 0;
        (void)madvise(osrt_fds + from, (OSRT_FDS - from) * sizeof *osrt_fds, MADV_DONTNEED);
        return;
    }
    for (unsigned fd = first; fd <= last; fd++) osrt_fds[fd] = 0;
}

static int osrt_is_ours(const char *path) {
    size_t length = strlen(topstxi_state.folder);
    return length && strncmp(path, topstxi_state.folder, length) == 0 && path[length] == '/';
}

static uint32_t osrt_intern(const char *text) {
    if (topstxi_state.name_count > OSRT_TARGETS_MAX) return osrt_more_targets;
    return topstxi_name_id(text);
}

static void osrt_append(char *to, const char *text) {
    size_t used = strlen(to), more = strlen(text);
    if (used + more >= OSRT_TEXT_BYTES) more = OSRT_TEXT_BYTES - 1 - used;
    memcpy(to + used, text, more);
    to[used + more] = 0;
}

static void osrt_append_number(char *to, unsigned number) {
    char digits[12], *at = digits + sizeof digits - 1;
    *at = 0;
    do *--at = (char)('0' + number % 10);
    while (number /= 10);
    osrt_append(to, at);
}

/* "127.0.0.1:80", "[::1]:80", "unix /path"; "" for what we have no name of. Without the port where `host_only`. */
static void osrt_address(char *to, const struct sockaddr *address, socklen_t bytes, int host_only) {
    char host[INET6_ADDRSTRLEN] = "";
    if (!address || bytes < sizeof address->sa_family) return;
    if (address->sa_family == AF_INET && bytes >= sizeof(struct sockaddr_in)) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)address;
        inet_ntop(AF_INET, &in->sin_addr, host, sizeof host);
        osrt_append(to, host);
        if (host_only) return;
        osrt_append(to, ":");
        osrt_append_number(to, ntohs(in->sin_port));
    } else if (address->sa_family == AF_INET6 && bytes >= sizeof(struct sockaddr_in6)) {
        const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)address;
        inet_ntop(AF_INET6, &in->sin6_addr, host, sizeof host);
        osrt_append(to, "[");
        osrt_append(to, host);
        osrt_append(to, "]");
        if (host_only) return;
        osrt_append(to, ":");
        osrt_append_number(to, ntohs(in->sin6_port));
    } else if (address->sa_family == AF_UNIX) {
        const struct sockaddr_un *un = (const struct sockaddr_un *)address;
        size_t length = bytes - offsetof(struct sockaddr_un, sun_path), at;
        char path[sizeof un->sun_path + 1];
        if (bytes <= offsetof(struct sockaddr_un, sun_path) || length > sizeof un->sun_path) return;
        memcpy(path, un->sun_path, length);
        path[length] = 0;
        if (!path[0]) path[0] = '@'; /* an abstract name */
        for (at = 0; path[at] && at < length; at++) {
        }
        osrt_append(to, path);
    }
}

/* What a socket is: "tcp 10.0.0.1:443", "udp", "unix /path"; of one that listens or has no peer, its own address. */
static void osrt_socket_text(int fd, char *to) {
    struct sockaddr_storage address;
    socklen_t bytes = sizeof address, size = sizeof(int);
    int type = 0, domain = 0;
    *to = 0;
    (void)getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size);
    size = sizeof(int);
    (void)getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size);
    osrt_append(to, domain == AF_UNIX ? "unix" : domain == AF_NETLINK ? "netlink"
                    : domain != AF_INET && domain != AF_INET6 ? "socket"
                    : type == SOCK_STREAM ? "tcp" : type == SOCK_DGRAM ? "udp" : "ip");
    osrt_append(to, " ");
    if (getpeername(fd, (struct sockaddr *)&address, &bytes) == 0) {
        osrt_address(to, (struct sockaddr *)&address, bytes, 0);
    } else {
        bytes = sizeof address;
        if (getsockname(fd, (struct sockaddr *)&address, &bytes) == 0) osrt_address(to, (struct sockaddr *)&address, bytes, 0);
    }
    if (to[strlen(to) - 1] == ' ') to[strlen(to) - 1] = 0;
}

/* A connection that came in: "tcp :8080 from 10.0.0.7". The peer's port is left out: each connection has another. */
static uint32_t osrt_accepted(int fd) {
    struct sockaddr_storage address;
    socklen_t bytes = sizeof address;
    char text[OSRT_TEXT_BYTES], own[OSRT_TEXT_BYTES] = "";
    const char *port;
    if (getsockname(fd, (struct sockaddr *)&address, &bytes)) return 0;
    if (address.ss_family != AF_INET && address.ss_family != AF_INET6) {
        osrt_socket_text(fd, text);
        return osrt_intern(text);
    }
    osrt_address(own, (struct sockaddr *)&address, bytes, 0);
    port = strrchr(own, ':');
    strcpy(text, "tcp ");
    osrt_append(text, port ? port : own);
    bytes = sizeof address;
    if (getpeername(fd, (struct sockaddr *)&address, &bytes) == 0) {
        osrt_append(text, " from ");
        osrt_address(text, (struct sockaddr *)&address, bytes, 1);
    }
    return osrt_intern(text);
}

/* In the slow way only. */
static uint32_t osrt_target_of(int fd) {
    uint32_t id = osrt_known_target(fd);
    char link[32] = "/proc/self/fd/", text[OSRT_TEXT_BYTES];
    struct stat info;
    long got;
    if (id || fd < 0) return id;
    if (fstat(fd, &info)) return 0; /* closed meanwhile */
    if (S_ISSOCK(info.st_mode)) {
        osrt_socket_text(fd, text);
    } else {
        osrt_append_number(link, (unsigned)fd);
        got = syscall(SYS_readlinkat, AT_FDCWD, link, text, sizeof text - 1);
        if (got <= 0) return 0;
        text[got] = 0;
    }
    id = osrt_is_ours(text) ? OSRT_OURS : osrt_intern(text);
    if (osrt_fds && (uint32_t)fd < OSRT_FDS) __atomic_store_n(&osrt_fds[fd], id, __ATOMIC_RELAXED);
    return id;
}

/* A descriptor came with a call that took time: find its name now, and record the call with it. */
static __attribute__((noinline)) void osrt_record_new(osrt_call *call, int fd, const char *path, int accepted) {
    const int saved = errno;
    osrt_hold hold;
    if (osrt_sandboxed || !osrt_has_stack()) {
        osrt_record(call, NULL); /* it knows what can be done */
        return;
    }
    osrt_busy = 1;
    osrt_hold_back(&hold);
    if (!*osrt_alive) osrt_child_begins();
    if (topstxi_ring_mine()) {
        if (path && *path == '/') {
            call->target = osrt_intern(path);
            if (osrt_fds && (uint32_t)fd < OSRT_FDS) __atomic_store_n(&osrt_fds[fd], call->target, __ATOMIC_RELAXED);
        } else if (accepted) {
            call->target = osrt_accepted(fd);
            if (osrt_fds && (uint32_t)fd < OSRT_FDS) __atomic_store_n(&osrt_fds[fd], call->target, __ATOMIC_RELAXED);
        } else {
            call->target = osrt_target_of(fd);
        }
    }
    osrt_let_go(&hold);
    osrt_busy = 0;
    errno = saved;
    osrt_record(call, NULL);
}

/* The end of a call that gave a new descriptor (`result`; -1: it failed). `path`: what it was asked to open, or NULL. */
static inline void osrt_end_new(int function, uint64_t begin, int result, const char *path, int accepted) {
    osrt_call call = {function, result, 0, result == -1 ? errno : 0, begin, topstxi_now(), OSRT_NO_BYTES, result};
    if (result >= 0) osrt_forget(result);
    if (path && osrt_is_ours(path)) {
        if (osrt_fds && (uint32_t)result < OSRT_FDS) osrt_fds[result] = OSRT_OURS;
        return;
    }
    if (call.end - begin < osrt_threshold_ticks) osrt_count_short(function, call.end - begin, 0);
    else if (result >= 0) osrt_record_new(&call, result, path, accepted);
    else osrt_record(&call, path);
}
#endif /* OSRT_TARGETS_H */
