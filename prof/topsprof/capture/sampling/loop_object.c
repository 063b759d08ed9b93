/* `Loop`: one thread that samples many processes at a rate, on absolute times, without the GIL. */
#include "module.h"
#include <errno.h>
#include <stdatomic.h>
#include <time.h>

typedef struct {
    PyObject_HEAD
    int64_t period_ns, next_ns;
    uint64_t ticks, late, random;
    PyObject *processes, *process_type;
    _Atomic int stop;
    bool running;
} loop_object;

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int loop_init(PyObject *object, PyObject *args, PyObject *words)
{
    static char *names[] = {"period_ns", NULL};
    loop_object *self = (loop_object *)object;
    long long period_ns;
    if (!PyArg_ParseTupleAndKeywords(args, words, "L", names, &period_ns)) return -1;
    if (period_ns < 50000) {
        PyErr_SetString(PyExc_ValueError, "period_ns: at least 50000 (20 kHz)");
        return -1;
    }
    module_state *state = PyType_GetModuleState(Py_TYPE(object));
    self->process_type = Py_NewRef(state->process_type);
    self->period_ns = period_ns;
    self->random = (uint64_t)now() | 1;
    Py_XSETREF(self->processes, PyList_New(0));
    return self->processes ? 0 : -1;
}

static void loop_dealloc(PyObject *object)
{
    loop_object *self = (loop_object *)object;
    PyTypeObject *type = Py_TYPE(object);
    Py_XDECREF(self->processes);
    Py_XDECREF(self->process_type);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyObject *loop_add(PyObject *object, PyObject *item)
{
    loop_object *self = (loop_object *)object;
    if (!PyObject_TypeCheck(item, (PyTypeObject *)self->process_type)) {
        PyErr_SetString(PyExc_TypeError, "add: a Process");
        return NULL;
    }
    ((process_object *)item)->p.period_ns = self->period_ns;
    if (PyList_Append(self->processes, item) < 0) return NULL;
    Py_RETURN_NONE;
}

static PyObject *loop_remove(PyObject *object, PyObject *item)
{
    loop_object *self = (loop_object *)object;
    Py_ssize_t index = PySequence_Index(self->processes, item);
    if (index < 0 || PySequence_DelItem(self->processes, index) < 0) return NULL;
    Py_RETURN_NONE;
}

static PyObject *loop_stop(PyObject *object, PyObject *unused)
{
    (void)unused;
    ((loop_object *)object)->stop = 1;
    Py_RETURN_NONE;
}

/* The time to the next tick: a period, give or take a quarter. A program that goes by a timer of its own would else be met at the same
 * places again and again, and what it does between them never. Every length is as likely at any of its phases, so shares stay true. */
static int64_t pause_ns(loop_object *self)
{
    self->random ^= self->random << 13;
    self->random ^= self->random >> 7;
    self->random ^= self->random << 17;
    return self->period_ns * 3 / 4 + (int64_t)(self->random % (uint64_t)(self->period_ns / 2 + 1));
}

/* Ticks until `until_ns`, until a process ends, or until `stop`. Returns 0, or EINTR: a signal; ENOMEM. */
static int turn(loop_object *self, process **all, Py_ssize_t count, int64_t until_ns)
{
    for (;;) {
        int64_t at = now();
        if (self->next_ns <= at - self->period_ns || !self->next_ns) {
            if (self->next_ns) self->late += (uint64_t)((at - self->next_ns) / self->period_ns);
            self->next_ns = self->next_ns ? self->next_ns + (at - self->next_ns) / self->period_ns * self->period_ns : at;
        }
        int64_t wake = self->next_ns < until_ns ? self->next_ns : until_ns;
        struct timespec t = {wake / 1000000000, wake % 1000000000};
        if (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) return EINTR;
        if (self->next_ns > until_ns || atomic_exchange(&self->stop, 0)) return 0;
        self->next_ns += pause_ns(self);
        self->ticks++;
        bool ended = false;
        for (Py_ssize_t k = 0; k < count; k++) {
            pthread_mutex_lock(&all[k]->lock);
            bool ok = process_tick(all[k], now());
            bool dead = all[k]->end != LIVES;
            pthread_mutex_unlock(&all[k]->lock);
            if (!ok && !dead) return ENOMEM;
            ended |= dead;
        }
        if (ended) return 0;
    }
}

/* run(seconds) -> the processes that have ended, which are sampled no more */
static PyObject *loop_run(PyObject *object, PyObject *args)
{
    loop_object *self = (loop_object *)object;
    double seconds;
    if (!PyArg_ParseTuple(args, "d", &seconds)) return NULL;
    if (self->running) {
        PyErr_SetString(PyExc_RuntimeError, "the loop runs already");
        return NULL;
    }
    int64_t until_ns = now() + (int64_t)(seconds * 1e9);
    PyObject *list = PyList_GetSlice(self->processes, 0, PY_SSIZE_T_MAX), *ended = PyList_New(0);
    Py_ssize_t count = list ? PyList_GET_SIZE(list) : 0;
    process **all = calloc((size_t)count + 1, sizeof *all);
    for (Py_ssize_t k = 0; all && k < count; k++) all[k] = &((process_object *)PyList_GET_ITEM(list, k))->p;
    int result = !list || !ended || !all ? ENOMEM : 0;
    self->running = true;
    while (!result) {
        Py_BEGIN_ALLOW_THREADS
        result = turn(self, all, count, until_ns);
        Py_END_ALLOW_THREADS
        if (result != EINTR) break;
        result = PyErr_CheckSignals() < 0 ? -1 : 0;
    }
    self->running = false;
    free(all);
    for (Py_ssize_t k = 0; !result && k < count; k++) {
        PyObject *item = PyList_GET_ITEM(list, k);
        if (((process_object *)item)->p.end == LIVES) continue;
        Py_ssize_t index = PySequence_Index(self->processes, item);
        if (index < 0) PyErr_Clear();       /* taken out meanwhile */
        if (PyList_Append(ended, item) < 0 || (index >= 0 && PySequence_DelItem(self->processes, index) < 0)) result = -1;
    }
    Py_XDECREF(list);
    if (!result) return ended;
    Py_XDECREF(ended);
    return result == ENOMEM ? PyErr_NoMemory() : NULL;
}

static PyObject *loop_counts(PyObject *object, PyObject *unused)
{
    (void)unused;
    loop_object *self = (loop_object *)object;
    return Py_BuildValue("{s:K,s:K,s:n}", "ticks", self->ticks, "late", self->late, "processes", PyList_GET_SIZE(self->processes));
}

static PyMethodDef methods[] = {
    {"add", loop_add, METH_O, "add(process): sample it from the next run on"},
    {"remove", loop_remove, METH_O, "remove(process): sample it no more"},
    {"run", loop_run, METH_VARARGS, "run(seconds): sample; returns the processes that ended, as soon as one does"},
    {"stop", loop_stop, METH_NOARGS, "stop(): let run return at its next tick; from any thread"},
    {"counts", loop_counts, METH_NOARGS, "counts(): ticks, and those that came too late to be taken"},
    {0},
};
static PyType_Slot slots[] = {
    {Py_tp_init, loop_init}, {Py_tp_dealloc, loop_dealloc}, {Py_tp_methods, methods}, {Py_tp_doc, "Samples processes at a fixed rate."},
    {0, NULL},
};
PyType_Spec loop_spec = {"topsprof.capture.sampling._sampler.Loop", sizeof(loop_object), 0,
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE, slots};
