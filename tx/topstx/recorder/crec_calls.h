/* crec_calls.h - calls of Python functions as records (part of _crec.c). See topstx/recorder/calls.py, which begins and ends it.
 *
 * 3.12 and later: sys.monitoring calls us, and what is not traced answers DISABLE, once for each place, so that it costs nothing from then
 * on. 3.11: a profile hook of every thread.
 *
 * A call that runs is an entry of its thread's stack here, told by its frame, and a slot of the ring's open table, so that it survives a kill.
 * A generator's or coroutine's run from one resumption to the next yield is a record of its own. What is known of a code object is kept with
 * it (its "extra"), so an event takes no lookup, makes no object and calls nothing in Python.
 */

typedef struct call_site { /* a code object, or a function in C */
    uint32_t name;
    uint32_t attr;
    uint32_t generation; /* of `tracing`, of which the answer and the ids are */
    uint8_t traced;
    uint8_t slices;    /* a generator or coroutine: its call comes in slices */
    uint8_t throttled; /* called too often: its calls are only counted */
    uint8_t orphan;    /* the code object is gone; to be freed with its last entry */
    uint32_t open;     /* entries of stacks */
    uint32_t calls;    /* since window_ns */
    uint64_t window_ns;
    uint64_t skipped_tick; /* of the first of `skipped` */
    uint32_t skipped;      /* calls that were not recorded, nor told yet */
    const void *key;       /* of a function in C: its PyMethodDef */
    struct call_site *next, *previous; /* those with `skipped` */
} call_site;

typedef struct {
    uint64_t begin;
    uintptr_t frame; /* 3.12 and later: the code object, as calls of a thread end in turn; C functions: their PyMethodDef, and 1 */
    call_site *site;
    uint32_t slot; /* of the open table, index + 1; 0: there was none left; CALL_HIDDEN: it is not recorded */
    uint32_t epoch;
    uint32_t task;
    uint8_t flags;
} call_entry;

typedef struct {
    call_entry *entries;
    uint32_t count, capacity;
} call_stack;

#define CALL_HIDDEN (~0u)
#define CALL_STACK_MAX (1u << 24)
#define CALLS_LOOKED_AT 16384u  /* calls of a function between two looks at the clock */
#define CALLS_SKIPPED_MAX 4096u /* calls not recorded, of one function, that a kill may keep from being told */
#define SLICED (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)
#define CALL_WINDOW_NS 1000000000u

static struct {
    PyObject *decide;  /* decide(code or function in C, globals) -> None or (name, module, file, line) */
    PyObject *disable; /* sys.monitoring.DISABLE */
    Py_ssize_t extra;  /* index of our extra in code objects */
    uint32_t generation, limit, c_calls, on;
    pthread_key_t key; /* frees the stacks of threads that end */
    int registered;
    call_site skipping; /* head of the list of those with `skipped` */
    call_site **c_sites; /* hash by PyMethodDef */
    uint32_t c_count, c_capacity;
#if PY_VERSION_HEX < 0x030C0000
    PyInterpreterState *interpreter;
    PyThreadState *newest; /* thread when we last looked for new ones */
    _PyFrameEvalFunction evaluate; /* what evaluates frames but for us; NULL: the profile hook is in use from the begin */
#endif
} tracing;
static __thread call_stack calls __attribute__((tls_model("initial-exec")));
static __thread int asking __attribute__((tls_model("initial-exec"))); /* `decide` runs: its own calls are none of the program's */

/* ---- sites ---------------------------------------------------------------------------------------------------------------- */

/* Tell how many calls of a function were not recorded. */
static __attribute__((noinline)) void tell_skipped(call_site *s) {
    topstxi_ring *r = topstxi_state.control ? topstxi_ring_mine() : NULL;
    if (r && s->skipped) topstxi_put(r, s->skipped_tick, topstxi_now(), s->name, s->skipped, s->attr, 0, TOPSTX_KIND_CALLS_SKIPPED, 0);
    s->skipped = 0;
    if (s->next) {
        s->next->previous = s->previous;
        s->previous->next = s->next;
        s->next = s->previous = NULL;
    }
}

static void skip_call(call_site *s) {
    if (!s->skipped++) {
        s->skipped_tick = topstxi_now();
        s->next = tracing.skipping.next;
        s->previous = &tracing.skipping;
        s->next->previous = s->previous->next = s;
    } else if (s->skipped == CALLS_SKIPPED_MAX) {
        tell_skipped(s);
    }
}

static void tell_all_skipped(void) {
    while (tracing.skipping.next && tracing.skipping.next != &tracing.skipping) tell_skipped(tracing.skipping.next);
}

static void free_site(void *extra) { /* the code object goes */
    call_site *s = (call_site *)extra;
    if (!s) return;
    if (s->skipped) tell_skipped(s);
    if (s->open) s->orphan = 1;
    else free(s);
}

static inline void leave_site(call_site *s) {
    if (!--s->open && TOPSTXI_UNLIKELY(s->orphan)) free(s);
}

static uint32_t place_id(PyObject *module, PyObject *file, uint32_t line) {
    utf8 m = utf8_of(module), f = utf8_of(file);
    uint32_t file_bytes = topstxi_fit(f.data, (size_t)f.bytes, 2048), module_bytes = topstxi_fit(m.data, (size_t)m.bytes, 1024), id;
    char body[8 + 2048 + 1024];
    memcpy(body, &line, 4);
    memcpy(body + 4, &file_bytes, 4);
    memcpy(body + 8, f.data, file_bytes);
    memcpy(body + 8 + file_bytes, m.data, module_bytes);
    id = topstxi_intern(TOPSTX_ENTRY_CODE, body, 8 + file_bytes + module_bytes);
    Py_XDECREF(m.owner);
    Py_XDECREF(f.owner);
    return id == TOPSTX_NAME_TOO_MANY ? 0 : id;
}

/* Ask whether a function is traced, and what it is called. */
static void ask_about(call_site *s, PyObject *what, PyObject *globals) {
    PyObject *answer, *name, *module, *file;
    unsigned int line;
    asking = 1;
    answer = PyObject_CallFunctionObjArgs(tracing.decide, what, globals ? globals : Py_None, NULL);
    asking = 0;
    s->generation = tracing.generation;
    s->traced = s->throttled = 0;
    s->calls = 0;
    if (answer && PyTuple_Check(answer) && PyArg_ParseTuple(answer, "UUUI", &name, &module, &file, &line)) {
        s->name = name_id(name);
        s->attr = place_id(module, file, line);
        s->traced = 1;
    }
    Py_XDECREF(answer);
    forget_error();
}

static __attribute__((noinline)) call_site *new_site(PyObject *code, PyObject *globals, call_site *s) {
    if (!tracing.on || asking) return NULL;
    if (!s) {
        s = (call_site *)calloc(1, sizeof *s);
        if (!s) return NULL;
        s->slices = (((PyCodeObject *)code)->co_flags & SLICED) != 0;
#if PY_VERSION_HEX >= 0x030C0000
        if (PyUnstable_Code_SetExtra(code, tracing.extra, s) < 0) {
#else
        if (_PyCode_SetExtra(code, tracing.extra, s) < 0) {
#endif
            PyErr_Clear();
            free(s);
            return NULL;
        }
    } else if (s->skipped) {
        s->skipped = 0; /* of a session that was left */
        tell_skipped(s);
    }
    ask_about(s, code, globals ? globals : PyEval_GetGlobals());
    return s;
}

#if PY_VERSION_HEX < 0x030E0000
typedef struct { /* _PyCodeObjectExtra of CPython 3.11 to 3.13: what co_extra points to */
    Py_ssize_t count;
    void *extras[1];
} code_extra;
#endif

/* What is known of a code object; NULL: it is not traced now. `globals`: of its frame; NULL: that is the current one. */
static inline call_site *site_of(PyObject *code, PyObject *globals) {
    void *extra = NULL;
#if PY_VERSION_HEX < 0x030E0000
    const code_extra *extras = (const code_extra *)((PyCodeObject *)code)->co_extra;
    if (TOPSTXI_LIKELY(extras != NULL) && TOPSTXI_LIKELY(extras->count > tracing.extra)) extra = extras->extras[tracing.extra];
#else
    PyUnstable_Code_GetExtra(code, tracing.extra, &extra);
#endif
    if (TOPSTXI_LIKELY(extra != NULL) && TOPSTXI_LIKELY(((call_site *)extra)->generation == tracing.generation)) return (call_site *)extra;
    return new_site(code, globals, (call_site *)extra);
}

static PyMethodDef *definition_of(PyObject *function) {
    if (PyCFunction_Check(function)) return ((PyCFunctionObject *)function)->m_ml;
    if (Py_IS_TYPE(function, &PyMethodDescr_Type)) return ((PyMethodDescrObject *)function)->d_method;
    return NULL;
}

static call_site **c_site_place(const void *key) {
    uint32_t mask = tracing.c_capacity - 1, i = (uint32_t)(((uintptr_t)key >> 4) * 0x9E3779B97F4A7C15ull >> 40) & mask;
    while (tracing.c_sites[i] && tracing.c_sites[i]->key != key) i = (i + 1) & mask;
    return &tracing.c_sites[i];
}

static __attribute__((noinline)) call_site *new_c_site(PyObject *function, const void *key, call_site *s) {
    if (!s) {
        if (tracing.c_count * 2 >= tracing.c_capacity) {
            uint32_t old_capacity = tracing.c_capacity, capacity = old_capacity ? old_capacity * 2 : 256;
            call_site **old = tracing.c_sites, **fresh = (call_site **)calloc(capacity, sizeof *fresh);
            if (!fresh) return NULL;
            tracing.c_sites = fresh;
            tracing.c_capacity = capacity;
            for (uint32_t i = 0; i < old_capacity; i++)
                if (old[i]) *c_site_place(old[i]->key) = old[i];
            free(old);
        }
        s = (call_site *)calloc(1, sizeof *s);
        if (!s) return NULL;
        s->key = key;
        *c_site_place(key) = s;
        tracing.c_count++;
    }
    ask_about(s, function, NULL);
    return s;
}

static inline call_site *c_site_of(PyObject *function, const void *key) {
    call_site *s = tracing.c_capacity ? *c_site_place(key) : NULL;
    if (TOPSTXI_LIKELY(s != NULL) && TOPSTXI_LIKELY(s->generation == tracing.generation)) return s;
    return tracing.on && !asking ? new_c_site(function, key, s) : NULL;
}

/* ---- begin and end -------------------------------------------------------------------------------------------------------- */

static void free_stack(void *entries) { free(entries); }

static __attribute__((noinline)) int grow_stack(call_stack *k) {
    uint32_t capacity = k->capacity ? k->capacity * 2 : 256;
    call_entry *entries = capacity <= CALL_STACK_MAX ? (call_entry *)realloc(k->entries, capacity * sizeof *entries) : NULL;
    if (!entries) return 0;
    k->entries = entries;
    k->capacity = capacity;
    pthread_setspecific(tracing.key, entries);
    return 1;
}

/* Forget an entry whose end never came: its frame is gone. The call counts as not recorded. */
static __attribute__((noinline)) void drop_entry(call_stack *k, uint32_t at) {
    call_entry e = k->entries[at];
    topstxi_ring *r = topstxi_mine;
    memmove(k->entries + at, k->entries + at + 1, (k->count - at - 1) * sizeof e);
    k->count--;
    if (r && e.epoch == topstxi_state.epoch && r->epoch == e.epoch) {
        if (e.slot && e.slot != CALL_HIDDEN) topstxi_free_slot(r, e.slot);
        if (!e.site->orphan && e.slot != CALL_HIDDEN) skip_call(e.site);
    }
    leave_site(e.site);
}

/* Was the function called more than `limit` times within a second? Then its calls are only counted from now on. */
static __attribute__((noinline)) void look_at_rate(call_site *s) {
    uint64_t now = topstxi_monotonic();
    if (!s->window_ns || now - s->window_ns >= CALL_WINDOW_NS) {
        s->window_ns = now;
        s->calls = 1;
    } else if (s->calls > tracing.limit) {
        s->throttled = 1;
    }
}

/* A call that is not recorded begins while others of its function are open: so that its end is not taken for theirs. */
static __attribute__((noinline)) void hide_call(call_site *s, uintptr_t frame) {
    call_stack *k = &calls;
    call_entry *e;
    if (!s->open || (k->count == k->capacity && !grow_stack(k))) return;
    e = &k->entries[k->count++];
    memset(e, 0, sizeof *e);
    e->frame = frame;
    e->site = s;
    e->slot = CALL_HIDDEN;
    e->epoch = topstxi_state.epoch;
    s->open++;
}

/* A call begins or goes on, of a site that is traced. `instance` tells generators apart. */
static inline void begin_call(call_site *s, uintptr_t frame, uintptr_t instance, uint32_t flags) {
    call_stack *k = &calls;
    topstxi_ring *r;
    call_entry *e;
    uint32_t index;
    if (TOPSTXI_UNLIKELY(topstxi_recording() != TOPSTX_RECORDING_ON)) {
        hide_call(s, frame);
        return;
    }
    if (TOPSTXI_UNLIKELY(s->throttled)) {
        if (!(flags & TOPSTX_CALL_RESUMED)) skip_call(s);
        hide_call(s, frame);
        return;
    }
    if (TOPSTXI_UNLIKELY((++s->calls & (CALLS_LOOKED_AT - 1)) == 0 || s->calls == 1 || s->calls == tracing.limit + 1) && tracing.limit)
        look_at_rate(s);
    r = topstxi_ring_mine();
    if (TOPSTXI_UNLIKELY(!r)) return;
#if PY_VERSION_HEX < 0x030C0000
    while (TOPSTXI_UNLIKELY(k->count && k->entries[k->count - 1].frame == frame)) drop_entry(k, k->count - 1); /* of a frame that is gone */
#endif
    if (TOPSTXI_UNLIKELY(k->count == k->capacity) && !grow_stack(k)) {
        topstxi_count(&r->header->dropped);
        return;
    }
    e = &k->entries[k->count];
    index = r->free_head;
    if (TOPSTXI_UNLIKELY(!index) && topstxi_more_open(r)) index = r->free_head;
    e->frame = frame;
    e->site = s;
    e->slot = index;
    e->epoch = r->epoch;
    e->flags = (uint8_t)flags;
    e->task = 0;
    if (s->slices) {
        e->task = (uint32_t)(instance * 0x9E3779B97F4A7C15ull >> 32);
        if (!e->task) e->task = 1;
    }
    s->open++;
    if (TOPSTXI_LIKELY(index)) {
        topstx_open *o = &r->open[index - 1];
        r->free_head = o->next_free;
        o->context = 0;
        o->name = s->name;
        o->attr = s->attr;
        o->tid = r->tid;
        o->task = e->task;
        o->depth = (uint16_t)(k->count < 65535 ? k->count : 65535);
        o->kind = TOPSTX_KIND_CALL;
        o->flags = (uint8_t)flags;
        o->previous = o->following = 0;
        o->payload[0] = 0;
        k->count++;
        e->begin = topstxi_now();
        __atomic_store_n(&o->begin_tick, e->begin, __ATOMIC_RELEASE);
    } else {
        k->count++;
        e->begin = topstxi_now();
    }
}

/* The call on top of the stack ends. */
static inline void end_top(call_stack *k, uint32_t flags) {
    uint64_t end = topstxi_now();
    call_entry *e = &k->entries[--k->count];
    call_site *s = e->site;
    topstxi_ring *r = topstxi_mine;
    uint32_t slot = e->slot, epoch = e->epoch;
    if (TOPSTXI_LIKELY(r != NULL) && TOPSTXI_LIKELY(slot != CALL_HIDDEN) && TOPSTXI_LIKELY(epoch == topstxi_state.epoch) && TOPSTXI_LIKELY(r->epoch == epoch)) {
        r->header->last_tick = end;
        topstxi_put(r, e->begin, end, s->name, e->task, s->attr, k->count < 65535 ? k->count : 65535, TOPSTX_KIND_CALL, e->flags | flags);
        if (TOPSTXI_LIKELY(slot) && TOPSTXI_LIKELY(r->epoch == topstxi_state.epoch)) topstxi_free_slot(r, slot);
    }
    leave_site(s); /* else it began in a process that forked this one, or in a session that was left */
}

static int switches_stacks(void) { /* greenlets: calls of a thread need not end in turn */
    PyObject *modules = PyImport_GetModuleDict(); /* borrowed */
    return modules && PyDict_GetItemString(modules, "greenlet") != NULL;
}

/* The call is not on top: it is not recorded, or the ends of those above never came, or the program switches stacks. */
static __attribute__((noinline)) void end_below(call_stack *k, uintptr_t frame, uint32_t flags) {
    uint32_t at;
    for (at = k->count; at > 0 && k->entries[at - 1].frame != frame; at--) {
    }
    if (!at--) return;
    if (switches_stacks()) {
        call_entry e = k->entries[at];
        memmove(k->entries + at, k->entries + at + 1, (k->count - at - 1) * sizeof e);
        k->entries[k->count - 1] = e;
    } else {
        while (k->count > at + 1) drop_entry(k, k->count - 1);
    }
    end_top(k, flags);
}

/* A call ends or pauses. Whether its site is of further interest at this place. */
static inline int end_call(PyObject *code, uintptr_t frame, uint32_t flags) {
    call_stack *k = &calls;
    call_site *s;
    if (TOPSTXI_LIKELY(k->count) && TOPSTXI_LIKELY(k->entries[k->count - 1].frame == frame)) {
        end_top(k, flags);
        return 1;
    }
    s = site_of(code, NULL);
    if (!s) return 1;
    if (s->open) end_below(k, frame, flags);
    return s->traced && !(s->throttled && !s->open);
}

static inline void end_c_call(PyObject *function, uint32_t flags) {
    PyMethodDef *definition = definition_of(function);
    call_stack *k = &calls;
    uintptr_t frame = (uintptr_t)definition | 1;
    if (definition && k->count && k->entries[k->count - 1].frame == frame) end_top(k, flags);
}

static inline void begin_c_call(PyObject *function) {
    PyMethodDef *definition = definition_of(function);
    call_site *s = definition ? c_site_of(function, definition) : NULL;
    if (s && s->traced) begin_call(s, (uintptr_t)definition | 1, 0, TOPSTX_CALL_C);
}

/* ---- events --------------------------------------------------------------------------------------------------------------- */

#if PY_VERSION_HEX >= 0x030C0000

static __attribute__((noinline)) uintptr_t running_frame(void) {
#if PY_VERSION_HEX >= 0x030D0000
    return (uintptr_t)PyThreadState_GetUnchecked()->current_frame;
#else
    return (uintptr_t)_PyThreadState_UncheckedGet()->cframe->current_frame;
#endif
}

#define NO_MORE_OF_THIS() return Py_NewRef(tracing.disable)
#define EVENT(name) static PyObject *name(PyObject *self, PyObject *const *args, size_t count, PyObject *keywords)
#define EVENT_OF(least)        \
    (void)self;                \
    (void)keywords;            \
    if (TOPSTXI_UNLIKELY(PyVectorcall_NARGS(count) < (least) || !PyCode_Check(args[0]))) Py_RETURN_NONE

EVENT(on_start) {
    call_site *s;
    EVENT_OF(1);
    if (TOPSTXI_UNLIKELY(!(s = site_of(args[0], NULL)))) Py_RETURN_NONE;
    if (TOPSTXI_UNLIKELY(!s->traced)) NO_MORE_OF_THIS();
    begin_call(s, (uintptr_t)args[0], s->slices ? running_frame() : 0, 0);
    return done();
}

EVENT(on_resume) {
    call_site *s;
    EVENT_OF(1);
    if (TOPSTXI_UNLIKELY(!(s = site_of(args[0], NULL)))) Py_RETURN_NONE;
    if (TOPSTXI_UNLIKELY(!s->traced)) NO_MORE_OF_THIS();
    begin_call(s, (uintptr_t)args[0], running_frame(), TOPSTX_CALL_RESUMED);
    return done();
}

EVENT(on_throw) { /* can't be disabled */
    call_site *s;
    EVENT_OF(1);
    if ((s = site_of(args[0], NULL)) && s->traced) begin_call(s, (uintptr_t)args[0], running_frame(), TOPSTX_CALL_RESUMED);
    return done();
}

EVENT(on_return) {
    EVENT_OF(1);
    if (TOPSTXI_UNLIKELY(!end_call(args[0], (uintptr_t)args[0], 0))) NO_MORE_OF_THIS();
    return done();
}

EVENT(on_yield) {
    EVENT_OF(1);
    if (TOPSTXI_UNLIKELY(!end_call(args[0], (uintptr_t)args[0], TOPSTX_CALL_YIELDED))) NO_MORE_OF_THIS();
    return done();
}

EVENT(on_unwind) { /* can't be disabled */
    EVENT_OF(1);
    end_call(args[0], (uintptr_t)args[0], TOPSTX_FLAG_ERROR);
    return done();
}

EVENT(on_c_call) {
    call_site *s;
    EVENT_OF(3);
    if (TOPSTXI_UNLIKELY(!(s = site_of(args[0], NULL)))) Py_RETURN_NONE;
    if (TOPSTXI_UNLIKELY(!s->traced)) NO_MORE_OF_THIS();
    begin_c_call(args[2]);
    return done();
}

EVENT(on_c_return) {
    EVENT_OF(3);
    end_c_call(args[2], 0);
    return done();
}

EVENT(on_c_raise) {
    EVENT_OF(3);
    end_c_call(args[2], TOPSTX_FLAG_ERROR);
    return done();
}

typedef struct { /* one of the above; leaner to call than a builtin function */
    PyObject_HEAD
    vectorcallfunc call;
} event_object;
static PyTypeObject event_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "topstx.recorder._crec.CallEvent",
    .tp_basicsize = sizeof(event_object),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(event_object, call),
    .tp_doc = "What sys.monitoring calls.",
};

static const struct {
    const char *name;
    vectorcallfunc call;
    int of_c;
} call_events[] = {
    {"PY_START", on_start, 0},   {"PY_RESUME", on_resume, 0}, {"PY_RETURN", on_return, 0}, {"PY_YIELD", on_yield, 0},
    {"PY_UNWIND", on_unwind, 0}, {"PY_THROW", on_throw, 0},   {"CALL", on_c_call, 1},      {"C_RETURN", on_c_return, 1},
    {"C_RAISE", on_c_raise, 1},
};

/* The objects that sys.monitoring is to call, by the names of events. */
static PyObject *install_calls(void) {
    PyObject *events = PyDict_New();
    if (PyType_Ready(&event_type) < 0) Py_CLEAR(events);
    for (size_t i = 0; events && i < sizeof call_events / sizeof *call_events; i++) {
        event_object *event;
        if (call_events[i].of_c && !tracing.c_calls) continue;
        event = PyObject_New(event_object, &event_type);
        if (event) event->call = call_events[i].call;
        if (!event || PyDict_SetItemString(events, call_events[i].name, (PyObject *)event) < 0) Py_CLEAR(events);
        Py_XDECREF(event);
    }
    return events;
}

static long uninstall_calls(void) { return 0; }

#else /* 3.11: a function that evaluates frames, or a profile hook */

#define OP_YIELD 86    /* YIELD_VALUE */
#define OP_RESUME 151  /* RESUME */

typedef struct _PyInterpreterFrame { /* of CPython 3.11 */
    PyObject *function, *globals, *builtins, *locals;
    PyCodeObject *code;
    PyObject *frame_object;
    struct _PyInterpreterFrame *previous;
    _Py_CODEUNIT *at; /* the instruction before the next */
} raw_frame;

static int on_profile(PyObject *self, PyFrameObject *frame, int what, PyObject *argument);

/* Hook threads that are new; those that have another hook keep it. Returns how many were left alone. */
static __attribute__((noinline)) long hook_threads(void) {
    PyThreadState *t;
    long others = 0;
    tracing.newest = PyInterpreterState_ThreadHead(tracing.interpreter);
    for (t = tracing.newest; t; t = PyThreadState_Next(t)) {
        if (t->c_profilefunc == on_profile) continue;
        if (t->c_profilefunc) others++;
        else if (_PyEval_SetProfile(t, on_profile, NULL) < 0) forget_error();
    }
    return others;
}

static __thread uintptr_t stack_floor __attribute__((tls_model("initial-exec"))); /* addresses below it: the stack is half used */

static __attribute__((noinline)) uintptr_t find_stack_floor(void) {
    pthread_attr_t attributes;
    void *low = NULL;
    size_t bytes = 0;
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    stack_floor = 1;
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        if (pthread_attr_getstack(&attributes, &low, &bytes) == 0 && here > (uintptr_t)low) stack_floor = (here + (uintptr_t)low) / 2;
        pthread_attr_destroy(&attributes);
    }
    return stack_floor;
}

/* Evaluates a frame. While there is such a function, calls of Python functions take C's stack, as they did before 3.11: where a program
 * goes deep, the profile hook takes over for good, which does without. */
static PyObject *on_evaluate(PyThreadState *thread, raw_frame *frame, int throwing) {
    PyCodeObject *code = frame->code;
    uintptr_t floor = stack_floor ? stack_floor : find_stack_floor();
    call_site *s;
    PyObject *result;
    uint32_t flags = 0, before = calls.count;
    if (TOPSTXI_UNLIKELY((uintptr_t)__builtin_frame_address(0) < floor)) {
        if (_PyInterpreterState_GetEvalFrameFunc(tracing.interpreter) == on_evaluate) {
            _PyInterpreterState_SetEvalFrameFunc(tracing.interpreter, tracing.evaluate);
            hook_threads();
        }
        return tracing.evaluate(thread, frame, throwing);
    }
    s = site_of((PyObject *)code, frame->globals);
    if (!s || !s->traced || !tracing.on) return tracing.evaluate(thread, frame, throwing);
    if (s->slices) {
        const _Py_CODEUNIT *first = (const _Py_CODEUNIT *)code->co_code_adaptive;
        if (frame->at < first) return tracing.evaluate(thread, frame, throwing); /* it makes the generator, and runs nothing */
        if (_Py_OPCODE(*frame->at) == OP_YIELD || throwing) flags = TOPSTX_CALL_RESUMED;
    }
    begin_call(s, (uintptr_t)frame, (uintptr_t)frame, flags);
    if (TOPSTXI_UNLIKELY(calls.count == before)) return tracing.evaluate(thread, frame, throwing); /* it is not recorded */
    result = tracing.evaluate(thread, frame, throwing);
    flags = 0;
    if (TOPSTXI_UNLIKELY(!result)) flags = TOPSTX_FLAG_ERROR;
    else if ((code->co_flags & SLICED) && _Py_OPCODE(*frame->at) == OP_YIELD) flags = TOPSTX_CALL_YIELDED;
    if (TOPSTXI_LIKELY(calls.count) && TOPSTXI_LIKELY(calls.entries[calls.count - 1].frame == (uintptr_t)frame)) end_top(&calls, flags);
    else end_below(&calls, (uintptr_t)frame, flags);
    return result;
}

/* The instruction that a frame is at, and its argument. */
static inline const unsigned char *instruction(PyFrameObject *frame, PyCodeObject *code) {
    int at = PyFrame_GetLasti(frame);
    return (const unsigned char *)code->co_code_adaptive + (at < 0 ? 0 : at);
}

static int on_profile(PyObject *self, PyFrameObject *frame, int what, PyObject *argument) {
    PyCodeObject *code;
    call_site *s;
    (void)self;
    if (TOPSTXI_UNLIKELY(what != PyTrace_CALL && what != PyTrace_RETURN) && !tracing.c_calls) return 0;
    code = PyFrame_GetCode(frame); /* the frame keeps it, too */
    Py_DECREF(code);
    switch (what) {
    case PyTrace_CALL:
        if (TOPSTXI_UNLIKELY(PyInterpreterState_ThreadHead(tracing.interpreter) != tracing.newest)) hook_threads();
        s = site_of((PyObject *)code, NULL);
        if (s && s->traced) {
            uint32_t flags = 0;
            if (s->slices) {
                const unsigned char *at = instruction(frame, code);
                if (at[0] != OP_RESUME || (at[1] & 3)) flags = TOPSTX_CALL_RESUMED;
            }
            begin_call(s, (uintptr_t)frame, (uintptr_t)frame, flags);
        }
        break;
    case PyTrace_RETURN: {
        uint32_t flags = argument ? 0 : TOPSTX_FLAG_ERROR;
        if (argument && (code->co_flags & SLICED) && instruction(frame, code)[0] == OP_YIELD)
            flags = TOPSTX_CALL_YIELDED;
        end_call((PyObject *)code, (uintptr_t)frame, flags);
        break;
    }
    case PyTrace_C_CALL:
        s = site_of((PyObject *)code, NULL);
        if (s && s->traced) begin_c_call(argument);
        break;
    case PyTrace_C_RETURN:
        end_c_call(argument, 0);
        break;
    case PyTrace_C_EXCEPTION:
        end_c_call(argument, TOPSTX_FLAG_ERROR);
        break;
    default:
        break;
    }
    if (TOPSTXI_UNLIKELY(interruption != NULL)) {
        raise_interruption();
        return -1;
    }
    return 0;
}

static PyObject *install_calls(void) {
    tracing.interpreter = PyInterpreterState_Get();
    if (tracing.c_calls) { /* which only the hook sees */
        tracing.evaluate = NULL;
        return PyLong_FromLong(hook_threads());
    }
    tracing.evaluate = _PyInterpreterState_GetEvalFrameFunc(tracing.interpreter);
    _PyInterpreterState_SetEvalFrameFunc(tracing.interpreter, on_evaluate);
    return PyLong_FromLong(0);
}

/* Returns how many threads had lost the hook to somebody else; of frames' evaluation: 1. */
static long uninstall_calls(void) {
    PyThreadState *t;
    long lost = 0;
    if (tracing.evaluate && _PyInterpreterState_GetEvalFrameFunc(tracing.interpreter) == on_evaluate) {
        _PyInterpreterState_SetEvalFrameFunc(tracing.interpreter, tracing.evaluate);
        return 0;
    }
    if (tracing.evaluate && !tracing.newest) return 1;
    for (t = PyInterpreterState_ThreadHead(tracing.interpreter); t; t = PyThreadState_Next(t)) {
        if (t->c_profilefunc != on_profile) lost++;
        else if (_PyEval_SetProfile(t, NULL, NULL) < 0) forget_error();
    }
    tracing.newest = NULL;
    return lost;
}
#endif

/* trace_calls(decide, disable, limit, c_calls) -> what install_calls returns */
static PyObject *trace_calls(PyObject *self, PyObject *args) {
    PyObject *decide, *disabled_marker;
    unsigned int limit;
    int c_calls;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOIp:trace_calls", &decide, &disabled_marker, &limit, &c_calls)) return NULL;
    if (!tracing.registered) {
#if PY_VERSION_HEX >= 0x030C0000
        tracing.extra = PyUnstable_Eval_RequestCodeExtraIndex(free_site);
#else
        tracing.extra = _PyEval_RequestCodeExtraIndex(free_site);
#endif
        if (tracing.extra < 0 || pthread_key_create(&tracing.key, free_stack)) {
            PyErr_SetString(PyExc_RuntimeError, "calls can't be traced: other tools took all places in code objects");
            return NULL;
        }
        tracing.registered = 1;
        tracing.skipping.next = tracing.skipping.previous = &tracing.skipping;
    }
    Py_XSETREF(tracing.decide, Py_NewRef(decide));
    Py_XSETREF(tracing.disable, Py_NewRef(disabled_marker));
    tracing.limit = limit;
    tracing.c_calls = (uint32_t)c_calls;
    tracing.generation++;
    tracing.on = 1;
    return install_calls();
}

/* untrace_calls() -> threads in which somebody else had taken our place */
static PyObject *untrace_calls(PyObject *self, PyObject *unused) {
    long lost = 0;
    (void)self;
    (void)unused;
    if (tracing.on) {
        lost = uninstall_calls();
        tell_all_skipped();
        tracing.on = 0;
        tracing.generation++;
    }
    return PyLong_FromLong(lost);
}

/* tell_calls(): say how many calls were not recorded so far */
static PyObject *tell_calls(PyObject *self, PyObject *unused) {
    (void)self;
    (void)unused;
    tell_all_skipped();
    Py_RETURN_NONE;
}
