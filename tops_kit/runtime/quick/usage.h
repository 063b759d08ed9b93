/* That a kernel ran, for others to see: what Usage.note of gcu/state/usage.py does, where nothing of it is unusual. */
#ifndef QUICK_USAGE_H
#define QUICK_USAGE_H
#include <pthread.h>
#include <unistd.h>
#include "session_time.h"

/* As gcu/state/layout.py and usage.py. */
enum {
    S_NOW = 9, S_WALL = 10, S_FROZEN = 11, S_KERNELS = 12, S_BUSY = 13, S_HEAT_AT = 17, S_ACTIVE = 19, S_ENDED = 20, S_TIMED = 56, S_UNTIL = 57, S_BUCKETS = 64,
    BUCKETS = 32, BUCKET_WORDS = 5, BUCKET_SHIFT = 26, HEAT_STEP_NS = 16000000
};

static pid_t own_pid;

static void in_child(void) { own_pid = getpid(); }

/* As Usage.freeze and thaw: session time stands still while a kernel is simulated, so that who looks does not see an idle device. */
static int64_t *freeze(PyObject *queue, int64_t now_ns) {
    int64_t *const slot = (int64_t *)(intptr_t)NUMBER(GET(queue, StreamQueue, device), DeviceSimulation, slot);
    if (!slot || slot[S_TIMED] != own_pid) return NULL;
    if (now_ns > slot[S_NOW]) slot[S_NOW] = now_ns;
    slot[S_FROZEN] = 1;
    return slot;
}

static void thaw(int64_t *slot) {
    if (!slot) return;
    slot[S_WALL] = raw_ns();
    slot[S_FROZEN] = 0;
}

static bool note_slowly(PyObject *usage, PyObject *operation, PyObject *sips) {
    PyObject *const arguments[] = {usage, GET(operation, Operation, start_ns), GET(operation, Operation, end_ns), sips};
    PyObject *const done = PyObject_VectorcallMethod(name_note, arguments, 4, NULL);
    Py_XDECREF(done);
    return done != NULL;
}

/* Adds it to the process's slot; false: not here, by note(). No exception. Under the timeline's lock, which all who note hold. */
static bool note_in(PyObject *usage, int64_t *words, int64_t count, int64_t start_ns, int64_t end_ns, int64_t sips) {
    PyObject *const claim = GET(usage, Usage, _claim);
    const int64_t slot = NUMBER(claim, Claim, slot);
    if (slot <= 0 || slot + S_BUCKETS + BUCKETS * BUCKET_WORDS > count) return false;
    int64_t *const at = words + slot;
    const int64_t span = end_ns >> BUCKET_SHIFT;
    int64_t *const bucket = at + S_BUCKETS + span % BUCKETS * BUCKET_WORDS;
    if (at[0] != NUMBER(claim, Claim, serial) || NUMBER(claim, Claim, pid) != own_pid) return false;
    if (end_ns - at[S_HEAT_AT] > HEAT_STEP_NS || start_ns < 0 || start_ns >> BUCKET_SHIFT != span || bucket[0] != span) return false;
    const int64_t busy = (end_ns - start_ns) * sips;
    int64_t active = end_ns - (start_ns > at[S_ENDED] ? start_ns : at[S_ENDED]);
    at[S_KERNELS]++;
    at[S_BUSY] += busy;
    if (active > 0) {
        at[S_ACTIVE] += active;
        at[S_ENDED] = end_ns;
    } else {
        active = 0;
    }
    if (end_ns >= at[S_NOW]) {
        at[S_NOW] = end_ns;
        at[S_WALL] = raw_ns();
    }
    bucket[1] += busy;
    bucket[2] += active;
    SET_NUMBER(usage, Usage, _warm, NUMBER(usage, Usage, _warm) + busy);
    return true;
}

/* False with an exception. */
static bool note_kernel(PyObject *context, PyObject *operation, PyObject *sips) {
    PyObject *const device = GET(context, Context, device);
    if (device == Py_None) return true;
    PyObject *const usage = PyObject_GetAttr(device, name_usage);
    if (!usage) return false;
    bool noted = false;
    if (Py_IS_TYPE(usage, type_Usage)) {
        PyObject *const words = PyObject_GetAttr(GET(GET(usage, Usage, _claim), Claim, state), name_words);
        Py_buffer view;
        if (!words) {
            Py_DECREF(usage);
            return false;
        }
        if (words != Py_None && PyObject_GetBuffer(words, &view, PyBUF_WRITABLE) == 0) {
            noted = note_in(usage, view.buf, view.len / 8, NUMBER(operation, Operation, start_ns), NUMBER(operation, Operation, end_ns), number(sips));
            PyBuffer_Release(&view);
        }
        PyErr_Clear(); /* a view that was let go: note() says what there is to say */
        Py_DECREF(words);
    }
    const bool good = noted || note_slowly(usage, operation, sips);
    Py_DECREF(usage);
    return good;
}

#endif
