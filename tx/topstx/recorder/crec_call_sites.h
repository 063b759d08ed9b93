/* crec_call_sites.h - what is known of functions whose calls are traced, and which of them are (part of _crec.c; see crec_calls.h). */

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
