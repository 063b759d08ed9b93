/* Streaming scanner of Chrome trace JSON: bytes in, columns out, no Python object per event.
 *
 * feed() takes the file in pieces of any size and runs without the GIL; take() hands over the rows so far as raw
 * column buffers. An event that is cut by the end of a piece is parsed again when more has come (the text asked for
 * doubles, so that one huge event costs linear time). What is wrong with the text is repaired where its meaning is
 * clear and counted as an issue with its first position. scan_twin.py is the same machine in Python, with the same
 * results. The headers: strings < state < text < value < event < file, each on the one before; stacks.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "scan_file.h"
#include "scan_stacks.h"

/* The Python side repeats this number (scan.py). Raise both when a name, an argument, a result or a layout changes
 * on which the two rely: an extension built from other sources is then not used. */
#define INTERFACE 1

static int enter(Scanner *s) {
    if (s->busy) {
        PyErr_SetString(PyExc_RuntimeError, "the scanner is in use by another thread");
        return -1;
    }
    s->busy = true;
    return 0;
}

static PyObject *scanner_feed(Scanner *s, PyObject *data) {
    Py_buffer view;
    if (PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)) return NULL;
    if (enter(s)) {
        PyBuffer_Release(&view);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    step(s, view.buf, (size_t)view.len);
    Py_END_ALLOW_THREADS
    s->busy = false;
    PyBuffer_Release(&view);
    if (s->oom) return PyErr_NoMemory();
    return PyLong_FromUnsignedLong(s->rows);
}

static PyObject *scanner_finish(Scanner *s, PyObject *unused) {
    (void)unused;
    if (enter(s)) return NULL;
    s->final = true;
    Py_BEGIN_ALLOW_THREADS
    step(s, NULL, 0);
    Py_END_ALLOW_THREADS
    s->busy = false;
    if (s->oom) return PyErr_NoMemory();
    if (s->state == EVENTS || s->state == LOST) issue_now(s, MISSING_BRACKET, s->buffer.data + s->done);
    else if (s->state == TOP && !s->issues[TRUNCATED_METADATA])
        issue_now(s, TRUNCATED_METADATA, s->buffer.data + s->done);
    if (!s->any_events && !s->issues[NO_EVENTS]) issue_now(s, NO_EVENTS, s->buffer.data + s->buffer.size);
    return PyLong_FromUnsignedLong(s->rows);
}

/* Move a buffer's bytes into a dict and empty it. */
static int hand_over(PyObject *dict, const char *name, Bytes *b) {
    PyObject *value = PyBytes_FromStringAndSize(b->data, (Py_ssize_t)b->size);
    b->size = 0;
    if (!value) return -1;
    int r = PyDict_SetItemString(dict, name, value);
    Py_DECREF(value);
    return r;
}

static PyObject *scanner_take(Scanner *s, PyObject *unused) {
    (void)unused;
    if (enter(s)) return NULL;
    PyObject *out = PyDict_New(), *keys = PyDict_New();
    int bad = !out || !keys || PyDict_SetItemString(out, "keys", keys);
    for (int i = 0; i < DENSE && !bad; i++) bad = hand_over(out, DENSE_NAMES[i], &s->dense[i]);
    bad = bad || hand_over(out, "rest_rows", &s->rest_rows) || hand_over(out, "rest_ends", &s->rest_ends)
       || hand_over(out, "rest", &s->rest) || hand_over(out, "series_rows", &s->series_rows)
       || hand_over(out, "series_keys", &s->series_keys) || hand_over(out, "series_values", &s->series_values);
    for (int i = 0; i < s->n_keys && !bad; i++) {
        Key *k = &s->keys[i];
        if (!k->rows.size) continue;
        PyObject *pair = Py_BuildValue("(y#y#)", k->rows.data, (Py_ssize_t)k->rows.size, k->values.data,
                                       (Py_ssize_t)k->values.size);
        bad = !pair || PyDict_SetItemString(keys, k->name, pair);
        Py_XDECREF(pair);
        k->rows.size = k->values.size = 0;
    }
    s->rows = 0;
    s->busy = false;
    Py_XDECREF(keys);
    if (bad) Py_CLEAR(out);
    return out;
}

static PyObject *scanner_strings(Scanner *s, PyObject *arg) {
    long first = PyLong_AsLong(arg);
    if (first == -1 && PyErr_Occurred()) return NULL;
    if (first < 0 || first > (long)s->strings.count) {
        PyErr_SetString(PyExc_IndexError, "no such string");
        return NULL;
    }
    const int64_t *ends = (const int64_t *)s->strings.ends.data;
    int64_t start = first ? ends[first - 1] : 0, end = s->strings.count ? ends[s->strings.count - 1] : 0;
    return Py_BuildValue("(Ly#y#)", (long long)start, ends ? (const char *)(ends + first) : "",
                         (Py_ssize_t)((s->strings.count - (size_t)first) * sizeof(int64_t)),
                         s->strings.text.data ? s->strings.text.data + start : "", (Py_ssize_t)(end - start));
}

static PyObject *scanner_metadata(Scanner *s, PyObject *unused) {
    (void)unused;
    size_t n = s->metas.size / sizeof(Meta);
    const Meta *m = (const Meta *)s->metas.data;
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < n; i++) {
        PyObject *pair = Py_BuildValue("(y#y#)", m[i].text, (Py_ssize_t)m[i].key_size, m[i].text + m[i].key_size,
                                       (Py_ssize_t)m[i].size);
        if (!pair || PyList_Append(list, pair)) Py_CLEAR(list);
        Py_XDECREF(pair);
    }
    return list;
}

static PyObject *scanner_issues(Scanner *s, PyObject *unused) {
    (void)unused;
    PyObject *list = PyList_New(0);
    for (int i = 0; list && i < ISSUES; i++) {
        if (!s->issues[i]) continue;
        PyObject *entry = Py_BuildValue("(sLL)", ISSUE_CODES[i], (long long)s->issues[i], (long long)s->issue_at[i]);
        if (!entry || PyList_Append(list, entry)) Py_CLEAR(list);
        Py_XDECREF(entry);
    }
    return list;
}

static PyObject *scanner_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *keys;
    static char *names[] = {"keys", NULL};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O", names, &keys)) return NULL;
    PyObject *fast = PySequence_Fast(keys, "keys must be a sequence of (name, kind)");
    if (!fast) return NULL;
    Scanner *s = (Scanner *)type->tp_alloc(type, 0);
    Py_ssize_t n = PySequence_Fast_GET_SIZE(fast);
    if (s && n > MAX_KEYS) {
        PyErr_Format(PyExc_ValueError, "at most %d keys", MAX_KEYS);
        Py_CLEAR(s);
    }
    for (Py_ssize_t i = 0; s && i < n; i++) {
        const char *name, *kind;
        PyObject *item = PySequence_Fast_GET_ITEM(fast, i);
        if (!PyTuple_Check(item) || !PyArg_ParseTuple(item, "ss", &name, &kind)) {
            if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "keys must be a sequence of (name, kind)");
            Py_CLEAR(s);
            break;
        }
        Key *k = &s->keys[i];
        k->size = strlen(name);
        k->kind = kind[0];
        k->name = malloc(k->size + 1);
        if (!k->name) {
            PyErr_NoMemory();
            Py_CLEAR(s);
            break;
        }
        memcpy(k->name, name, k->size + 1);
        s->n_keys = (int)i + 1;
        unsigned h = (unsigned)(hash_text(name, k->size) & 255);
        while (s->key_slots[h]) h = (h + 1) & 255;
        s->key_slots[h] = (uint8_t)(i + 1);
    }
    Py_DECREF(fast);
    return (PyObject *)s;
}

static void scanner_dealloc(Scanner *s) {
    Bytes *all[] = {&s->buffer, &s->strings.text, &s->strings.ends, &s->rest_rows, &s->rest_ends, &s->rest,
                    &s->series_rows, &s->series_keys, &s->series_values, &s->scratch, &s->top_rest, &s->args_rest,
                    &s->key_text, &s->value_text};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]->data);
    for (int i = 0; i < DENSE; i++) free(s->dense[i].data);
    for (int i = 0; i < s->n_keys; i++) {
        free(s->keys[i].name);
        free(s->keys[i].rows.data);
        free(s->keys[i].values.data);
    }
    for (size_t i = 0; i < s->metas.size / sizeof(Meta); i++) free(((Meta *)s->metas.data)[i].text);
    free(s->metas.data);
    free(s->strings.hashes);
    free(s->strings.ids);
    PyTypeObject *type = Py_TYPE(s);
    type->tp_free((PyObject *)s);
    Py_DECREF(type);
}

static PyObject *scanner_rows(Scanner *s, void *unused) {
    (void)unused;
    return PyLong_FromUnsignedLong(s->rows);
}

static PyMethodDef SCANNER_METHODS[] = {
    {"feed", (PyCFunction)scanner_feed, METH_O, "Scan one more piece of the file; returns the rows that wait."},
    {"finish", (PyCFunction)scanner_finish, METH_NOARGS, "The file has ended; returns the rows that wait."},
    {"take", (PyCFunction)scanner_take, METH_NOARGS, "The waiting rows as a dict of column buffers; empties them."},
    {"strings", (PyCFunction)scanner_strings, METH_O, "(start, int64 end offsets, text) of the strings from an id on."},
    {"metadata", (PyCFunction)scanner_metadata, METH_NOARGS, "[(key, JSON text)] beside the events, so far."},
    {"issues", (PyCFunction)scanner_issues, METH_NOARGS, "[(code, count, first position)] so far."},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef SCANNER_GETTERS[] = {
    {"rows", (getter)scanner_rows, NULL, "Rows that wait to be taken.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot SCANNER_SLOTS[] = {
    {Py_tp_new, scanner_new}, {Py_tp_dealloc, scanner_dealloc}, {Py_tp_methods, SCANNER_METHODS},
    {Py_tp_getset, SCANNER_GETTERS}, {Py_tp_doc, "Streaming scanner of Chrome trace JSON."}, {0, NULL},
};
static PyType_Spec SCANNER_SPEC = {"topsprof.importers._scan.Scanner", sizeof(Scanner), 0, Py_TPFLAGS_DEFAULT, SCANNER_SLOTS};

/* Intervals of one track that overlap without nesting. An overlap of up to `tolerance` is rounding: it is cut off the
 * earlier one, or off the end of the later one where that is less (then it lies within). The arrays are sorted by
 * (track, start, -length); `end` is changed. False without memory. */
static bool nest_sorted(const int64_t *track, const int64_t *start, int64_t *end, Py_ssize_t n, int64_t tolerance,
                        Py_ssize_t *trimmed, Py_ssize_t *overlapping) {
    Py_ssize_t *open = malloc((size_t)(n + 1) * sizeof *open), depth = 0;
    if (!open) return false;
    for (Py_ssize_t i = 0; i < n; i++) {
        if (i && track[i] != track[i - 1]) depth = 0;
        bool beside = false;
        for (; depth; depth--) {
            int64_t *outer = &end[open[depth - 1]];
            if (*outer <= start[i]) continue;
            if (end[i] <= *outer) break;
            uint64_t shared = (uint64_t)*outer - (uint64_t)start[i], over = (uint64_t)end[i] - (uint64_t)*outer;
            if (shared <= over && shared <= (uint64_t)tolerance) {
                *outer = start[i];
                ++*trimmed;
            } else if (over <= (uint64_t)tolerance) {
                end[i] = *outer;
                ++*trimmed;
                break;
            } else { /* goes on beside the one it began in */
                beside = true;
                break;
            }
        }
        if (beside) ++*overlapping;
        else open[depth++] = i;
    }
    free(open);
    return true;
}

static PyObject *nest(PyObject *module, PyObject *args) {
    (void)module;
    Py_buffer track, start, end;
    long long tolerance;
    if (!PyArg_ParseTuple(args, "y*y*y*L", &track, &start, &end, &tolerance)) return NULL;
    Py_ssize_t n = track.len / 8, trimmed = 0, overlapping = 0;
    PyObject *ends = NULL, *out = NULL;
    if (start.len != n * 8 || end.len != n * 8 || tolerance < 0)
        PyErr_SetString(PyExc_ValueError, "columns of different lengths");
    else if ((ends = PyBytes_FromStringAndSize(end.buf, end.len))) {
        bool good;
        Py_BEGIN_ALLOW_THREADS
        good = nest_sorted(track.buf, start.buf, (int64_t *)PyBytes_AS_STRING(ends), n, tolerance, &trimmed, &overlapping);
        Py_END_ALLOW_THREADS
        out = good ? Py_BuildValue("(Onn)", ends, trimmed, overlapping) : PyErr_NoMemory();
    }
    Py_XDECREF(ends);
    PyBuffer_Release(&track);
    PyBuffer_Release(&start);
    PyBuffer_Release(&end);
    return out;
}

static PyMethodDef MODULE_METHODS[] = {
    {"nest", nest, METH_VARARGS,
     "Intervals (int64 track, start, end, sorted; tolerance) -> (int64 ends, trimmed, overlapping without nesting)."},
    {NULL, NULL, 0, NULL},
};

static int module_exec(PyObject *module) {
    PyObject *type = PyType_FromSpec(&SCANNER_SPEC);
    if (!type) return -1;
    int r = PyModule_AddObjectRef(module, "Scanner", type);
    Py_DECREF(type);
    if (r || !(type = PyType_FromSpec(&STACKS_SPEC))) return -1;
    r = PyModule_AddObjectRef(module, "Stacks", type);
    Py_DECREF(type);
    return r ? r : PyModule_AddIntConstant(module, "INTERFACE", INTERFACE);
}
static PyModuleDef_Slot MODULE_SLOTS[] = {{Py_mod_exec, module_exec}, {0, NULL}};
static PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "_scan", NULL, 0, MODULE_METHODS, MODULE_SLOTS, NULL, NULL, NULL};
PyMODINIT_FUNC PyInit__scan(void) { return PyModuleDef_Init(&MODULE); }
