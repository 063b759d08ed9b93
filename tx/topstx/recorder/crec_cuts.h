/* crec_cuts.h - SharedTimeBase: session time that the processes of a recording share (part of _crec.c).
 *
 * The same as topstx/recorder/cuts.py, which says how it works; both write the same file, side by side. While a process is the only one that
 * ever used the file, it takes no lock: it announces a change (an odd `sequence`) before it looks whether it still is the only one.
 */
#include <fcntl.h>
#include <signal.h>

typedef struct {
    PyObject_HEAD
    PyObject *weak;
    topstx_cuts_header *header;
    topstx_cut *window;
    uint64_t window_at; /* + 1; 0: none is mapped */
    int64_t offset;     /* what now_ns is ahead of the times of the session's records */
    int64_t session;    /* model mode: this process's time */
    int64_t cut_raw;    /* begin of our cut */
    uint64_t cut_process_cpu, cut_thread_cpu, cut_others_cpu;
    PyThread_type_lock lock; /* of this process's threads */
    unsigned long owner;     /* the thread that has it */
    unsigned long mover;     /* model mode: the thread that moved the clock last */
    int file;
    int pid;
    uint32_t depth; /* cuts of the owner, one in another */
    uint32_t held;  /* times that the owner has the lock */
    uint8_t model, alone, watched, traditional;
} base_object;

static PyTypeObject base_type;

static inline int64_t raw_now(void) { return (int64_t)topstxi_monotonic(); }

static uint64_t cpu_of(clockid_t clock) {
    struct timespec t;
    return clock_gettime(clock, &t) ? 0 : (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void sequence_odd(base_object *b) {
    __atomic_fetch_or(&b->header->sequence, 1, __ATOMIC_SEQ_CST);
}

static void sequence_even(base_object *b) { __atomic_store_n(&b->header->sequence, b->header->sequence + 1, __ATOMIC_RELEASE); }

/* ---- locks -------------------------------------------------------------------------------------------------------------- */

#ifndef F_OFD_SETLK /* of Linux; the headers want _GNU_SOURCE for them */
#define F_OFD_GETLK 36
#define F_OFD_SETLK 37
#define F_OFD_SETLKW 38
#endif

/* A lock of the open file, so that nobody in this process loses it by closing the file elsewhere; where there are none such, of the process. */
static int lock_call(base_object *b, int of_file, int of_process, struct flock *lock) {
    int failed;
    lock->l_pid = 0;
    if (!b->traditional) {
        failed = fcntl(b->file, of_file, lock);
        if (!failed || errno != EINVAL) return failed;
        b->traditional = 1;
    }
    return fcntl(b->file, of_process, lock);
}

/* One of the locks of the file's bytes. 0: done; 1: another process has it (only without `wait`); -1: an exception. */
static int lock_byte(base_object *b, short type, uint64_t at, int wait) {
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)at, .l_len = 1};
    for (;;) {
        int failed = lock_call(b, F_OFD_SETLK, F_SETLK, &lock);
        if (!failed) return 0;
        if (errno == EACCES || errno == EAGAIN) {
            if (!wait) return 1;
            Py_BEGIN_ALLOW_THREADS
            failed = lock_call(b, F_OFD_SETLKW, F_SETLKW, &lock);
            Py_END_ALLOW_THREADS
            if (!failed) return 0;
        }
        if (errno != EINTR) {
            PyErr_SetFromErrno(PyExc_OSError);
            return -1;
        }
        if (PyErr_CheckSignals() < 0) return -1;
    }
}

/* The lock of this process's threads; it may be taken several times. -1: a signal's handler raised while we waited. */
static int lock_threads(base_object *b) {
    unsigned long me = PyThread_get_thread_ident();
    if (b->held && b->owner == me) {
        b->held++;
        return 0;
    }
    if (!PyThread_acquire_lock(b->lock, NOWAIT_LOCK)) {
        for (;;) {
            PyLockStatus status;
            Py_BEGIN_ALLOW_THREADS
            status = PyThread_acquire_lock_timed(b->lock, 1000000, 1);
            Py_END_ALLOW_THREADS
            if (status == PY_LOCK_ACQUIRED) break;
            if (PyErr_CheckSignals() < 0) return -1;
        }
    }
    b->owner = me;
    b->held = 1;
    return 0;
}

static void unlock_threads(base_object *b) {
    if (--b->held) return;
    b->owner = 0;
    PyThread_release_lock(b->lock);
}

/* ---- entries ------------------------------------------------------------------------------------------------------------ */

static int move_window(base_object *b, uint64_t window) {
    off_t bytes = (off_t)(TOPSTX_CUTS_WINDOW * sizeof(topstx_cut)), offset = (off_t)TOPSTX_PAGE + (off_t)window * bytes;
    void *map;
    if (posix_fallocate(b->file, offset, bytes)) return 0;
    /* all pages at once: one by one they would cost each cut more than it does */
    map = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, b->file, offset);
    if (map == MAP_FAILED) return 0;
    if (b->window) munmap(b->window, (size_t)bytes);
    b->window = (topstx_cut *)map;
    b->window_at = window + 1;
    return 1;
}

static void append_entry(base_object *b, int64_t begin, int64_t end, int64_t session_begin, int64_t session_end, uint64_t serial) {
    topstx_cuts_header *h = b->header;
    uint64_t count = h->entries, window = count / TOPSTX_CUTS_WINDOW;
    if (TOPSTXI_UNLIKELY(window + 1 != b->window_at) && !move_window(b, window)) {
        h->lost_entries++;
        return;
    }
    b->window[count % TOPSTX_CUTS_WINDOW] = (topstx_cut){begin, end, session_begin, session_end, serial};
    __atomic_store_n(&h->entries, count + 1, __ATOMIC_RELEASE);
}

static void close_cut(base_object *b, int64_t raw) {
    topstx_cuts_header *h = b->header;
    int64_t begin = (int64_t)h->open_begin, frozen = h->frozen;
    append_entry(b, begin, raw, h->open_session, frozen, 0);
    h->simulator_ns += (uint64_t)(raw - begin);
    h->shift = frozen - raw;
    __atomic_store_n(&h->open_begin, 0, __ATOMIC_RELEASE);
}

/* A holder was killed: the entries say how far it came; its cut ends now. Under the file's lock. */
static void repair(base_object *b) {
    topstx_cuts_header *h = b->header;
    sequence_odd(b);
    if (!b->model) {
        topstx_cut last = {0, 0, 0, 0, 0};
        int some = h->entries && pread(b->file, &last, sizeof last, (off_t)(TOPSTX_PAGE + (h->entries - 1) * sizeof last)) == sizeof last;
        if (h->open_begin && !(some && (uint64_t)last.begin_raw == h->open_begin)) {
            close_cut(b, raw_now());
        } else {
            h->open_begin = 0;
            h->shift = some ? last.session_end - last.end_raw : 0;
        }
    }
    sequence_even(b);
}

static inline int unfinished(const topstx_cuts_header *h) {
    return (__atomic_load_n(&h->sequence, __ATOMIC_ACQUIRE) & 1) || h->open_begin;
}

/* Begin to change the file: `sequence` is odd then, and no other process changes it. -1: an exception. */
static int begin_change(base_object *b) {
    if (TOPSTXI_LIKELY(b->alone)) {
        sequence_odd(b);
        if (TOPSTXI_LIKELY(__atomic_load_n(&b->header->processes, __ATOMIC_SEQ_CST) == 1)) return 0;
        sequence_even(b); /* another one came: from now on by the lock */
        b->alone = 0;
    }
    if (lock_byte(b, F_WRLCK, TOPSTX_CUTS_LOCK_BYTE, 1) < 0) return -1;
    if (TOPSTXI_UNLIKELY(unfinished(b->header))) repair(b);
    sequence_odd(b);
    return 0;
}

static void release_file(base_object *b) {
    if (!b->alone) (void)(lock_byte(b, F_UNLCK, TOPSTX_CUTS_LOCK_BYTE, 0) && (PyErr_Clear(), 0));
}

/* Whether a cut or a change was left by a killed process; then it is finished now. */
static int orphaned(base_object *b) {
    int locked;
    if (b->alone || b->held) return 0;
    if (lock_threads(b) < 0) {
        PyErr_Clear();
        return 0;
    }
    locked = lock_byte(b, F_WRLCK, TOPSTX_CUTS_LOCK_BYTE, 0);
    if (locked < 0) PyErr_Clear();
    if (!locked) {
        if (unfinished(b->header)) repair(b);
        (void)(lock_byte(b, F_UNLCK, TOPSTX_CUTS_LOCK_BYTE, 0) && (PyErr_Clear(), 0));
    }
    unlock_threads(b);
    return !locked;
}

/* ---- time --------------------------------------------------------------------------------------------------------------- */

static int64_t time_now(base_object *b) {
    const topstx_cuts_header *h = b->header;
    int64_t now, stuck = 0;
    if (b->model) return b->session + b->offset;
    for (;;) {
        uint64_t sequence = __atomic_load_n(&h->sequence, __ATOMIC_ACQUIRE);
        if (TOPSTXI_UNLIKELY(sequence & 1)) {
            int64_t raw = raw_now();
            if (!stuck) stuck = raw + 20000000; /* nobody takes that long to write a few words, unless stopped or killed */
            else if (raw > stuck && orphaned(b)) stuck = 0;
            sched_yield();
            continue;
        }
        if (TOPSTXI_UNLIKELY(h->open_begin != 0)) {
            now = h->frozen;
            if (!b->depth && orphaned(b)) continue;
        } else {
            now = h->shift;
            now += raw_now();
        }
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (TOPSTXI_LIKELY(__atomic_load_n(&h->sequence, __ATOMIC_RELAXED) == sequence)) return now + b->offset;
    }
}

static PyObject *base_now_ns(PyObject *self, PyObject *unused) {
    (void)unused;
    return PyLong_FromLongLong(time_now((base_object *)self));
}

/* Whether this process is the only one that has the file open; asks the system. */
static int nobody_else(base_object *b) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)TOPSTX_CUTS_PRESENCE_BYTE, .l_len = 1};
    return lock_call(b, F_OFD_GETLK, F_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
}

static PyObject *base_alone(PyObject *self, PyObject *unused) {
    base_object *b = (base_object *)self;
    (void)unused;
    return PyBool_FromLong(b->header->processes == 1 || nobody_else(b));
}

/* Processor time of the other processes that use the file. */
static uint64_t others_cpu(base_object *b) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < TOPSTX_CUTS_PIDS; i++) {
        uint32_t pid = b->header->pids[i];
        if (pid && pid != (uint32_t)b->pid) sum += cpu_of((clockid_t)(~(int)pid * 8 | 2));
    }
    return sum;
}

static void watch_others(base_object *b) {
    PyThreadState *first = PyInterpreterState_ThreadHead(PyInterpreterState_Get());
    int threads = first && PyThreadState_Next(first), processes = b->header->processes > 1 && !nobody_else(b);
    b->watched = threads || processes;
    if (!b->watched) return;
    b->cut_process_cpu = cpu_of(CLOCK_PROCESS_CPUTIME_ID);
    b->cut_thread_cpu = cpu_of(CLOCK_THREAD_CPUTIME_ID);
    b->cut_others_cpu = processes ? others_cpu(b) : 0;
}

static uint64_t hidden_cpu(base_object *b) {
    uint64_t process, thread, others, hidden = 0;
    if (!b->watched) return 0;
    process = cpu_of(CLOCK_PROCESS_CPUTIME_ID) - b->cut_process_cpu;
    thread = cpu_of(CLOCK_THREAD_CPUTIME_ID) - b->cut_thread_cpu;
    if (process > thread) hidden = process - thread;
    if (b->cut_others_cpu && (others = others_cpu(b)) > b->cut_others_cpu) hidden += others - b->cut_others_cpu;
    return hidden;
}

static int begin_cut(base_object *b) {
    topstx_cuts_header *h = b->header;
    if (lock_threads(b) < 0) return -1;
    if (b->depth++) return 0;
    if (b->model) {
        b->cut_raw = raw_now();
    } else {
        if (begin_change(b) < 0) {
            b->depth = 0;
            unlock_threads(b);
            return -1;
        }
        b->cut_raw = raw_now();
        h->frozen = h->open_session = b->cut_raw + h->shift;
        h->open_process = own_serial();
        __atomic_store_n(&h->open_begin, (uint64_t)b->cut_raw, __ATOMIC_RELEASE);
        sequence_even(b);
    }
    watch_others(b);
    return 0;
}

static int end_cut(base_object *b) {
    topstx_cuts_header *h = b->header;
    if (!b->depth || b->owner != PyThread_get_thread_ident()) {
        PyErr_SetString(PyExc_RuntimeError, "end_cut without begin_cut");
        return -1;
    }
    if (b->depth == 1) {
        uint64_t hidden = hidden_cpu(b);
        if (b->model) {
            if (begin_change(b) < 0) return -1;
            h->simulator_ns += (uint64_t)(raw_now() - b->cut_raw);
        } else {
            sequence_odd(b);
            close_cut(b, raw_now());
        }
        h->hidden_ns += hidden;
        sequence_even(b);
        release_file(b);
    }
    b->depth--;
    unlock_threads(b);
    return 0;
}

static PyObject *base_begin_cut(PyObject *self, PyObject *unused) {
    (void)unused;
    if (begin_cut((base_object *)self) < 0) return NULL;
    Py_RETURN_NONE;
}

static PyObject *base_end_cut(PyObject *self, PyObject *unused) {
    (void)unused;
    if (end_cut((base_object *)self) < 0) return NULL;
    Py_RETURN_NONE;
}

static PyObject *base_advance(PyObject *self, PyObject *argument) {
    base_object *b = (base_object *)self;
    topstx_cuts_header *h = b->header;
    long long ns = PyLong_AsLongLong(argument);
    int64_t raw;
    if (ns == -1 && PyErr_Occurred()) return NULL;
    if (lock_threads(b) < 0) return NULL;
    if (!b->model && b->depth) { /* within our own cut, whose lock we have */
        sequence_odd(b);
        h->frozen += ns;
        h->jumped_ns += (uint64_t)ns;
        sequence_even(b);
        unlock_threads(b);
        Py_RETURN_NONE;
    }
    if (b->model) {
        unsigned long me = PyThread_get_thread_ident();
        if (me != b->mover) {
            if (b->mover) h->order_measured = 1;
            b->mover = me;
        }
    }
    if (begin_change(b) < 0) {
        unlock_threads(b);
        return NULL;
    }
    raw = raw_now();
    if (b->model) {
        append_entry(b, raw, raw, b->session, b->session + ns, own_serial());
        b->session += ns;
    } else {
        append_entry(b, raw, raw, raw + h->shift, raw + h->shift + ns, 0);
        h->shift += ns;
    }
    h->jumped_ns += (uint64_t)ns;
    sequence_even(b);
    release_file(b);
    unlock_threads(b);
    Py_RETURN_NONE;
}

/* ---- coming and going --------------------------------------------------------------------------------------------------- */

/* Become one of the processes that use the file; also of a fork child, whose time is its own. -1: an exception. */
static int enter_base(base_object *b) {
    topstx_cuts_header *h = b->header;
    uint32_t i;
    b->pid = (int)getpid();
    b->depth = b->held = 0;
    b->owner = b->mover = 0;
    b->session = 0;
    b->alone = b->watched = 0;
    if (lock_byte(b, F_WRLCK, TOPSTX_CUTS_LOCK_BYTE, 1) < 0) return -1;
    __atomic_fetch_add(&h->processes, 1, __ATOMIC_SEQ_CST);
    /* The one that was alone before takes no lock yet: its cut ends first, or it has ended itself. */
    while (unfinished(h) && !nobody_else(b)) {
        struct timespec pause = {0, 100000};
        Py_BEGIN_ALLOW_THREADS
        nanosleep(&pause, NULL);
        Py_END_ALLOW_THREADS
        if (PyErr_CheckSignals() < 0) goto interrupted;
    }
    if (unfinished(h)) repair(b);
    for (i = 0; i < TOPSTX_CUTS_PIDS; i++) {
        uint32_t pid = h->pids[i];
        if (!pid || pid == (uint32_t)b->pid || (kill((pid_t)pid, 0) && errno == ESRCH)) {
            h->pids[i] = (uint32_t)b->pid;
            break;
        }
    }
    if (lock_byte(b, F_RDLCK, TOPSTX_CUTS_PRESENCE_BYTE, 1) < 0) goto interrupted;
    release_file(b);
    b->alone = h->processes == 1;
    return 0;
interrupted: {
    PyObject *type, *error, *traceback;
    PyErr_Fetch(&type, &error, &traceback);
    release_file(b);
    PyErr_Restore(type, error, traceback);
    return -1;
}
}

static PyObject *base_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"folder", "now_ns", NULL};
    PyObject *path = NULL, *file = NULL, *now = Py_None;
    base_object *b;
    void *map;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|O:SharedTimeBase", names, PyUnicode_FSConverter, &path, &now)) return NULL;
    b = (base_object *)type->tp_alloc(type, 0);
    if (!b) {
        Py_DECREF(path);
        return NULL;
    }
    b->file = -1;
    b->lock = PyThread_allocate_lock();
    file = PyBytes_FromFormat("%s/cuts", PyBytes_AS_STRING(path));
    Py_DECREF(path);
    if (!file || !b->lock) goto failed;
    b->file = open(PyBytes_AS_STRING(file), O_RDWR | O_CLOEXEC);
    if (b->file < 0) {
        PyErr_SetFromErrno(PyExc_OSError);
        goto failed;
    }
    map = mmap(NULL, TOPSTX_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, b->file, 0);
    if (map == MAP_FAILED) {
        PyErr_SetFromErrno(PyExc_OSError);
        goto failed;
    }
    b->header = (topstx_cuts_header *)map;
    {
        struct stat info;
        if (fstat(b->file, &info) || info.st_size < (off_t)TOPSTX_PAGE || memcmp(b->header->magic, TOPSTX_CUTS_MAGIC, 8) ||
            b->header->layout_version != TOPSTX_LAYOUT_VERSION || b->header->mode > TOPSTX_CUTS_MODEL) {
            PyErr_SetString(PyExc_ValueError, "not the cuts of a recording, or of another version");
            goto failed;
        }
    }
    b->model = b->header->mode == TOPSTX_CUTS_MODEL;
    if (enter_base(b) < 0) goto failed;
    if (now != Py_None) {
        long long ns = PyLong_AsLongLong(now);
        if (ns == -1 && PyErr_Occurred()) goto failed;
        b->offset = ns - time_now(b);
    }
    Py_DECREF(file);
    return (PyObject *)b;
failed:
    Py_XDECREF(file);
    Py_DECREF(b);
    return NULL;
}

static PyObject *base_after_fork(PyObject *self, PyObject *unused) {
    base_object *b = (base_object *)self;
    char path[64];
    int file;
    (void)unused;
    if (b->file < 0) Py_RETURN_NONE;
    snprintf(path, sizeof path, "/proc/self/fd/%d", b->file); /* the file opened anew: locks of the old one are the parent's */
    file = open(path, O_RDWR | O_CLOEXEC);
    if (file >= 0) {
        dup3(file, b->file, O_CLOEXEC);
        close(file);
    }
    b->lock = PyThread_allocate_lock(); /* the old one may be held by a thread that is not here */
    if (!b->lock) return PyErr_NoMemory();
    if (b->model) b->offset = 0;
    if (enter_base(b) < 0) PyErr_Clear(); /* out of locks: this process goes unseen by others */
    Py_RETURN_NONE;
}

static PyObject *base_close(PyObject *self, PyObject *unused) {
    base_object *b = (base_object *)self;
    (void)unused;
    if (b->file < 0) Py_RETURN_NONE;
    for (uint32_t i = 0; i < TOPSTX_CUTS_PIDS; i++)
        if (b->header->pids[i] == (uint32_t)b->pid) b->header->pids[i] = 0;
    close(b->file); /* the header stays mapped: the time can still be read */
    b->file = -1;
    Py_RETURN_NONE;
}

static void base_dealloc(PyObject *self) {
    base_object *b = (base_object *)self;
    if (b->weak) PyObject_ClearWeakRefs(self);
    if (b->header && b->file >= 0 && b->pid == (int)getpid()) Py_XDECREF(base_close(self, NULL));
    if (b->window) munmap(b->window, TOPSTX_CUTS_WINDOW * sizeof(topstx_cut));
    if (b->header) munmap(b->header, TOPSTX_PAGE);
    if (b->file >= 0) close(b->file);
    if (b->lock && !b->held) PyThread_free_lock(b->lock);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *base_mode(PyObject *self, void *unused) {
    (void)unused;
    return PyUnicode_FromString(((base_object *)self)->model ? "model" : "virtual");
}

static PyMethodDef base_methods[] = {
    {"now_ns", base_now_ns, METH_NOARGS, "Session time; it stands still while any process of the session is in a cut."},
    {"begin_cut", base_begin_cut, METH_NOARGS, "From here to end_cut no session time passes."},
    {"end_cut", base_end_cut, METH_NOARGS, "The end of the innermost cut of this thread."},
    {"advance", base_advance, METH_O, "Session time moves ahead at once."},
    {"alone", base_alone, METH_NOARGS, "Whether no other process uses this base."},
    {"close", base_close, METH_NOARGS, "Leave the session's time."},
    {"_after_fork", base_after_fork, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL}};
static PyMemberDef base_members[] = {
    {"offset_ns", T_LONGLONG, offsetof(base_object, offset), READONLY, "What now_ns is ahead of the times of the session's records."},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(base_object, weak), READONLY, NULL},
    {NULL, 0, 0, 0, NULL}};
static PyGetSetDef base_attributes[] = {{"mode", base_mode, NULL, "\"virtual\" or \"model\".", NULL}, {NULL, NULL, NULL, NULL, NULL}};
static PyTypeObject base_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "topstx.recorder._crec.SharedTimeBase",
    .tp_basicsize = sizeof(base_object),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "SharedTimeBase(folder, now_ns=None)\n--\n\nSession time of the processes of a recording; see topstx.recorder.cuts.",
    .tp_new = base_new,
    .tp_dealloc = base_dealloc,
    .tp_methods = base_methods,
    .tp_members = base_members,
    .tp_getset = base_attributes,
    .tp_weaklistoffset = offsetof(base_object, weak),
};

/* ---- for other extensions ----------------------------------------------------------------------------------------------- */

static int is_on(void) { return topstxi_recording() == TOPSTX_RECORDING_ON; }
static int64_t capsule_now_ns(void *base) { return time_now((base_object *)base); }
static int capsule_begin_cut(void *base) { return begin_cut((base_object *)base); }
static int capsule_end_cut(void *base) { return end_cut((base_object *)base); }

static const topstx_capsule row_functions = {
    TOPSTX_CAPSULE_VERSION, sizeof row_functions, topstxi_row_wanted, row_name, write_row, own_serial,
    is_on, &base_type, capsule_now_ns, capsule_begin_cut, capsule_end_cut,
};

static int add_capsule(PyObject *module) {
    PyObject *capsule = PyCapsule_New((void *)(uintptr_t)&row_functions, TOPSTX_CAPSULE, NULL);
    int added = capsule ? PyModule_AddObjectRef(module, "rows", capsule) : -1;
    Py_XDECREF(capsule);
    return added;
}
