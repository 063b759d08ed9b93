/* Session time: what clock.py's LocalTimeBase does, and of other bases their methods. */
#ifndef QUICK_TIME_H
#define QUICK_TIME_H
#include <time.h>
#include "../../../tx/topstx/recorder/include/topstx_capsule.h"
#include "names.h"

static const topstx_capsule *recorder; /* NULL until something is recorded */

/* Whether the base is the recorder's. */
static inline bool is_shared(PyObject *base) { return recorder && (const void *)Py_TYPE(base) == recorder->base_type; }

static inline int64_t raw_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Whether the base is one that we know the fields of, on the clock that we read. */
static inline bool is_local(PyObject *base) { return Py_IS_TYPE(base, type_LocalTimeBase) && GET(base, LocalTimeBase, _raw) == monotonic; }

static inline bool is_model(PyObject *base) { return PyUnicode_CompareWithASCIIString(GET(base, LocalTimeBase, mode), "model") == 0; }

/* A new reference to the session time, an int; NULL with an exception. */
static PyObject *session_ns(PyObject *base) {
    if (is_shared(base)) return PyLong_FromLongLong(recorder->now_ns(base));
    if (is_local(base)) {
        PyObject *const shift = GET(base, LocalTimeBase, _shift);
        if (shift != Py_None) return PyLong_FromLongLong(raw_ns() - number(shift));
        PyObject *const frozen = GET(base, LocalTimeBase, _frozen);
        if (number(frozen) >= 0) return Py_NewRef(frozen);
    }
    return PyObject_CallMethodNoArgs(base, name_now_ns);
}

/* Where nobody is in a cut no lock is needed: we keep the GIL up to its end, but for signal handlers, whose cuts nest. */
static bool begin_cut(PyObject *base) {
    if (is_shared(base)) return recorder->begin_cut(base) == 0;
    if (!is_local(base)) return call_method(base, name_begin_cut, NULL);
    PyObject *const shift = GET(base, LocalTimeBase, _shift);
    if (shift == Py_None || NUMBER(base, LocalTimeBase, _depth) != 0) return is_model(base) || call_method(base, name_begin_cut, NULL);
    SET_NUMBER(base, LocalTimeBase, _frozen, raw_ns() - number(shift));
    SET(base, LocalTimeBase, _shift, Py_NewRef(Py_None));
    SET(base, LocalTimeBase, _depth, Py_NewRef(one));
    return true;
}

/* `ours`: begin_cut did it without the lock. */
static bool end_cut(PyObject *base, bool ours) {
    if (is_shared(base)) return recorder->end_cut(base) == 0;
    if (!is_local(base)) return call_method(base, name_end_cut, NULL);
    if (!ours) return is_model(base) || call_method(base, name_end_cut, NULL);
    const int64_t depth = NUMBER(base, LocalTimeBase, _depth) - 1;
    SET_NUMBER(base, LocalTimeBase, _depth, depth);
    if (!depth) SET_NUMBER(base, LocalTimeBase, _shift, raw_ns() - NUMBER(base, LocalTimeBase, _frozen));
    return true;
}

static inline bool cuts_freely(PyObject *base) {
    return is_local(base) && GET(base, LocalTimeBase, _shift) != Py_None && NUMBER(base, LocalTimeBase, _depth) == 0;
}

#endif
