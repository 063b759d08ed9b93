/* A launch as it was made before: which arguments it takes, and what is known of it. */
#ifndef QUICK_KNOWN_H
#define QUICK_KNOWN_H
#include "../../engine/quick.h"
#include "timeline.h"

enum { MOST_ARGUMENTS = 32, KNOWN = 4, TIMES = 4, ARRAY_BYTES = 8 + 5 * 8 + 5 * 4 + 3 * 4 /* as packing.py lays an array out */ };

typedef struct {
    int32_t place, number;  /* among the arguments; the register */
    bool is_float;
    int64_t low, high;
} scalar;

typedef struct {
    int references; /* of the launcher, and of launches under way */
    PyObject *part, *plan, *quick, *clusters, *sips, *holds;
    PyObject *types[MOST_ARGUMENTS];      /* of each argument */
    PyObject *signatures[MOST_ARGUMENTS]; /* of an Array; else NULL */
    PyObject *values[MOST_ARGUMENTS];     /* of a constexpr; else NULL */
    int count;
    int32_t arrays[MOST_ARGUMENTS];
    int array_count;
    scalar scalars[MOST_ARGUMENTS];
    int scalar_count;
    PyObject *captured; /* ((namespace, name, value), ...) of globals and ((object, name, value), ...) of attributes */
    PyObject *times[TIMES], *duration[TIMES], *demand[TIMES]; /* of the engine's latest results */
    int time_count, next_time;
} known;

static const quick_functions *engine;

static void known_release(known *k) {
    if (!k || --k->references) return;
    PyObject **const each[] = {&k->part, &k->plan, &k->quick, &k->clusters, &k->sips, &k->holds, &k->captured};
    for (size_t n = 0; n < sizeof each / sizeof *each; n++) Py_CLEAR(*each[n]);
    for (int n = 0; n < k->count; n++) {
        Py_CLEAR(k->types[n]);
        Py_CLEAR(k->signatures[n]);
        Py_CLEAR(k->values[n]);
    }
    for (int n = 0; n < k->time_count; n++) {
        Py_CLEAR(k->times[n]);
        Py_CLEAR(k->duration[n]);
        Py_CLEAR(k->demand[n]);
    }
    PyMem_Free(k);
}

static int known_traverse(known *k, visitproc visit, void *arg) {
    Py_VISIT(k->part);
    Py_VISIT(k->plan);
    Py_VISIT(k->holds);
    Py_VISIT(k->captured);
    for (int n = 0; n < k->count; n++) Py_VISIT(k->values[n]);
    return 0;
}

/* A plan that is quick has loaded the engine. */
static bool find_engine(void) {
    PyObject *const module = engine ? NULL : PyImport_ImportModule("tops_kit.engine._engine");
    if (module) engine = PyCapsule_Import(QUICK_FUNCTIONS, 0);
    Py_XDECREF(module);
    if (engine && engine->version != QUICK_VERSION) {
        PyErr_SetString(PyExc_ImportError, "the engine was built from other sources: pip install -e . again");
        engine = NULL;
    }
    return engine != NULL;
}

/* From what Launcher remembers: (part, plan, quick, clusters, sips, holds, captured, arrays, scalars, constexprs) and arguments like those to come.
   1: it is known now, `*out`; 0: not for here; -1: an exception. */
static int known_make(PyObject *about, PyObject *args, known **out) {
    PyObject *part, *plan, *quick, *clusters, *sips, *holds, *captured, *arrays, *scalars, *constexprs;
    if (!PyArg_ParseTuple(about, "OOOOOOO!O!O!O!", &part, &plan, &quick, &clusters, &sips, &holds, &PyTuple_Type, &captured, &PyTuple_Type, &arrays,
                          &PyTuple_Type, &scalars, &PyTuple_Type, &constexprs)) {
        return -1;
    }
    if (!find_engine()) return -1;
    const Py_ssize_t count = PyTuple_GET_SIZE(args);
    if (count > MOST_ARGUMENTS || PyTuple_GET_SIZE(arrays) > MOST_ARGUMENTS || PyTuple_GET_SIZE(scalars) > MOST_ARGUMENTS) return 0;
    known *const k = *out = PyMem_Malloc(sizeof *k);
    if (!k) {
        PyErr_NoMemory();
        return -1;
    }
    *k = (known){.references = 1, .part = Py_NewRef(part), .plan = Py_NewRef(plan), .quick = Py_NewRef(quick), .clusters = Py_NewRef(clusters), .sips = Py_NewRef(sips),
                 .holds = Py_NewRef(holds), .captured = Py_NewRef(captured), .count = (int)count};
    for (Py_ssize_t n = 0; n < count; n++) {
        PyObject *const value = PyTuple_GET_ITEM(args, n);
        k->types[n] = Py_NewRef((PyObject *)Py_TYPE(value));
        if (Py_IS_TYPE(value, type_Array)) k->signatures[n] = Py_NewRef(GET(value, Array, signature));
    }
    for (Py_ssize_t n = 0; n < PyTuple_GET_SIZE(constexprs); n++) {
        const long place = PyLong_AsLong(PyTuple_GET_ITEM(constexprs, n));
        if (place < 0 || place >= count) return -1;
        k->values[place] = Py_NewRef(PyTuple_GET_ITEM(args, place));
    }
    for (Py_ssize_t n = 0; n < PyTuple_GET_SIZE(arrays); n++) {
        k->arrays[n] = (int32_t)PyLong_AsLong(PyTuple_GET_ITEM(arrays, n));
        if (k->arrays[n] < 0 || k->arrays[n] >= count) return -1;
    }
    k->array_count = (int)PyTuple_GET_SIZE(arrays);
    for (Py_ssize_t n = 0; n < PyTuple_GET_SIZE(scalars); n++) {
        scalar *const s = &k->scalars[n];
        int is_float;
        long long low, high;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(scalars, n), "iipLL", &s->place, &s->number, &is_float, &low, &high)) return -1;
        if (s->place < 0 || s->place >= count) return -1;
        s->is_float = is_float != 0;
        s->low = low;
        s->high = high;
    }
    k->scalar_count = (int)PyTuple_GET_SIZE(scalars);
    return 1;
}

/* Whether arguments are like those. No exception. */
static bool known_matches(const known *k, PyObject *part, PyObject *args) {
    if (k->part != part || PyTuple_GET_SIZE(args) != k->count) return false;
    for (int n = 0; n < k->count; n++) {
        PyObject *const value = PyTuple_GET_ITEM(args, n);
        if ((PyObject *)Py_TYPE(value) != k->types[n]) return false;
        if (k->signatures[n] && GET(value, Array, signature) != k->signatures[n] && number(GET(value, Array, signature)) != number(k->signatures[n])) {
            return false;
        }
        if (k->values[n] && k->values[n] != value) {
            /* of one type: numbers and texts compare without a call into the program */
            if (!PyLong_CheckExact(value) && !PyFloat_CheckExact(value) && !PyUnicode_CheckExact(value)) return false;
            if (PyFloat_CheckExact(value)) { /* -0.0 is equal to 0.0, but not the same to a kernel */
                const double now = PyFloat_AS_DOUBLE(value), then = PyFloat_AS_DOUBLE(k->values[n]);
                if (memcmp(&now, &then, sizeof now) != 0) return false;
            } else if (PyObject_RichCompareBool(value, k->values[n], Py_EQ) != 1) {
                return false;
            }
        }
    }
    return true;
}

/* Whether what the kernel took from the Python around it is still so, as far as identity says it: 1 yes, 0 no, -1 an exception. */
static int known_holds(const known *k) {
    PyObject *const globals = PyTuple_GET_ITEM(k->captured, 0), *const attributes = PyTuple_GET_ITEM(k->captured, 1);
    bool same = true;
    for (Py_ssize_t n = 0; same && n < PyTuple_GET_SIZE(globals); n++) {
        PyObject *const entry = PyTuple_GET_ITEM(globals, n);
        PyObject *const now = PyDict_GetItemWithError(PyTuple_GET_ITEM(entry, 0), PyTuple_GET_ITEM(entry, 1));
        if (!now && PyErr_Occurred()) return -1;
        same = now == PyTuple_GET_ITEM(entry, 2);
    }
    for (Py_ssize_t n = 0; same && n < PyTuple_GET_SIZE(attributes); n++) {
        PyObject *const entry = PyTuple_GET_ITEM(attributes, n);
        PyObject *const now = PyObject_GetAttr(PyTuple_GET_ITEM(entry, 0), PyTuple_GET_ITEM(entry, 1));
        if (!now) {
            PyErr_Clear(); /* holds() says what that means */
            same = false;
        } else {
            same = now == PyTuple_GET_ITEM(entry, 2);
            Py_DECREF(now);
        }
    }
    if (same) return 1;
    PyObject *const answer = PyObject_CallNoArgs(k->holds);
    if (!answer) return -1;
    const int truth = PyObject_IsTrue(answer);
    Py_DECREF(answer);
    return truth;
}

/* The registers of scalar arguments, as packing.py packs them. False: one that needs a closer look. No exception. */
static bool pack_scalars(const known *k, PyObject *args, uint8_t *out) {
    for (int n = 0; n < k->scalar_count; n++, out += 8) {
        const scalar *const s = &k->scalars[n];
        PyObject *const value = PyTuple_GET_ITEM(args, s->place);
        memcpy(out, &s->number, 4);
        if (s->is_float) {
            const double wide = PyFloat_CheckExact(value) ? PyFloat_AS_DOUBLE(value) : PyLong_CheckExact(value) ? PyLong_AsDouble(value) : 0.0;
            if (!PyFloat_CheckExact(value) && (!PyLong_CheckExact(value) || (wide == -1.0 && PyErr_Occurred()))) {
                PyErr_Clear();
                return false;
            }
            const float narrow = (float)wide;
            if (Py_IS_INFINITY(narrow) && !Py_IS_INFINITY(wide)) return false;
            memcpy(out + 4, &narrow, 4);
        } else {
            int overflow = 0;
            if (!PyLong_Check(value)) return false;
            const long long wide = PyLong_AsLongLongAndOverflow(value, &overflow);
            if (overflow || wide < s->low || wide > s->high) return false;
            const int32_t narrow = (int32_t)wide;
            memcpy(out + 4, &narrow, 4);
        }
    }
    return true;
}

/* How long the launch takes and what it moves, from the engine's result; made by `outcome` where it is not that of a launch before.
   Borrowed. False with an exception. */
static bool known_time(known *k, PyObject *raw, PyObject *outcome, PyObject **duration, PyObject **demand) {
    PyObject *const times = PyTuple_GET_ITEM(raw, 5);
    for (int n = 0; n < k->time_count; n++) {
        if (k->times[n] != times) continue;
        *duration = k->duration[n];
        *demand = k->demand[n];
        return true;
    }
    PyObject *const took = PyObject_GetAttr(outcome, name_duration_ns);
    PyObject *const moved = took ? PyObject_GetAttr(outcome, name_l3_bytes) : NULL, *const bytes = moved ? PyDict_New() : NULL;
    if (!bytes || PyDict_SetItem(bytes, name_l3, moved) < 0) {
        Py_XDECREF(took);
        Py_XDECREF(moved);
        Py_XDECREF(bytes);
        return false;
    }
    Py_DECREF(moved);
    const int n = k->next_time;
    k->next_time = (n + 1) % TIMES;
    if (k->time_count < TIMES) k->time_count++;
    Py_XSETREF(k->times[n], Py_NewRef(times));
    Py_XSETREF(k->duration[n], took);
    Py_XSETREF(k->demand[n], bytes);
    *duration = took;
    *demand = bytes;
    return true;
}

#endif
