/* The Python side of the extension: its types and functions. */
#ifndef TOPSPROF_MODULE_H
#define TOPSPROF_MODULE_H
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include "process.h"

typedef struct {
    PyObject_HEAD
    process p;
    bool begun;
} process_object;

extern PyType_Spec process_spec, loop_spec;

typedef struct {
    PyObject *process_type, *loop_type;
} module_state;

/* process_object.c */
PyObject *read_memory(PyObject *module, PyObject *args);

/* elf_module.c */
PyObject *elf_symbols(PyObject *module, PyObject *args);
PyObject *elf_nearest(PyObject *module, PyObject *args);
#endif
