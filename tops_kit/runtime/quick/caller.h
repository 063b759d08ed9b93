/* The type Caller: a launcher's call, in the usual case. What launching.py does in launch_kernel, launch_on_device and submit. */
#ifndef QUICK_CALLER_H
#define QUICK_CALLER_H
#include "../../deferral.h"
#include "known.h"

enum { MOST_QUEUED = 1024, KIND_STREAM_RACE = 1 << 12 };

typedef struct {
    PyObject_HEAD
    PyObject *stream, *part; /* that were chosen by options; None */
    known *known[KNOWN];
    int count, next;
} caller;

/* What a call that somebody hears of has: correlation id and begin. */
typedef struct {
    bool told, recorded, races; /* somebody hears of it, of the kernel, of races */
    int64_t device, stream;     /* that it is launched on */
    PyObject *thread, *correlation_id, *begin_ns;
} call;

/* Numbers that Python has, too: it compares them before it uses us. */
static PyObject *numbers(void) {
    return Py_BuildValue("(iiiiiiiiiiiiiiiiiiiiiiii)", KIND_STREAM_RACE, KIND_KERNEL, KIND_API, ROW_KERNEL, ROW_API, KERNEL_BYTES, API_BYTES,
                         MOST_QUEUED, ARRAY_BYTES, S_NOW, S_WALL, S_FROZEN, S_KERNELS, S_BUSY, S_HEAT_AT, S_ACTIVE,
                         S_ENDED, S_TIMED, S_UNTIL, S_BUCKETS, BUCKETS, BUCKET_WORDS, BUCKET_SHIFT, HEAT_STEP_NS);
}

static bool take_given(PyObject *given) {
    static const struct {
        const char *name;
        PyObject **place;
    } each[] = {
        {"runtime", &the_runtime}, {"hooks", &the_hooks}, {"launch", &launch_point}, {"submit", &submit_point}, {"monotonic_ns", &monotonic},
        {"sink", &context_sink}, {"heappush", &heap_push}, {"heappop", &heap_pop}, {"finish", &take_result}, {"failed", &take_fault},
    };
    for (size_t k = 0; k < sizeof each / sizeof *each; k++) {
        PyObject *const object = PyDict_GetItemString(given, each[k].name);
        if (!object) {
            PyErr_Format(PyExc_ImportError, "no %s was given", each[k].name);
            return false;
        }
        Py_XSETREF(*each[k].place, Py_NewRef(object));
    }
    return true;
}

/* What a thread has in the runtime's and the hooks' thread-locals, kept for the thread that launched last: its dictionary and ThreadState. */
static struct {
    uint64_t thread; /* PyThreadState's, which no two threads share */
    PyObject *runtime_local, *own, *hooks_local, *state;
} latest;

static bool find_thread(void) {
    PyObject *const runtime_local = GET(the_runtime, Runtime, local), *const hooks_local = GET(the_hooks, Hooks, _local);
    const uint64_t thread = PyThreadState_GetID(PyThreadState_Get());
    if (latest.thread == thread && latest.runtime_local == runtime_local && latest.hooks_local == hooks_local) return true;
    PyObject *const own = PyObject_GetAttr(runtime_local, name___dict__);
    if (!own) return false;
    latest.thread = thread;
    Py_XSETREF(latest.runtime_local, Py_NewRef(runtime_local));
    Py_XSETREF(latest.hooks_local, Py_NewRef(hooks_local));
    Py_XSETREF(latest.own, own);
    Py_CLEAR(latest.state);
    return true;
}

/* This thread's ThreadState: a new reference; NULL before its first call, or with an exception. */
static PyObject *find_state(void) {
    if (!find_thread()) return NULL;
    if (!latest.state) latest.state = PyObject_GetAttr(latest.hooks_local, name_state);
    return Py_XNewRef(latest.state);
}

/* The stream that a launch goes to: a new reference; NULL: not here. */
static PyObject *find_stream(const caller *self, int64_t *thread_device) {
    if (GET(the_runtime, Runtime, blocking) != Py_False || !find_thread()) return NULL;
    PyObject *const in_callback = PyDict_GetItem(latest.own, name_in_callback);
    if (in_callback && in_callback != Py_False) return NULL;
    PyObject *const device = PyDict_GetItem(latest.own, name_device);
    *thread_device = device ? number(device) : 0;
    if (self->stream != Py_None) return Py_NewRef(self->stream);
    PyObject *const chosen = PyDict_GetItem(latest.own, name_stream);
    if (chosen && chosen != Py_None) return Py_NewRef(chosen);
    PyObject *const contexts = GET(the_runtime, Runtime, contexts);
    const Py_ssize_t index = (Py_ssize_t)*thread_device;
    if (!PyList_CheckExact(contexts) || index < 0 || index >= PyList_GET_SIZE(contexts)) return NULL;
    PyObject *const context = PyList_GET_ITEM(contexts, index);
    return Py_IS_TYPE(context, type_Context) ? Py_NewRef(GET(context, Context, default_stream)) : NULL;
}

/* Whether a kernel can be queued on a stream without a question. No exception. */
static bool is_usual(PyObject *stream, PyObject *context) {
    if (!IS_NONE(stream, Stream, capture) || GET(stream, Stream, destroyed) != Py_False) return false;
    const int64_t *const news = (const int64_t *)(intptr_t)NUMBER(context, Context, news_at);
    if (!news || *news != NUMBER(context, Context, heard)) return false; /* it was reset, or SIPs are reserved: as Context.check */
    if (GET(context, Context, trouble) != Py_False || !IS_NONE(context, Context, failing) || !is_empty(GET(context, Context, dead))) return false;
    PyObject *const last = GET(GET(stream, Stream, queue), StreamQueue, last);
    if (last != Py_None && GET(last, Operation, held) != Py_False) return false;
    if (GET(stream, Stream, non_blocking) == Py_True) return true;
    if (NUMBER(stream, Stream, id) == 0) return is_empty(GET(context, Context, blocking));
    return IS_NONE(GET(GET(context, Context, default_stream), Stream, queue), StreamQueue, last);
}

static bool arrays_are_here(const known *k, PyObject *args, PyObject *context) {
    for (int n = 0; n < k->array_count; n++) {
        PyObject *const value = PyTuple_GET_ITEM(args, k->arrays[n]);
        if (!Py_IS_TYPE(value, type_Array)) return false;
        PyObject *const block = GET(value, Array, block);
        if (GET(block, Block, freed) != Py_None || GET(block, Block, context) != context) return false;
    }
    return true;
}

/* Whether a gate is open, None is: 1, 0; -1 with an exception. */
static int is_open(PyObject *gate) {
    if (gate == recorder_gate && recorder) return recorder->recording() != 0;
    if (gate == Py_None) return 1;
    Py_INCREF(gate);
    PyObject *const open = PyObject_CallNoArgs(gate);
    Py_DECREF(gate);
    Py_XDECREF(open);
    return open ? open != Py_False : -1;
}

/* Whether somebody hears of the call, and whether that can be done here: 1, 0; -1 not here. */
static int who_listens(PyObject *context, call *c) {
    if (GET(launch_point, ApiPoint, idle) == Py_True) return 0;
    const int wanted = is_open(GET(the_hooks, Hooks, sinks_gate));
    if (wanted < 0) return -1;
    if (!wanted && GET(the_hooks, Hooks, gate) != Py_None) return 0; /* the same gate */
    const int64_t mask = NUMBER(the_hooks, Hooks, kinds);
    if (!is_empty(GET(launch_point, ApiPoint, callbacks)) || !is_empty(GET(submit_point, ApiPoint, callbacks))) return -1;
    if (mask & NUMBER(submit_point, ApiPoint, kind)) return -1;
    c->recorded = mask != 0 && wanted;
    c->races = wanted && mask & KIND_STREAM_RACE && !is_empty(GET(context, Context, queues));
    return 1;
}

/* The time as hooks tell it: of this base, as a rule. -1 with an exception. */
static int64_t hooks_ns(PyObject *base) {
    PyObject *const now = GET(the_hooks, Hooks, now_ns);
    if (PyCFunction_Check(now) && PyCFunction_GET_SELF(now) == base && is_shared(base)) return recorder->now_ns(base);
    PyObject *const told = PyMethod_Check(now) && PyMethod_GET_SELF(now) == base && is_local(base) ? session_ns(base) : PyObject_CallNoArgs(now);
    const int64_t out = told ? number(told) : -1;
    Py_XDECREF(told);
    return out;
}

static void call_clear(call *c) {
    Py_CLEAR(c->thread);
    Py_CLEAR(c->correlation_id);
    Py_CLEAR(c->begin_ns);
}

/* The call begins (ApiPoint.run): 1, 0: not here, nothing has happened; -1 an exception. */
static int call_begin(call *c, PyObject *base) {
    c->thread = find_state();
    if (!c->thread || !Py_IS_TYPE(c->thread, type_ThreadState) || NUMBER(c->thread, ThreadState, depth) != 0 || !is_empty(GET(c->thread, ThreadState, external)) ||
        NUMBER(c->thread, ThreadState, correlation_id) != 0) {
        return 0;
    }
    c->correlation_id = PyIter_Next(GET(the_hooks, Hooks, serials));
    c->begin_ns = c->correlation_id ? PyLong_FromLongLong(hooks_ns(base)) : NULL;
    if (!c->begin_ns || PyErr_Occurred()) return -1;
    SET(c->thread, ThreadState, depth, Py_NewRef(one));
    SET(c->thread, ThreadState, correlation_id, Py_NewRef(c->correlation_id));
    SET(c->thread, ThreadState, begin_ns, Py_NewRef(c->begin_ns));
    c->told = true;
    PyObject *const charge = Py_NewRef(GET(the_hooks, Hooks, charge));
    PyObject *const charged = charge == Py_None ? Py_NewRef(Py_None) : PyObject_CallOneArg(charge, name_launch);
    Py_DECREF(charge);
    Py_XDECREF(charged);
    return charged ? 1 : -1;
}

/* The call ends, with the vendor's status; an exception that is set stays. False with an exception. */
static bool call_end(call *c, PyObject *status, PyObject *base) {
    if (!c->told) return true;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    const int64_t end_ns = hooks_ns(base);
    SET(c->thread, ThreadState, depth, Py_NewRef(zero));
    SET(c->thread, ThreadState, correlation_id, Py_NewRef(zero));
    SET(c->thread, ThreadState, begin_ns, Py_NewRef(zero));
    bool good = !PyErr_Occurred();
    if (good && NUMBER(the_hooks, Hooks, kinds) & NUMBER(launch_point, ApiPoint, kind) &&
        !api_row(number(c->begin_ns), end_ns, number(c->correlation_id), number(status), c->device, c->stream)) {
        PyObject *const time = PyLong_FromLongLong(end_ns);
        PyObject *const device = PyLong_FromLongLong(c->device), *const stream = PyLong_FromLongLong(c->stream);
        PyObject *const arguments[] = {launch_point, c->begin_ns, time, c->correlation_id, GET(c->thread, ThreadState, thread_id), status, device, stream};
        PyObject *const done = time && device && stream ? PyObject_VectorcallMethod(name__record, arguments, 8, NULL) : NULL;
        good = done != NULL;
        Py_XDECREF(time);
        Py_XDECREF(device);
        Py_XDECREF(stream);
        Py_XDECREF(done);
    }
    if (type) {
        PyErr_Clear();
        PyErr_Restore(type, value, traceback);
        return false;
    }
    return good;
}

/* The node of a graph that a kernel is launched as; graph 0: none. */
typedef struct {
    int64_t graph_id, node_id;
} graph_place;

/* What is told of the kernel when it has ended: the plan where nobody listens. */
static PyObject *make_tag(const known *k, PyObject *stream, PyObject *context, const call *c, PyObject *outcome, const graph_place *place) {
    if (!c->recorded) return Py_NewRef(k->plan);
    PyObject *const grid_id = PyIter_Next(GET(context, Context, grid_ids));
    kernel_tag *const tag = grid_id ? PyObject_New(kernel_tag, &tag_type) : NULL;
    if (tag) {
        tag->plan = Py_NewRef(k->plan);
        tag->context = Py_NewRef(context);
        tag->outcome = Py_NewRef(outcome);
        tag->sips = Py_NewRef(k->sips);
        tag->begin_ns = number(c->begin_ns);
        tag->correlation_id = number(c->correlation_id);
        tag->thread_id = NUMBER(c->thread, ThreadState, thread_id);
        tag->stream_id = NUMBER(stream, Stream, id);
        tag->grid_id = number(grid_id);
        tag->graph_id = place->graph_id;
        tag->node_id = place->node_id;
    }
    Py_XDECREF(grid_id);
    return (PyObject *)tag;
}

static PyObject *make_outcome(PyObject *plan, PyObject *raw) {
    PyObject *const out = type_Outcome->tp_alloc(type_Outcome, 0);
    if (!out) return NULL;
    FILL(out, Outcome, plan, Py_NewRef(plan));
    FILL(out, Outcome, _raw, Py_NewRef(raw));
    FILL(out, Outcome, _result, Py_NewRef(Py_None));
    FILL(out, Outcome, _report, Py_NewRef(Py_None));
    return out;
}

/* Takes over `tag` and `submit_ns`. */
static PyObject *make_operation(known *k, PyObject *queue, PyObject *duration, PyObject *demand, PyObject *submit_ns, PyObject *tag) {
    PyObject *const op = type_Operation->tp_alloc(type_Operation, 0);
    if (!op) {
        Py_DECREF(tag);
        Py_DECREF(submit_ns);
        return NULL;
    }
    FILL(op, Operation, kind, Py_NewRef(name_kernel));
    FILL(op, Operation, stream, Py_NewRef(queue));
    FILL(op, Operation, engine, Py_NewRef(name_clusters));
    FILL(op, Operation, duration_ns, Py_NewRef(duration));
    FILL(op, Operation, submit_ns, submit_ns);
    FILL(op, Operation, demand, Py_NewRef(demand));
    FILL(op, Operation, after, Py_NewRef(empty_tuple));
    FILL(op, Operation, clusters, Py_NewRef(k->clusters));
    FILL(op, Operation, tag, tag);
    FILL(op, Operation, on_start, Py_NewRef(Py_None));
    FILL(op, Operation, on_done, Py_NewRef(Py_None));
    FILL(op, Operation, peer, Py_NewRef(Py_None));
    FILL(op, Operation, start_ns, Py_NewRef(minus_one));
    FILL(op, Operation, end_ns, Py_NewRef(minus_one));
    FILL(op, Operation, sequence, Py_NewRef(zero));
    FILL(op, Operation, contention_ns, Py_NewRef(zero));
    FILL(op, Operation, held, Py_NewRef(Py_False));
    FILL(op, Operation, _engine, Py_NewRef(Py_None));
    FILL(op, Operation, _peer_engine, Py_NewRef(Py_None));
    FILL(op, Operation, _units, Py_NewRef(zero));
    FILL(op, Operation, _missing, Py_NewRef(zero));
    FILL(op, Operation, _next, Py_NewRef(Py_None));
    FILL(op, Operation, _followers, Py_NewRef(Py_None));
    FILL(op, Operation, _due_ns, Py_NewRef(minus_one));
    FILL(op, Operation, _reservation, Py_NewRef(Py_None));
    return op;
}

/* Takes over `outcome` and `operation`. */
static PyObject *make_launch(PyObject *plan, PyObject *args, PyObject *context, PyObject *outcome, PyObject *operation) {
    PyObject *const out = type_Launch->tp_alloc(type_Launch, 0);
    if (!out) {
        Py_DECREF(outcome);
        Py_DECREF(operation);
        return NULL;
    }
    FILL(out, Launch, _plan, Py_NewRef(plan));
    FILL(out, Launch, _values, Py_NewRef(args));
    FILL(out, Launch, _outcome, outcome);
    FILL(out, Launch, _operation, operation);
    FILL(out, Launch, _context, Py_NewRef(context));
    FILL(out, Launch, _error, Py_NewRef(Py_None));
    FILL(out, Launch, _arrays, Py_NewRef(Py_None));
    return out;
}

/* Whether the kernel neither went wrong nor printed; else launching.finish() goes on. */
static bool is_plain(PyObject *raw) {
    PyObject *const prints = PyTuple_GET_ITEM(raw, 1);
    return PyTuple_GET_ITEM(raw, 0) == Py_None && (prints == Py_None || is_empty(prints)) && number(PyTuple_GET_ITEM(raw, 2)) == 0;
}

static PyObject *call_engine(const known *k, PyObject *args, const uint8_t *scalars) {
    uint8_t arrays[MOST_ARGUMENTS * ARRAY_BYTES];
    for (int n = 0; n < k->array_count; n++) {
        memcpy(arrays + n * ARRAY_BYTES, PyBytes_AS_STRING(GET(PyTuple_GET_ITEM(args, k->arrays[n]), Array, packed)), ARRAY_BYTES);
    }
    return engine->run(k->quick, arrays, (Py_ssize_t)k->array_count * ARRAY_BYTES, scalars, (Py_ssize_t)k->scalar_count * 8);
}

static PyObject *run_engine(const known *k, PyObject *args, const uint8_t *scalars, PyObject *base, PyObject *stream) {
    const bool free = cuts_freely(base);
    if (!begin_cut(base)) return NULL;
    PyObject *const now = session_ns(base);
    if (!now) PyErr_Clear();
    int64_t *const slot = now ? freeze(GET(stream, Stream, queue), number(now)) : NULL;
    Py_XDECREF(now);
    PyObject *const raw = call_engine(k, args, scalars);
    thaw(slot);
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    const bool ended = end_cut(base, free);
    if (type) PyErr_Restore(type, value, traceback);
    if (ended) return raw;
    Py_XDECREF(raw);
    return NULL;
}

static bool look_for_races(const known *k, PyObject *args, PyObject *stream) {
    PyObject *const arguments[] = {GET(the_runtime, Runtime, racing), stream, k->plan, args, empty_tuple};
    PyObject *const done = PyObject_VectorcallMethod(name_kernel, arguments, 5, NULL);
    Py_XDECREF(done);
    return done != NULL;
}

/* What launching.finish() makes of a kernel that went wrong or printed: its launch. `raw`: NULL with an exception. */
static PyObject *finish_in_python(const known *k, PyObject *args, PyObject *stream, PyObject *raw, const call *c, const graph_place *place) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback) PyException_SetTraceback(value, traceback);
    PyObject *const told = c->recorded ? Py_BuildValue("(LL)", (long long)place->graph_id, (long long)place->node_id) : Py_NewRef(Py_None);
    PyObject *const given = raw ? raw : value ? value : Py_None;
    PyObject *const out = told ? PyObject_CallFunctionObjArgs(take_result, k->plan, args, stream, told, given, NULL) : NULL;
    Py_XDECREF(told);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    return out;
}

/* The operation of a kernel that ran, submitted; and its outcome. False with an exception. */
static bool queue_kernel(known *k, PyObject *raw, PyObject *stream, PyObject *context, PyObject *timeline, PyObject *base, const call *c, const graph_place *place,
                         PyObject **operation, PyObject **outcome) {
    PyObject *duration, *demand;
    if (!(*outcome = make_outcome(k->plan, raw)) || !known_time(k, raw, *outcome, &duration, &demand)) return false;
    PyObject *const tag = make_tag(k, stream, context, c, *outcome, place), *const submit_ns = tag ? session_ns(base) : NULL;
    if (!submit_ns) {
        Py_XDECREF(tag);
        return false;
    }
    *operation = make_operation(k, GET(stream, Stream, queue), duration, demand, submit_ns, tag);
    return *operation && submit(timeline, *operation);
}

/* Under the timeline's lock. */
static PyObject *launch_locked(known *k, PyObject *args, PyObject *stream, PyObject *context, PyObject *timeline, PyObject *base, const call *c,
                               const uint8_t *scalars) {
    const graph_place none = {0};
    if (c->races && !look_for_races(k, args, stream)) return NULL;
    PyObject *const raw = run_engine(k, args, scalars, base, stream);
    PyObject *out = NULL, *outcome = NULL, *operation = NULL;
    if (!raw || !is_plain(raw)) {
        out = finish_in_python(k, args, stream, raw, c, &none);
    } else if (queue_kernel(k, raw, stream, context, timeline, base, c, &none, &operation, &outcome)) {
        out = make_launch(k->plan, args, context, Py_NewRef(outcome), Py_NewRef(operation));
    }
    Py_XDECREF(raw);
    Py_XDECREF(outcome);
    Py_XDECREF(operation);
    return out;
}

/* As launch_locked, within a cut, of a node: 1 and its operation, or -1. */
static int run_and_queue(known *k, PyObject *args, PyObject *stream, PyObject *context, PyObject *timeline, PyObject *base, const call *c,
                         const uint8_t *scalars, const graph_place *place, PyObject **operation) {
    if (c->races && !look_for_races(k, args, stream)) return -1;
    PyObject *const raw = call_engine(k, args, scalars);
    PyObject *outcome = NULL;
    bool good = false;
    if (!raw || !is_plain(raw)) {
        PyObject *const launch = finish_in_python(k, args, stream, raw, c, place);
        good = launch && Py_IS_TYPE(launch, type_Launch);
        if (good) *operation = Py_NewRef(GET(launch, Launch, _operation));
        Py_XDECREF(launch);
    } else {
        good = queue_kernel(k, raw, stream, context, timeline, base, c, place, operation, &outcome);
        if (!good) Py_CLEAR(*operation);
    }
    Py_XDECREF(raw);
    Py_XDECREF(outcome);
    return good ? 1 : -1;
}

/* Under the timeline's lock, so that nothing changes between the questions and the launch: as try_launch. `*c` is begun where told. */
static int launch_if_usual(known *k, PyObject *args, PyObject *stream, PyObject *context, PyObject *timeline, call *c, PyObject **out) {
    uint8_t scalars[MOST_ARGUMENTS * 8];
    if (NUMBER(GET(stream, Stream, queue), StreamQueue, depth) >= MOST_QUEUED) return 0;
    if (!is_usual(stream, context) || !arrays_are_here(k, args, context) || !pack_scalars(k, args, scalars) || known_holds(k) != 1) return 0;
    const int listening = who_listens(context, c);
    if (listening < 0) return 0;
    PyObject *const base = Py_NewRef(GET(GET(context, Context, clock), Clock, base));
    const int begun = listening ? call_begin(c, base) : 1;
    if (begun > 0) *out = launch_locked(k, args, stream, context, timeline, base, c, scalars);
    Py_DECREF(base);
    return begun <= 0 ? begun : *out ? 1 : -1;
}

/* The vendor's status of the exception that is set: a new reference. */
static PyObject *status_of_error(void) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    PyObject *found = PyObject_CallOneArg(take_fault, value ? value : Py_None);
    if (!found) {
        PyErr_Clear();
        found = Py_NewRef(zero);
    }
    PyErr_Restore(type, value, traceback);
    return found;
}

/* 1: launched, `*out`; 0: not here, and nothing has happened; -1: an exception. */
static int try_launch(caller *self, PyObject *args, PyObject **out) {
    call c = {0};
    PyObject *timeline = NULL, *lock = NULL, *const stream = find_stream(self, &c.device);
    int status = 0;
    known *k = NULL;
    if (!stream || !Py_IS_TYPE(stream, type_Stream)) goto done;
    PyObject *const part = GET(stream, Stream, part), *const context = GET(stream, Stream, context);
    if (!Py_IS_TYPE(context, type_Context) || (self->part != Py_None && self->part != part)) goto done;
    for (int n = 0; n < self->count && !k; n++) {
        if (known_matches(self->known[n], part, args)) k = self->known[n];
    }
    if (!k) goto done;
    c.device = NUMBER(context, Context, device_id);
    c.stream = NUMBER(stream, Stream, id);
    k->references++; /* other threads, and signal handlers, may teach the launcher something else meanwhile */
    timeline = Py_NewRef(GET(context, Context, timeline));
    if (!Py_IS_TYPE(timeline, type_Timeline)) goto done;
    lock = Py_NewRef(GET(timeline, Timeline, lock));
    PyObject *const arguments[] = {lock, Py_False}; /* no waiting here */
    PyObject *const locked = PyObject_VectorcallMethod(name_acquire, arguments, 2, NULL);
    Py_XDECREF(locked);
    if (locked != Py_True) goto done;
    no_memory = false;
    status = launch_if_usual(k, args, stream, context, timeline, &c, out);
    if (no_memory && status > 0) {
        Py_CLEAR(*out);
        PyErr_NoMemory();
        status = -1;
    }
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (!call_method(lock, name_release, NULL)) PyErr_Clear();
    PyErr_Restore(type, value, traceback);
    if (c.told) {
        PyObject *const state = status < 0 ? status_of_error() : Py_NewRef(zero);
        if (!call_end(&c, state, GET(GET(context, Context, clock), Clock, base))) {
            Py_CLEAR(*out);
            status = -1;
        }
        Py_DECREF(state);
    }
done:
    call_clear(&c);
    known_release(k);
    Py_XDECREF(timeline);
    Py_XDECREF(lock);
    Py_XDECREF(stream);
    if (status == 0) PyErr_Clear();
    return status;
}

static const deferral_functions *deferral; /* NULL: handlers of signals run as ever */

/* False: a handler raised what is told now, instead of what went wrong before. */
static bool leave_section(void) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (deferral->leave() == 0) {
        PyErr_Restore(type, value, traceback);
        return true;
    }
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    return false;
}

static PyObject *caller_call(PyObject *object, PyObject *args, PyObject *keywords) {
    caller *const self = (caller *)object;
    if (self->count && (!keywords || PyDict_GET_SIZE(keywords) == 0)) {
        PyObject *out = NULL;
        if (deferral) deferral->enter();
        const int status = try_launch(self, args, &out);
        if (deferral && !leave_section()) Py_CLEAR(out);
        else if (status) return out;
        if (PyErr_Occurred()) return NULL;
    }
    PyObject *const slow = PyObject_GetAttr(object, name__slow);
    PyObject *const out = slow ? PyObject_Call(slow, args, keywords) : NULL;
    Py_XDECREF(slow);
    return out;
}

PyDoc_STRVAR(choose_doc, "_choose(stream, part): what options say of them; None: nothing.");
static PyObject *choose(PyObject *object, PyObject *args) {
    caller *const self = (caller *)object;
    PyObject *stream, *part;
    if (!PyArg_ParseTuple(args, "OO", &stream, &part)) return NULL;
    Py_XSETREF(self->stream, Py_NewRef(stream));
    Py_XSETREF(self->part, Py_NewRef(part));
    Py_RETURN_NONE;
}

PyDoc_STRVAR(learn_doc, "_learn(about, args): launches like this one need no Python; see quick_launches.py.");
static PyObject *learn(PyObject *object, PyObject *args) {
    caller *const self = (caller *)object;
    PyObject *about, *values;
    if (!PyArg_ParseTuple(args, "O!O!", &PyTuple_Type, &about, &PyTuple_Type, &values)) return NULL;
    known *fresh = NULL;
    const int status = self->stream ? known_make(about, values, &fresh) : 0;
    if (status <= 0) {
        known_release(fresh);
        if (status < 0 && !PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "places that are not among the arguments");
        if (status < 0) return NULL;
        Py_RETURN_FALSE;
    }
    known *const old = self->count == KNOWN ? self->known[self->next] : NULL;
    self->known[self->next] = fresh;
    self->next = (self->next + 1) % KNOWN;
    if (self->count < KNOWN) self->count++;
    known_release(old);
    Py_RETURN_TRUE;
}

PyDoc_STRVAR(forget_doc, "_forget(): nothing is known any more.");
static PyObject *forget(PyObject *object, PyObject *ignored) {
    caller *const self = (caller *)object;
    (void)ignored;
    const int count = self->count;
    self->count = self->next = 0;
    for (int n = 0; n < count; n++) known_release(self->known[n]);
    Py_RETURN_NONE;
}

static int caller_traverse(PyObject *object, visitproc visit, void *arg) {
    caller *const self = (caller *)object;
    Py_VISIT(self->stream);
    Py_VISIT(self->part);
    for (int n = 0; n < self->count; n++) {
        const int status = known_traverse(self->known[n], visit, arg);
        if (status) return status;
    }
    return 0;
}

static int caller_clear(PyObject *object) {
    caller *const self = (caller *)object;
    Py_XDECREF(forget(object, NULL));
    Py_CLEAR(self->stream);
    Py_CLEAR(self->part);
    return 0;
}

static void caller_free(PyObject *object) {
    PyObject_GC_UnTrack(object);
    caller_clear(object);
    Py_TYPE(object)->tp_free(object);
}

static PyMethodDef caller_methods[] = {
    {"_choose", choose, METH_VARARGS, choose_doc},
    {"_learn", learn, METH_VARARGS, learn_doc},
    {"_forget", forget, METH_NOARGS, forget_doc},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject caller_type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "tops_kit.runtime._quick.Caller",
    .tp_doc = PyDoc_STR("Called as a launcher is; what is unusual goes to its _slow."),
    .tp_basicsize = sizeof(caller),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_new = PyType_GenericNew,
    .tp_dealloc = caller_free,
    .tp_traverse = caller_traverse,
    .tp_clear = caller_clear,
    .tp_call = caller_call,
    .tp_methods = caller_methods,
};

#endif
