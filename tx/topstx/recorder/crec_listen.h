/* crec_listen.h - who hears of ranges and marks as they happen, recorded or not (part of _crec.c).
 *
 * listener(what, key, message, domain): what is one of these, key tells two ranges that are open apart (an annotate object, a started
 * range; 0 otherwise). Nothing of it costs more than a look at `listener` while there is none.
 */

enum { HEARD_MARK, HEARD_PUSH, HEARD_POP, HEARD_ENTER, HEARD_EXIT, HEARD_START, HEARD_END };

#define HEARD_ALONE (1ull << 63) /* of a started range's id: nothing was recorded of it, the listener alone knows it */

static PyObject *listener;
static uint64_t heard_ids;

/* An exception that is set stays; what the listener raises is forgotten, as what other code of the program raises. */
static __attribute__((noinline)) void hear_slow(int what, uint64_t key, PyObject *message, PyObject *domain) {
    PyObject *type, *value, *traceback, *heard, *function = Py_NewRef(listener);
    PyErr_Fetch(&type, &value, &traceback);
    heard = PyObject_CallFunction(function, "iKOO", what, (unsigned long long)key, message ? message : Py_None, domain);
    if (!heard) forget_error();
    Py_XDECREF(heard);
    Py_DECREF(function);
    PyErr_Restore(type, value, traceback);
}

static inline void hear(int what, uint64_t key, PyObject *message, PyObject *domain) {
    if (TOPSTXI_UNLIKELY(listener != NULL)) hear_slow(what, key, message, domain);
}

/* The id of a range that starts, `handle` where it is recorded. */
static inline uint64_t hear_start(uint64_t handle, PyObject *message, PyObject *domain) {
    if (TOPSTXI_LIKELY(listener == NULL)) return handle;
    if (!handle) handle = HEARD_ALONE | ++heard_ids;
    hear_slow(HEARD_START, handle, message, domain);
    return handle;
}

static PyObject *listen(PyObject *self, PyObject *function) {
    (void)self;
    Py_XSETREF(listener, function == Py_None ? NULL : Py_NewRef(function));
    Py_RETURN_NONE;
}
