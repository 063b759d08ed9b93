/* Launches from Python: arguments unpacked (packing.py), run, results made into Python objects (c_engine.py). */
#include "module.h"
#include "signals.h"
#include "tiles/tiles.h"
#include "timing_object.h"

enum { MAX_KERNEL_THREADS = 1 << 24, STREAMED_BYTES = 16 << 20 /* beyond what caches hold */ };

static const char ENGINE[] = "tops_kit.engine.engine";

/* Packed by packing.py, in native byte order, without padding. */
typedef struct {
    uint64_t address;
    int64_t stride[MAX_AXES];
    int32_t n[MAX_AXES];
    int32_t rank, dtype, writable;
} __attribute__((packed)) packed_array;

static void free_engine(PyObject *capsule) {
    engine_holder *const holder = PyCapsule_GetPointer(capsule, ENGINE);
    engine_free(holder->engine);
    PyMem_Free(holder);
}

PyDoc_STRVAR(engine_doc, "engine() -> engine\n\nMemories and host threads that launches use again and again.");
static PyObject *make_engine(PyObject *module, PyObject *ignored) {
    (void)module, (void)ignored;
    engine_holder *const holder = PyMem_Calloc(1, sizeof *holder);
    if (!holder || !(holder->engine = engine_new())) {
        PyMem_Free(holder);
        return PyErr_NoMemory();
    }
    return PyCapsule_New(holder, ENGINE, free_engine);
}

static bool unpack_arrays(const kernel *k, const packed_array *from, tile *arrays) {
    for (int m = 0; m < k->pointers; m++) {
        if (from[m].rank != k->pointer[m].rank || from[m].dtype != k->pointer[m].dtype) {
            PyErr_Format(PyExc_ValueError, "array %d has another type or number of axes than the kernel's pointer", m);
            return false;
        }
        const bool load = k->pointer[m].loaded, store = k->pointer[m].stored && from[m].writable;
        int64_t bytes = tk_size[from[m].dtype];
        tile *const v = &arrays[m];
        *v = (tile){.p = (uint8_t *)(uintptr_t)from[m].address, .object = (int16_t)m, .rank = (uint8_t)from[m].rank,
                    .dtype = (uint8_t)from[m].dtype, .space = SPACE_L3, .inside = 1,
                    .slot = (load ? MAY_LOAD : 0) | (store ? MAY_STORE : 0)};
        for (int a = 0; a < from[m].rank; a++) {
            if (from[m].n[a] < 0) {
                PyErr_Format(PyExc_ValueError, "array %d has a negative extent", m);
                return false;
            }
            v->n[a] = v->hi[a] = from[m].n[a];
            v->stride[a] = from[m].stride[a];
            bytes *= from[m].n[a];
        }
        if (!load && bytes >= STREAMED_BYTES) v->slot |= TK_STREAMS;
    }
    return true;
}

static bool unpack_registers(const kernel *k, const packed_register *from, Py_ssize_t count, reg *registers) {
    memcpy(registers, k->registers, (size_t)k->scalars * sizeof *registers);
    for (Py_ssize_t m = 0; m < count; m++) {
        if (from[m].number < 0 || from[m].number >= k->scalars) {
            PyErr_SetString(PyExc_ValueError, "a scalar argument for a register that does not exist");
            return false;
        }
        registers[from[m].number].u = from[m].bits;
    }
    return true;
}

bool launch_unpack(const kernel *k, const void *arrays, Py_ssize_t array_bytes, const void *scalars, Py_ssize_t scalar_bytes,
                   tile *views, reg *registers) {
    if (array_bytes != (Py_ssize_t)sizeof(packed_array) * k->pointers || scalar_bytes % (Py_ssize_t)sizeof(packed_register)) {
        PyErr_SetString(PyExc_ValueError, "arguments that are not the kernel's");
        return false;
    }
    return unpack_arrays(k, arrays, views) && unpack_registers(k, scalars, scalar_bytes / (Py_ssize_t)sizeof(packed_register), registers);
}

bool launch_take_arguments(launch *l, const kernel *k, const Py_buffer *arrays, const Py_buffer *scalars) {
    tile *const views = PyMem_Calloc((size_t)k->pointers + 1, sizeof *views);
    reg *const registers = PyMem_Calloc((size_t)k->scalars + 1, sizeof *registers);
    l->kernel = k;
    l->arrays = views;
    l->registers = registers;
    if (!views || !registers) {
        PyErr_NoMemory();
        return false;
    }
    return launch_unpack(k, arrays->buf, arrays->len, scalars->buf, scalars->len, views, registers);
}

void launch_drop_arguments(launch *l) {
    PyMem_Free((void *)l->arrays);
    PyMem_Free((void *)l->registers);
    l->arrays = NULL;
    l->registers = NULL;
}

bool launch_take_grid(launch *l) {
    int64_t threads = 1;
    for (int k = 0; k < 6; k++) {
        const int32_t extent = k < 3 ? l->grid[k] : l->block[k - 3];
        threads *= extent < 1 ? 0 : extent;
        if (threads < 1 || threads > MAX_KERNEL_THREADS) {
            PyErr_Format(PyExc_ValueError, "a launch has 1 to %d threads", MAX_KERNEL_THREADS);
            return false;
        }
    }
    l->blocks = l->grid[0] * l->grid[1] * l->grid[2];
    l->block_threads = l->block[0] * l->block[1] * l->block[2];
    return true;
}

int launch_signals(void *data) {
    (void)data;
    return look_for_signals();
}

bool launch_take_part(launch *l, PyObject *wanted, timing_parameters *part) {
    if (wanted == Py_None) return true;
    PyObject *figures, *flags;
    int intervals;
    if (!PyTuple_Check(wanted) || !PyArg_ParseTuple(wanted, "SSp", &figures, &flags, &intervals) || !timing_parse(figures, part)) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "times: (figures, flags, intervals)");
        return false;
    }
    if (PyBytes_GET_SIZE(flags) != l->kernel->count + 1) {
        PyErr_SetString(PyExc_ValueError, "one flag for each instruction, and one for the end");
        return false;
    }
    l->part = part;
    l->flags = (const uint8_t *)PyBytes_AS_STRING(flags);
    l->intervals = intervals != 0;
    return true;
}

static bool take_memory(launch *l, uint8_t **no_breakpoints) {
    const size_t count = (size_t)l->kernel->count + 2;
    if (l->mode != MODE_FAST) l->counts = PyMem_Calloc(count, sizeof *l->counts);
    if (l->mode == MODE_DEBUG) l->breakpoints = *no_breakpoints = PyMem_Calloc(count, 1);
    if ((l->mode == MODE_FAST || l->counts) && (l->mode != MODE_DEBUG || l->breakpoints)) return true;
    PyErr_NoMemory();
    return false;
}

/* A signal's handler ended the launch with its exception: that takes along what the kernel printed. */
static void keep_prints(const launch *l) {
    PyObject *type, *exception, *traceback;
    PyErr_Fetch(&type, &exception, &traceback);
    PyErr_NormalizeException(&type, &exception, &traceback);
    PyObject *const prints = PyBytes_FromStringAndSize((const char *)l->prints.bytes, (Py_ssize_t)l->prints.size);
    if (!prints || (exception && PyObject_SetAttrString(exception, "kernel_prints", prints) < 0)) PyErr_Clear();
    Py_XDECREF(prints);
    PyErr_Restore(type, exception, traceback);
}

PyObject *launch_run(engine_holder *holder, launch *l, launch_result result, void *data) {
    engine *const own = holder->busy ? engine_new() : NULL;
    if (holder->busy && !own) return PyErr_NoMemory();
    holder->busy = true;
    engine *const e = own ? own : holder->engine;
    engine_run(e, l);
    if (PyErr_Occurred()) keep_prints(l);
    PyObject *const out = PyErr_Occurred() ? NULL : result(l, data);
    engine_tidy(e);
    engine_free(own);
    if (!own) holder->busy = false; /* it was this launch that had it */
    return out;
}

static PyObject *whole_result(launch *l, void *events) { return result_object(l, *(const bool *)events); }

engine_holder *engine_of(PyObject *capsule) { return PyCapsule_GetPointer(capsule, ENGINE); }

PyDoc_STRVAR(launch_doc, "launch(engine, kernel, mode, arrays, scalars, grid, block, host_threads, budget_s, defer, events, times)\n"
                         "-> (fault, prints, dropped prints, counts, events, times, 1 ran parallel + 2 ran again, findings)\n\n"
                         "events: whether to give those of a timed run. times: None or (figures of the part, flags of the\n"
                         "instructions, whether to record intervals). Keeps the GIL. Raises what a signal's handler raised.");
static PyObject *launch_kernel(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *engine_capsule, *kernel_capsule, *times;
    Py_buffer arrays, scalars;
    launch l = {.signals = launch_signals};
    double budget_s;
    int defer, events;
    if (!PyArg_ParseTuple(args, "OOiy*y*(iii)(iii)idppO", &engine_capsule, &kernel_capsule, &l.mode, &arrays, &scalars, &l.grid[0],
                          &l.grid[1], &l.grid[2], &l.block[0], &l.block[1], &l.block[2], &l.host_threads, &budget_s, &defer, &events,
                          &times)) {
        return NULL;
    }
    PyObject *result = NULL;
    uint8_t *no_breakpoints = NULL;
    timing_parameters part;
    const kernel *const k = kernel_of(kernel_capsule);
    engine_holder *const holder = engine_of(engine_capsule);
    const bool wants_events = events != 0;
    if (!k || !holder || !launch_take_grid(&l)) goto done;
    if (l.mode < 0 || l.mode >= MODE_COUNT) {
        PyErr_SetString(PyExc_ValueError, "no such mode");
        goto done;
    }
    l.defer = defer != 0;
    if (budget_s > 0 && budget_s < 1e9) l.deadline_ns = monotonic_ns() + (int64_t)(budget_s * 1e9);
    if (!launch_take_arguments(&l, k, &arrays, &scalars) || !launch_take_part(&l, times, &part) || !take_memory(&l, &no_breakpoints)) goto done;
    result = launch_run(holder, &l, whole_result, (void *)&wants_events);
done:
    launch_clear(&l);
    launch_drop_arguments(&l);
    PyMem_Free(l.counts);
    PyMem_Free(no_breakpoints);
    PyBuffer_Release(&arrays);
    PyBuffer_Release(&scalars);
    return result;
}

PyMethodDef launch_methods[] = {
    {"engine", make_engine, METH_NOARGS, engine_doc},
    {"launch", launch_kernel, METH_VARARGS, launch_doc},
    {NULL, NULL, 0, NULL},
};
