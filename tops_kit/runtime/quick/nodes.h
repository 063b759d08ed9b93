/* Kernel nodes of an executable graph, launched one behind the other: what GraphExec and launching.submit do for each, in the usual case. */
#ifndef QUICK_NODES_H
#define QUICK_NODES_H
#include "caller.h"

typedef struct {
    PyObject_HEAD
    known *known;
    PyObject *values;
    Py_ssize_t lane, number; /* its stream, and which node it is */
} node;

static PyTypeObject node_type;

PyDoc_STRVAR(make_node_doc, "node(about, values, lane, number): a kernel node that launch_nodes() can launch; None: it goes the long way.");
static PyObject *make_node(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *about, *values;
    Py_ssize_t lane, number;
    if (!PyArg_ParseTuple(args, "O!O!nn", &PyTuple_Type, &about, &PyTuple_Type, &values, &lane, &number)) return NULL;
    known *fresh = NULL;
    const int status = known_make(about, values, &fresh);
    if (status <= 0) {
        known_release(fresh);
        if (status < 0 && !PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "places that are not among the arguments");
        if (status < 0) return NULL;
        Py_RETURN_NONE;
    }
    node *const self = PyObject_GC_New(node, &node_type);
    if (!self) {
        known_release(fresh);
        return NULL;
    }
    self->known = fresh;
    self->values = Py_NewRef(values);
    self->lane = lane;
    self->number = number;
    PyObject_GC_Track(self);
    return (PyObject *)self;
}

/* What the call has that launches the graph. False: not here. */
static bool call_of_graph(call *c, bool listening) {
    if (!is_empty(GET(submit_point, ApiPoint, callbacks))) return false;
    if (!listening) return true;
    const int64_t mask = NUMBER(the_hooks, Hooks, kinds);
    if (mask & NUMBER(submit_point, ApiPoint, kind)) return false;
    c->thread = find_state();
    if (!c->thread || !Py_IS_TYPE(c->thread, type_ThreadState)) return false;
    c->correlation_id = Py_NewRef(GET(c->thread, ThreadState, correlation_id));
    c->begin_ns = Py_NewRef(GET(c->thread, ThreadState, begin_ns));
    c->recorded = true;
    return true;
}

/* Arguments were checked when the node was made, and are looked at again: 1: launched, `*operation`; 0: not here; -1: an exception. */
static int launch_node(const node *self, PyObject *stream, PyObject *context, const call *c, int64_t graph_id, PyObject **operation) {
    known *const k = self->known;
    uint8_t scalars[MOST_ARGUMENTS * 8];
    if (k->part != GET(stream, Stream, part) || !is_usual(stream, context) || !arrays_are_here(k, self->values, context) ||
        !pack_scalars(k, self->values, scalars)) {
        return 0;
    }
    const graph_place place = {graph_id, self->number + 1};
    PyObject *const timeline = GET(context, Context, timeline), *const base = GET(GET(context, Context, clock), Clock, base);
    return run_and_queue(k, self->values, stream, context, timeline, base, c, scalars, &place, operation);
}

PyDoc_STRVAR(launch_nodes_doc, "launch_nodes(nodes, first, done, streams, listening, graph_id): launches nodes from the first on, in their order.\n\n"
                               "Operations are put into `done` by the nodes' numbers. How far it came: at the next node Python has to go on.\n"
                               "Under the timeline's lock, in a cut.");
static PyObject *launch_nodes(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *nodes, *done, *streams;
    Py_ssize_t at;
    int listening;
    long long graph_id;
    if (!PyArg_ParseTuple(args, "O!nO!O!pL", &PyList_Type, &nodes, &at, &PyList_Type, &done, &PyTuple_Type, &streams, &listening, &graph_id)) return NULL;
    call c = {0};
    bool called = false;
    int status = 1;
    no_memory = false;
    for (; at < PyList_GET_SIZE(nodes); at++) {
        PyObject *const found = PyList_GET_ITEM(nodes, at);
        if (!Py_IS_TYPE(found, &node_type)) break;
        node *const self = (node *)Py_NewRef(found); /* what the program is told may change the graph */
        PyObject *const stream = self->lane < PyTuple_GET_SIZE(streams) ? PyTuple_GET_ITEM(streams, self->lane) : NULL;
        PyObject *const context = stream && Py_IS_TYPE(stream, type_Stream) ? GET(stream, Stream, context) : NULL;
        PyObject *operation = NULL;
        status = context && Py_IS_TYPE(context, type_Context) && Py_IS_TYPE(GET(context, Context, timeline), type_Timeline) &&
                 self->number < PyList_GET_SIZE(done);
        if (status && !called) status = called = call_of_graph(&c, listening != 0);
        if (status) c.races = c.recorded && NUMBER(the_hooks, Hooks, kinds) & KIND_STREAM_RACE && !is_empty(GET(context, Context, queues));
        if (status) status = launch_node(self, stream, context, &c, graph_id, &operation);
        if (status > 0) PyList_SetItem(done, self->number, operation);
        Py_DECREF(self);
        if (status <= 0) break;
    }
    call_clear(&c);
    if (status < 0) return NULL;
    if (no_memory) return PyErr_NoMemory();
    PyErr_Clear();
    return PyLong_FromSsize_t(at);
}

static int node_traverse(PyObject *object, visitproc visit, void *arg) {
    node *const self = (node *)object;
    Py_VISIT(self->values);
    return self->known ? known_traverse(self->known, visit, arg) : 0;
}

static int node_clear(PyObject *object) {
    node *const self = (node *)object;
    known *const k = self->known;
    self->known = NULL;
    known_release(k);
    Py_CLEAR(self->values);
    return 0;
}

static void node_free(PyObject *object) {
    PyObject_GC_UnTrack(object);
    node_clear(object);
    PyObject_GC_Del(object);
}

static PyTypeObject node_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "tops_kit.runtime._quick.Node",
    .tp_doc = PyDoc_STR("A kernel node of an executable graph."),
    .tp_basicsize = sizeof(node),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_dealloc = node_free,
    .tp_traverse = node_traverse,
    .tp_clear = node_clear,
};

#endif
