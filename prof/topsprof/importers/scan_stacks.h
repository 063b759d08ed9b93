/* Stacks of traced Python functions. */
#ifndef TOPSPROF_SCAN_STACKS_H
#define TOPSPROF_SCAN_STACKS_H

#include "scan_strings.h"

/* ---- stacks of traced Python functions: which of them each row of the trace lies in ---- */

typedef struct { int64_t end; int32_t path; } Frame;
typedef struct { Frame *frames; size_t depth, room; } Track;

typedef struct {
    PyObject_HEAD
    Bytes tracks;   /* Track, by number */
    Bytes paths;    /* int32 pairs (caller's path or -1, function) */
    uint32_t *slots; /* open addressing: path + 1 */
    size_t n_slots;
} Stacks;

static bool stacks_grow(Stacks *s) {
    size_t n = s->n_slots ? s->n_slots * 2 : 1024;
    uint32_t *slots = calloc(n, sizeof *slots);
    if (!slots) return false;
    const uint64_t *paths = (const uint64_t *)s->paths.data;
    for (uint32_t i = 0; i < s->paths.size / 8; i++) {
        size_t k = hash_text((const char *)&paths[i], 8) & (n - 1);
        while (slots[k]) k = (k + 1) & (n - 1);
        slots[k] = i + 1;
    }
    free(s->slots);
    s->slots = slots;
    s->n_slots = n;
    return true;
}

/* The path of `function` called from path `caller`; -2 without memory. */
static int32_t stacks_path(Stacks *s, int32_t caller, int32_t function) {
    if (s->paths.size / 8 * 2 >= s->n_slots && !stacks_grow(s)) return -2;
    const int32_t pair[2] = {caller, function};
    size_t k = hash_text((const char *)pair, 8) & (s->n_slots - 1);
    for (; s->slots[k]; k = (k + 1) & (s->n_slots - 1))
        if (!memcmp(s->paths.data + (s->slots[k] - 1) * 8, pair, 8)) return (int32_t)s->slots[k] - 1;
    if (!bytes_put(&s->paths, pair, 8)) return -2;
    s->slots[k] = (uint32_t)(s->paths.size / 8);
    return (int32_t)s->slots[k] - 1;
}

static bool stacks_walk_rows(Stacks *s, const int64_t *track, const int64_t *start, const int64_t *end,
                             const int32_t *function, int32_t *out, size_t n) {
    for (size_t i = 0; i < n; i++) {
        size_t need = ((size_t)track[i] + 1) * sizeof(Track);
        if (need > s->tracks.size) {
            size_t old = s->tracks.size;
            if (!bytes_room(&s->tracks, need - old)) return false;
            memset(s->tracks.data + old, 0, need - old);
            s->tracks.size = need;
        }
        Track *t = (Track *)s->tracks.data + track[i];
        while (t->depth && t->frames[t->depth - 1].end <= start[i]) t->depth--;
        int32_t path = t->depth ? t->frames[t->depth - 1].path : -1;
        if (function[i] >= 0) {
            path = stacks_path(s, path, function[i]);
            if (path == -2) return false;
            if (t->depth == t->room) {
                size_t room = t->room ? t->room * 2 : 64;
                Frame *frames = realloc(t->frames, room * sizeof *frames);
                if (!frames) return false;
                t->frames = frames;
                t->room = room;
            }
            t->frames[t->depth++] = (Frame){end[i], path};
        }
        out[i] = path;
    }
    return true;
}

static PyObject *stacks_walk(Stacks *s, PyObject *args) {
    Py_buffer track, start, end, function;
    if (!PyArg_ParseTuple(args, "y*y*y*y*", &track, &start, &end, &function)) return NULL;
    size_t n = (size_t)track.len / 8;
    PyObject *out = NULL;
    if ((size_t)start.len != n * 8 || (size_t)end.len != n * 8 || (size_t)function.len != n * 4)
        PyErr_SetString(PyExc_ValueError, "columns of different lengths");
    else if ((out = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)n * 4))
             && !stacks_walk_rows(s, track.buf, start.buf, end.buf, function.buf, (int32_t *)PyBytes_AS_STRING(out), n)) {
        Py_CLEAR(out);
        PyErr_NoMemory();
    }
    PyBuffer_Release(&track);
    PyBuffer_Release(&start);
    PyBuffer_Release(&end);
    PyBuffer_Release(&function);
    return out;
}

static PyObject *stacks_paths(Stacks *s, PyObject *unused) {
    (void)unused;
    return PyBytes_FromStringAndSize(s->paths.data, (Py_ssize_t)s->paths.size);
}

static void stacks_dealloc(Stacks *s) {
    for (size_t i = 0; i < s->tracks.size / sizeof(Track); i++) free(((Track *)s->tracks.data)[i].frames);
    free(s->tracks.data);
    free(s->paths.data);
    free(s->slots);
    PyTypeObject *type = Py_TYPE(s);
    type->tp_free((PyObject *)s);
    Py_DECREF(type);
}

static PyMethodDef STACKS_METHODS[] = {
    {"walk", (PyCFunction)stacks_walk, METH_VARARGS,
     "Rows by start (int64 track, start, end, int32 function or -1) -> int32 path of each, -1: in no function."},
    {"paths", (PyCFunction)stacks_paths, METH_NOARGS, "int32 pairs (caller's path or -1, function) of all paths."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot STACKS_SLOTS[] = {
    {Py_tp_new, PyType_GenericNew}, {Py_tp_dealloc, stacks_dealloc}, {Py_tp_methods, STACKS_METHODS},
    {Py_tp_doc, "Call stacks of traced functions, over many batches."}, {0, NULL},
};
static PyType_Spec STACKS_SPEC = {"topsprof.importers._scan.Stacks", sizeof(Stacks), 0, Py_TPFLAGS_DEFAULT, STACKS_SLOTS};

#endif
