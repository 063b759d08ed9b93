/* Sampling of other processes' Pythons: reads their memory and /proc, and touches nothing of theirs. See sampler.py for the interface. */
#include "module.h"
#include "syscalls.h"

/* Raise it whenever functions, their arguments or results change: sampler.py has the same number, and takes no other. */
#define INTERFACE 2

static PyMethodDef functions[] = {
    {"read_memory", read_memory, METH_VARARGS, "read_memory(pid, address, bytes): memory as bytes, or None"},
    {"elf_symbols", elf_symbols, METH_VARARGS, "elf_symbols(path, names): addresses of symbols, and loaded segments"},
    {"elf_nearest", elf_nearest, METH_VARARGS, "elf_nearest(path, addresses): names of the functions at addresses"},
    {0},
};

static PyObject *names_of(const char *const *names, int count)
{
    PyObject *tuple = PyTuple_New(count);
    for (int k = 0; tuple && k < count; k++) {
        PyObject *name = PyUnicode_FromString(names[k]);
        if (!name) Py_CLEAR(tuple);
        else PyTuple_SET_ITEM(tuple, k, name);
    }
    return tuple;
}

static int add(PyObject *module, const char *name, PyObject *value)
{
    int result = value ? PyModule_AddObjectRef(module, name, value) : -1;
    Py_XDECREF(value);
    return result;
}

static PyObject *calls(void)
{
    static const struct {
        int number;
        const char *name;
    } all[] = {
#define C(name) {SYS_##name, #name},
        COMMON_CALLS(C) OLD_CALLS(C)
#undef C
    };
    PyObject *found = PyDict_New();
    for (size_t k = 0; found && k < sizeof all / sizeof *all; k++) {
        PyObject *number = PyLong_FromLong(all[k].number), *name = PyUnicode_FromString(all[k].name);
        if (!number || !name || PyDict_SetItem(found, number, name) < 0) Py_CLEAR(found);
        Py_XDECREF(number);
        Py_XDECREF(name);
    }
    return found;
}

static int execute(PyObject *module)
{
    static const char *const states[] = {STATE_NAMES}, *const waits[] = {WAIT_NAMES};
    module_state *state = PyModule_GetState(module);
    state->process_type = PyType_FromModuleAndSpec(module, &process_spec, NULL);
    state->loop_type = PyType_FromModuleAndSpec(module, &loop_spec, NULL);
    if (!state->process_type || !state->loop_type || PyModule_AddObjectRef(module, "Process", state->process_type) < 0 ||
        PyModule_AddObjectRef(module, "Loop", state->loop_type) < 0) return -1;
    if (add(module, "STATES", names_of(states, STATES)) < 0 || add(module, "WAITS", names_of(waits, WAITS)) < 0) return -1;
    if (add(module, "SYSCALLS", calls()) < 0) return -1;
    return PyModule_AddIntConstant(module, "INTERFACE", INTERFACE);
}

static int traverse(PyObject *module, visitproc visit, void *arg)
{
    module_state *state = PyModule_GetState(module);
    Py_VISIT(state->process_type);
    Py_VISIT(state->loop_type);
    return 0;
}

static int clear(PyObject *module)
{
    module_state *state = PyModule_GetState(module);
    Py_CLEAR(state->process_type);
    Py_CLEAR(state->loop_type);
    return 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, execute}, {0, NULL}};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "_sampler", .m_doc = "Samples the Pythons of other processes.", .m_size = sizeof(module_state),
    .m_methods = functions, .m_slots = slots, .m_traverse = traverse, .m_clear = clear,
};

PyMODINIT_FUNC PyInit__sampler(void)
{
    return PyModuleDef_Init(&definition);
}
