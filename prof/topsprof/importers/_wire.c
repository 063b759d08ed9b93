/* Scanner of the protobuf wire format: the fields of many messages at once, as columns.
 *
 * fields(buffer, starts, ends) -> (bytes row, bytes field, bytes wire, bytes value, bytes start, bytes end, damaged)
 *   buffer        readable bytes
 *   starts, ends  int64 arrays: message i is buffer[starts[i]:ends[i]]
 *   row   int64: the message that a field belongs to          field uint32: its number
 *   wire  uint8: 0 varint, 1 fixed64, 2 bytes, 5 fixed32      value uint64: of varint and fixed fields, else 0
 *   start, end int64: where the bytes of a wire type 2 field lie, else 0
 *   damaged: how many messages ended in the middle of a field or hold an impossible one; their fields up to there are kept
 * Fields come in the order of messages and, within one, of the file.
 *
 * split(buffer, start, end, number) -> (bytes starts, bytes ends, next)
 *   the wire type 2 fields of that number of one long message that may go on after `end`; `next` is where the first
 *   incomplete field begins, or -1 - position where the bytes can't be a field. Other fields are stepped over.
 *
 * The numpy twin is wire.py. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The Python side repeats this number (wire.py). Raise both when a name, an argument, a result or a layout changes
 * on which the two rely: an extension built from other sources is then not used. */
#define INTERFACE 1

static int read_varint(const uint8_t *data, int64_t *at, int64_t end, uint64_t *out) {
    uint64_t value = 0;
    int64_t i = *at;
    for (int shift = 0; shift < 70; shift += 7) {
        if (i >= end) return 0;
        uint8_t byte = data[i++];
        if (shift < 64) value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) {
            *at = i;
            *out = value;
            return 1;
        }
    }
    return 0;
}

typedef struct {
    int64_t *row, *start, *end;
    uint64_t *value;
    uint32_t *field;
    uint8_t *wire;
    size_t n, room;
} Columns;

static int grow(Columns *c) {
    size_t room = c->room ? c->room * 2 : 1024;
#define GROW(name)                                             \
    do {                                                       \
        void *p = realloc(c->name, room * sizeof *c->name);    \
        if (!p) return 0;                                      \
        c->name = p;                                           \
    } while (0)
    GROW(row);
    GROW(start);
    GROW(end);
    GROW(value);
    GROW(field);
    GROW(wire);
#undef GROW
    c->room = room;
    return 1;
}

static void release(Columns *c) {
    free(c->row);
    free(c->start);
    free(c->end);
    free(c->value);
    free(c->field);
    free(c->wire);
}

/* One field at *at. 1: read; 0: damaged. */
static int read_field(const uint8_t *data, int64_t *at, int64_t end, uint32_t *field, uint8_t *wire, uint64_t *value,
                      int64_t *from, int64_t *to) {
    uint64_t tag, length;
    int64_t i = *at;
    if (!read_varint(data, &i, end, &tag)) return 0;
    *field = (uint32_t)(tag >> 3);
    *wire = tag & 7;
    *value = 0;
    *from = *to = 0;
    if (*field == 0 || tag >> 32) return 0;
    switch (*wire) {
    case 0:
        if (!read_varint(data, &i, end, value)) return 0;
        break;
    case 1:
        if (end - i < 8) return 0;
        memcpy(value, data + i, 8);
        i += 8;
        break;
    case 2:
        if (!read_varint(data, &i, end, &length) || length > (uint64_t)(end - i)) return 0;
        *from = i;
        *to = i + (int64_t)length;
        i = *to;
        break;
    case 5: {
        uint32_t word;
        if (end - i < 4) return 0;
        memcpy(&word, data + i, 4);
        *value = word;
        i += 4;
        break;
    }
    default:
        return 0;
    }
    *at = i;
    return 1;
}

/* The fields of all messages: into columns, where there are any, else only counted. */
static int64_t scan(const uint8_t *data, int64_t size, const int64_t *begin, const int64_t *stop, int64_t messages,
                    const Columns *c, int64_t *damaged) {
    int64_t n = 0;
    uint32_t field;
    uint8_t wire;
    uint64_t value;
    int64_t from, to;
    *damaged = 0;
    for (int64_t i = 0; i < messages; i++) {
        int64_t at = begin[i], end = stop[i];
        if (at < 0 || end > size || at > end) {
            ++*damaged;
            continue;
        }
        while (at < end) {
            if (!read_field(data, &at, end, &field, &wire, &value, &from, &to)) {
                ++*damaged;
                break;
            }
            if (c) {
                c->row[n] = i;
                c->field[n] = field;
                c->wire[n] = wire;
                c->value[n] = value;
                c->start[n] = from;
                c->end[n] = to;
            }
            n++;
        }
    }
    return n;
}

static PyObject *fields(PyObject *self, PyObject *args) {
    (void)self;
    Py_buffer buffer, starts, ends;
    if (!PyArg_ParseTuple(args, "y*y*y*", &buffer, &starts, &ends)) return NULL;
    PyObject *result = NULL;
    int64_t messages = starts.len / 8, damaged, n;
    if (starts.len != ends.len) {
        PyErr_SetString(PyExc_ValueError, "starts and ends differ in length");
        goto out;
    }
    Py_BEGIN_ALLOW_THREADS
    n = scan(buffer.buf, buffer.len, starts.buf, ends.buf, messages, NULL, &damaged);
    Py_END_ALLOW_THREADS
    /* Counting first costs less than columns that grow and are copied into bytes of their size. */
    PyObject *column[6];
    static const size_t width[6] = {sizeof(int64_t), sizeof(uint32_t), sizeof(uint8_t),
                                    sizeof(uint64_t), sizeof(int64_t), sizeof(int64_t)};
    for (int k = 0; k < 6; k++) {
        column[k] = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)((size_t)n * width[k]));
        if (!column[k]) {
            while (k--) Py_DECREF(column[k]);
            goto out;
        }
    }
    Columns c = {.row = (int64_t *)PyBytes_AS_STRING(column[0]),
                 .field = (uint32_t *)PyBytes_AS_STRING(column[1]),
                 .wire = (uint8_t *)PyBytes_AS_STRING(column[2]),
                 .value = (uint64_t *)PyBytes_AS_STRING(column[3]),
                 .start = (int64_t *)PyBytes_AS_STRING(column[4]),
                 .end = (int64_t *)PyBytes_AS_STRING(column[5])};
    Py_BEGIN_ALLOW_THREADS
    scan(buffer.buf, buffer.len, starts.buf, ends.buf, messages, &c, &damaged);
    Py_END_ALLOW_THREADS
    result = Py_BuildValue("NNNNNNL", column[0], column[1], column[2], column[3], column[4], column[5], (long long)damaged);
out:
    PyBuffer_Release(&buffer);
    PyBuffer_Release(&starts);
    PyBuffer_Release(&ends);
    return result;
}

static PyObject *split(PyObject *self, PyObject *args) {
    (void)self;
    Py_buffer buffer;
    long long start, end, next;
    unsigned int number;
    if (!PyArg_ParseTuple(args, "y*LLI", &buffer, &start, &end, &number)) return NULL;
    PyObject *result = NULL;
    Columns c = {0};
    int ok = 1;
    const uint8_t *data = buffer.buf;
    if (start < 0 || end > buffer.len) {
        PyErr_SetString(PyExc_ValueError, "outside the buffer");
        goto out;
    }
    Py_BEGIN_ALLOW_THREADS
    int64_t at = start;
    next = end;
    while (at < end) {
        uint32_t field;
        uint8_t wire;
        uint64_t value;
        int64_t from, to, was = at;
        if (c.n == c.room && !grow(&c)) {
            ok = 0;
            break;
        }
        if (!read_field(data, &at, end, &field, &wire, &value, &from, &to)) {
            /* Incomplete, or impossible? The tag tells, where there is one. */
            uint64_t tag;
            int64_t i = was;
            int whole = read_varint(data, &i, end, &tag);
            int bad = whole ? (tag >> 3 == 0 || tag >> 32 || (tag & 7) == 3 || (tag & 7) == 4 || (tag & 7) > 5) : end - was >= 10;
            next = bad ? -1 - was : was;
            break;
        }
        if (wire == 2 && field == number) {
            c.start[c.n] = from;
            c.end[c.n++] = to;
        }
    }
    Py_END_ALLOW_THREADS
    if (!ok) {
        PyErr_NoMemory();
        goto out;
    }
    result = Py_BuildValue("y#y#L", c.start ? (char *)c.start : "", (Py_ssize_t)(c.n * 8), c.end ? (char *)c.end : "",
                           (Py_ssize_t)(c.n * 8), next);
out:
    release(&c);
    PyBuffer_Release(&buffer);
    return result;
}

static PyMethodDef methods[] = {
    {"fields", fields, METH_VARARGS, "fields(buffer, starts, ends): the fields of many messages"},
    {"split", split, METH_VARARGS, "split(buffer, start, end, number): the parts of one long message"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_wire", "Scanner of the protobuf wire format.", 0, methods, NULL,
                                    NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__wire(void) {
    PyObject *made = PyModule_Create(&module);
    if (made && PyModule_AddIntConstant(made, "INTERFACE", INTERFACE) < 0) Py_CLEAR(made);
    return made;
}
