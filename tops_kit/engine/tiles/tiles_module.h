/* The tile library for Python, for tests: methods that the engine's module adds to its own. */
#ifndef TOPS_TILES_MODULE_H
#define TOPS_TILES_MODULE_H
#define PY_SSIZE_T_CLEAN
#include <Python.h>

extern PyMethodDef tiles_methods[];
#endif
