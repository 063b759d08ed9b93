/* Rows of kernels and launches for a recorded session, where nobody but the recorder listens: what recorded_rows.py packs. */
#ifndef QUICK_ROWS_H
#define QUICK_ROWS_H
#include "usage.h"

enum {
    ROW_API = 16, ROW_KERNEL = 17, ROW_LATE = 128 /* it began while recording was on */, KIND_KERNEL = 1 << 0, KIND_API = 1 << 3, SAMPLED = 256, FIRST_SAMPLED = 16, MOST_KERNELS = 1024,
    KERNEL_BYTES = 79, API_BYTES = 17 /* of their bodies; places of fields: rows.py */
};

/* Of a recording: made by quick_launches.py, dropped with it. */
typedef struct {
    PyObject_HEAD
    PyObject *latest, *latest_about; /* a plan, and what stands in `kernels` for it; borrowed from there */
    PyObject *kernels; /* by plan: (body without what differs, name id), or None: not wanted */
    PyObject *make;    /* make(plan, device id) -> what stands in `kernels` */
    int64_t shift_ns, count, cost_ns, clock_ns; /* clock_ns: what timing a row takes itself */
    uint64_t devices; /* that were told, as bits */
    uint32_t launch_name;
    int launch_cbid, launch_domain;
} rows;

static PyTypeObject rows_type;
static PyObject *recorder_gate; /* whether recording is on, which the capsule tells, too */
static PyObject *known_takers, *kernel_sink, *api_sink; /* who alone takes these kinds as of `known_takers`; NULL: not one */

/* The sink that alone takes a kind; a new reference, NULL without an exception. */
static PyObject *only_sink(PyObject *takers, int kind) {
    PyObject *const key = PyLong_FromLong(kind), *const sinks = key ? PyDict_GetItem(takers, key) : NULL;
    Py_XDECREF(key);
    const bool one = sinks && PyTuple_CheckExact(sinks) && PyTuple_GET_SIZE(sinks) == 1 && Py_IS_TYPE(PyTuple_GET_ITEM(sinks, 0), type_Sink);
    return one ? Py_NewRef(PyTuple_GET_ITEM(sinks, 0)) : NULL;
}

/* The rows for a kind (borrowed from `keep`), or NULL: it goes the way of activities. No exception. */
static rows *rows_for(PyObject **sink, PyObject **keep) {
    PyObject *const takers = GET(the_hooks, Hooks, _takers);
    if (takers != known_takers && PyDict_CheckExact(takers)) {
        PyObject *const old[] = {known_takers, kernel_sink, api_sink};
        known_takers = Py_NewRef(takers);
        kernel_sink = only_sink(takers, KIND_KERNEL);
        api_sink = only_sink(takers, KIND_API);
        for (size_t k = 0; k < sizeof old / sizeof *old; k++) Py_XDECREF(old[k]);
    }
    if (takers != known_takers || !*sink) return NULL;
    PyObject *const found = GET(*sink, Sink, quick);
    if (!found || !Py_IS_TYPE(found, &rows_type)) return NULL;
    *keep = Py_NewRef(found);
    return (rows *)found;
}

/* Processor time of the calling thread: that it waits, or others have its processor, is no cost of recording. */
static int64_t thread_cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* The least that two readings of that clock in a row differ by. */
static int64_t clock_cost_ns(void) {
    int64_t least = INT64_MAX;
    for (int k = 0; k < 32; k++) {
        const int64_t begin = thread_cpu_ns(), took = thread_cpu_ns() - begin;
        if (took < least) least = took;
    }
    return least;
}

static inline int64_t sample_begin(rows *r) { return r->count++ % SAMPLED == FIRST_SAMPLED ? thread_cpu_ns() : 0; }

static inline void sample_end(rows *r, int64_t begin_ns) {
    if (!begin_ns) return;
    const int64_t took_ns = thread_cpu_ns() - begin_ns;
    if (took_ns > r->clock_ns) r->cost_ns += SAMPLED * (took_ns - r->clock_ns);
}

static inline void put_bytes(uint8_t *body, int at, const void *from, size_t bytes) { memcpy(body + at, from, bytes); }
#define PUT(body, at, type, value) do { const type put_##at = (type)(value); put_bytes(body, at, &put_##at, sizeof put_##at); } while (0)

/* What is told of a kernel when it has ended: records.py's KernelTag with its Call. */
typedef struct {
    PyObject_HEAD
    PyObject *plan, *context, *outcome, *sips;
    int64_t begin_ns, correlation_id, thread_id, stream_id, grid_id, graph_id, node_id;
} kernel_tag;

static PyTypeObject tag_type;

/* The row of a kernel that has ended. 1: written, or not wanted; 0: by tag.done(); -1: an exception. */
static int kernel_row(PyObject *operation, const kernel_tag *tag) {
    PyObject *keep = NULL;
    rows *const r = rows_for(&kernel_sink, &keep);
    if (!r) return 0;
    int status = -1;
    const int64_t sampled_ns = sample_begin(r);
    PyObject *const plan = tag->plan, *const context = tag->context, *const device = GET(context, Context, device_id), *const context_id = GET(context, Context, context_id);
    const int64_t device_id = number(device);
    PyObject *about = plan == r->latest ? r->latest_about : PyDict_GetItem(r->kernels, plan);
    if (!about || device_id < 0 || device_id >= 64 || !(r->devices >> device_id & 1)) {
        PyObject *const fresh = PyObject_CallFunctionObjArgs(r->make, plan, device, NULL);
        if (PyDict_GET_SIZE(r->kernels) >= MOST_KERNELS) PyDict_Clear(r->kernels);
        if (!fresh || PyDict_SetItem(r->kernels, plan, fresh) < 0) {
            Py_XDECREF(fresh);
            goto done;
        }
        about = fresh;
        Py_DECREF(fresh);
        if (device_id >= 0 && device_id < 64 && fresh != Py_None) r->devices |= (uint64_t)1 << device_id;
    }
    r->latest = plan;
    r->latest_about = about;
    status = 1;
    if (about != Py_None) {
        uint8_t body[KERNEL_BYTES];
        const int64_t submit_ns = NUMBER(operation, Operation, submit_ns);
        memcpy(body, PyBytes_AS_STRING(PyTuple_GET_ITEM(about, 0)), sizeof body);
        PUT(body, 0, int64_t, (tag->begin_ns ? tag->begin_ns : submit_ns) - r->shift_ns);
        PUT(body, 8, int64_t, submit_ns - r->shift_ns);
        PUT(body, 16, int64_t, NUMBER(operation, Operation, contention_ns));
        PUT(body, 52, int32_t, tag->stream_id);
        PUT(body, 56, int16_t, number(context_id));
        PUT(body, 58, int16_t, device_id);
        PUT(body, 60, uint32_t, tag->graph_id);
        PUT(body, 64, uint32_t, tag->node_id);
        PUT(body, 72, uint32_t, tag->grid_id);
        PUT(body, 76, uint16_t, NUMBER(operation, Operation, clusters));
        recorder->row(ROW_KERNEL | ROW_LATE, NUMBER(operation, Operation, start_ns) - r->shift_ns, NUMBER(operation, Operation, end_ns) - r->shift_ns,
                      (uint32_t)number(PyTuple_GET_ITEM(about, 1)), (uint32_t)tag->correlation_id, body, sizeof body);
    }
    sample_end(r, sampled_ns);
done:
    Py_XDECREF(keep);
    return status;
}

/* The same as Python has it, which makes an activity of it. */
static PyObject *as_kernel_tag(const kernel_tag *from) {
    PyObject *const call = type_Call->tp_alloc(type_Call, 0), *const tag = call ? type_KernelTag->tp_alloc(type_KernelTag, 0) : NULL;
    if (!tag) {
        Py_XDECREF(call);
        return NULL;
    }
    no_memory = false;
    SET_NUMBER(call, Call, begin_ns, from->begin_ns);
    SET_NUMBER(call, Call, correlation_id, from->correlation_id);
    SET_NUMBER(call, Call, thread_id, from->thread_id);
    SET_NUMBER(call, Call, graph_id, from->graph_id);
    SET_NUMBER(call, Call, node_id, from->node_id);
    FILL(tag, KernelTag, call, call);
    FILL(tag, KernelTag, context, Py_NewRef(from->context));
    FILL(tag, KernelTag, plan, Py_NewRef(from->plan));
    FILL(tag, KernelTag, sips, Py_NewRef(from->sips));
    FILL(tag, KernelTag, launch, Py_NewRef(from->outcome));
    SET_NUMBER(tag, KernelTag, stream_id, from->stream_id);
    SET_NUMBER(tag, KernelTag, grid_id, from->grid_id);
    if (!no_memory) return tag;
    no_memory = false;
    Py_DECREF(tag);
    return PyErr_NoMemory();
}

/* False with an exception. */
static bool tag_tell(kernel_tag *tag, PyObject *operation) {
    const int written = kernel_row(operation, tag);
    if (written) return written > 0;
    PyObject *const whole = as_kernel_tag(tag);
    const bool told = whole && call_method(whole, name_done, operation);
    Py_XDECREF(whole);
    return told;
}

PyDoc_STRVAR(done_doc, "done(operation): tell it.");
static PyObject *tag_done(PyObject *object, PyObject *operation) {
    if (!Py_IS_TYPE(operation, type_Operation)) {
        PyErr_SetString(PyExc_TypeError, "done(operation)");
        return NULL;
    }
    if (!tag_tell((kernel_tag *)object, operation)) return NULL;
    Py_RETURN_NONE;
}

static void tag_free(PyObject *object) {
    kernel_tag *const tag = (kernel_tag *)object;
    Py_XDECREF(tag->plan);
    Py_XDECREF(tag->context);
    Py_XDECREF(tag->outcome);
    Py_XDECREF(tag->sips);
    PyObject_Free(object);
}

static PyMethodDef tag_methods[] = {
    {"done", tag_done, METH_O, done_doc},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef tag_members[] = {
    {"sips", T_OBJECT_EX, offsetof(kernel_tag, sips), READONLY, "SIPs that it keeps busy."},
    {NULL, 0, 0, 0, NULL},
};

static PyTypeObject tag_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "tops_kit.runtime._quick.Tag",
    .tp_doc = PyDoc_STR("A kernel, as records.KernelTag."),
    .tp_basicsize = sizeof(kernel_tag),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_dealloc = tag_free,
    .tp_methods = tag_methods,
    .tp_members = tag_members,
};

/* The row of a launch's call. False: by ApiPoint._record. */
static bool api_row(int64_t begin_ns, int64_t end_ns, int64_t correlation_id, int64_t status, int64_t device_id, int64_t stream_id) {
    PyObject *keep = NULL;
    rows *const r = rows_for(&api_sink, &keep);
    if (!r) return false;
    const int64_t sampled_ns = sample_begin(r);
    uint8_t body[API_BYTES] = {0};
    PUT(body, 0, int32_t, status);
    PUT(body, 8, int32_t, stream_id);
    PUT(body, 12, uint16_t, r->launch_cbid);
    PUT(body, 14, int16_t, device_id);
    PUT(body, 16, uint8_t, r->launch_domain);
    recorder->row(ROW_API, begin_ns - r->shift_ns, end_ns - r->shift_ns, r->launch_name, (uint32_t)correlation_id, body, sizeof body);
    sample_end(r, sampled_ns);
    Py_DECREF(keep);
    return true;
}

PyDoc_STRVAR(rows_doc, "Rows(make, whether recording is on, shift_ns, launch name id, its cbid, its domain): see quick_launches.py.");
static PyObject *rows_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    (void)keywords;
    PyObject *make, *gate;
    long long shift_ns;
    unsigned name;
    int cbid, domain;
    if (!PyArg_ParseTuple(args, "OOLIii", &make, &gate, &shift_ns, &name, &cbid, &domain)) return NULL;
    const topstx_capsule *const found = PyCapsule_Import(TOPSTX_CAPSULE, 0);
    if (!found) return NULL;
    if (found->version < TOPSTX_CAPSULE_VERSION) {
        PyErr_SetString(PyExc_ImportError, "the recorder was built from other sources: pip install -e . again");
        return NULL;
    }
    recorder = found;
    Py_XSETREF(recorder_gate, Py_NewRef(gate));
    rows *const r = (rows *)type->tp_alloc(type, 0);
    if (!r) return NULL;
    r->make = Py_NewRef(make);
    r->kernels = PyDict_New();
    r->shift_ns = shift_ns;
    r->clock_ns = clock_cost_ns();
    r->launch_name = name;
    r->launch_cbid = cbid;
    r->launch_domain = domain;
    if (r->kernels) return (PyObject *)r;
    Py_DECREF(r);
    return NULL;
}

static int rows_traverse(PyObject *object, visitproc visit, void *arg) {
    rows *const r = (rows *)object;
    Py_VISIT(r->kernels);
    Py_VISIT(r->make);
    return 0;
}

static int rows_clear(PyObject *object) {
    rows *const r = (rows *)object;
    r->latest = NULL;
    Py_CLEAR(r->kernels);
    Py_CLEAR(r->make);
    return 0;
}

static void rows_free(PyObject *object) {
    PyObject_GC_UnTrack(object);
    rows_clear(object);
    Py_TYPE(object)->tp_free(object);
}

PyDoc_STRVAR(spent_doc, "spent() -> (rows, ns): since it was asked last; the time is reckoned from a sample.");
static PyObject *rows_spent(PyObject *object, PyObject *ignored) {
    rows *const r = (rows *)object;
    (void)ignored;
    PyObject *const out = Py_BuildValue("(LL)", (long long)r->count, (long long)r->cost_ns);
    r->count = r->cost_ns = 0;
    return out;
}

static PyMethodDef rows_methods[] = {
    {"spent", rows_spent, METH_NOARGS, spent_doc},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject rows_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "tops_kit.runtime._quick.Rows",
    .tp_doc = rows_doc,
    .tp_basicsize = sizeof(rows),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = rows_new,
    .tp_dealloc = rows_free,
    .tp_traverse = rows_traverse,
    .tp_clear = rows_clear,
    .tp_methods = rows_methods,
};

#endif
