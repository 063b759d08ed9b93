/* The extension tops_kit.runtime._quick: launches that are like an earlier one, without a frame of Python.

   Launcher (launcher.py) is made from `Caller`: called with arguments of the types of an earlier launch, on a stream where nothing is
   unusual, it runs the kernel and queues it here. Everything else goes to Launcher._slow, which does the same in Python. */
#include "quick/nodes.h"

enum { INTERFACE = 5 }; /* as in quick_launches.py */

PyDoc_STRVAR(setup_doc, "setup(classes, given): the classes by name whose slots are used, and objects of the runtime by name.\n\n"
                        "ImportError: they are not as this was built for.");
static PyObject *setup(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *classes, *given;
    if (!PyArg_ParseTuple(args, "O!O!", &PyDict_Type, &classes, &PyDict_Type, &given)) return NULL;
    if (!make_names() || !find_slots(classes) || !take_given(given)) return NULL;
    if (!(deferral = PyCapsule_Import(DEFERRAL_CAPSULE, 0))) PyErr_Clear();
    Py_RETURN_NONE;
}

static PyObject *get_numbers(PyObject *module, PyObject *ignored) {
    (void)module, (void)ignored;
    return numbers();
}

static PyMethodDef methods[] = {
    {"numbers", get_numbers, METH_NOARGS, "numbers(): what has to be the same in Python; see quick_launches.py."},
    {"node", make_node, METH_VARARGS, make_node_doc},
    {"launch_nodes", launch_nodes, METH_VARARGS, launch_nodes_doc},
    {"setup", setup, METH_VARARGS, setup_doc},
    {NULL, NULL, 0, NULL},
};

static int execute(PyObject *module) {
    own_pid = getpid();
    if (pthread_atfork(NULL, NULL, in_child) != 0) {
        PyErr_SetString(PyExc_ImportError, "no room for a fork handler");
        return -1;
    }
    if (PyType_Ready(&caller_type) < 0 || PyModule_AddObjectRef(module, "Caller", (PyObject *)&caller_type) < 0) return -1;
    if (PyType_Ready(&node_type) < 0 || PyType_Ready(&tag_type) < 0 || PyType_Ready(&rows_type) < 0 || PyModule_AddObjectRef(module, "Rows", (PyObject *)&rows_type) < 0) return -1;
    return PyModule_AddIntConstant(module, "INTERFACE", INTERFACE);
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, execute},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "tops_kit.runtime._quick", "Launches like an earlier one; see launcher.py.", 0, methods, slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__quick(void) { return PyModuleDef_Init(&definition); }
