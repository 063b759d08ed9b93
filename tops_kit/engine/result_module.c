/* What a launch gave, as Python objects; c_engine.py takes them apart. */
#include "module.h"
#include "timing_object.h"

static PyObject *shape_object(const fault *f, int which) {
    if (f->rank[which] < 0) Py_RETURN_NONE;
    PyObject *const shape = PyTuple_New(f->rank[which]);
    for (int k = 0; shape && k < f->rank[which]; k++) PyTuple_SET_ITEM(shape, k, PyLong_FromLong(f->extent[which][k]));
    return shape;
}

/* (kind, pc, thread, block, epoch, object, space, values, shape, other shape), or None */
PyObject *fault_object(const fault *f) {
    if (f->kind == FAULT_NONE) Py_RETURN_NONE;
    return Py_BuildValue("(iiiiIii(LLLL)NN)", f->kind, f->pc, f->thread, f->block, (unsigned)f->epoch, f->object, f->space,
                         (long long)f->value[0], (long long)f->value[1], (long long)f->value[2], (long long)f->value[3],
                         shape_object(f, 0), shape_object(f, 1));
}

PyObject *counts_object(const launch *l) {
    if (!l->counts) Py_RETURN_NONE;
    PyObject *const bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)l->kernel->count * (Py_ssize_t)sizeof(int64_t));
    int64_t running = 0;
    for (int32_t pc = 0; bytes && pc < l->kernel->count; pc++) {
        running += l->counts[pc];
        memcpy(PyBytes_AS_STRING(bytes) + (size_t)pc * sizeof running, &running, sizeof running);
    }
    return bytes;
}

static PyObject *traces_object(const launch *l) {
    if (!l || !l->traces) Py_RETURN_NONE;
    const Py_ssize_t threads = (Py_ssize_t)l->blocks * l->block_threads;
    PyObject *const list = PyList_New(threads);
    for (Py_ssize_t t = 0; list && t < threads; t++) {
        PyObject *const bytes = PyBytes_FromStringAndSize((const char *)l->traces[t].item, (Py_ssize_t)(l->traces[t].count * (int64_t)sizeof(tevent)));
        if (!bytes) {
            Py_DECREF(list);
            return NULL;
        }
        PyList_SET_ITEM(list, t, bytes);
    }
    return list;
}

static int look(void *data) {
    launch *const l = data;
    return l->signals ? l->signals(l->signals_data) : 0;
}

static int feed(timing *t, const launch *l) {
    for (int32_t id = 0; id < l->blocks * l->block_threads; id++) {
        const int status = timing_feed(t, id, l->traces[id].item, l->traces[id].count);
        if (status != TIMING_OK) return status;
    }
    return timing_finish(t);
}

/* The cost model over the launch's events: timing_object's tuple, or None where nothing asked for it. */
static PyObject *times_object(launch *l) {
    if (!l->traces || !l->part || l->mode != MODE_TIMED || l->fault.kind) Py_RETURN_NONE;
    const kernel *const k = l->kernel;
    timing *const t = timing_create(l->part, l->blocks, l->block_threads, kernel_keys(k), k->count + 1, l->flags, l->intervals);
    if (!t) {
        PyErr_Format(PyExc_ValueError, "a block of %d threads: no cluster of the part holds it, or there is no memory", l->block_threads);
        return NULL;
    }
    timing_poll(t, look, l);
    const int status = feed(t, l);
    PyObject *out = NULL;
    if (status == TIMING_OK) {
        out = timing_object(t);
    } else if (status == TIMING_NO_MEMORY) {
        PyErr_NoMemory();
    } else if (!PyErr_Occurred()) {
        PyErr_SetString(PyExc_RuntimeError, "the cost model did not come to an end");
    }
    timing_free(t);
    return out;
}

static PyObject *put_together(launch *l, PyObject *times, bool events) {
    PyObject *const counts = times ? counts_object(l) : NULL;
    PyObject *const traces = counts ? traces_object(events ? l : NULL) : NULL;
    PyObject *const findings = traces ? findings_object(l) : NULL;
    if (!findings) {
        Py_XDECREF(counts);
        Py_XDECREF(times);
        Py_XDECREF(traces);
        return NULL;
    }
    return Py_BuildValue("(Ny#LNNNiN)", fault_object(&l->fault), (const char *)l->prints.bytes, (Py_ssize_t)l->prints.size,
                         (long long)l->prints.dropped, counts, traces, times, l->ran_parallel + 2 * l->ran_again, findings);
}

PyObject *result_object(launch *l, bool events) { return put_together(l, times_object(l), events); }

PyObject *result_with(launch *l, PyObject *times) { return put_together(l, times, false); }
