/* The results of the cost model as Python objects. */
#ifndef TOPS_TIMING_OBJECT_H
#define TOPS_TIMING_OBJECT_H
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include "timing.h"

/* A tuple, in the order of TimingResult in timing_result.py; arrays are bytes. */
PyObject *timing_object(const timing *t);
/* What timing_parameters.py packed; false: an exception is set. */
bool timing_parse(PyObject *packed, timing_parameters *p);

#endif
