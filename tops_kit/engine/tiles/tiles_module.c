/* The tile library for Python: tests call one function after another and compare with the numpy twin.

   Views are passed as the bytes of a `tile` (machine.h), whose `p` is trusted: nothing but tests may call this. */
#include "tiles_module.h"
#include "tiles.h"

/* How a function takes its arguments: o operation, t tile, r scalar, i int, v vector register. */
typedef struct {
    const char *name, *takes;
    void (*function)(void);
} entry;
#define ENTRY(name, takes) {#name, takes, (void (*)(void))tk_##name}

static const entry entries[] = {
    ENTRY(shape_same, "tt"),       ENTRY(shape_reduce, "tti"),    ENTRY(shape_matmul, "ttt"),  ENTRY(shape_gather, "ttti"),
    ENTRY(binary, "ottt"),         ENTRY(binary_s, "ottr"),       ENTRY(binary_rs, "otrt"),    ENTRY(compare, "ottt"),
    ENTRY(compare_s, "ottr"),      ENTRY(compare_rs, "otrt"),     ENTRY(unary, "ott"),         ENTRY(reduce, "otti"),
    ENTRY(fma, "tttt"),            ENTRY(select, "tttt"),         ENTRY(copy, "tt"),           ENTRY(fill, "tr"),
    ENTRY(iota, "trri"),           ENTRY(cumsum, "tti"),          ENTRY(gather, "ttti"),       ENTRY(scatter, "ttti"),
    ENTRY(scatter_add, "ttti"),    ENTRY(mma, "ttt"),             ENTRY(matmul, "ttt"),        ENTRY(dma_copy, "tt"),
    ENTRY(dma_pad, "ttr"),         ENTRY(dma_clip, "tt"),         ENTRY(dma_set, "tr"),        ENTRY(atomic_add, "tt"),
    ENTRY(vload, "vti"),           ENTRY(vstore, "tiv"),          ENTRY(vbinary, "ovvvi"),     ENTRY(vcompare, "ovvvi"),
    ENTRY(vunary, "ovvi"),         ENTRY(vfma, "vvvvi"),          ENTRY(vselect, "vvvvi"),
};

/* An argument: what `takes` says of it. */
typedef struct {
    union {
        tile *t;
        vreg *v;
    };
    reg r;
    int i;
} argument;

#define CALL(types, ...) ((int (*) types)e->function)(__VA_ARGS__)
static int call(const entry *e, const argument *a) {
    const char *s = e->takes;
    if (!strcmp(s, "tt")) return CALL((tile *, const tile *), a[0].t, a[1].t);
    if (!strcmp(s, "ttt")) return CALL((tile *, const tile *, const tile *), a[0].t, a[1].t, a[2].t);
    if (!strcmp(s, "tttt"))
        return CALL((tile *, const tile *, const tile *, const tile *), a[0].t, a[1].t, a[2].t, a[3].t);
    if (!strcmp(s, "tti")) return CALL((tile *, const tile *, int), a[0].t, a[1].t, a[2].i);
    if (!strcmp(s, "ttr")) return CALL((tile *, const tile *, reg), a[0].t, a[1].t, a[2].r);
    if (!strcmp(s, "tr")) return CALL((tile *, reg), a[0].t, a[1].r);
    if (!strcmp(s, "trri")) return CALL((tile *, reg, reg, int), a[0].t, a[1].r, a[2].r, a[3].i);
    if (!strcmp(s, "ttti"))
        return CALL((tile *, const tile *, const tile *, int), a[0].t, a[1].t, a[2].t, a[3].i);
    if (!strcmp(s, "ott")) return CALL((int, tile *, const tile *), a[0].i, a[1].t, a[2].t);
    if (!strcmp(s, "otti")) return CALL((int, tile *, const tile *, int), a[0].i, a[1].t, a[2].t, a[3].i);
    if (!strcmp(s, "ottt"))
        return CALL((int, tile *, const tile *, const tile *), a[0].i, a[1].t, a[2].t, a[3].t);
    if (!strcmp(s, "ottr")) return CALL((int, tile *, const tile *, reg), a[0].i, a[1].t, a[2].t, a[3].r);
    if (!strcmp(s, "otrt")) return CALL((int, tile *, reg, const tile *), a[0].i, a[1].t, a[2].r, a[3].t);
    if (!strcmp(s, "vti")) return CALL((vreg *, const tile *, int32_t), a[0].v, a[1].t, a[2].i);
    if (!strcmp(s, "tiv")) return CALL((const tile *, int32_t, const vreg *), a[0].t, a[1].i, a[2].v);
    if (!strcmp(s, "ovvi")) return CALL((int, vreg *, const vreg *, int), a[0].i, a[1].v, a[2].v, a[3].i);
    if (!strcmp(s, "ovvvi"))
        return CALL((int, vreg *, const vreg *, const vreg *, int), a[0].i, a[1].v, a[2].v, a[3].v, a[4].i);
    return CALL((vreg *, const vreg *, const vreg *, const vreg *, int), a[0].v, a[1].v, a[2].v, a[3].v, a[4].i);
}

enum { MOST = 5 };

/* Fill `a` from Python objects; buffers are held in `views`. Their number, or -1 with an exception. */
static int take(const char *takes, PyObject *const *objects, argument *a, vreg *vectors, Py_buffer *views) {
    int held = 0;
    for (int k = 0; takes[k]; k++) {
        if (takes[k] == 't' || takes[k] == 'v') {
            size_t size = takes[k] == 't' ? sizeof(tile) : sizeof(vreg);
            if (PyObject_GetBuffer(objects[k], &views[held], PyBUF_WRITABLE) < 0) goto failed;
            if ((size_t)views[held++].len != size) {
                PyErr_Format(PyExc_ValueError, "argument %d has not the size of its kind", k);
                goto failed;
            }
            if (takes[k] == 't') a[k].t = views[held - 1].buf;
            else a[k].v = memcpy(&vectors[k], views[held - 1].buf, sizeof(vreg)); /* aligned */
        } else {
            unsigned long bits = PyLong_AsUnsignedLongMask(objects[k]);
            if (PyErr_Occurred()) goto failed;
            a[k].r.u = (uint32_t)bits;
            a[k].i = (int)(uint32_t)bits;
        }
    }
    return held;
failed:
    while (held > 0) PyBuffer_Release(&views[--held]);
    return -1;
}

static PyObject *tile_call(PyObject *module, PyObject *const *objects, Py_ssize_t count) {
    (void)module;
    const char *name = count ? PyUnicode_AsUTF8(objects[0]) : NULL;
    if (!name) return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "tile_call needs a name");
    const entry *e = NULL;
    for (size_t k = 0; k < sizeof entries / sizeof *entries; k++)
        if (!strcmp(entries[k].name, name)) e = &entries[k];
    if (!e || (size_t)count - 1 != strlen(e->takes)) return PyErr_Format(PyExc_TypeError, "no such call: %s", name);
    argument a[MOST] = {0};
    vreg vectors[MOST];
    Py_buffer views[MOST];
    int held = take(e->takes, objects + 1, a, vectors, views);
    if (held < 0) return NULL;
    int fault = call(e, a);
    for (int k = 0, v = 0; e->takes[k]; k++) { /* vector registers back to where they came from */
        if (e->takes[k] == 'v') memcpy(views[v].buf, &vectors[k], sizeof(vreg));
        if (e->takes[k] == 't' || e->takes[k] == 'v') v++;
    }
    while (held > 0) PyBuffer_Release(&views[--held]);
    return PyLong_FromLong(fault);
}

static PyObject *tile_shape_broadcast(PyObject *module, PyObject *const *objects, Py_ssize_t count) {
    (void)module;
    argument a[MOST] = {0};
    Py_buffer views[MOST];
    if (count < 2 || count > 4) return PyErr_Format(PyExc_TypeError, "a destination and 1 to 3 sources are needed");
    int held = take(&"tttt"[4 - count], objects, a, NULL, views);
    if (held < 0) return NULL;
    const tile *sources[] = {a[1].t, a[2].t, a[3].t};
    int fault = tk_shape_broadcast(a[0].t, (int)count - 1, sources);
    while (held > 0) PyBuffer_Release(&views[--held]);
    return PyLong_FromLong(fault);
}

static PyObject *tile_shape_extent(PyObject *module, PyObject *arguments) {
    (void)module;
    Py_buffer view;
    int rank;
    int32_t n[3];
    if (!PyArg_ParseTuple(arguments, "w*iiii", &view, &rank, &n[0], &n[1], &n[2])) return NULL;
    int fault = view.len == sizeof(tile) ? tk_shape_extent(view.buf, rank, n) : -1;
    PyBuffer_Release(&view);
    return PyLong_FromLong(fault);
}

/* tile_scalar(op, bits) -> bits of the function's value */
static PyObject *tile_scalar(PyObject *module, PyObject *arguments) {
    (void)module;
    int op;
    unsigned int bits;
    if (!PyArg_ParseTuple(arguments, "iI", &op, &bits)) return NULL;
    if (op < TK_NEG || op > TK_RECIP) return PyErr_Format(PyExc_ValueError, "no function of floats: %d", op);
    return PyLong_FromUnsignedLong(tk_bits(tk_scalar(op, tk_float(bits))));
}

/* tile_vreduce(op, register, dtype) -> bits */
static PyObject *tile_vreduce(PyObject *module, PyObject *arguments) {
    (void)module;
    int op, dtype;
    Py_buffer view;
    vreg v = {0};
    if (!PyArg_ParseTuple(arguments, "iy*i", &op, &view, &dtype)) return NULL;
    memcpy(v.b, view.buf, (size_t)view.len < sizeof v ? (size_t)view.len : sizeof v);
    PyBuffer_Release(&view);
    return PyLong_FromUnsignedLong(tk_vreduce(op, &v, dtype).u);
}

/* tile_vmake(register, bits, dtype): vsplat; bits None: viota */
static PyObject *tile_vmake(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *bits;
    int dtype;
    Py_buffer view;
    vreg v = {0};
    if (!PyArg_ParseTuple(arguments, "w*Oi", &view, &bits, &dtype)) return NULL;
    if (bits == Py_None) tk_viota(&v, dtype);
    else tk_vsplat(&v, (reg){.u = (uint32_t)PyLong_AsUnsignedLongMask(bits)}, dtype);
    if ((size_t)view.len == sizeof v) memcpy(view.buf, v.b, sizeof v);
    PyBuffer_Release(&view);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

/* tile_element(bits, dtype) -> (raw bits as stored, bits as loaded again) */
static PyObject *tile_element(PyObject *module, PyObject *arguments) {
    (void)module;
    unsigned int bits, stored = 0;
    int dtype;
    if (!PyArg_ParseTuple(arguments, "Ii", &bits, &dtype)) return NULL;
    if (dtype < 0 || dtype >= DT_COUNT) return PyErr_Format(PyExc_ValueError, "no such type: %d", dtype);
    tk_store(&stored, dtype, (reg){.u = bits});
    return Py_BuildValue("II", stored, tk_load(&stored, dtype).u);
}

/* tile_path(name=None) -> the name of the path in use; chooses another one where the processor has it */
static PyObject *tile_path(PyObject *module, PyObject *arguments) {
    (void)module;
    const char *name = NULL;
    if (!PyArg_ParseTuple(arguments, "|z", &name)) return NULL;
    if (name && !tk_use_path(name)) return PyErr_Format(PyExc_ValueError, "this processor or build has no %s", name);
    return PyUnicode_FromString(tk_path());
}

PyMethodDef tiles_methods[] = {
    {"tile_call", (PyCFunction)(void (*)(void))tile_call, METH_FASTCALL,
     "tile_call(name, *arguments) -> fault number, for tests: tiles and vector registers as writable bytes, scalars as bits."},
    {"tile_shape_broadcast", (PyCFunction)(void (*)(void))tile_shape_broadcast, METH_FASTCALL,
     "tile_shape_broadcast(d, *sources) -> fault number"},
    {"tile_shape_extent", tile_shape_extent, METH_VARARGS, "tile_shape_extent(d, rank, n0, n1, n2) -> fault number"},
    {"tile_scalar", tile_scalar, METH_VARARGS, "tile_scalar(operation, bits) -> bits"},
    {"tile_vreduce", tile_vreduce, METH_VARARGS, "tile_vreduce(operation, register, dtype) -> bits"},
    {"tile_vmake", tile_vmake, METH_VARARGS, "tile_vmake(register, bits or None, dtype): one value in all lanes; 0, 1, 2, ..."},
    {"tile_element", tile_element, METH_VARARGS, "tile_element(bits, dtype) -> (stored bits, loaded bits)"},
    {"tile_path", tile_path, METH_VARARGS, "tile_path(name=None) -> the tile library's path for this processor"},
    {NULL, NULL, 0, NULL},
};
