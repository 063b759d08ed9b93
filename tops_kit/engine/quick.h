/* Launches from other extensions of ours: a prepared program with all of a launch but its arguments (quick_module.c). */
#ifndef TOPS_QUICK_H
#define TOPS_QUICK_H
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define QUICK_FUNCTIONS "tops_kit.engine._engine.quick_functions"
enum { QUICK_VERSION = 1 };

typedef struct {
    int version;
    /* What launch() gives, or NULL with an exception. `arrays` and `scalars` as packing.py packs them. */
    PyObject *(*run)(PyObject *quick, const void *arrays, Py_ssize_t array_bytes, const void *scalars, Py_ssize_t scalar_bytes);
} quick_functions;

#endif
