/* The extension tops_kit._deferral: sections in which no handler of Python's signals runs; see deferral.py.

   Python runs handlers on the thread that _PyRuntime.main_thread names, and nowhere else. In a section of that thread it names none, so a
   signal stays noted, as it does while another thread runs; the section's end names it again and runs what was noted. Where the interpreter's own header does
   not say what threading says this refuses to load. */
#define PY_SSIZE_T_CLEAN
#define Py_BUILD_CORE_MODULE 1
#include <Python.h>
#include "internal/pycore_runtime.h"
#include <pthread.h>
#include <stdbool.h>
#include "deferral.h"

enum { INTERFACE = 1, MORE_FRAMES = 400 }; /* as in deferral.py; frames that a section has beyond the limit */

static _Thread_local int depth;
static bool deferred;          /* the main thread is in a section; under the GIL, as all of this */
static unsigned long the_main; /* while it is */

#if PY_VERSION_HEX >= 0x030C0000
#define FRAMES_LEFT(thread) ((thread)->py_recursion_remaining)
#else
#define FRAMES_LEFT(thread) ((thread)->recursion_remaining)
#endif

static void begin(void) {
    FRAMES_LEFT(PyThreadState_Get()) += MORE_FRAMES;
    const unsigned long self = PyThread_get_thread_ident();
    if (!deferred && _PyRuntime.main_thread == self) {
        the_main = self;
        deferred = true;
        _PyRuntime.main_thread = 0;
    }
}

static void end(void) {
    FRAMES_LEFT(PyThreadState_Get()) -= MORE_FRAMES;
    if (deferred && the_main == PyThread_get_thread_ident()) {
        _PyRuntime.main_thread = the_main;
        deferred = false;
    }
}

static void enter(void) {
    if (!depth++) begin();
}

/* -1: a handler that waited raised. */
static int leave(void) {
    if (!depth || --depth) return 0;
    end();
    return PyErr_CheckSignals();
}

static int check(void) {
    const int outer = depth;
    if (!outer) return PyErr_CheckSignals();
    end();
    depth = 0;
    const int status = PyErr_CheckSignals();
    depth = outer;
    begin();
    return status;
}

static const deferral_functions functions = {enter, leave, check};

/* PyOS_AfterFork_Child names the thread that forked the main one: if it forked in a section, without us. */
static void in_child(void) {
    deferred = false;
}

PyDoc_STRVAR(enter_doc, "enter(): a section begins; may be nested.");
static PyObject *py_enter(PyObject *module, PyObject *ignored) {
    (void)module, (void)ignored;
    enter();
    Py_RETURN_NONE;
}

PyDoc_STRVAR(leave_doc, "leave(): the section ends; with the outermost, handlers that waited run, and raise what they raise.");
static PyObject *py_leave(PyObject *module, PyObject *ignored) {
    (void)module, (void)ignored;
    if (leave() < 0) return NULL;
    Py_RETURN_NONE;
}

PyDoc_STRVAR(outside_doc, "outside(function, *args): what it gives; meanwhile handlers run as they do outside of a section.");
static PyObject *py_outside(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    (void)module;
    if (!count) {
        PyErr_SetString(PyExc_TypeError, "outside(): no function");
        return NULL;
    }
    const int outer = depth;
    if (outer) end();
    depth = 0;
    PyObject *out = PyErr_CheckSignals() < 0 ? NULL : PyObject_Vectorcall(args[0], args + 1, (size_t)count - 1, NULL);
    if (out && PyErr_CheckSignals() < 0) Py_CLEAR(out);
    depth = outer;
    if (outer) begin();
    return out;
}

typedef struct {
    PyObject_HEAD
    PyObject *lock; /* an RLock */
} section_lock;

static PyObject *acquire_name, *release_name;

static PyObject *lock_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    PyObject *inner;
    static char *names[] = {"lock", NULL};
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O:Lock", names, &inner)) return NULL;
    section_lock *const self = (section_lock *)type->tp_alloc(type, 0);
    if (self) self->lock = Py_NewRef(inner);
    return (PyObject *)self;
}

static void lock_free(PyObject *object) {
    Py_CLEAR(((section_lock *)object)->lock);
    Py_TYPE(object)->tp_free(object);
}

static PyObject *lock_acquire(PyObject *object, PyObject *const *args, Py_ssize_t count) {
    PyObject *const arguments[] = {((section_lock *)object)->lock, count ? args[0] : Py_True};
    enter();
    PyObject *const taken = PyObject_VectorcallMethod(acquire_name, arguments, 2, NULL);
    if (taken == Py_True) return taken;
    if (!taken) {
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        if (leave() < 0) PyErr_Clear();
        PyErr_Restore(type, value, traceback);
        return NULL;
    }
    if (leave() < 0) {
        Py_DECREF(taken);
        return NULL;
    }
    return taken;
}

static PyObject *lock_enter(PyObject *object, PyObject *ignored) {
    (void)ignored;
    return lock_acquire(object, NULL, 0);
}

static PyObject *lock_release(PyObject *object, PyObject *ignored) {
    (void)ignored;
    PyObject *done = PyObject_CallMethodNoArgs(((section_lock *)object)->lock, release_name);
    if (done && leave() < 0) Py_CLEAR(done); /* NULL: it was not held */
    return done;
}

static PyObject *lock_exit(PyObject *object, PyObject *const *args, Py_ssize_t count) {
    (void)args, (void)count;
    return lock_release(object, NULL);
}

static PyObject *lock_is_owned(PyObject *object, PyObject *ignored) {
    (void)ignored;
    return PyObject_CallMethod(((section_lock *)object)->lock, "_is_owned", NULL);
}

/* The section goes on while the lock is let go. */
static PyObject *lock_release_save(PyObject *object, PyObject *ignored) {
    (void)ignored;
    return PyObject_CallMethod(((section_lock *)object)->lock, "_release_save", NULL);
}

static PyObject *lock_acquire_restore(PyObject *object, PyObject *held) {
    return PyObject_CallMethod(((section_lock *)object)->lock, "_acquire_restore", "(O)", held);
}

static PyMethodDef lock_methods[] = {
    {"_release_save", lock_release_save, METH_NOARGS, "_release_save(): let it go, however often it is held; how often."},
    {"_acquire_restore", lock_acquire_restore, METH_O, "_acquire_restore(held): take it as often again."},
    {"_is_owned", lock_is_owned, METH_NOARGS, "_is_owned(): whether the calling thread holds it."},
    {"acquire", (PyCFunction)(void (*)(void))lock_acquire, METH_FASTCALL, "acquire(blocking=True): whether it was taken."},
    {"release", lock_release, METH_NOARGS, "release(): one holding less."},
    {"__enter__", lock_enter, METH_NOARGS, "Take it."},
    {"__exit__", (PyCFunction)(void (*)(void))lock_exit, METH_FASTCALL, "Give it back."},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject lock_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "tops_kit._deferral.Lock",
    .tp_doc = PyDoc_STR("Lock(lock): a recursive lock; who holds it is in a section."),
    .tp_basicsize = sizeof(section_lock),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = lock_new,
    .tp_dealloc = lock_free,
    .tp_methods = lock_methods,
};

static PyMethodDef methods[] = {
    {"enter", py_enter, METH_NOARGS, enter_doc},
    {"leave", py_leave, METH_NOARGS, leave_doc},
    {"outside", (PyCFunction)(void (*)(void))py_outside, METH_FASTCALL, outside_doc},
    {NULL, NULL, 0, NULL},
};

/* Whether the field that we write is the one that this interpreter reads. */
static bool is_ours(void) {
    PyObject *const threading = PyImport_ImportModule("threading");
    PyObject *const thread = threading ? PyObject_CallMethod(threading, "main_thread", NULL) : NULL;
    PyObject *const ident = thread ? PyObject_GetAttrString(thread, "ident") : NULL;
    const bool good = ident && PyLong_Check(ident) && PyLong_AsUnsignedLong(ident) == _PyRuntime.main_thread;
    Py_XDECREF(ident);
    Py_XDECREF(thread);
    Py_XDECREF(threading);
    if (!good && !PyErr_Occurred()) PyErr_SetString(PyExc_ImportError, "_deferral was built for another Python: pip install -e . again");
    return good;
}

static int execute(PyObject *module) {
    if (!is_ours() || PyType_Ready(&lock_type) < 0) return -1;
    if (!acquire_name && (!(acquire_name = PyUnicode_InternFromString("acquire")) || !(release_name = PyUnicode_InternFromString("release")))) return -1;
    if (pthread_atfork(NULL, NULL, in_child) != 0) {
        PyErr_SetString(PyExc_ImportError, "no room for a fork handler");
        return -1;
    }
    if (PyModule_AddObjectRef(module, "Lock", (PyObject *)&lock_type) < 0) return -1;
    PyObject *const capsule = PyCapsule_New((void *)&functions, DEFERRAL_CAPSULE, NULL);
    const int status = capsule ? PyModule_AddObjectRef(module, "functions", capsule) : -1;
    Py_XDECREF(capsule);
    return status < 0 ? status : PyModule_AddIntConstant(module, "INTERFACE", INTERFACE);
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, execute},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "tops_kit._deferral", "Sections without handlers of signals; see deferral.py.", 0, methods, slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__deferral(void) { return PyModuleDef_Init(&definition); }
