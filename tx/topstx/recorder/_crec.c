/* _crec.c - the recorder for Python in C: the calls of topstx, on the producer of include/topstx.h.
 *
 * The interface is that of topstx/recorder/interface.py. The hot calls look at one switch in the session's `control`, find the message's
 * id by the address of its string, and store into the thread's ring; the GIL is what keeps them apart.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#ifdef Py_GIL_DISABLED
/* Rings and caches here rely on the GIL. */
static struct PyModuleDef declining = {PyModuleDef_HEAD_INIT, .m_name = "topstx.recorder._crec", .m_size = 0};
PyMODINIT_FUNC PyInit__crec(void) {
    (void)declining;
    PyErr_SetString(PyExc_ImportError, "topstx records nothing on free-threaded builds of Python");
    return NULL;
}
#else

#include <structmember.h>

#define TOPSTX_ONE_UNIT
#define TOPSTX_NO_CONSTRUCTOR
#define TOPSTX_BACKEND TOPSTX_BACKEND_C
#define TOPSTX_WAIT_BEGIN() PyThreadState *saved_thread = PyEval_SaveThread()
#define TOPSTX_WAIT_END() PyEval_RestoreThread(saved_thread)
#include "topstx.h"
#include "topstx_capsule.h"

#include "crec_names.h"
#include "crec_listen.h"
#include "crec_domain.h"
#include "crec_annotate.h"
#include "crec_rows.h"
#include "crec_cuts.h"
#include "crec_sink.h"
#include "crec_calls.h"
#include "crec_memory.h"

/* The Python side repeats this number (topstx/_backend.py). Raise both when a name, an argument, a result or a layout changes
 * on which the two rely: an extension built from other sources is then not used. */
#define INTERFACE 9

/* ---- the module's functions --------------------------------------------------------------------------------------------- */

static PyObject *push_range(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *kwnames) {
    uint32_t recording = topstxi_recording();
    PyObject *a[ARGUMENTS];
    (void)self;
    if (TOPSTXI_LIKELY(count == 1) && TOPSTXI_LIKELY(!kwnames)) {
        hear(HEARD_PUSH, 0, args[0], default_domain->name);
        if (TOPSTXI_LIKELY(recording == TOPSTX_RECORDING_OFF)) {
            skip(default_domain);
            Py_RETURN_NONE;
        }
        if (TOPSTXI_LIKELY(recording == TOPSTX_RECORDING_ON)) {
            topstxi_ring *r;
            uint32_t name;
            if (TOPSTXI_UNLIKELY(topstxi_state.default_attr)) Py_RETURN_NONE;
            name = name_id(args[0]);
            if (TOPSTXI_LIKELY((r = topstxi_ring_mine()) != NULL)) {
                follow_context(r);
                topstxi_open(r, name, 0, 0, TOPSTX_FLAG_PUSHED);
            }
            return done();
        }
    }
    if (take_arguments("push_range", args, count, kwnames, 1, a) < 0) return NULL;
    domain_object *d = domain_of(a[DOMAIN]);
    if (d && (count != 1 || kwnames)) hear(HEARD_PUSH, 0, a[MESSAGE], d->name); /* else it was heard above */
    if (recording == TOPSTX_RECORDING_OFF) skip(d);
    else push(a, d);
    return done();
}

static PyObject *pop_range(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *kwnames) {
    PyObject *domain = NULL;
    (void)self;
    if (TOPSTXI_UNLIKELY(count || kwnames)) {
        Py_ssize_t keywords = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
        if (count + keywords != 1 || (keywords && PyUnicode_Compare(PyTuple_GET_ITEM(kwnames, 0), argument_names[DOMAIN]))) {
            PyErr_SetString(PyExc_TypeError, "pop_range() takes one argument at most, domain");
            return NULL;
        }
        domain = args[0] == Py_None ? NULL : args[0];
    }
    if (TOPSTXI_UNLIKELY(listener != NULL)) {
        domain_object *d = domain_of(domain);
        if (d) hear(HEARD_POP, 0, NULL, d->name);
    }
    if (!nothing_to_pop()) pop(domain_of(domain));
    return done();
}

static PyObject *mark(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *kwnames) {
    PyObject *a[ARGUMENTS];
    (void)self;
    if (take_arguments("mark", args, count, kwnames, 1, a) < 0) return NULL;
    if (TOPSTXI_UNLIKELY(listener != NULL)) {
        domain_object *d = domain_of(a[DOMAIN]);
        if (d) hear(HEARD_MARK, 0, a[MESSAGE], d->name);
    }
    if (topstxi_recording() == TOPSTX_RECORDING_ON) do_mark(a, domain_of(a[DOMAIN]));
    return done();
}

static PyObject *start_range(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *kwnames) {
    PyObject *a[ARGUMENTS];
    (void)self;
    if (take_arguments("start_range", args, count, kwnames, 1, a) < 0) return NULL;
    if (topstxi_recording() == TOPSTX_RECORDING_OFF && !listener) return PyLong_FromLong(0);
    return started(start_heard(a, domain_of(a[DOMAIN])));
}

static PyObject *end_range(PyObject *self, PyObject *range_id) { return domain_end(self, range_id); }

static PyObject *get_domain(PyObject *self, PyObject *args, PyObject *kwargs) {
    (void)self;
    return domain_new(&domain_type, args, kwargs);
}

static PyObject *counter(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"name", "unit", "domain", NULL};
    PyObject *name, *unit = NULL, *domain = NULL;
    domain_object *d;
    (void)self;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|OO:counter", names, &name, &unit, &domain)) return NULL;
    d = domain_of(domain == Py_None ? NULL : domain);
    if (interruption) return raise_interruption();
    return make_counter(d ? d : default_domain, name, unit);
}

static PyObject *set_thread_name(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"name", "tid", NULL};
    PyObject *name, *owner, *number = NULL;
    Py_ssize_t bytes;
    uint32_t tid = 0;
    const char *data;
    (void)self;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O:set_thread_name", names, &name, &number)) return NULL;
    if (number && PyLong_Check(number)) tid = (uint32_t)PyLong_AsUnsignedLongMask(number);
    name = text_argument(name);
    if (!name) return NULL;
    if (topstxi_state.control && (data = text_of(name, &bytes, &owner))) {
        topstxi_note_thread(tid ? tid : topstxi_tid(), data, (size_t)bytes);
        Py_XDECREF(owner);
    }
    Py_DECREF(name);
    Py_RETURN_NONE;
}

static PyObject *process_entry(PyObject *self, PyObject *args) {
    const char *key, *data;
    PyObject *value, *owner;
    Py_ssize_t bytes;
    (void)self;
    if (!PyArg_ParseTuple(args, "sO:process_entry", &key, &value)) return NULL;
    value = text_argument(value);
    if (!value) return NULL;
    if (topstxi_state.control && (data = text_of(value, &bytes, &owner))) {
        topstxi_note_process(key, data, (size_t)bytes);
        Py_XDECREF(owner);
    }
    Py_DECREF(value);
    Py_RETURN_NONE;
}

static PyObject *attach(PyObject *self, PyObject *folder) {
    PyObject *path = NULL;
    int entered;
    (void)self;
    if (disabled) Py_RETURN_FALSE;
    if (!PyUnicode_FSConverter(folder, &path)) {
        PyErr_Clear();
        Py_RETURN_FALSE;
    }
    entered = topstxi_attach(PyBytes_AS_STRING(path));
    Py_DECREF(path);
    clear_name_cache();
    return PyBool_FromLong(entered);
}

static PyObject *detach(PyObject *self, PyObject *unused) {
    (void)self;
    (void)unused;
    if (topstxi_state.control) topstxi_detach();
    clear_name_cache();
    Py_RETURN_NONE;
}

static PyObject *session(PyObject *self, PyObject *unused) {
    (void)self;
    (void)unused;
    if (!topstxi_state.control) Py_RETURN_NONE;
    return PyUnicode_DecodeFSDefault(topstxi_state.folder);
}

static PyObject *is_recording(PyObject *self, PyObject *unused) {
    (void)self;
    (void)unused;
    return PyBool_FromLong(topstxi_recording() != TOPSTX_RECORDING_OFF);
}

static PyObject *profiler_start(PyObject *self, PyObject *unused) {
    (void)self;
    (void)unused;
    topstxi_profiler_start();
    Py_RETURN_NONE;
}

static PyObject *profiler_stop(PyObject *self, PyObject *unused) {
    (void)self;
    (void)unused;
    topstxi_profiler_stop();
    Py_RETURN_NONE;
}

static PyObject *note_exit(PyObject *self, PyObject *args) {
    unsigned int known;
    int status;
    (void)self;
    if (!PyArg_ParseTuple(args, "Ii:note_exit", &known, &status)) return NULL;
    topstxi_note_exit(known, status);
    Py_RETURN_NONE;
}

static PyObject *disable(PyObject *self, PyObject *unused) {
    (void)self;
    (void)unused;
    disabled = 1;
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"push_range", AS_FUNCTION(push_range), FASTCALL_KEYWORDS,
     "push_range(message=None, color=None, domain=None, category=None, payload=None)\n--\n\n"
     "Begin a range of this thread (or asyncio task); pop_range() ends it."},
    {"pop_range", AS_FUNCTION(pop_range), FASTCALL_KEYWORDS,
     "pop_range(domain=None)\n--\n\nEnd the innermost range that push_range began in this domain, thread and task."},
    {"mark", AS_FUNCTION(mark), FASTCALL_KEYWORDS,
     "mark(message=None, color=None, domain=None, category=None, payload=None)\n--\n\nRecord a moment."},
    {"start_range", AS_FUNCTION(start_range), FASTCALL_KEYWORDS,
     "start_range(message=None, color=None, domain=None, category=None, payload=None)\n--\n\n"
     "Begin a range that any thread or task may end. Returns an int for end_range."},
    {"end_range", end_range, METH_O, "end_range(range_id)\n--\n\nEnd a range by the id that start_range returned."},
    {"get_domain", AS_FUNCTION(get_domain), METH_VARARGS | METH_KEYWORDS,
     "get_domain(name=None)\n--\n\nThe domain of that name; None: the default one."},
    {"counter", AS_FUNCTION(counter), METH_VARARGS | METH_KEYWORDS,
     "counter(name, unit='', domain=None)\n--\n\nThe counter of that name and unit; its `sample(value)` records a value."},
    {"set_thread_name", AS_FUNCTION(set_thread_name), METH_VARARGS | METH_KEYWORDS,
     "set_thread_name(name, tid=0)\n--\n\nName a thread by its kernel id (0: the calling one) in the recording."},
    {"process_entry", process_entry, METH_VARARGS, "process_entry(key, value, /)\n--\n\nRecord a fact about this process."},
    {"attach", attach, METH_O, "attach(folder, /)\n--\n\nEnter the session being recorded in a folder. Returns whether that worked."},
    {"detach", detach, METH_NOARGS, "detach()\n--\n\nLeave the session in order."},
    {"session", session, METH_NOARGS, "session()\n--\n\nThe folder of the session attached to, or None."},
    {"is_recording", is_recording, METH_NOARGS, "is_recording()\n--\n\nTrue when attached and recording is not off."},
    {"profiler_start", profiler_start, METH_NOARGS,
     "profiler_start()\n--\n\nSwitch the session's recording on, in all its processes; a captured range begins."},
    {"profiler_stop", profiler_stop, METH_NOARGS,
     "profiler_stop()\n--\n\nSwitch it off; the captured range ends, and --capture-range-end says what follows."},
    {"disable", disable, METH_NOARGS, "disable()\n--\n\nTurn everything off for good; decorators return the function itself."},
    {"listen", listen, METH_O, "listen(function, /)\n--\n\nCall function(what, key, message, domain) at each mark and range; None: no more."},
    {"row", AS_FUNCTION(row), METH_FASTCALL,
     "row(kind, begin_ns, end_ns, name, body, correlation_id=0, /)\n--\n\nRecord a row of another table; whether it was."},
    {"row_wanted", row_wanted, METH_O, "row_wanted(kind, /)\n--\n\nWhether rows of this kind are recorded now."},
    {"intern", intern, METH_O, "intern(text, /)\n--\n\nThe id of a name, for bodies of rows; 0 without a session."},
    {"process_serial", process_serial, METH_NOARGS, "process_serial()\n--\n\nThis process's number in the session; 0: none."},
    {"trace_calls", trace_calls, METH_VARARGS,
     "trace_calls(decide, disable, limit, c_calls, /)\n--\n\nRecord calls of functions; see topstx.recorder.calls."},
    {"untrace_calls", untrace_calls, METH_NOARGS, "untrace_calls()\n--\n\nRecord no more of them."},
    {"tell_calls", tell_calls, METH_NOARGS, "tell_calls()\n--\n\nSay how many were not recorded so far."},
    {"trace_memory", trace_memory, METH_VARARGS,
     "trace_memory(rate, seed, /)\n--\n\nSample allocations, one in `rate` bytes; see topstx.recorder.memory."},
    {"trace_numpy", trace_numpy, METH_O, "trace_numpy(module, /)\n--\n\nThose of numpy's arrays, too; whether they are seen."},
    {"untrace_memory", untrace_memory, METH_NOARGS,
     "untrace_memory()\n--\n\nNo more; (allocators that another tool took from us, records lost)."},
    {"note_exit", note_exit, METH_VARARGS, "note_exit(known, status, /)\n--\n\nStore how this process ends."},
    {NULL, NULL, 0, NULL}};

static int module_exec(PyObject *module) {
    if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
        PyErr_SetString(PyExc_ImportError, "topstx records nothing in subinterpreters");
        return -1;
    }
    for (int i = 0; i < ARGUMENTS; i++)
        if (!argument_names[i] && !(argument_names[i] = PyUnicode_InternFromString(argument_texts[i]))) return -1;
    if (PyType_Ready(&counter_type) < 0 || PyType_Ready(&domain_type) < 0 || PyType_Ready(&annotate_type) < 0 || PyType_Ready(&wrapper_type) < 0)
        return -1;
    if (!domains) {
        PyObject *name = PyUnicode_InternFromString("");
        if (!name || !(domains = PyDict_New()) || !(default_domain = domain_of(name))) return -1;
        Py_INCREF(default_domain);
        Py_DECREF(name);
    }
    if (PyModule_AddObjectRef(module, "annotate", (PyObject *)&annotate_type) < 0) return -1;
    if (PyModule_AddObjectRef(module, "Domain", (PyObject *)&domain_type) < 0) return -1;
    if (PyModule_AddObjectRef(module, "Counter", (PyObject *)&counter_type) < 0) return -1;
    if (PyModule_AddIntConstant(module, "INTERFACE", INTERFACE) < 0) return -1;
    if (PyType_Ready(&sink_type) < 0 || PyModule_AddObjectRef(module, "RowSink", (PyObject *)&sink_type) < 0) return -1;
    if (PyType_Ready(&base_type) < 0 || add_capsule(module) < 0 || PyModule_AddObjectRef(module, "SharedTimeBase", (PyObject *)&base_type) < 0) return -1;
    return PyModule_AddStringConstant(module, "NAME", "c");
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, (void *)module_exec},
#if PY_VERSION_HEX >= 0x030C0000
                                          {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
                                          {0, NULL}};
static struct PyModuleDef module_definition = {PyModuleDef_HEAD_INIT, .m_name = "topstx.recorder._crec",
                                               .m_doc = "The recorder in C; see topstx.recorder.interface.", .m_methods = functions,
                                               .m_slots = module_slots};

PyMODINIT_FUNC PyInit__crec(void) { return PyModuleDef_Init(&module_definition); }
#endif /* Py_GIL_DISABLED */
