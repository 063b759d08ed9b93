/* What the files of the Python module share (launch_module.c, debug_module.c). */
#ifndef TOPS_MODULE_H
#define TOPS_MODULE_H
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include "launch.h"

kernel *kernel_of(PyObject *capsule); /* NULL with an exception */
/* A launch's arguments, unpacked into memory of its own: launch_drop_arguments frees it. False with an exception. */
bool launch_take_arguments(launch *l, const kernel *k, const Py_buffer *arrays, const Py_buffer *scalars);
void launch_drop_arguments(launch *l);
bool launch_take_grid(launch *l); /* blocks and threads from grid and block; false with an exception */
PyObject *fault_object(const fault *f);
PyObject *counts_object(const launch *l);

extern PyMethodDef debug_methods[];

#endif
