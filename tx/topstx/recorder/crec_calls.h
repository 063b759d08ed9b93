/* crec_calls.h - calls of Python functions as records (part of _crec.c). See topstx/recorder/calls.py, which begins and ends it.
 *
 * 3.12 and later: sys.monitoring calls us, and what is not traced answers DISABLE, once for each place, so that it costs nothing from then
 * on. 3.11: a profile hook of every thread.
 *
 * A call that runs is an entry of its thread's stack here, told by its frame, and a slot of the ring's open table, so that it survives a kill.
 * A generator's or coroutine's run from one resumption to the next yield is a record of its own. What is known of a code object is kept with
 * it (its "extra"), so an event takes no lookup, makes no object and calls nothing in Python.
 */

#include "crec_call_sites.h"
#include "crec_call_stack.h"
#if PY_VERSION_HEX >= 0x030C0000
#include "crec_calls_monitoring.h"
#else
#include "crec_calls_hook.h"
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
