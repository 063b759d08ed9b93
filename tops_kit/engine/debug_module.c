/* The debugger's part of the Python module: debug.py is its face. */
#include "module.h"
#include "debug.h"
#include "tiles/elements.h"

static const char DEBUG[] = "tops_kit.engine.debug";

typedef struct {
    debug_launch debug;
    timing_parameters part;
    PyObject *kernel, *times; /* kept alive */
} holder;

static void free_debug(PyObject *capsule) {
    holder *const h = PyCapsule_GetPointer(capsule, DEBUG);
    launch arguments = h->debug.launch;
    debug_end(&h->debug);
    launch_drop_arguments(&arguments);
    Py_DECREF(h->kernel);
    Py_DECREF(h->times);
    PyMem_Free(h);
}

PyDoc_STRVAR(new_doc, "debug_new(kernel, arrays, scalars, grid, block, defer, times) -> debug\n\ntimes: as of launch");
static PyObject *debug_new(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *kernel_capsule, *times, *capsule = NULL;
    Py_buffer arrays, scalars;
    launch l = {.mode = MODE_DEBUG};
    int defer;
    if (!PyArg_ParseTuple(args, "Oy*y*(iii)(iii)pO", &kernel_capsule, &arrays, &scalars, &l.grid[0], &l.grid[1], &l.grid[2], &l.block[0],
                          &l.block[1], &l.block[2], &defer, &times)) {
        return NULL;
    }
    holder *const h = PyMem_Calloc(1, sizeof *h);
    const kernel *const k = kernel_of(kernel_capsule);
    l.defer = defer != 0;
    if (!h) {
        PyErr_NoMemory();
    } else if (k && launch_take_grid(&l) && launch_take_arguments(&l, k, &arrays, &scalars) && launch_take_part(&l, times, &h->part)) {
        if (debug_begin(&h->debug, &l)) {
            h->kernel = Py_NewRef(kernel_capsule);
            h->times = Py_NewRef(times);
            capsule = PyCapsule_New(h, DEBUG, free_debug);
        } else {
            PyErr_NoMemory();
        }
    }
    if (!capsule) {
        if (h) debug_end(&h->debug);
        launch_drop_arguments(&l);
        PyMem_Free(h);
    }
    PyBuffer_Release(&arrays);
    PyBuffer_Release(&scalars);
    return capsule;
}

/* The debug launch and (id >= 0) one of its threads; NULL with an exception. */
static debug_launch *debug_of(PyObject *capsule, int id, thread **t) {
    holder *const h = PyCapsule_GetPointer(capsule, DEBUG);
    if (!h) return NULL;
    if (id < 0 || id >= h->debug.launch.blocks * h->debug.launch.block_threads) {
        PyErr_Format(PyExc_IndexError, "no thread %d", id);
        return NULL;
    }
    *t = &h->debug.context[id].thread;
    return &h->debug;
}

PyDoc_STRVAR(run_doc, "debug_run(debug, thread, steps, skip) -> (state, steps done in all)\n\nskip: pass a breakpoint where it stands");
static PyObject *run_thread(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *capsule;
    int id, skip;
    long long steps;
    thread *t;
    if (!PyArg_ParseTuple(args, "OiLp", &capsule, &id, &steps, &skip)) return NULL;
    debug_launch *const d = debug_of(capsule, id, &t);
    if (!d) return NULL;
    const int state = debug_run(d, id, steps, skip != 0);
    return Py_BuildValue("(iL)", state, (long long)d->steps_done[id]);
}

PyDoc_STRVAR(thread_doc, "debug_thread(debug, thread) -> (state, pc, epoch, grid epoch, steps done, fault, pending events)");
static PyObject *thread_state(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *capsule;
    int id;
    thread *t;
    if (!PyArg_ParseTuple(args, "Oi", &capsule, &id)) return NULL;
    const debug_launch *const d = debug_of(capsule, id, &t);
    if (!d) return NULL;
    PyObject *const pending = PyTuple_New(t->pendings);
    for (int32_t k = 0; pending && k < t->pendings; k++) PyTuple_SET_ITEM(pending, k, PyLong_FromUnsignedLong(t->pending[k].event));
    return Py_BuildValue("(iiIILNN)", t->state, t->pc, (unsigned)t->epoch, (unsigned)t->grid_epoch, (long long)d->steps_done[id],
                         fault_object(&t->fault), pending);
}

PyDoc_STRVAR(release_doc, "debug_release(debug, thread)\n\nLets a thread that waits at a barrier go on.");
static PyObject *release_thread(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *capsule;
    int id;
    thread *t;
    if (!PyArg_ParseTuple(args, "Oi", &capsule, &id) || !debug_of(capsule, id, &t)) return NULL;
    if (t->state == THREAD_AT_BARRIER || t->state == THREAD_AT_GRID_BARRIER) t->state = THREAD_READY;
    Py_RETURN_NONE;
}

PyDoc_STRVAR(breakpoint_doc, "debug_breakpoint(debug, pc, on)");
static PyObject *set_breakpoint(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *capsule;
    int pc, on;
    thread *t;
    if (!PyArg_ParseTuple(args, "Oip", &capsule, &pc, &on)) return NULL;
    debug_launch *const d = debug_of(capsule, 0, &t);
    if (!d) return NULL;
    if (pc < 0 || pc >= d->launch.kernel->count) {
        PyErr_Format(PyExc_IndexError, "no instruction %d", pc);
        return NULL;
    }
    d->breakpoints[pc] = (uint8_t)on;
    Py_RETURN_NONE;
}

/* The bytes of a register file or a memory of a thread: kind r, t, v, 1 (L1) or 2 (L2). */
static bool memory_of(const thread *t, int kind, uint8_t **bytes, Py_ssize_t *size) {
    const kernel *const k = t->kernel;
    switch (kind) {
    case 'r': *bytes = (uint8_t *)t->r, *size = (Py_ssize_t)sizeof(reg) * k->scalars; return true;
    case 'v': *bytes = (uint8_t *)t->v, *size = (Py_ssize_t)sizeof(vreg) * k->vectors; return true;
    case '1': *bytes = t->l1, *size = (Py_ssize_t)k->l1_bytes; return true;
    case '2': *bytes = t->l2, *size = (Py_ssize_t)k->l2_bytes; return true;
    default: PyErr_SetString(PyExc_ValueError, "no such memory"); return false;
    }
}

PyDoc_STRVAR(read_doc, "debug_read(debug, thread, kind, start, size) -> bytes\n\nkind: r, v (registers), 1, 2 (L1, L2)");
static PyObject *read_memory(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *capsule;
    int id, kind;
    Py_ssize_t start, size, all;
    thread *t;
    uint8_t *bytes;
    if (!PyArg_ParseTuple(args, "OiCnn", &capsule, &id, &kind, &start, &size) || !debug_of(capsule, id, &t)) return NULL;
    if (!memory_of(t, kind, &bytes, &all)) return NULL;
    if (start < 0 || size < 0 || start > all || size > all - start) {
        PyErr_SetString(PyExc_IndexError, "outside of the memory");
        return NULL;
    }
    return PyBytes_FromStringAndSize((const char *)bytes + start, size);
}

PyDoc_STRVAR(write_doc, "debug_write(debug, thread, kind, start, bytes)");
static PyObject *write_memory(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *capsule;
    int id, kind;
    Py_ssize_t start, all;
    Py_buffer from;
    thread *t;
    uint8_t *bytes;
    if (!PyArg_ParseTuple(args, "OiCny*", &capsule, &id, &kind, &start, &from)) return NULL;
    bool good = debug_of(capsule, id, &t) && memory_of(t, kind, &bytes, &all);
    if (good && (start < 0 || start > all || from.len > all - start)) {
        PyErr_SetString(PyExc_IndexError, "outside of the memory");
        good = false;
    }
    if (good) memcpy(bytes + start, from.buf, (size_t)from.len);
    PyBuffer_Release(&from);
    if (!good) return NULL;
    Py_RETURN_NONE;
}

static PyObject *ints(const int32_t *from, int count) {
    PyObject *const out = PyTuple_New(count);
    for (int k = 0; out && k < count; k++) PyTuple_SET_ITEM(out, k, PyLong_FromLong(from[k]));
    return out;
}

PyDoc_STRVAR(tile_doc, "debug_tile(debug, thread, register) -> (space, object, slot, type, address, extents, strides, lo, hi), or None");
static PyObject *tile_register(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *capsule;
    int id, number;
    thread *t;
    if (!PyArg_ParseTuple(args, "Oii", &capsule, &id, &number)) return NULL;
    if (!debug_of(capsule, id, &t)) return NULL;
    if (number < 0 || number >= t->kernel->tiles) {
        PyErr_Format(PyExc_IndexError, "no tile register %d", number);
        return NULL;
    }
    const tile *const a = &t->t[number];
    if (a->space == SPACE_NONE) Py_RETURN_NONE;
    PyObject *const strides = PyTuple_New(a->rank);
    for (int k = 0; strides && k < a->rank; k++) PyTuple_SET_ITEM(strides, k, PyLong_FromLongLong(a->stride[k]));
    const uintptr_t base = a->space == SPACE_L1 ? (uintptr_t)t->l1 : a->space == SPACE_L2 ? (uintptr_t)t->l2 : 0;
    return Py_BuildValue("(iiiiLNNNN)", a->space, a->object, a->space == SPACE_L3 ? 0 : a->slot, a->dtype,
                         (long long)((uintptr_t)a->p - base), ints(a->n, a->rank), strides, ints(a->lo, a->rank), ints(a->hi, a->rank));
}

PyDoc_STRVAR(results_doc, "debug_results(debug) -> (prints, dropped prints, counts)");
static PyObject *results(PyObject *module, PyObject *capsule) {
    (void)module;
    thread *t;
    const debug_launch *const d = debug_of(capsule, 0, &t);
    if (!d) return NULL;
    return Py_BuildValue("(y#LN)", (const char *)d->prints.bytes, (Py_ssize_t)d->prints.size, (long long)d->prints.dropped,
                         counts_object(&d->launch));
}

PyMethodDef debug_methods[] = {
    {"debug_new", debug_new, METH_VARARGS, new_doc},
    {"debug_run", run_thread, METH_VARARGS, run_doc},
    {"debug_thread", thread_state, METH_VARARGS, thread_doc},
    {"debug_release", release_thread, METH_VARARGS, release_doc},
    {"debug_breakpoint", set_breakpoint, METH_VARARGS, breakpoint_doc},
    {"debug_read", read_memory, METH_VARARGS, read_doc},
    {"debug_write", write_memory, METH_VARARGS, write_doc},
    {"debug_tile", tile_register, METH_VARARGS, tile_doc},
    {"debug_results", results, METH_O, results_doc},
    {NULL, NULL, 0, NULL},
};
