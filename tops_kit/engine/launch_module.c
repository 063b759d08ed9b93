/* The Python module tops_kit.engine._engine: prepared kernels, and launches of them. launch.py packs and unpacks. */
#include "module.h"
#include "generated/opcodes.h"
#include "prepare.h"
#include "tiles/tiles.h"

enum { INTERFACE = 1 }; /* as in launch.py */
enum { MAX_OBJECTS = INT16_MAX, MAX_KERNEL_THREADS = 1 << 24 };

static const char KERNEL[] = "tops_kit.engine.kernel", ENGINE[] = "tops_kit.engine.engine";

/* Packed by launch.py, in native byte order, without padding. */
typedef struct {
    int64_t offset_bytes, slot_bytes;
    int32_t slots, dtype, space, rank, n[MAX_RANK];
} __attribute__((packed)) packed_buffer;
typedef struct {
    int32_t dtype, rank, loaded, stored, atomic;
} __attribute__((packed)) packed_pointer;
typedef struct {
    int32_t number;
    uint32_t bits;
} __attribute__((packed)) packed_register;
typedef struct {
    uint64_t address;
    int64_t stride[MAX_AXES];
    int32_t n[MAX_AXES];
    int32_t rank, dtype, writable;
} __attribute__((packed)) packed_array;

static void free_kernel(PyObject *capsule) { kernel_free(PyCapsule_GetPointer(capsule, KERNEL)); }

kernel *kernel_of(PyObject *capsule) { return PyCapsule_GetPointer(capsule, KERNEL); }

/* Items of a packed table, or -1. */
static Py_ssize_t items(const Py_buffer *table, size_t item_bytes, Py_ssize_t limit) {
    if (table->len % (Py_ssize_t)item_bytes || table->len / (Py_ssize_t)item_bytes > limit) {
        PyErr_SetString(PyExc_ValueError, "a table of the kernel has an impossible size");
        return -1;
    }
    return table->len / (Py_ssize_t)item_bytes;
}

static bool fill(kernel *k, const ins *code, const packed_register *constant, Py_ssize_t constants, const packed_buffer *buffers,
                 const packed_pointer *pointers) {
    memcpy(k->code, code, (size_t)k->count * sizeof *code);
    for (Py_ssize_t m = 0; m < constants; m++) {
        if (constant[m].number < 0 || constant[m].number >= k->scalars) return false;
        k->registers[constant[m].number].u = constant[m].bits;
    }
    for (int m = 0; m < k->buffers; m++) {
        const packed_buffer *const from = &buffers[m];
        if (from->dtype < 0 || from->dtype >= DT_COUNT || from->rank < 0 || from->rank > MAX_RANK) return false;
        if (from->space != SPACE_L1 && from->space != SPACE_L2) return false;
        buffer *const b = &k->buffer[m];
        b->offset_bytes = from->offset_bytes;
        b->slot_bytes = from->slot_bytes;
        b->slots = from->slots;
        b->view.dtype = (uint8_t)from->dtype;
        b->view.space = (uint8_t)from->space;
        b->view.rank = (uint8_t)from->rank;
        for (int a = 0; a < from->rank; a++) b->view.n[a] = from->n[a];
    }
    for (int m = 0; m < k->pointers; m++) {
        if (pointers[m].dtype < 0 || pointers[m].dtype >= DT_COUNT || pointers[m].rank < 0 || pointers[m].rank > MAX_AXES) return false;
        k->pointer[m] = (pointer){.loaded = pointers[m].loaded, .stored = pointers[m].stored || pointers[m].atomic,
                                  .dtype = (uint8_t)pointers[m].dtype, .rank = (uint8_t)pointers[m].rank};
    }
    return true;
}

PyDoc_STRVAR(prepare_doc, "prepare(code, scalars, tiles, vectors, constants, buffers, pointers, strings) -> kernel\n\n"
                          "ValueError when a number in the program is out of range.");
static PyObject *prepare(PyObject *module, PyObject *args) {
    (void)module;
    Py_buffer code, constants, buffers, pointers;
    int scalars, tiles, vectors, strings;
    if (!PyArg_ParseTuple(args, "y*iiiy*y*y*i", &code, &scalars, &tiles, &vectors, &constants, &buffers, &pointers, &strings)) return NULL;
    PyObject *capsule = NULL;
    kernel *k = NULL;
    const Py_ssize_t count = items(&code, sizeof(ins), 1 << 16), constant_count = items(&constants, sizeof(packed_register), 1 << 16),
                     buffer_count = items(&buffers, sizeof(packed_buffer), MAX_OBJECTS),
                     pointer_count = items(&pointers, sizeof(packed_pointer), MAX_OBJECTS);
    if (count >= 0 && constant_count >= 0 && buffer_count >= 0 && pointer_count >= 0) {
        if (scalars < 0 || tiles < 0 || vectors < 0 || scalars > 1 << 16 || tiles > 1 << 16 || vectors > 1 << 16) {
            PyErr_SetString(PyExc_ValueError, "an impossible number of registers");
        } else if (!(k = kernel_new((int32_t)count, scalars, tiles, vectors, (int32_t)buffer_count, (int32_t)pointer_count))) {
            PyErr_NoMemory();
        } else if (!fill(k, code.buf, constants.buf, constant_count, buffers.buf, pointers.buf)) {
            PyErr_SetString(PyExc_ValueError, "a constant, buffer or pointer that is out of range");
        } else {
            const char *const wrong = kernel_validate(k, strings);
            if (wrong) {
                PyErr_Format(PyExc_ValueError, "the program has %s", wrong);
            } else if (!kernel_finish(k)) {
                PyErr_SetString(PyExc_ValueError, "the kernel needs more L1 or L2 than any part has");
            } else {
                capsule = PyCapsule_New(k, KERNEL, free_kernel);
            }
        }
    }
    if (!capsule) kernel_free(k);
    PyBuffer_Release(&code);
    PyBuffer_Release(&constants);
    PyBuffer_Release(&buffers);
    PyBuffer_Release(&pointers);
    return capsule;
}

typedef struct {
    engine *engine;
    bool busy;
} engine_holder;

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

static bool unpack_arrays(const kernel *k, const Py_buffer *packed, tile *arrays) {
    const packed_array *const from = packed->buf;
    for (int m = 0; m < k->pointers; m++) {
        if (from[m].rank != k->pointer[m].rank || from[m].dtype != k->pointer[m].dtype) {
            PyErr_Format(PyExc_ValueError, "array %d has another type or number of axes than the kernel's pointer", m);
            return false;
        }
        const bool store = k->pointer[m].stored && from[m].writable;
        tile *const v = &arrays[m];
        *v = (tile){.p = (uint8_t *)(uintptr_t)from[m].address, .object = (int16_t)m, .rank = (uint8_t)from[m].rank,
                    .dtype = (uint8_t)from[m].dtype, .space = SPACE_L3, .inside = 1,
                    .slot = (k->pointer[m].loaded ? MAY_LOAD : 0) | (store ? MAY_STORE : 0)};
        for (int a = 0; a < from[m].rank; a++) {
            if (from[m].n[a] < 0) {
                PyErr_Format(PyExc_ValueError, "array %d has a negative extent", m);
                return false;
            }
            v->n[a] = v->hi[a] = from[m].n[a];
            v->stride[a] = from[m].stride[a];
        }
    }
    return true;
}

static bool unpack_registers(const kernel *k, const Py_buffer *packed, reg *registers) {
    memcpy(registers, k->registers, (size_t)k->scalars * sizeof *registers);
    const packed_register *const from = packed->buf;
    for (Py_ssize_t m = 0; m < packed->len / (Py_ssize_t)sizeof *from; m++) {
        if (from[m].number < 0 || from[m].number >= k->scalars) {
            PyErr_SetString(PyExc_ValueError, "a scalar argument for a register that does not exist");
            return false;
        }
        registers[from[m].number].u = from[m].bits;
    }
    return true;
}

bool launch_take_arguments(launch *l, const kernel *k, const Py_buffer *arrays, const Py_buffer *scalars) {
    if (arrays->len != (Py_ssize_t)sizeof(packed_array) * k->pointers || scalars->len % (Py_ssize_t)sizeof(packed_register)) {
        PyErr_SetString(PyExc_ValueError, "arguments that are not the kernel's");
        return false;
    }
    tile *const views = PyMem_Calloc((size_t)k->pointers + 1, sizeof *views);
    reg *const registers = PyMem_Calloc((size_t)k->scalars + 1, sizeof *registers);
    l->kernel = k;
    l->arrays = views;
    l->registers = registers;
    if (!views || !registers) {
        PyErr_NoMemory();
        return false;
    }
    return unpack_arrays(k, arrays, views) && unpack_registers(k, scalars, registers);
}

void launch_drop_arguments(launch *l) {
    PyMem_Free((void *)l->arrays);
    PyMem_Free((void *)l->registers);
    l->arrays = NULL;
    l->registers = NULL;
}

bool launch_take_grid(launch *l) {
    int64_t threads = 1;
    for (int k = 0; k < 3; k++) {
        if (l->grid[k] < 1 || l->block[k] < 1) threads = 0;
        threads *= (int64_t)l->grid[k] * l->block[k];
        if (threads < 1 || threads > MAX_KERNEL_THREADS) {
            PyErr_Format(PyExc_ValueError, "a launch has 1 to %d threads", MAX_KERNEL_THREADS);
            return false;
        }
    }
    l->blocks = l->grid[0] * l->grid[1] * l->grid[2];
    l->block_threads = l->block[0] * l->block[1] * l->block[2];
    return true;
}

static int signals(void *data) {
    (void)data;
    return PyErr_CheckSignals();
}

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
    if (!l->traces) Py_RETURN_NONE;
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

static PyObject *result_object(const launch *l) {
    PyObject *const counts = counts_object(l), *const traces = traces_object(l);
    if (!counts || !traces) {
        Py_XDECREF(counts);
        Py_XDECREF(traces);
        return NULL;
    }
    return Py_BuildValue("(Ny#LNNi)", fault_object(&l->fault), (const char *)l->prints.bytes, (Py_ssize_t)l->prints.size,
                         (long long)l->prints.dropped, counts, traces, l->ran_parallel + 2 * l->ran_again);
}

/* Runs it with the engine, or (a signal's handler launches during a launch) with one made for it. */
static bool run(engine_holder *holder, launch *l) {
    engine *const own = holder->busy ? engine_new() : NULL;
    if (holder->busy && !own) {
        PyErr_NoMemory();
        return false;
    }
    if (!own) holder->busy = true;
    engine_run(own ? own : holder->engine, l);
    if (own) {
        engine_free(own);
    } else {
        holder->busy = false;
    }
    return !PyErr_Occurred();
}

PyDoc_STRVAR(launch_doc, "launch(engine, kernel, mode, arrays, scalars, grid, block, host_threads, budget_s, defer)\n"
                         "-> (fault, prints, dropped prints, counts, events, 1 ran parallel + 2 ran again)\n\n"
                         "Keeps the GIL. Raises what a signal's handler raised.");
static PyObject *launch_kernel(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *engine_capsule, *kernel_capsule;
    Py_buffer arrays, scalars;
    launch l = {.signals = signals};
    double budget_s;
    int defer;
    uint8_t *no_breakpoints = NULL;
    if (!PyArg_ParseTuple(args, "OOiy*y*(iii)(iii)idp", &engine_capsule, &kernel_capsule, &l.mode, &arrays, &scalars, &l.grid[0],
                          &l.grid[1], &l.grid[2], &l.block[0], &l.block[1], &l.block[2], &l.host_threads, &budget_s, &defer)) {
        return NULL;
    }
    PyObject *result = NULL;
    const kernel *const k = kernel_of(kernel_capsule);
    engine_holder *const holder = PyCapsule_GetPointer(engine_capsule, ENGINE);
    if (!k || !holder || !launch_take_grid(&l)) goto done;
    if (l.mode < 0 || l.mode >= MODE_COUNT) {
        PyErr_SetString(PyExc_ValueError, "no such mode");
        goto done;
    }
    l.defer = defer != 0;
    if (budget_s > 0 && budget_s < 1e9) l.deadline_ns = monotonic_ns() + (int64_t)(budget_s * 1e9);
    if (l.mode != MODE_FAST) l.counts = PyMem_Calloc((size_t)k->count + 2, sizeof *l.counts);
    if (l.mode == MODE_TIMED) l.traces = PyMem_Calloc((size_t)l.blocks * (size_t)l.block_threads, sizeof *l.traces);
    if (l.mode == MODE_DEBUG) l.breakpoints = no_breakpoints = PyMem_Calloc((size_t)k->count + 2, 1);
    if ((l.mode == MODE_DEBUG && !l.breakpoints) || (l.mode != MODE_FAST && !l.counts) || (l.mode == MODE_TIMED && !l.traces)) {
        PyErr_NoMemory();
        goto done;
    }
    if (launch_take_arguments(&l, k, &arrays, &scalars) && run(holder, &l)) result = result_object(&l);
done:
    launch_clear(&l);
    launch_drop_arguments(&l);
    PyMem_Free(l.counts);
    PyMem_Free(l.traces);
    PyMem_Free(no_breakpoints);
    PyBuffer_Release(&arrays);
    PyBuffer_Release(&scalars);
    return result;
}

static PyMethodDef methods[] = {
    {"prepare", prepare, METH_VARARGS, prepare_doc},
    {"engine", make_engine, METH_NOARGS, engine_doc},
    {"launch", launch_kernel, METH_VARARGS, launch_doc},
    {NULL, NULL, 0, NULL},
};

static int execute(PyObject *module) {
    if (PyModule_AddFunctions(module, debug_methods) < 0) return -1;
    if (PyModule_AddIntConstant(module, "INTERFACE", INTERFACE) < 0) return -1;
    if (PyModule_AddIntConstant(module, "TABLE_VERSION", TABLE_VERSION) < 0) return -1;
    if (PyModule_AddIntConstant(module, "OPCODES", OPCODES) < 0) return -1;
    if (PyModule_AddIntConstant(module, "EVENT_BYTES", sizeof(tevent)) < 0) return -1;
    return PyModule_AddStringConstant(module, "TILES", tk_path());
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, execute},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_engine", "The kernel engine's machine in C; see launch.py.", 0, methods, slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__engine(void) { return PyModuleDef_Init(&definition); }
