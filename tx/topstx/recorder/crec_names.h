/* crec_names.h - from Python objects to what the producer stores: names, contexts, payloads, arguments (part of _crec.c). */

/* ---- exceptions of the program's code that we run: __str__, __repr__, signal handlers meanwhile ------------------------- */

static __thread PyObject *interruption __attribute__((tls_model("initial-exec"))); /* to be raised when our call ends */

/* Forget an exception: what we record is never worth one. Only what is no Exception (the KeyboardInterrupt or SystemExit of a signal
 * handler) is kept for the program. */
static __attribute__((noinline)) void forget_error(void) {
    PyObject *error;
    if (!PyErr_Occurred()) return;
    if (PyErr_ExceptionMatches(PyExc_Exception)) {
        PyErr_Clear();
        return;
    }
#if PY_VERSION_HEX >= 0x030C0000
    error = PyErr_GetRaisedException();
#else
    PyObject *type, *traceback;
    PyErr_Fetch(&type, &error, &traceback);
    PyErr_NormalizeException(&type, &error, &traceback);
    if (traceback) PyException_SetTraceback(error, traceback);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
#endif
    Py_XSETREF(interruption, error);
}

static __attribute__((noinline)) PyObject *raise_interruption(void) {
    PyObject *error = interruption;
    interruption = NULL;
    PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_DECREF(error);
    return NULL;
}

/* None, or what interrupted the call. */
static inline PyObject *done(void) {
    if (TOPSTXI_UNLIKELY(interruption != NULL)) return raise_interruption();
    Py_RETURN_NONE;
}

/* ---- names: strings seen before are found by their address ------------------------------------------------------------ */

#define CACHE_BITS 12
#define CACHED_LENGTH_MAX 1024 /* a cached string stays alive; this bounds what the cache may keep */

typedef struct {
    PyObject *key; /* a strong reference, so its address stays its own */
    uint32_t id;
} cached_name;

static cached_name name_cache[1 << CACHE_BITS];
static uint32_t name_cache_epoch;

static void clear_name_cache(void) {
    for (size_t i = 0; i < sizeof name_cache / sizeof *name_cache; i++) Py_CLEAR(name_cache[i].key);
    name_cache_epoch = topstxi_state.name_epoch;
}

static inline cached_name *cache_place(PyObject *text) {
    return &name_cache[(((uintptr_t)text >> 4) * 0x9E3779B97F4A7C15ull) >> (64 - CACHE_BITS)];
}

/* UTF-8 of a str; *owner keeps it when it had to be made. NULL: there is none (no exception is set). */
static const char *text_of(PyObject *text, Py_ssize_t *bytes, PyObject **owner) {
    const char *data = PyUnicode_AsUTF8AndSize(text, bytes);
    *owner = NULL;
    if (data) return data;
    PyErr_Clear(); /* lone surrogates */
    *owner = PyUnicode_AsEncodedString(text, "utf-8", "backslashreplace");
    if (*owner) {
        *bytes = PyBytes_GET_SIZE(*owner);
        return PyBytes_AS_STRING(*owner);
    }
    PyErr_Clear();
    return NULL;
}

typedef struct { /* UTF-8 of a str, also with NUL in it; release with Py_XDECREF(owner) */
    const char *data;
    Py_ssize_t bytes;
    PyObject *owner;
} utf8;

/* Of NULL, and without memory, the empty text. */
static utf8 utf8_of(PyObject *text) {
    utf8 of = {"", 0, NULL};
    const char *data = text ? text_of(text, &of.bytes, &of.owner) : NULL;
    if (data) of.data = data;
    else of.bytes = 0;
    return of;
}

/* str(object), or "<unprintable TYPE>" when that raises. A new reference, or NULL without an exception: no memory. */
static PyObject *as_str(PyObject *object) {
    PyObject *text = PyObject_Str(object), *name;
    if (text) return text;
    forget_error();
    name = PyType_GetName(Py_TYPE(object));
    if (name) text = PyUnicode_FromFormat("<unprintable %U>", name);
    if (!text) forget_error();
    Py_XDECREF(name);
    return text;
}

/* The str that an argument stands for, "" for none. A new reference, or NULL with an exception: no memory, or an interruption. */
static PyObject *text_argument(PyObject *argument) {
    PyObject *text;
    if (!argument || argument == Py_None) return PyUnicode_FromString("");
    if (PyUnicode_CheckExact(argument)) return Py_NewRef(argument);
    text = as_str(argument);
    if (interruption) {
        Py_XDECREF(text);
        return raise_interruption();
    }
    return text ? text : PyErr_NoMemory();
}

static __attribute__((noinline)) uint32_t name_id_slow(PyObject *message) {
    PyObject *text = NULL;
    utf8 name;
    uint32_t id;
    if (!message || message == Py_None) return topstxi_intern(TOPSTX_ENTRY_NAME, "", 0);
    if (!PyUnicode_Check(message)) {
        text = as_str(message);
        if (!text) return TOPSTX_NAME_TOO_MANY;
        message = text;
    }
    name = utf8_of(message);
    id = topstxi_intern(TOPSTX_ENTRY_NAME, name.data, (size_t)name.bytes);
    /* A string that nobody else holds is a temporary (an f-string): keeping it would only push out useful ones. */
    if (!text && PyUnicode_CheckExact(message) && name.bytes <= CACHED_LENGTH_MAX && id != TOPSTX_NAME_TOO_MANY &&
        (PyUnicode_CHECK_INTERNED(message) || Py_REFCNT(message) > 1)) {
        cached_name *place = cache_place(message);
        PyObject *old = place->key;
        Py_INCREF(message);
        place->key = message;
        place->id = id;
        Py_XDECREF(old);
    }
    Py_XDECREF(name.owner);
    Py_XDECREF(text);
    return id;
}

static inline uint32_t name_id(PyObject *message) {
    cached_name *place = cache_place(message);
    if (TOPSTXI_LIKELY(place->key == message) && TOPSTXI_LIKELY(message != NULL)) return place->id;
    return name_id_slow(message);
}

/* ---- contexts ------------------------------------------------------------------------------------------------------- */

#if PY_VERSION_HEX < 0x030E0000
typedef struct { /* struct _pycontextobject of CPython 3.11 to 3.13 */
    PyObject_HEAD
    PyObject *previous;
    PyObject *variables;
    PyObject *weak_references;
    int entered;
} context_object;
#endif

static inline PyThreadState *this_thread(void) {
#if PY_VERSION_HEX >= 0x030D0000
    return PyThreadState_GetUnchecked();
#else
    return _PyThreadState_UncheckedGet();
#endif
}

/* A context that nobody entered is the thread's own, made when it first used a context variable. */
static __attribute__((noinline)) void enter_context(topstxi_ring *r, uint64_t raw) {
    uint64_t key = raw;
#if PY_VERSION_HEX < 0x030E0000
    if (raw && !((context_object *)(uintptr_t)raw)->entered) key = 0;
#endif
    topstxi_switch_context(r, raw, key);
}

static inline void follow_context(topstxi_ring *r) {
    uint64_t raw = (uint64_t)(uintptr_t)this_thread()->context;
    if (TOPSTXI_UNLIKELY(raw != r->raw)) enter_context(r, raw);
}

/* ---- payloads ------------------------------------------------------------------------------------------------------- */

typedef struct { /* a converted payload and what keeps its bytes alive */
    topstxi_value value;
    PyObject *owner;
    Py_buffer buffer;
    int has_buffer;
    union {
        int64_t i;
        double f;
    } number;
} payload;

static PyObject *helper(const char *name) { /* of topstx.recorder.values; NULL without an exception */
    static PyObject *module;
    PyObject *function;
    if (!module) module = PyImport_ImportModule("topstx.recorder.values");
    function = module ? PyObject_GetAttrString(module, name) : NULL;
    if (!function) forget_error();
    return function;
}

static PyObject *call_helper(const char *name, PyObject *argument) {
    PyObject *function = helper(name), *result;
    if (!function) return NULL;
    result = PyObject_CallOneArg(function, argument);
    Py_DECREF(function);
    if (!result) forget_error();
    return result;
}

static void payload_text(payload *to, PyObject *text, uint8_t tag) {
    PyObject *owner;
    Py_ssize_t bytes;
    const char *data = text_of(text, &bytes, &owner);
    if (!data) return;
    if (owner) Py_XSETREF(to->owner, owner);
    to->value.tag = tag;
    to->value.data = data;
    to->value.bytes = (uint32_t)(bytes > INT32_MAX ? INT32_MAX : bytes);
}

static void payload_int(payload *to, PyObject *number) {
    int overflow;
    long long i = PyLong_AsLongLongAndOverflow(number, &overflow);
    if (overflow) {
        to->owner = as_str(number);
        if (to->owner) payload_text(to, to->owner, TOPSTX_MORE_STR);
        return;
    }
    to->number.i = i;
    to->value.tag = TOPSTX_MORE_INT;
    to->value.data = &to->number;
    to->value.bytes = 8;
}

/* Convert a payload. Nothing raises: what can't be converted is no payload. Release with payload_done. */
static void payload_from(payload *to, PyObject *object) {
    memset(to, 0, offsetof(payload, buffer));
    to->has_buffer = 0;
    if (!object || object == Py_None) return;
    if (PyLong_Check(object)) {
        payload_int(to, object);
    } else if (PyFloat_Check(object)) {
        to->number.f = PyFloat_AS_DOUBLE(object);
        to->value.tag = TOPSTX_MORE_FLOAT;
        to->value.data = &to->number;
        to->value.bytes = 8;
    } else if (PyUnicode_Check(object)) {
        payload_text(to, object, TOPSTX_MORE_STR);
    } else if (PyDict_Check(object)) {
        to->owner = call_helper("json_text", object);
        if (to->owner && PyUnicode_Check(to->owner)) payload_text(to, to->owner, TOPSTX_MORE_JSON);
    } else if (PyBytes_Check(object) || PyByteArray_Check(object)) {
        if (PyObject_GetBuffer(object, &to->buffer, PyBUF_SIMPLE) < 0) {
            PyErr_Clear();
            return;
        }
        to->has_buffer = 1;
        to->value.tag = TOPSTX_MORE_BYTES;
        to->value.data = to->buffer.buf;
        to->value.bytes = (uint32_t)(to->buffer.len > INT32_MAX ? INT32_MAX : to->buffer.len);
    } else {
        to->owner = call_helper("plain", object); /* numpy's numbers to int or float, the rest to its repr */
        if (!to->owner) return;
        if (PyLong_Check(to->owner)) {
            PyObject *number = to->owner;
            to->owner = NULL;
            payload_int(to, number);
            Py_DECREF(number);
        } else if (PyFloat_Check(to->owner)) {
            to->number.f = PyFloat_AS_DOUBLE(to->owner);
            to->value.tag = TOPSTX_MORE_FLOAT;
            to->value.data = &to->number;
            to->value.bytes = 8;
        } else if (PyUnicode_Check(to->owner)) {
            payload_text(to, to->owner, TOPSTX_MORE_STR);
        }
    }
}

static void payload_done(payload *to) {
    if (to->has_buffer) PyBuffer_Release(&to->buffer);
    Py_XDECREF(to->owner);
}

/* ---- arguments ------------------------------------------------------------------------------------------------------ */

enum { MESSAGE, COLOR, DOMAIN, CATEGORY, PAYLOAD, ARGUMENTS };
static PyObject *argument_names[ARGUMENTS];
static const char *const argument_texts[ARGUMENTS] = {"message", "color", "domain", "category", "payload"};

/* Sort vectorcall arguments into `out` (borrowed; NULL: absent or None). A domain's methods take no domain. -1 and TypeError. */
static int take_arguments(const char *function, PyObject *const *args, Py_ssize_t count, PyObject *kwnames, int with_domain,
                          PyObject *out[ARGUMENTS]) {
    static const int all[] = {MESSAGE, COLOR, DOMAIN, CATEGORY, PAYLOAD}, without[] = {MESSAGE, COLOR, CATEGORY, PAYLOAD};
    const int *order = with_domain ? all : without, most = with_domain ? 5 : 4;
    Py_ssize_t i, keywords = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
    memset(out, 0, ARGUMENTS * sizeof *out);
    if (count > most) {
        PyErr_Format(PyExc_TypeError, "%s() takes at most %d arguments (%zd given)", function, most, count);
        return -1;
    }
    for (i = 0; i < count; i++) out[order[i]] = args[i] == Py_None ? NULL : args[i];
    for (i = 0; i < keywords; i++) {
        PyObject *name = PyTuple_GET_ITEM(kwnames, i);
        int k;
        for (k = 0; k < most; k++)
            if (name == argument_names[order[k]] || PyUnicode_Compare(name, argument_names[order[k]]) == 0) break;
        if (k == most || k < count) {
            PyErr_Format(PyExc_TypeError, k == most ? "%s() got an unexpected keyword argument '%U'" : "%s() got multiple values for argument '%U'",
                         function, name);
            return -1;
        }
        out[order[k]] = args[count + i] == Py_None ? NULL : args[count + i];
    }
    return 0;
}
