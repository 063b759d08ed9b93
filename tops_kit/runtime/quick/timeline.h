/* Kernels alone on their stream, in time: what gcu/simulation/timeline.py does in submit, _begin_at_once, _step and _end.

   Step by step the same as there, on the same objects; whatever is not usual is left to the methods there. */
#ifndef QUICK_TIMELINE_H
#define QUICK_TIMELINE_H
#include "records.h"

static bool push_event(PyObject *timeline, int64_t due_ns, PyObject *operation) {
    PyObject *const event = PyTuple_New(3), *const events = GET(timeline, Timeline, _events);
    PyObject *const due = PyLong_FromLongLong(due_ns);
    if (!event || !due) {
        Py_XDECREF(event);
        Py_XDECREF(due);
        return false;
    }
    SET(operation, Operation, _due_ns, Py_NewRef(due));
    PyTuple_SET_ITEM(event, 0, due);
    PyTuple_SET_ITEM(event, 1, Py_NewRef(GET(operation, Operation, sequence)));
    PyTuple_SET_ITEM(event, 2, Py_NewRef(operation));
    bool good;
    if (PyList_GET_SIZE(events) == 0) {
        good = PyList_Append(events, event) == 0;
    } else {
        PyObject *const done = PyObject_CallFunctionObjArgs(heap_push, events, event, NULL);
        good = done != NULL;
        Py_XDECREF(done);
    }
    Py_DECREF(event);
    return good;
}

static bool pop_event(PyObject *events) {
    if (PyList_GET_SIZE(events) == 1) return PyList_SetSlice(events, 0, 1, NULL) == 0;
    PyObject *const event = PyObject_CallOneArg(heap_pop, events);
    Py_XDECREF(event);
    return event != NULL;
}

static bool share(PyObject *timeline, PyObject *bandwidth) {
    return !IS_TRUE(bandwidth, Bandwidth, changed) || call_method(timeline, name__share, NULL);
}

/* Whether bytes fit through at full speed beside nothing else: then the operation is `lone`. */
static bool fits(PyObject *resources, PyObject *demand, int64_t duration_ns) {
    PyObject *name, *size;
    Py_ssize_t at = 0;
    while (PyDict_Next(demand, &at, &name, &size)) {
        PyObject *const resource = PyDict_GetItem(resources, name);
        if (!resource || !Py_IS_TYPE(resource, type_Resource)) return false;
        if (PyLong_AsDouble(size) > PyFloat_AsDouble(GET(resource, Resource, capacity)) * (double)duration_ns) return false;
    }
    return true;
}

/* What SharedOccupancy.alone of gcu/state/occupancy.py answers: no other process uses the device. First is said until when this one
   does, then looked: who comes sees the one, or is seen by the other. What was mapped stays so while the device has its occupancy. */
static bool is_alone(PyObject *device, int64_t until_ns) {
    const int64_t *const count = (const int64_t *)(intptr_t)NUMBER(device, DeviceSimulation, watched);
    int64_t *const slot = (int64_t *)(intptr_t)NUMBER(device, DeviceSimulation, slot);
    if (!count || !slot || *count != 1 || NUMBER(device, DeviceSimulation, reserved) || slot[S_TIMED] != own_pid) return false;
    const int64_t before_ns = slot[S_UNTIL];
    __atomic_store_n(&slot[S_UNTIL], before_ns > until_ns ? before_ns : until_ns, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(count, __ATOMIC_SEQ_CST) == 1) return true;
    slot[S_UNTIL] = before_ns;
    return false;
}

/* _begin_at_once: 1 it has begun, 0 it has to wait, -1 an exception. */
static int begin_at_once(PyObject *timeline, PyObject *operation, PyObject *engine) {
    PyObject *const stream = GET(operation, Operation, stream), *const device = GET(stream, StreamQueue, device);
    const int64_t capacity = NUMBER(engine, Engine, capacity), available = NUMBER(engine, Engine, free);
    int64_t units = NUMBER(operation, Operation, clusters);
    if (units > capacity || !IS_NONE(stream, StreamQueue, limit)) {
        PyObject *const arguments[] = {timeline, operation, engine};
        PyObject *const found = PyObject_VectorcallMethod(name__units, arguments, 3, NULL);
        if (!found) return -1;
        units = number(found);
        Py_DECREF(found);
        if (units < NUMBER(operation, Operation, clusters) && IS_NONE(stream, StreamQueue, limit)) return 0;
    }
    if (units > available || !is_empty(GET(engine, Engine, waiting)) || !IS_NONE(operation, Operation, on_start) ||
        !IS_NONE(operation, Operation, peer)) {
        return 0;
    }
    if (!IS_NONE(device, DeviceSimulation, occupancy) &&
        !is_alone(device, NUMBER(timeline, Timeline, now_ns) + NUMBER(operation, Operation, duration_ns))) {
        return 0;
    }
    PyObject *const now = GET(timeline, Timeline, now_ns);
    if (available == capacity) SET(engine, Engine, since_ns, Py_NewRef(now));
    SET_NUMBER(engine, Engine, free, available - units);
    SET_NUMBER(engine, Engine, operations, NUMBER(engine, Engine, operations) + 1);
    SET_NUMBER(operation, Operation, _units, units);
    SET(operation, Operation, start_ns, Py_NewRef(now));
    const int64_t duration_ns = NUMBER(operation, Operation, duration_ns);
    if (!push_event(timeline, number(now) + duration_ns, operation)) return -1;
    PyObject *const demand = GET(operation, Operation, demand);
    if (is_empty(demand)) return 1;
    PyObject *const bandwidth = GET(timeline, Timeline, _bandwidth);
    if (IS_NONE(bandwidth, Bandwidth, lone) && is_empty(GET(bandwidth, Bandwidth, flows)) && PyDict_CheckExact(demand) &&
        fits(GET(device, DeviceSimulation, resources), demand, duration_ns)) {
        SET(bandwidth, Bandwidth, lone, Py_NewRef(operation));
        return 1;
    }
    return call_method(bandwidth, name_join, operation) && share(timeline, bandwidth) ? 1 : -1;
}

static bool append_ready(PyObject *timeline, PyObject *operation) {
    PyObject *const done = PyObject_CallMethod(GET(timeline, Timeline, _ready), "append", "O", operation);
    Py_XDECREF(done);
    return done != NULL;
}

/* What waits for an operation that ends has one less to wait for. */
static bool one_less(PyObject *timeline, PyObject *other) {
    const int64_t missing = NUMBER(other, Operation, _missing) - 1;
    SET_NUMBER(other, Operation, _missing, missing);
    return missing || append_ready(timeline, other);
}

/* _end, of an operation without a peer. `*follower`: the next on its stream, where that is ready and nothing else became so; else
   what is ready stands in _ready. False with an exception. */
static bool end(PyObject *timeline, PyObject *operation, PyObject **follower) {
    PyObject *const now = GET(timeline, Timeline, now_ns);
    const int64_t now_ns = number(now);
    SET(operation, Operation, end_ns, Py_NewRef(now));
    SET(operation, Operation, _due_ns, Py_NewRef(minus_one));
    SET(operation, Operation, held, Py_NewRef(Py_False));
    PyObject *const stream = GET(operation, Operation, stream), *const device = GET(stream, StreamQueue, device);
    PyObject *const demand = GET(operation, Operation, demand), *const bandwidth = GET(timeline, Timeline, _bandwidth);
    if (!is_empty(demand)) {
        if (GET(bandwidth, Bandwidth, lone) == operation) {
            SET(bandwidth, Bandwidth, lone, Py_NewRef(Py_None));
            PyObject *name, *size;
            Py_ssize_t at = 0;
            while (PyDict_Next(demand, &at, &name, &size)) {
                PyObject *const resource = PyDict_GetItem(GET(device, DeviceSimulation, resources), name);
                SET_NUMBER(resource, Resource, moved_bytes, NUMBER(resource, Resource, moved_bytes) + number(size));
            }
        } else {
            PyObject *const arguments[] = {bandwidth, operation, now};
            PyObject *const done = PyObject_VectorcallMethod(name_leave, arguments, 3, NULL);
            if (!done) return false;
            Py_DECREF(done);
        }
    }
    PyObject *const engine = GET(operation, Operation, _engine);
    if (engine != Py_None) {
        const int64_t units = NUMBER(operation, Operation, _units), available = NUMBER(engine, Engine, free) + units;
        SET_NUMBER(engine, Engine, free, available);
        SET_NUMBER(engine, Engine, unit_ns, NUMBER(engine, Engine, unit_ns) + units * (now_ns - NUMBER(operation, Operation, start_ns)));
        if (available == NUMBER(engine, Engine, capacity)) {
            SET_NUMBER(engine, Engine, busy_ns, NUMBER(engine, Engine, busy_ns) + now_ns - NUMBER(engine, Engine, since_ns));
        }
        if (!is_empty(GET(engine, Engine, waiting)) || !is_empty(GET(engine, Engine, owed))) {
            if (PyList_Append(GET(timeline, Timeline, _freed), engine) < 0) return false;
        }
        SET(operation, Operation, _engine, Py_NewRef(Py_None));
    }
    if (GET(stream, StreamQueue, last) == operation) SET(stream, StreamQueue, last, Py_NewRef(Py_None));
    SET_NUMBER(stream, StreamQueue, depth, NUMBER(stream, StreamQueue, depth) - 1);
    SET_NUMBER(device, DeviceSimulation, pending, NUMBER(device, DeviceSimulation, pending) - 1);
    SET(device, DeviceSimulation, last_end_ns, Py_NewRef(now));
    PyObject *const next = Py_NewRef(GET(operation, Operation, _next)), *const followers = Py_NewRef(GET(operation, Operation, _followers));
    bool good = true;
    if (next != Py_None) {
        SET(operation, Operation, _next, Py_NewRef(Py_None));
        if (followers == Py_None && NUMBER(next, Operation, _missing) == 1 && is_empty(GET(timeline, Timeline, _ready))) {
            SET(next, Operation, _missing, Py_NewRef(zero));
            *follower = Py_NewRef(next);
        } else {
            good = one_less(timeline, next);
        }
    }
    if (followers != Py_None) {
        SET(operation, Operation, _followers, Py_NewRef(Py_None));
        for (Py_ssize_t k = 0; good && k < PyList_GET_SIZE(followers); k++) good = one_less(timeline, PyList_GET_ITEM(followers, k));
    }
    Py_DECREF(next);
    Py_DECREF(followers);
    return good;
}

/* One end alone (_step): what it makes ready begins, and who wants to hear of it is told. */
static bool end_alone(PyObject *timeline, PyObject *operation) {
    PyObject *follower = NULL, *const events = GET(timeline, Timeline, _events);
    if (!end(timeline, operation, &follower) || !pop_event(events)) {
        Py_XDECREF(follower);
        return false;
    }
    bool usual = is_empty(GET(timeline, Timeline, _freed)) && !IS_TRUE(GET(timeline, Timeline, _bandwidth), Bandwidth, changed);
    if (follower) {
        PyObject *const engine = GET(follower, Operation, _engine), *const duration = GET(follower, Operation, duration_ns);
        int begun = 0;
        if (usual && engine != Py_None && duration != Py_None && number(duration) > 0) begun = begin_at_once(timeline, follower, engine);
        if (begun == 0) {
            usual = false;
            if (!append_ready(timeline, follower)) begun = -1;
        }
        Py_DECREF(follower);
        if (begun < 0) return false;
        usual = usual && !IS_TRUE(GET(timeline, Timeline, _bandwidth), Bandwidth, changed);
    }
    if (!usual || !is_empty(GET(timeline, Timeline, _ready)) || PyList_GET_SIZE(GET(timeline, Timeline, _ended)) ||
        !IS_NONE(operation, Operation, on_done)) {
        return call_method(timeline, name__after_end, operation);
    }
    return tell(operation);
}

static bool another(PyObject *events, int64_t time_ns) {
    for (Py_ssize_t k = 1; k < 3 && k < PyList_GET_SIZE(events); k++) {
        if (number(PyTuple_GET_ITEM(PyList_GET_ITEM(events, k), 0)) <= time_ns) return true;
    }
    return false;
}

/* _run: everything that happens by then. */
static bool run_until(PyObject *timeline, int64_t until_ns) {
    PyObject *const events = GET(timeline, Timeline, _events);
    while (PyList_GET_SIZE(events)) {
        PyObject *const event = PyList_GET_ITEM(events, 0), *const operation = PyTuple_GET_ITEM(event, 2);
        const int64_t time_ns = number(PyTuple_GET_ITEM(event, 0));
        if (NUMBER(operation, Operation, _due_ns) != time_ns) {
            if (!pop_event(events)) return false;
            continue;
        }
        if (time_ns > until_ns) break;
        if (time_ns > NUMBER(timeline, Timeline, now_ns)) SET(timeline, Timeline, now_ns, Py_NewRef(PyTuple_GET_ITEM(event, 0)));
        if (NUMBER(operation, Operation, start_ns) < 0 || another(events, time_ns) || !IS_NONE(operation, Operation, peer) ||
            !IS_NONE(operation, Operation, _reservation) ||
            !PyDict_CheckExact(GET(GET(GET(operation, Operation, stream), StreamQueue, device), DeviceSimulation, resources))) {
            if (!call_method(timeline, name__settle, NULL)) return false;
            continue;
        }
        Py_INCREF(operation);
        const bool good = end_alone(timeline, operation);
        Py_DECREF(operation);
        if (!good) return false;
    }
    return true;
}

/* submit, of a kernel without anything to wait for but the one before it on its stream. */
static bool submit(PyObject *timeline, PyObject *operation) {
    PyObject *const stream = GET(operation, Operation, stream), *const device = GET(stream, StreamQueue, device);
    PyObject *const resources = GET(device, DeviceSimulation, resources), *const engine = GET(device, DeviceSimulation, clusters);
    if (!IS_NONE(stream, StreamQueue, pool) || !PyDict_CheckExact(resources) || !PyDict_Contains(resources, name_l3)) {
        return call_method(timeline, name_submit, operation);
    }
    const int64_t time_ns = NUMBER(operation, Operation, submit_ns);
    PyObject *const events = GET(timeline, Timeline, _events);
    if (time_ns > NUMBER(timeline, Timeline, now_ns)) {
        if (PyList_GET_SIZE(events) && number(PyTuple_GET_ITEM(PyList_GET_ITEM(events, 0), 0)) <= time_ns) {
            if (!run_until(timeline, time_ns)) return false;
        }
        if (time_ns > NUMBER(timeline, Timeline, now_ns)) SET(timeline, Timeline, now_ns, Py_NewRef(GET(operation, Operation, submit_ns)));
    }
    SET(operation, Operation, _engine, Py_NewRef(engine));
    SET_NUMBER(timeline, Timeline, _submitted, NUMBER(timeline, Timeline, _submitted) + 1);
    SET(operation, Operation, sequence, Py_NewRef(GET(timeline, Timeline, _submitted)));
    SET_NUMBER(stream, StreamQueue, depth, NUMBER(stream, StreamQueue, depth) + 1);
    SET_NUMBER(device, DeviceSimulation, pending, NUMBER(device, DeviceSimulation, pending) + 1);
    PyObject *const previous = Py_NewRef(GET(stream, StreamQueue, last));
    SET(stream, StreamQueue, last, Py_NewRef(operation));
    if (previous != Py_None) {
        if (IS_TRUE(previous, Operation, held)) SET(operation, Operation, held, Py_NewRef(Py_True));
        SET(previous, Operation, _next, Py_NewRef(operation));
        SET(operation, Operation, _missing, Py_NewRef(one));
        Py_DECREF(previous);
        return true;
    }
    Py_DECREF(previous);
    int begun = 0;
    if (NUMBER(operation, Operation, duration_ns) > 0 && is_empty(GET(timeline, Timeline, _ready)) && is_empty(GET(timeline, Timeline, _freed))) {
        begun = begin_at_once(timeline, operation, engine);
    }
    if (begun == 0) return append_ready(timeline, operation) && call_method(timeline, name__settle, NULL);
    return begun > 0;
}

#endif
