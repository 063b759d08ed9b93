/* Prepared kernels as Python objects: what packing.py packs becomes a kernel of the machine. */
#include "module.h"
#include "generated/opcodes.h"
#include "prepare.h"

enum { MAX_OBJECTS = INT16_MAX };

static const char KERNEL[] = "tops_kit.engine.kernel";

/* Packed by packing.py, in native byte order, without padding. */
typedef struct {
    int64_t offset_bytes, slot_bytes;
    int32_t slots, dtype, space, rank, n[MAX_RANK];
} __attribute__((packed)) packed_buffer;
typedef struct {
    int32_t dtype, rank, loaded, stored, atomic;
} __attribute__((packed)) packed_pointer;

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
PyObject *kernel_prepare(PyObject *module, PyObject *args) {
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

PyMethodDef kernel_methods[] = {
    {"prepare", kernel_prepare, METH_VARARGS, prepare_doc},
    {NULL, NULL, 0, NULL},
};
