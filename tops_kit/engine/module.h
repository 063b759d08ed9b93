/* What the files of the Python module share. */
#ifndef TOPS_MODULE_H
#define TOPS_MODULE_H
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include "launch.h"

/* A scalar register's value, as packing.py packs it. */
typedef struct {
    int32_t number;
    uint32_t bits;
} __attribute__((packed)) packed_register;

typedef struct {
    engine *engine;
    bool busy; /* a launch is under way: another one (in a signal's handler) gets an engine of its own */
} engine_holder;

engine_holder *engine_of(PyObject *capsule); /* NULL with an exception */
kernel *kernel_of(PyObject *capsule); /* NULL with an exception */
/* A launch's arguments, unpacked into memory of its own: launch_drop_arguments frees it. False with an exception. */
bool launch_take_arguments(launch *l, const kernel *k, const Py_buffer *arrays, const Py_buffer *scalars);
/* The same into memory of the caller's, with room for the kernel's pointers and scalars. */
bool launch_unpack(const kernel *k, const void *arrays, Py_ssize_t array_bytes, const void *scalars, Py_ssize_t scalar_bytes,
                   tile *views, reg *registers);
int launch_signals(void *data); /* of a launch: what a signal's handler raised ends it */
typedef PyObject *(*launch_result)(launch *l, void *data);
/* Runs it; `result` makes what is returned, while the traces are there. NULL with an exception: a signal's handler raised it. */
PyObject *launch_run(engine_holder *holder, launch *l, launch_result result, void *data);
void launch_drop_arguments(launch *l);
/* The cost model's figures (into `part`) and flags (timing_parameters.py), which `wanted` keeps alive; None: no times. */
bool launch_take_part(launch *l, PyObject *wanted, timing_parameters *part);
bool launch_take_grid(launch *l); /* blocks and threads from grid and block; false with an exception */
PyObject *fault_object(const fault *f);
PyObject *counts_object(const launch *l);
PyObject *findings_object(const launch *l); /* (findings, limits) of a sanitized run, or None */
PyObject *result_object(launch *l, bool events); /* of a launch that ran, while its engine keeps the traces */
PyObject *result_with(launch *l, PyObject *times); /* the same with times that are known already; takes over `times` */
int quick_add(PyObject *module); /* what quick_module.c gives to other extensions */

extern PyMethodDef kernel_methods[], launch_methods[], debug_methods[], quick_methods[];

#endif
