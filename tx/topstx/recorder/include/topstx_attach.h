/* topstx_attach.h - entering and leaving a session, fork and exit (internal to topstx.h). */
#ifndef TOPSTX_ATTACH_H
#define TOPSTX_ATTACH_H
#include "topstx_ring.h"

/* Whether the collector can read what this process makes, such as the file `mine`: it runs as the owner of the session,
 * who is another user than a program's under sudo. Then its rings would fill, and it would wait for ever. (The uid of a
 * process says nothing where a file system gives all files to one user.) */
TOPSTXI_SLOW int topstxi_collectable(const char *mine) {
    struct stat file, control;
    char path[3200];
    snprintf(path, sizeof path, "%s/control", topstxi_state.folder);
    if (stat(mine, &file) || stat(path, &control)) return 0;
    return control.st_uid == file.st_uid || control.st_uid == 0;
}

/* Begin a names file for this process; p->lock is held. 0: it can't be had, or would be of no use. */
TOPSTXI_SLOW int topstxi_names_create(void) {
    topstxi_process *p = &topstxi_state;
    topstx_names_header *names;
    struct timespec real;
    char path[3200];
    snprintf(path, sizeof path, "%s/names/%016llx.names", p->folder, (unsigned long long)p->serial);
    names = (topstx_names_header *)topstxi_map_file(path, TOPSTXI_NAMES_FIRST_BYTES, 1);
    if (!names) return 0;
    if (!topstxi_collectable(path)) {
        munmap(names, TOPSTXI_NAMES_FIRST_BYTES);
        unlink(path);
        return 0;
    }
    names->layout_version = TOPSTX_LAYOUT_VERSION;
    names->backend = TOPSTX_BACKEND;
    names->process_serial = p->serial;
    names->parent_serial = p->parent_serial;
    names->parent_count = p->parent_count;
    names->pid = (uint32_t)getpid();
    names->parent_pid = (uint32_t)getppid();
    names->clock = p->clock;
    clock_gettime(CLOCK_REALTIME, &real);
    names->start_realtime_ns = (uint64_t)real.tv_sec * 1000000000u + (uint64_t)real.tv_nsec;
    names->start_monotonic_ns = topstxi_monotonic();
    names->start_tick = topstxi_now();
    names->proc_start = topstxi_proc_start();
    names->next_id = p->parent_count ? p->parent_count : 1;
    memcpy(names->magic, TOPSTX_NAMES_MAGIC, 8);
    p->names = names;
    p->names_bytes = TOPSTXI_NAMES_FIRST_BYTES;
    return 1;
}

/* This process has no files: the collector can't know of it but by this count. */
static inline void topstxi_lost_process(topstx_control *control) {
    __atomic_fetch_add(&control->lost_processes, 1, __ATOMIC_RELAXED);
}

/* Let go of all rings; `state` is what their files become (fork children leave the parent's files alone). */
TOPSTXI_SLOW void topstxi_leave_rings(int retire) {
    topstxi_process *p = &topstxi_state;
    topstxi_ring *r;
    topstxi_old_ring *old;
    for (r = p->rings; r; r = r->next) { /* the objects stay: threads and handles point to them */
        uint32_t i;
        if (retire) topstxi_set_state(r, TOPSTX_RING_RETIRED);
        munmap(r->header, r->bytes);
        for (i = 0; i < r->payload_capacity; i++) free(r->payloads[i]);
        free(r->payloads);
        free(r->contexts);
        r->payloads = NULL;
        r->contexts = NULL;
        r->payload_capacity = r->context_capacity = r->open_capacity = 0;
    }
    while ((old = p->old_rings)) {
        p->old_rings = old->next;
        free(old);
    }
    p->rings = p->pool = p->shared = NULL;
    p->ring_bytes = p->next_ring = 0;
    p->foreign_starts = p->start_count;
    p->epoch++;
}

TOPSTXI_SLOW void topstxi_detach(void) {
    topstxi_process *p = &topstxi_state;
    pthread_mutex_lock(&p->lock);
    pthread_mutex_lock(&p->names_lock);
    __atomic_store_n(&topstxi_switch, &topstxi_never, __ATOMIC_RELEASE);
    topstxi_leave_rings(1);
    if (p->names) {
        p->names->end_tick = topstxi_now();
        munmap(p->names, p->names_bytes);
    }
    if (p->control) munmap(p->control, TOPSTX_PAGE);
    free(p->slots);
    free(p->arena);
    p->names = NULL;
    p->control = NULL;
    p->slots = NULL;
    p->arena = NULL;
    p->slot_capacity = p->name_count = p->forked = p->parent_count = p->names_patience = 0;
    p->arena_bytes = p->arena_capacity = p->parent_serial = p->dead_heartbeat = 0;
    p->folder[0] = 0;
    p->name_epoch++;
    pthread_mutex_unlock(&p->names_lock);
    pthread_mutex_unlock(&p->lock);
}

/* ---- fork: the child records into files of its own, made when it first records -------------------------------------- */

static void topstxi_before_fork(void) {
    pthread_mutex_lock(&topstxi_state.lock);
    pthread_mutex_lock(&topstxi_state.names_lock);
}

static void topstxi_after_fork_parent(void) {
    pthread_mutex_unlock(&topstxi_state.names_lock);
    pthread_mutex_unlock(&topstxi_state.lock);
}

static void topstxi_after_fork_child(void) {
    topstxi_process *p = &topstxi_state;
    pthread_mutex_init(&p->lock, NULL);
    pthread_mutex_init(&p->names_lock, NULL);
    pthread_mutex_init(&p->shared_lock, NULL); /* not taken before: its holder may be waiting for room */
    topstxi_mine = NULL;
    topstxi_lost = 0;
    if (!p->control) return;
    pthread_setspecific(p->key, NULL);
    topstxi_leave_rings(0);
    if (p->names) {
        p->parent_serial = p->serial;
        p->parent_count = p->names->next_id;
        munmap(p->names, p->names_bytes);
        p->names = NULL;
    }
    p->forked = 1;
}

static void topstxi_reincarnate(void) {
    topstxi_process *p = &topstxi_state;
    pthread_mutex_lock(&p->lock);
    if (p->forked) {
        p->forked = 0;
        p->serial = topstxi_random_serial();
        if (!topstxi_names_create()) {
            topstxi_lost_process(p->control);
            __atomic_store_n(&topstxi_switch, &topstxi_never, __ATOMIC_RELEASE);
        }
    }
    pthread_mutex_unlock(&p->lock);
}

/* ---- exit ------------------------------------------------------------------------------------------------------------ */

TOPSTXI_SLOW void topstxi_note_exit(uint32_t known, int status) {
    topstxi_process *p = &topstxi_state;
    struct timespec until;
    int held;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec++;
    /* Other threads may still grow the file; but if one was stopped within (or it is this one, in a signal handler), go on. */
    held = pthread_mutex_timedlock(&p->names_lock, &until) == 0;
    if (p->names && !p->forked) {
        p->names->exit_status = status;
        p->names->end_tick = known ? topstxi_now() : 0;
        __atomic_store_n(&p->names->exit_known, known, __ATOMIC_RELEASE);
    }
    if (held) pthread_mutex_unlock(&p->names_lock);
}

/* The process ends by exit(): the rings keep their mappings, because threads may still run. */
static void topstxi_at_exit(int status, void *unused) {
    topstxi_process *p = &topstxi_state;
    topstxi_ring *r;
    (void)unused;
    if (!p->names || p->forked || p->names->pid != (uint32_t)getpid()) return;
    topstxi_note_exit(1, status & 0xFF);
    __atomic_store_n(&topstxi_switch, &topstxi_never, __ATOMIC_RELEASE);
    if (pthread_mutex_trylock(&p->lock)) return; /* a thread that holds it may have been stopped for good */
    for (r = p->rings; r; r = r->next) topstxi_set_state(r, TOPSTX_RING_RETIRED);
    pthread_mutex_unlock(&p->lock);
}

#ifndef __GLIBC__
static void topstxi_at_plain_exit(void) { topstxi_at_exit(0, NULL); }
#endif

/* The handlers of fork, exit and thread end must not be unloaded with the library that they are in. */
#pragma weak dladdr
#pragma weak dlopen
TOPSTXI_SLOW void topstxi_stay_loaded(void) {
    Dl_info info;
    if (dladdr && dlopen && dladdr((void *)&topstxi_switch, &info) && info.dli_fname)
        (void)dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

/* ---- attach ---------------------------------------------------------------------------------------------------------- */

/* Map `control` of a folder. NULL: there is none, or of another version. */
TOPSTXI_SLOW topstx_control *topstxi_map_control(const char *folder) {
    char path[3200];
    struct stat info;
    void *map = MAP_FAILED;
    int fd;
    if (strlen(folder) >= sizeof topstxi_state.folder) return NULL;
    snprintf(path, sizeof path, "%s/control", folder);
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return NULL;
    if (fstat(fd, &info) == 0 && info.st_size >= (off_t)TOPSTX_PAGE)
        map = mmap(NULL, TOPSTX_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (map == MAP_FAILED) return NULL;
    if (memcmp(map, TOPSTX_CONTROL_MAGIC, 8) || ((topstx_control *)map)->layout_version != TOPSTX_LAYOUT_VERSION) {
        munmap(map, TOPSTX_PAGE);
        return NULL;
    }
    return (topstx_control *)map;
}

/* Enter the session in `folder`. 0: it is none, or can't be written; recording stays off. */
TOPSTXI_SLOW int topstxi_attach(const char *folder) {
    topstxi_process *p = &topstxi_state;
    topstx_control *control = topstxi_map_control(folder);
    int made;
    if (!control) return 0;
    if (p->control) topstxi_detach();
    pthread_mutex_lock(&p->lock);
    if (!p->registered) {
        p->registered = pthread_key_create(&p->key, topstxi_thread_end) == 0;
        if (p->registered) {
            topstxi_stay_loaded();
            pthread_atfork(topstxi_before_fork, topstxi_after_fork_parent, topstxi_after_fork_child);
#ifdef __GLIBC__
            on_exit(topstxi_at_exit, NULL);
#else
            atexit(topstxi_at_plain_exit);
#endif
        }
    }
    p->control = control;
    p->clock = TOPSTX_CLOCK_MONOTONIC;
#if defined(__x86_64__)
    p->clock = control->clock;
#endif
    p->serial = topstxi_random_serial();
    strcpy(p->folder, folder);
    p->epoch++;
    p->name_epoch++;
    made = p->registered && topstxi_names_create();
    if (!made) topstxi_lost_process(control);
    pthread_mutex_unlock(&p->lock);
    if (!made) {
        topstxi_detach();
        return 0;
    }
    topstxi_name_id("(more names than a process may have)"); /* TOPSTX_NAME_TOO_MANY */
    p->wait_name = topstxi_name_id("waiting for room in the ring");
    p->default_attr = topstxi_domain_excluded("", 0) ? TOPSTXI_EXCLUDED : 0;
    __atomic_store_n(&topstxi_switch, &control->recording, __ATOMIC_RELEASE);
    return 1;
}
#endif /* TOPSTX_ATTACH_H */
