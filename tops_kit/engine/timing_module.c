/* tops_kit.engine._timing: the cost model over events that exist already. */
#include "module.h"
#include "signals.h"
#include "timing_object.h"

enum { INTERFACE = 1 }; /* grows with what timing.py has to know */

static const double MOST_WORK = 9007199254740992.0; /* of one event: beyond 2^53 a double is not exact */

typedef struct {
    Py_buffer *view;
    Py_ssize_t count; /* of views taken */
    Py_buffer flags;
} held;

static void let_go(held *h) {
    for (Py_ssize_t k = 0; k < h->count; k++) PyBuffer_Release(&h->view[k]);
    PyMem_Free(h->view);
    if (h->flags.obj) PyBuffer_Release(&h->flags);
}

/* What the model takes for granted of what the machine wrote. */
static const char *wrong(const tevent *e, int32_t pcs, int32_t keys) {
    if (e->pc >= (uint32_t)pcs) return "pc";
    if (e->kind < EV_VECTOR || e->kind > EV_ATOMIC) return "kind";
    if (e->dtype >= DT_COUNT) return "dtype";
    if (e->from >= MEMORIES || e->to >= MEMORIES || (e->to == SPACE_NONE && (e->kind == EV_DMA || e->kind == EV_ATOMIC))) return "memory";
    if (!(e->work >= 0.0 && e->work <= MOST_WORK)) return "work";
    if (e->bytes < 0 || (double)e->bytes > MOST_WORK) return "bytes";
    if (e->kind == EV_DMA && e->event == 0) return "event";
    for (int k = 0; k < 4; k++) {
        if (e->key[k] != KEY_NONE && e->key[k] >= keys) return "key";
    }
    return NULL;
}

static bool take(held *h, PyObject *traces, Py_ssize_t threads, int32_t pcs, int32_t keys) {
    h->view = PyMem_Calloc((size_t)threads, sizeof *h->view);
    if (!h->view) {
        PyErr_NoMemory();
        return false;
    }
    for (; h->count < threads; h->count++) {
        Py_buffer *const v = &h->view[h->count];
        PyObject *const item = PySequence_Fast_GET_ITEM(traces, h->count);
        if (PyObject_GetBuffer(item, v, PyBUF_C_CONTIGUOUS) < 0) return false;
        const Py_ssize_t events = v->len / (Py_ssize_t)sizeof(tevent);
        const char *what = v->len % (Py_ssize_t)sizeof(tevent) ? "size" : NULL;
        for (Py_ssize_t k = 0; k < events && !what; k++) what = wrong((const tevent *)v->buf + k, pcs, keys);
        if (!what) continue;
        PyErr_Format(PyExc_ValueError, "events of thread %zd: %s out of range", h->count, what);
        h->count++;
        return false;
    }
    return true;
}

static int signals(void *unused) {
    (void)unused;
    return look_for_signals();
}

/* Feeds all, or `chunk` events a thread at a time. */
static int run(timing *t, const held *h, Py_ssize_t chunk) {
    Py_ssize_t longest = 0;
    for (Py_ssize_t k = 0; k < h->count; k++) {
        const Py_ssize_t events = h->view[k].len / (Py_ssize_t)sizeof(tevent);
        if (events > longest) longest = events;
    }
    if (!chunk) chunk = longest + 1;
    for (Py_ssize_t from = 0; from < longest; from += chunk) {
        for (Py_ssize_t k = 0; k < h->count; k++) {
            const Py_ssize_t left = h->view[k].len / (Py_ssize_t)sizeof(tevent) - from;
            if (left <= 0) continue;
            const int status = timing_feed(t, (int32_t)k, (const tevent *)h->view[k].buf + from, left < chunk ? left : chunk);
            if (status != TIMING_OK) return status;
        }
        if (longest <= chunk) break;
        const int status = timing_advance(t);
        if (status != TIMING_OK) return status;
    }
    return timing_finish(t);
}

static PyObject *replay(PyObject *self, PyObject *arguments) {
    (void)self;
    PyObject *packed, *traces, *out = NULL;
    held h = {0};
    int blocks, block_threads, keys, record;
    Py_ssize_t chunk;
    if (!PyArg_ParseTuple(arguments, "Oy*iiipnO", &packed, &h.flags, &keys, &blocks, &block_threads, &record, &chunk, &traces)) return NULL;
    timing_parameters p;
    timing *t = NULL;
    PyObject *const fast = PySequence_Fast(traces, "events: one buffer for each thread");
    if (!fast || !timing_parse(packed, &p)) goto done;
    const int32_t pcs = (int32_t)h.flags.len;
    if (pcs < 1 || keys < 0 || keys >= KEY_NONE || blocks < 1 || block_threads < 1 || chunk < 0) {
        PyErr_SetString(PyExc_ValueError, "pcs, keys, blocks, threads or chunk out of range");
        goto done;
    }
    if (PySequence_Fast_GET_SIZE(fast) != (Py_ssize_t)blocks * block_threads) {
        PyErr_SetString(PyExc_ValueError, "events: one buffer for each thread");
        goto done;
    }
    if (!take(&h, fast, PySequence_Fast_GET_SIZE(fast), pcs, keys)) goto done;
    t = timing_create(&p, blocks, block_threads, keys, pcs, h.flags.buf, record);
    if (!t) {
        PyErr_Format(PyExc_ValueError, "%d blocks of %d threads: the part can't hold a block, or there is no memory", blocks, block_threads);
        goto done;
    }
    timing_poll(t, signals, NULL);
    const int status = run(t, &h, chunk);
    if (status == TIMING_OK) out = timing_object(t);
    else if (status == TIMING_NO_MEMORY) PyErr_NoMemory();
    else if (status == TIMING_INCOMPLETE) PyErr_SetString(PyExc_ValueError, "events: some thread never ends");
done:
    timing_free(t);
    let_go(&h);
    Py_XDECREF(fast);
    return out;
}

static PyMethodDef methods[] = {
    {"replay", replay, METH_VARARGS,
     "replay(parameters, flags, keys, blocks, block_threads, record, chunk, traces)\n\n"
     "Results of the cost model (timing_result.py) for one buffer of events a thread, fed `chunk` events at a time (0: all)."},
    {0},
};

static int fill(PyObject *module) {
    if (PyModule_AddIntConstant(module, "INTERFACE", INTERFACE) < 0) return -1;
    if (PyModule_AddIntConstant(module, "COST_MODEL_VERSION", COST_MODEL_VERSION) < 0) return -1;
    return PyModule_AddIntConstant(module, "EVENT_BYTES", sizeof(tevent));
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, fill}, {0, NULL}};
static PyModuleDef definition = {.m_base = PyModuleDef_HEAD_INIT, .m_name = "_timing", .m_methods = methods, .m_slots = slots};

PyMODINIT_FUNC PyInit__timing(void) { return PyModuleDef_Init(&definition); }
