/* Fields of our Python objects, read and written where their classes keep them (__slots__). Each is found once, by name. */
#ifndef QUICK_SLOTS_H
#define QUICK_SLOTS_H
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>
#include <structmember.h>

#define EVERY_CLASS(X) \
    X(Operation) X(StreamQueue) X(Timeline) X(Engine) X(DeviceSimulation) X(Bandwidth) X(Resource) X(LocalTimeBase) X(Stream) X(Block) X(Array) \
    X(ApiPoint) X(ThreadState) X(Launch) X(Outcome) X(KernelTag) X(Call) X(Usage) X(Claim) X(Context) X(Plan) X(Hooks) X(Clock) X(Runtime) X(Sink)

#define EVERY_SLOT(X) \
    X(Operation, _due_ns) X(Operation, _engine) X(Operation, _followers) X(Operation, _missing) X(Operation, _next) X(Operation, _peer_engine) \
    X(Operation, _reservation) X(Operation, _units) X(Operation, after) X(Operation, clusters) X(Operation, contention_ns) X(Operation, demand) \
    X(Operation, duration_ns) X(Operation, end_ns) X(Operation, engine) X(Operation, held) X(Operation, kind) X(Operation, on_done) \
    X(Operation, on_start) X(Operation, peer) X(Operation, sequence) X(Operation, start_ns) X(Operation, stream) X(Operation, submit_ns) \
    X(Operation, tag) \
    X(StreamQueue, depth) X(StreamQueue, device) X(StreamQueue, last) X(StreamQueue, limit) X(StreamQueue, pool) \
    X(Timeline, now_ns) X(Timeline, lock) X(Timeline, _submitted) X(Timeline, _events) X(Timeline, _ready) X(Timeline, _freed) \
    X(Timeline, _bandwidth) X(Timeline, _ended) \
    X(Engine, busy_ns) X(Engine, capacity) X(Engine, free) X(Engine, operations) X(Engine, owed) X(Engine, since_ns) X(Engine, unit_ns) \
    X(Engine, waiting) \
    X(DeviceSimulation, clusters) X(DeviceSimulation, occupancy) X(DeviceSimulation, pending) X(DeviceSimulation, resources) \
    X(DeviceSimulation, sink) X(DeviceSimulation, last_end_ns) X(DeviceSimulation, timeline) X(DeviceSimulation, reserved) \
    X(DeviceSimulation, slot) X(DeviceSimulation, watched) \
    X(Bandwidth, lone) X(Bandwidth, flows) X(Bandwidth, changed) \
    X(Resource, capacity) X(Resource, moved_bytes) \
    X(LocalTimeBase, mode) X(LocalTimeBase, _raw) X(LocalTimeBase, _shift) X(LocalTimeBase, _frozen) X(LocalTimeBase, _depth) \
    X(Stream, capture) X(Stream, context) X(Stream, destroyed) X(Stream, id) X(Stream, non_blocking) X(Stream, part) X(Stream, queue) \
    X(Block, context) X(Block, freed) \
    X(Array, block) X(Array, packed) X(Array, signature) \
    X(ApiPoint, callbacks) X(ApiPoint, idle) X(ApiPoint, kind) \
    X(ThreadState, begin_ns) X(ThreadState, correlation_id) X(ThreadState, depth) X(ThreadState, external) X(ThreadState, thread_id) \
    X(Launch, _plan) X(Launch, _values) X(Launch, _outcome) X(Launch, _operation) X(Launch, _context) X(Launch, _error) X(Launch, _arrays) \
    X(Outcome, plan) X(Outcome, _raw) X(Outcome, _result) X(Outcome, _report) \
    X(KernelTag, call) X(KernelTag, context) X(KernelTag, grid_id) X(KernelTag, launch) X(KernelTag, plan) X(KernelTag, sips) \
    X(KernelTag, stream_id) \
    X(Call, begin_ns) X(Call, correlation_id) X(Call, graph_id) X(Call, node_id) X(Call, thread_id) \
    X(Usage, _claim) X(Usage, _warm) \
    X(Claim, pid) X(Claim, serial) X(Claim, slot) X(Claim, state) \
    X(Context, blocking) X(Context, clock) X(Context, context_id) X(Context, dead) X(Context, default_stream) X(Context, device) \
    X(Context, device_id) X(Context, failing) X(Context, heard) X(Context, news_at) X(Context, grid_ids) X(Context, queues) X(Context, timeline) X(Context, trouble) \
    X(Hooks, _local) X(Hooks, _takers) X(Hooks, charge) X(Hooks, gate) X(Hooks, sinks_gate) X(Hooks, kinds) X(Hooks, now_ns) X(Hooks, serials) X(Clock, base) X(Sink, quick) \
    X(Runtime, blocking) X(Runtime, contexts) X(Runtime, local) X(Runtime, racing)

#define DECLARE_CLASS(class) static PyTypeObject *type_##class;
#define DECLARE_SLOT(class, name) static Py_ssize_t at_##class##_##name;
EVERY_CLASS(DECLARE_CLASS)
EVERY_SLOT(DECLARE_SLOT)

/* The field, borrowed; NULL where it was never set. */
#define GET(object, class, name) (*(PyObject **)((char *)(object) + at_##class##_##name))
/* Takes over `value`; of NULL (no memory) nothing is stored, and `no_memory` says so at the end. */
#define SET(object, class, name, value) put((PyObject **)((char *)(object) + at_##class##_##name), (value))
#define SET_NUMBER(object, class, name, number) SET(object, class, name, PyLong_FromLongLong(number))
/* Of a new object: nothing is there yet. */
#define FILL(object, class, name, value) (GET(object, class, name) = (value))

static bool no_memory;

static inline void put(PyObject **field, PyObject *value) {
    if (!value) {
        no_memory = true;
        return;
    }
    PyObject *const old = *field;
    *field = value;
    Py_XDECREF(old);
}

/* An int's value; only of fields that are ints of 64 bits. */
static inline int64_t number(PyObject *value) {
#if PY_VERSION_HEX < 0x030C0000 && PYLONG_BITS_IN_DIGIT == 30
    const digit *const digits = ((PyLongObject *)value)->ob_digit; /* up to 60 bits, as all times are, without a call */
    switch (Py_SIZE(value)) {
    case 0: return 0;
    case 1: return digits[0];
    case 2: return (int64_t)digits[1] << 30 | digits[0];
    case -1: return -(int64_t)digits[0];
    default: break;
    }
#endif
    return PyLong_AsLongLong(value);
}
/* Of a list, tuple, dictionary, text, or anything with a length. */
static inline bool is_empty(PyObject *object) {
    if (PyList_CheckExact(object) || PyTuple_CheckExact(object)) return Py_SIZE(object) == 0;
    return PyDict_CheckExact(object) ? PyDict_GET_SIZE(object) == 0 : PyObject_Length(object) == 0;
}

#define NUMBER(object, class, name) number(GET(object, class, name))
#define IS_NONE(object, class, name) (GET(object, class, name) == Py_None)
#define IS_TRUE(object, class, name) (GET(object, class, name) == Py_True)

static bool find_class(PyObject *classes, const char *name, PyTypeObject **type) {
    PyObject *const found = PyDict_GetItemString(classes, name);
    if (!found || !PyType_Check(found)) {
        PyErr_Format(PyExc_ImportError, "no class %s was given", name);
        return false;
    }
    Py_XSETREF(*type, (PyTypeObject *)Py_NewRef(found));
    return true;
}

static bool find_slot(PyTypeObject *type, const char *class, const char *name, Py_ssize_t *offset) {
    PyObject *const found = PyObject_GetAttrString((PyObject *)type, name);
    const bool good = found && Py_IS_TYPE(found, &PyMemberDescr_Type) && ((PyMemberDescrObject *)found)->d_member->type == T_OBJECT_EX;
    if (good) *offset = ((PyMemberDescrObject *)found)->d_member->offset;
    else PyErr_Format(PyExc_ImportError, "%s has no slot %s", class, name);
    Py_XDECREF(found);
    return good;
}

static bool find_slots(PyObject *classes) {
#define FIND_CLASS(class) if (!find_class(classes, #class, &type_##class)) return false;
#define FIND_SLOT(class, name) if (!find_slot(type_##class, #class, #name, &at_##class##_##name)) return false;
    EVERY_CLASS(FIND_CLASS)
    EVERY_SLOT(FIND_SLOT)
    return true;
}

#endif
