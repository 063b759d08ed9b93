/* crec_calls_monitoring.h - what sys.monitoring calls, from 3.12 on (part of _crec.c; see crec_calls.h). */

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
