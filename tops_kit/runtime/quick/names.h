/* Names of attributes, methods and keys, made once; and what Python gave us of the runtime. */
#ifndef QUICK_NAMES_H
#define QUICK_NAMES_H
#include "slots.h"

#define EVERY_NAME(X) \
    X(local) X(contexts) X(default_stream) X(blocking) X(queues) X(trouble) X(dead) X(failing) X(timeline) X(clock) X(base) X(device) X(usage) \
    X(grid_ids) X(stream) X(in_callback) X(acquire) X(release) X(begin_cut) X(end_cut) X(now_ns) X(submit) X(join) X(leave) X(words) X(note) \
    X(kinds) X(gate) X(sinks_gate) X(charge) X(serials) X(_local) X(device_id) X(context_id) X(racing) X(emit) X(done) X(sips) X(duration_ns) X(l3_bytes) X(l3) X(state) \
    X(_run) X(_settle) X(_share) X(_end) X(_units) X(_after_end) X(_ready) X(_record) X(_slow) X(__dict__) X(_takers) X(launch) X(kernel) X(clusters)

#define DECLARE_NAME(name) static PyObject *name_##name;
EVERY_NAME(DECLARE_NAME)

/* Given by setup() */
static PyObject *the_runtime, *the_hooks, *launch_point, *submit_point, *monotonic, *context_sink, *heap_push, *heap_pop, *take_result, *take_fault,
    *empty_tuple, *minus_one, *zero, *one;

static bool make_names(void) {
#define MAKE_NAME(name) if (!name_##name && !(name_##name = PyUnicode_InternFromString(#name))) return false;
    EVERY_NAME(MAKE_NAME)
    if (!empty_tuple && !(empty_tuple = PyTuple_New(0))) return false;
    if (!minus_one && !(minus_one = PyLong_FromLong(-1))) return false;
    if (!zero && !(zero = PyLong_FromLong(0))) return false;
    if (!one && !(one = PyLong_FromLong(1))) return false;
    return true;
}

/* Whether an attribute is true; -1 with an exception. */
static inline int attribute_is_true(PyObject *object, PyObject *name) {
    PyObject *const value = PyObject_GetAttr(object, name);
    if (!value) return -1;
    const int truth = value == Py_False || value == Py_None ? 0 : value == Py_True ? 1 : PyObject_IsTrue(value);
    Py_DECREF(value);
    return truth;
}

/* object.method(...), its result dropped. False with an exception. */
static inline bool call_method(PyObject *object, PyObject *name, PyObject *argument) {
    PyObject *const arguments[] = {object, argument};
    PyObject *const done = PyObject_VectorcallMethod(name, arguments, (argument ? 2 : 1), NULL);
    Py_XDECREF(done);
    return done != NULL;
}

#endif
