/* Puts rows of bytes together from columns: records of protobuf, or lines of JSON, by the million.
 *
 * assemble(rows, pieces) -> (bytes data, bytes ends)
 *   data: the rows one after the other; ends: int64 position after each
 * A piece is a tuple (kind, prefix, inner, values, data, starts, ends, present):
 *   prefix, inner  bytes
 *   values         int64 array of one entry a row, or None
 *   data           bytes, of which row i takes starts[i]:ends[i] (int64 arrays), or None
 *   present        uint8 array, or None: rows in which it is 0 go without the piece
 * Kinds, and what they write:
 *   0 constant   prefix inner
 *   1 varint     prefix varint(value)
 *   2 fixed      prefix, value as 8 bytes
 *   3 bytes      prefix data inner
 *   4 sized      prefix varint(length) data
 *   5, 6, 7      prefix varint(size of the rest) inner, then as 1, 2, 4 without their prefix
 *   8 integer    prefix, value in decimal, inner
 *   9 micros     prefix, value / 1000 in decimal with three decimals, inner
 *
 * The numpy twin is assemble.py. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The Python side repeats this number (assemble.py). Raise both when a name, an argument, a result or a layout changes
 * on which the two rely: an extension built from other sources is then not used. */
#define INTERFACE 1

enum { CONSTANT, VARINT, FIXED, BYTES, SIZED, WRAPPED_VARINT, WRAPPED_FIXED, WRAPPED_SIZED, INTEGER, MICROS, KINDS };

typedef struct {
    int kind;
    Py_buffer prefix, inner, values, data, starts, ends, present;
} Piece;

static int varint_size(uint64_t v) {
    int n = 1;
    while (v > 127) {
        v >>= 7;
        n++;
    }
    return n;
}

static uint8_t *put_varint(uint8_t *at, uint64_t v) {
    while (v > 127) {
        *at++ = (uint8_t)(v | 128);
        v >>= 7;
    }
    *at++ = (uint8_t)v;
    return at;
}

static int decimal_size(uint64_t v) {
    int n = 1;
    while (v > 9) {
        v /= 10;
        n++;
    }
    return n;
}

static uint8_t *put_decimal(uint8_t *at, uint64_t v, int size) {
    for (int i = size - 1; i >= 0; i--) {
        at[i] = (uint8_t)('0' + v % 10);
        v /= 10;
    }
    return at + size;
}

static uint64_t magnitude(int64_t v) { return v < 0 ? 0 - (uint64_t)v : (uint64_t)v; }

static uint8_t *put(uint8_t *at, const void *from, int64_t n) {
    memcpy(at, from, (size_t)n);
    return at + n;
}

static int64_t span(const Piece *p, int64_t i) { return ((const int64_t *)p->ends.buf)[i] - ((const int64_t *)p->starts.buf)[i]; }

/* Bytes of the piece after its prefix (and, for wrapped ones, after the size). */
static int64_t body_size(const Piece *p, int64_t i) {
    int64_t value = p->values.buf ? ((const int64_t *)p->values.buf)[i] : 0;
    switch (p->kind) {
    case CONSTANT:
        return p->inner.len;
    case VARINT:
        return varint_size((uint64_t)value);
    case FIXED:
        return 8;
    case BYTES:
        return span(p, i) + p->inner.len;
    case SIZED:
        return varint_size((uint64_t)span(p, i)) + span(p, i);
    case WRAPPED_VARINT:
        return p->inner.len + varint_size((uint64_t)value);
    case WRAPPED_FIXED:
        return p->inner.len + 8;
    case WRAPPED_SIZED:
        return p->inner.len + varint_size((uint64_t)span(p, i)) + span(p, i);
    case INTEGER:
        return (value < 0) + decimal_size(magnitude(value)) + p->inner.len;
    default: /* MICROS */
        return (value < 0) + decimal_size(magnitude(value) / 1000) + 4 + p->inner.len;
    }
}

static uint8_t *write_piece(const Piece *p, int64_t i, uint8_t *at) {
    int64_t value = p->values.buf ? ((const int64_t *)p->values.buf)[i] : 0;
    const uint8_t *from = p->data.buf ? (const uint8_t *)p->data.buf + ((const int64_t *)p->starts.buf)[i] : NULL;
    uint64_t size = magnitude(value);
    at = put(at, p->prefix.buf, p->prefix.len);
    if (p->kind >= WRAPPED_VARINT && p->kind <= WRAPPED_SIZED) {
        at = put_varint(at, (uint64_t)body_size(p, i));
        at = put(at, p->inner.buf, p->inner.len);
    }
    switch (p->kind) {
    case VARINT:
    case WRAPPED_VARINT:
        return put_varint(at, (uint64_t)value);
    case FIXED:
    case WRAPPED_FIXED:
        return put(at, &value, 8);
    case BYTES:
        at = put(at, from, span(p, i));
        break;
    case SIZED:
    case WRAPPED_SIZED:
        at = put_varint(at, (uint64_t)span(p, i));
        return put(at, from, span(p, i));
    case INTEGER:
        if (value < 0) *at++ = '-';
        at = put_decimal(at, size, decimal_size(size));
        break;
    case MICROS:
        if (value < 0) *at++ = '-';
        at = put_decimal(at, size / 1000, decimal_size(size / 1000));
        *at++ = '.';
        at = put_decimal(at, size % 1000, 3);
        break;
    default:
        break;
    }
    return put(at, p->inner.buf, p->inner.len);
}

static int get(PyObject *from, Py_buffer *to, int64_t bytes) {
    if (from == Py_None) return 1;
    if (PyObject_GetBuffer(from, to, PyBUF_SIMPLE) < 0) return 0;
    if (bytes >= 0 && to->len != bytes) {
        PyErr_SetString(PyExc_ValueError, "an array of a piece has another length than there are rows");
        return 0;
    }
    return 1;
}

static int read_piece(PyObject *tuple, Piece *p, int64_t rows) {
    PyObject *prefix, *inner, *values, *data, *starts, *ends, *present;
    if (!PyArg_ParseTuple(tuple, "iOOOOOOO", &p->kind, &prefix, &inner, &values, &data, &starts, &ends, &present)) return 0;
    if (p->kind < 0 || p->kind >= KINDS) {
        PyErr_SetString(PyExc_ValueError, "unknown kind of piece");
        return 0;
    }
    if (!get(prefix, &p->prefix, -1) || !get(inner, &p->inner, -1) || !get(values, &p->values, rows * 8) ||
        !get(data, &p->data, -1) || !get(starts, &p->starts, rows * 8) || !get(ends, &p->ends, rows * 8) ||
        !get(present, &p->present, rows))
        return 0;
    int spans = p->kind == BYTES || p->kind == SIZED || p->kind == WRAPPED_SIZED;
    int numbers = !spans && p->kind != CONSTANT;
    if ((numbers && !p->values.obj) || (spans && (!p->data.obj || !p->starts.obj || !p->ends.obj))) {
        PyErr_SetString(PyExc_ValueError, "a piece lacks an array that its kind needs");
        return 0;
    }
    if (spans)
        for (int64_t i = 0; i < rows; i++) {
            int64_t a = ((const int64_t *)p->starts.buf)[i], b = ((const int64_t *)p->ends.buf)[i];
            if (a < 0 || b < a || b > p->data.len) {
                PyErr_SetString(PyExc_ValueError, "a span lies outside the data of its piece");
                return 0;
            }
        }
    return 1;
}

static PyObject *assemble(PyObject *self, PyObject *args) {
    (void)self;
    long long rows;
    PyObject *list;
    if (!PyArg_ParseTuple(args, "LO!", &rows, &PyList_Type, &list)) return NULL;
    Py_ssize_t count = PyList_GET_SIZE(list);
    PyObject *result = NULL, *data = NULL, *ends = NULL;
    Piece *pieces = calloc((size_t)count + 1, sizeof *pieces);
    if (!pieces) return PyErr_NoMemory();
    if (rows < 0) {
        PyErr_SetString(PyExc_ValueError, "rows must not be negative");
        goto out;
    }
    for (Py_ssize_t k = 0; k < count; k++)
        if (!read_piece(PyList_GET_ITEM(list, k), &pieces[k], rows)) goto out;
    ends = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)rows * 8);
    if (!ends) goto out;
    int64_t *end = (int64_t *)PyBytes_AS_STRING(ends), total = 0;
    Py_BEGIN_ALLOW_THREADS
    for (int64_t i = 0; i < rows; i++) {
        for (Py_ssize_t k = 0; k < count; k++) {
            const Piece *p = &pieces[k];
            if (p->present.buf && !((const uint8_t *)p->present.buf)[i]) continue;
            int64_t body = body_size(p, i);
            total += p->prefix.len + body;
            if (p->kind >= WRAPPED_VARINT && p->kind <= WRAPPED_SIZED) total += varint_size((uint64_t)body);
        }
        end[i] = total;
    }
    Py_END_ALLOW_THREADS
    data = PyBytes_FromStringAndSize(NULL, total);
    if (!data) goto out;
    uint8_t *at = (uint8_t *)PyBytes_AS_STRING(data);
    Py_BEGIN_ALLOW_THREADS
    for (int64_t i = 0; i < rows; i++)
        for (Py_ssize_t k = 0; k < count; k++) {
            const Piece *p = &pieces[k];
            if (!p->present.buf || ((const uint8_t *)p->present.buf)[i]) at = write_piece(p, i, at);
        }
    Py_END_ALLOW_THREADS
    result = PyTuple_Pack(2, data, ends);
out:
    for (Py_ssize_t k = 0; k < count; k++) {
        Py_buffer *all[] = {&pieces[k].prefix, &pieces[k].inner, &pieces[k].values, &pieces[k].data,
                            &pieces[k].starts, &pieces[k].ends,  &pieces[k].present};
        for (size_t j = 0; j < sizeof all / sizeof *all; j++)
            if (all[j]->obj) PyBuffer_Release(all[j]);
    }
    free(pieces);
    Py_XDECREF(data);
    Py_XDECREF(ends);
    return result;
}

static PyMethodDef methods[] = {
    {"assemble", assemble, METH_VARARGS, "assemble(rows, pieces): rows of bytes from columns"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_assemble", "Rows of bytes from columns.", 0, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__assemble(void) {
    PyObject *made = PyModule_Create(&module);
    if (made && PyModule_AddIntConstant(made, "INTERFACE", INTERFACE) < 0) Py_CLEAR(made);
    return made;
}
