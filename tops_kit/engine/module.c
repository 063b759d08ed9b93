/* The Python module tops_kit.engine._engine. c_engine.py and debug.py are its faces. */
#include "module.h"
#include "generated/opcodes.h"
#include "tiles/tiles.h"
#include "tiles/tiles_module.h"

enum { INTERFACE = 5 }; /* as in c_engine.py */

static int execute(PyObject *module) {
    if (PyModule_AddFunctions(module, kernel_methods) < 0) return -1;
    if (PyModule_AddFunctions(module, launch_methods) < 0) return -1;
    if (PyModule_AddFunctions(module, debug_methods) < 0) return -1;
    if (PyModule_AddFunctions(module, quick_methods) < 0 || quick_add(module) < 0) return -1;
    if (PyModule_AddFunctions(module, tiles_methods) < 0) return -1;
    if (PyModule_AddIntConstant(module, "INTERFACE", INTERFACE) < 0) return -1;
    if (PyModule_AddIntConstant(module, "TABLE_VERSION", TABLE_VERSION) < 0) return -1;
    if (PyModule_AddIntConstant(module, "OPCODES", OPCODES) < 0) return -1;
    if (PyModule_AddIntConstant(module, "EVENT_BYTES", sizeof(tevent)) < 0) return -1;
    return PyModule_AddStringConstant(module, "TILES", tk_path());
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, execute},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_engine", "The kernel engine's machine in C; see c_engine.py.", 0, NULL, slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__engine(void) { return PyModuleDef_Init(&definition); }
