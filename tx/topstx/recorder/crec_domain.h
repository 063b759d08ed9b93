/* crec_domain.h - domains with their categories, and counters (part of _crec.c). */

#define SEEN 8 /* (category, colour) pairs whose attr a domain remembers, by address */

typedef struct {
    PyObject_HEAD
    PyObject *name;
    PyObject *categories; /* dict: name -> number */
    PyObject *counters;   /* dict: (name, unit) -> Counter */
    uint32_t id;
    uint32_t attr;
    uint32_t epoch;
    uint32_t seen_next;
    struct {
        PyObject *category;
        PyObject *color;
        uint32_t attr;
    } seen[SEEN];
} domain_object;

typedef struct {
    PyObject_HEAD
    domain_object *domain;
    PyObject *name;
    PyObject *unit;
    uint32_t id;
    uint32_t epoch;
} counter_object;

static PyTypeObject domain_type, counter_type;
static PyObject *domains; /* dict: name -> Domain */
static domain_object *default_domain;

static void domain_forget(domain_object *d) {
    for (int i = 0; i < SEEN; i++) {
        Py_CLEAR(d->seen[i].category);
        Py_CLEAR(d->seen[i].color);
    }
}

/* Ids of another session are void. */
static __attribute__((noinline)) void domain_resolve_slow(domain_object *d) {
    utf8 name = utf8_of(d->name);
    domain_forget(d);
    d->epoch = topstxi_state.name_epoch;
    d->id = topstxi_domain_id(name.data, (size_t)name.bytes);
    Py_XDECREF(name.owner);
    d->attr = topstxi_attr_id(d->id, 0, 0);
}

static inline void domain_resolve(domain_object *d) {
    if (TOPSTXI_UNLIKELY(d->epoch != topstxi_state.name_epoch)) domain_resolve_slow(d);
}

/* The domain that an argument names: a str, a Domain, NULL for the default one. Borrowed; NULL without an exception: none. */
static domain_object *domain_of(PyObject *argument) {
    PyObject *found, *text;
    if (!argument) return default_domain;
    if (Py_TYPE(argument) == &domain_type) return (domain_object *)argument;
    text = PyUnicode_CheckExact(argument) ? Py_NewRef(argument) : as_str(argument);
    if (!text) return NULL;
    found = PyDict_GetItemWithError(domains, text);
    if (!found) {
        domain_object *d;
        PyErr_Clear();
        d = PyObject_New(domain_object, &domain_type);
        if (d) {
            memset((char *)d + sizeof(PyObject), 0, sizeof *d - sizeof(PyObject));
            d->name = Py_NewRef(text);
            d->categories = PyDict_New();
            d->counters = PyDict_New();
            d->epoch = topstxi_state.name_epoch - 1;
            if (!d->categories || !d->counters || PyDict_SetItem(domains, text, (PyObject *)d) < 0) PyErr_Clear();
            else found = (PyObject *)d; /* the dict keeps it for good */
            Py_DECREF(d);
        } else {
            PyErr_Clear();
        }
    }
    Py_DECREF(text);
    return (domain_object *)found;
}

/* Number of a category: 1, 2, ... in order of first use. 0: it can't be had. */
static uint32_t category_number(domain_object *d, PyObject *name) {
    PyObject *number = PyDict_GetItemWithError(d->categories, name);
    uint32_t value;
    if (number) return (uint32_t)PyLong_AsUnsignedLongMask(number);
    PyErr_Clear();
    value = (uint32_t)PyDict_GET_SIZE(d->categories) + 1;
    number = PyLong_FromUnsignedLong(value);
    if (!number || PyDict_SetItem(d->categories, name, number) < 0) {
        PyErr_Clear();
        value = 0;
    }
    Py_XDECREF(number);
    return value;
}

/* Entry of a category argument, a str or a number; 0: none. */
static uint32_t category_entry(domain_object *d, PyObject *category) {
    uint32_t number = 0, entry;
    PyObject *text = NULL, *key, *value;
    Py_ssize_t at = 0;
    utf8 name;
    if (PyLong_Check(category)) {
        number = (uint32_t)PyLong_AsUnsignedLongMask(category);
        PyErr_Clear();
        while (!text && PyDict_Next(d->categories, &at, &key, &value)) /* was it named? */
            if ((uint32_t)PyLong_AsUnsignedLongMask(value) == number) text = Py_NewRef(key);
    } else {
        text = PyUnicode_CheckExact(category) ? Py_NewRef(category) : as_str(category);
        if (!text) return 0;
        number = category_number(d, text);
    }
    name = utf8_of(text);
    entry = topstxi_category_id(d->id, number, name.data, (size_t)name.bytes);
    Py_XDECREF(name.owner);
    Py_XDECREF(text);
    return entry == TOPSTX_NAME_TOO_MANY ? 0 : entry;
}

static uint32_t color_of(PyObject *color) {
    PyObject *number;
    uint32_t argb;
    if (!color) return 0;
    number = call_helper("color_argb", color);
    argb = number ? (uint32_t)PyLong_AsUnsignedLongMask(number) : 0;
    PyErr_Clear();
    Py_XDECREF(number);
    return argb;
}

static __attribute__((noinline)) uint32_t domain_attr_slow(domain_object *d, PyObject *category, PyObject *color) {
    uint32_t attr = topstxi_attr_id(d->id, category ? category_entry(d, category) : 0, color_of(color)), i = d->seen_next++ % SEEN;
    PyObject *old_category = d->seen[i].category, *old_color = d->seen[i].color;
    d->seen[i].category = Py_XNewRef(category);
    d->seen[i].color = Py_XNewRef(color);
    d->seen[i].attr = attr;
    Py_XDECREF(old_category);
    Py_XDECREF(old_color);
    return attr;
}

/* The attr of a domain with category and colour (NULL: none); TOPSTXI_EXCLUDED when the domain is filtered out. */
static inline uint32_t domain_attr(domain_object *d, PyObject *category, PyObject *color) {
    domain_resolve(d);
    if (TOPSTXI_LIKELY(!category && !color)) return d->attr;
    if (d->attr == TOPSTXI_EXCLUDED) return d->attr;
    for (int i = 0; i < SEEN; i++)
        if (d->seen[i].category == category && d->seen[i].color == color) return d->seen[i].attr;
    return domain_attr_slow(d, category, color);
}

/* ---- is this range to be recorded? ------------------------------------------------------------------------------------ */

/* Recording is armed: does this range fire it? */
static __attribute__((noinline)) int fires(PyObject *message, domain_object *d, uint32_t *flags) {
    PyObject *text = !message ? NULL : PyUnicode_Check(message) ? Py_NewRef(message) : as_str(message);
    utf8 name = utf8_of(text), domain = utf8_of(d->name);
    int fired = topstxi_capture(name.data, (size_t)name.bytes, domain.data, (size_t)domain.bytes, flags);
    Py_XDECREF(domain.owner);
    Py_XDECREF(name.owner);
    Py_XDECREF(text);
    return fired;
}

/* Recording is not off: is it on, or does this range switch it on? */
static inline int wanted(PyObject *message, domain_object *d, uint32_t *flags) {
    return TOPSTXI_LIKELY(topstxi_recording() == TOPSTX_RECORDING_ON) || fires(message, d, flags);
}

/* ---- the calls, for the module's functions and the domains' methods alike --------------------------------------------- */

/* A push that is not recorded; above ranges that are still open, its pop must not end one of them. */
static __attribute__((noinline)) void skip_slow(domain_object *d) {
    topstxi_ring *r = topstxi_mine;
    domain_resolve(d);
    if (r->epoch != topstxi_state.epoch || d->attr == TOPSTXI_EXCLUDED) return;
    follow_context(r);
    topstxi_hide(r, d->id);
}

static inline void skip(domain_object *d) {
    if (TOPSTXI_UNLIKELY(topstxi_mine != NULL) && TOPSTXI_UNLIKELY(topstxi_mine->open_count) && d) skip_slow(d);
}

static void push(PyObject *const a[ARGUMENTS], domain_object *d) {
    uint32_t flags = TOPSTX_FLAG_PUSHED, attr, name, index;
    topstxi_ring *r;
    payload p;
    if (!d) return;
    attr = domain_attr(d, a[CATEGORY], a[COLOR]);
    if (attr == TOPSTXI_EXCLUDED) return;
    if (!wanted(a[MESSAGE], d, &flags)) {
        skip(d);
        return;
    }
    name = name_id(a[MESSAGE]);
    if (!a[PAYLOAD]) {
        if (!(r = topstxi_ring_mine())) return;
        follow_context(r);
        topstxi_open(r, name, attr, d->id, flags);
        return;
    }
    payload_from(&p, a[PAYLOAD]);
    if ((r = topstxi_ring_mine())) {
        follow_context(r);
        index = topstxi_open(r, name, attr, d->id, flags);
        if (index && p.value.tag) topstxi_keep_payload(r, index, &p.value);
    }
    payload_done(&p);
}

static inline void pop(domain_object *d) {
    topstxi_ring *r;
    if (TOPSTXI_UNLIKELY(!d)) return;
    domain_resolve(d);
    if (TOPSTXI_UNLIKELY(d->attr == TOPSTXI_EXCLUDED)) return;
    r = topstxi_recording() == TOPSTX_RECORDING_ON ? topstxi_ring_mine() : topstxi_mine;
    if (TOPSTXI_UNLIKELY(!r) || TOPSTXI_UNLIKELY(r->epoch != topstxi_state.epoch)) return;
    follow_context(r);
    topstxi_pop(r, d->id);
}

static inline int nothing_to_pop(void) {
    return topstxi_recording() == TOPSTX_RECORDING_OFF && (TOPSTXI_LIKELY(!topstxi_mine) || !topstxi_mine->open_count);
}

static void do_mark(PyObject *const a[ARGUMENTS], domain_object *d) {
    uint32_t attr, name;
    topstxi_ring *r;
    payload p;
    if (!d || topstxi_recording() != TOPSTX_RECORDING_ON) return;
    attr = domain_attr(d, a[CATEGORY], a[COLOR]);
    if (attr == TOPSTXI_EXCLUDED) return;
    name = name_id(a[MESSAGE]);
    payload_from(&p, a[PAYLOAD]);
    if ((r = topstxi_ring_mine())) {
        follow_context(r);
        topstxi_mark(r, name, attr, &p.value);
    }
    payload_done(&p);
}

static uint64_t start(PyObject *const a[ARGUMENTS], domain_object *d) {
    uint32_t flags = 0, attr, name;
    uint64_t handle;
    topstxi_ring *r;
    payload p;
    if (!d) return 0;
    attr = domain_attr(d, a[CATEGORY], a[COLOR]);
    if (attr == TOPSTXI_EXCLUDED || !wanted(a[MESSAGE], d, &flags)) return 0;
    name = name_id(a[MESSAGE]);
    payload_from(&p, a[PAYLOAD]);
    if ((r = topstxi_ring_mine())) follow_context(r);
    handle = topstxi_start(name, attr, &p.value, r ? r->task : 0, flags);
    payload_done(&p);
    return handle;
}

/* As start, and whoever listens is told. */
static uint64_t start_heard(PyObject *const a[ARGUMENTS], domain_object *d) {
    uint64_t handle = topstxi_recording() == TOPSTX_RECORDING_OFF ? 0 : start(a, d);
    return d ? hear_start(handle, a[MESSAGE], d->name) : handle;
}

static inline void end_handle(uint64_t handle) {
    if (handle) hear(HEARD_END, handle, NULL, default_domain->name);
    if (handle && !(handle & HEARD_ALONE) && topstxi_state.control) topstxi_end(handle);
}

/* The int of a range that began; what interrupted the call ends it again. */
static PyObject *started(uint64_t handle) {
    if (TOPSTXI_UNLIKELY(interruption != NULL)) {
        end_handle(handle);
        return raise_interruption();
    }
    return PyLong_FromUnsignedLongLong(handle);
}

static void end(PyObject *range_id) {
    uint64_t handle;
    if (range_id == Py_None) return;
    if (PyLong_Check(range_id)) {
        handle = PyLong_AsUnsignedLongLong(range_id);
        if (!PyErr_Occurred()) {
            end_handle(handle);
            return;
        }
        PyErr_Clear();
    }
    if (topstxi_recording() == TOPSTX_RECORDING_ON) topstxi_count_bad(1); /* no id at all */
}

/* ---- Counter ------------------------------------------------------------------------------------------------------------ */

static PyObject *counter_sample(PyObject *self, PyObject *value) {
    counter_object *c = (counter_object *)self;
    double number;
    topstxi_ring *r;
    if (topstxi_recording() != TOPSTX_RECORDING_ON) Py_RETURN_NONE;
    number = PyFloat_AsDouble(value);
    if (number == -1.0 && PyErr_Occurred()) { /* no number: nothing to record */
        forget_error();
        domain_resolve(c->domain);
        if (c->domain->attr != TOPSTXI_EXCLUDED) topstxi_count_bad(0);
        return done();
    }
    if (c->epoch != topstxi_state.name_epoch) {
        utf8 name = utf8_of(c->name), unit = utf8_of(c->unit);
        domain_resolve(c->domain);
        c->epoch = topstxi_state.name_epoch;
        c->id = c->domain->attr == TOPSTXI_EXCLUDED
                    ? 0
                    : topstxi_counter_id(c->domain->id, name.data, (size_t)name.bytes, unit.data, (size_t)unit.bytes);
        Py_XDECREF(unit.owner);
        Py_XDECREF(name.owner);
        if (c->id == TOPSTX_NAME_TOO_MANY) c->id = 0;
    }
    if (c->id && (r = topstxi_ring_mine())) {
        follow_context(r);
        topstxi_sample(r, c->id, number);
    }
    Py_RETURN_NONE;
}

/* The counter of a domain; the same name and unit give the same object. `unit` may be NULL. */
static PyObject *make_counter(domain_object *d, PyObject *name, PyObject *unit) {
    PyObject *key = NULL, *found;
    name = text_argument(name);
    unit = name ? text_argument(unit) : NULL;
    if (unit) key = PyTuple_Pack(2, name, unit);
    Py_XDECREF(name); /* the key holds them */
    Py_XDECREF(unit);
    if (!key) return NULL;
    found = Py_XNewRef(PyDict_GetItemWithError(d->counters, key));
    if (!found && !PyErr_Occurred()) {
        counter_object *c = PyObject_New(counter_object, &counter_type);
        if (c) {
            c->domain = (domain_object *)Py_NewRef((PyObject *)d);
            c->name = Py_NewRef(PyTuple_GET_ITEM(key, 0));
            c->unit = Py_NewRef(PyTuple_GET_ITEM(key, 1));
            c->id = 0;
            c->epoch = topstxi_state.name_epoch - 1;
            if (PyDict_SetItem(d->counters, key, (PyObject *)c) < 0) Py_CLEAR(c);
        }
        found = (PyObject *)c;
    }
    Py_DECREF(key);
    return found;
}

static void counter_dealloc(PyObject *self) {
    counter_object *c = (counter_object *)self;
    Py_XDECREF(c->domain);
    Py_XDECREF(c->name);
    Py_XDECREF(c->unit);
    PyObject_Free(self);
}

static PyObject *counter_repr(PyObject *self) {
    return PyUnicode_FromFormat("<topstx.Counter %R in %R>", ((counter_object *)self)->name, ((counter_object *)self)->unit);
}

static PyMethodDef counter_methods[] = {
    {"sample", counter_sample, METH_O, "sample($self, value, /)\n--\n\nRecord one value, an int or a float, at the present time."},
    {NULL, NULL, 0, NULL}};
static PyMemberDef counter_members[] = {{"name", T_OBJECT, offsetof(counter_object, name), READONLY, "name of the counter"},
                                        {"unit", T_OBJECT, offsetof(counter_object, unit), READONLY, "unit of its values"},
                                        {NULL, 0, 0, 0, NULL}};
static PyTypeObject counter_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "topstx.Counter",
    .tp_basicsize = sizeof(counter_object),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_doc = "A counter of a domain: a named series of numbers with a unit, made by `counter` or `Domain.counter`.",
    .tp_dealloc = counter_dealloc,
    .tp_repr = counter_repr,
    .tp_methods = counter_methods,
    .tp_members = counter_members,
};

/* ---- Domain ------------------------------------------------------------------------------------------------------------- */

#define FASTCALL_KEYWORDS (METH_FASTCALL | METH_KEYWORDS)
#define AS_FUNCTION(f) ((PyCFunction)(void (*)(void))(f))

static PyObject *domain_push(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *kwnames) {
    PyObject *a[ARGUMENTS];
    if (TOPSTXI_LIKELY(count == 1) && TOPSTXI_LIKELY(!kwnames)) {
        memset(a, 0, sizeof a);
        a[MESSAGE] = args[0];
    } else if (take_arguments("push_range", args, count, kwnames, 0, a) < 0) {
        return NULL;
    }
    hear(HEARD_PUSH, 0, a[MESSAGE], ((domain_object *)self)->name);
    if (topstxi_recording() == TOPSTX_RECORDING_OFF) skip((domain_object *)self);
    else push(a, (domain_object *)self);
    return done();
}

static PyObject *domain_pop(PyObject *self, PyObject *unused) {
    (void)unused;
    hear(HEARD_POP, 0, NULL, ((domain_object *)self)->name);
    if (!nothing_to_pop()) pop((domain_object *)self);
    Py_RETURN_NONE;
}

static PyObject *domain_mark(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *kwnames) {
    PyObject *a[ARGUMENTS];
    if (take_arguments("mark", args, count, kwnames, 0, a) < 0) return NULL;
    hear(HEARD_MARK, 0, a[MESSAGE], ((domain_object *)self)->name);
    do_mark(a, (domain_object *)self);
    return done();
}

static PyObject *domain_start(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *kwnames) {
    PyObject *a[ARGUMENTS];
    if (take_arguments("start_range", args, count, kwnames, 0, a) < 0) return NULL;
    if (topstxi_recording() == TOPSTX_RECORDING_OFF && !listener) return PyLong_FromLong(0);
    return started(start_heard(a, (domain_object *)self));
}

static PyObject *domain_end(PyObject *self, PyObject *range_id) {
    (void)self;
    end(range_id);
    Py_RETURN_NONE;
}

static PyObject *domain_counter(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"name", "unit", NULL};
    PyObject *name, *unit = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O:counter", names, &name, &unit)) return NULL;
    return make_counter((domain_object *)self, name, unit);
}

static PyObject *domain_string(PyObject *self, PyObject *string) {
    (void)self;
    string = text_argument(string);
    if (string) PyUnicode_InternInPlace(&string);
    return string;
}

static PyObject *domain_category(PyObject *self, PyObject *name) {
    PyObject *text = text_argument(name), *number;
    if (!text) return NULL;
    number = PyLong_FromUnsignedLong(category_number((domain_object *)self, text));
    Py_DECREF(text);
    return number;
}

static PyObject *domain_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"name", NULL};
    PyObject *name = NULL;
    domain_object *d;
    (void)type;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:Domain", names, &name)) return NULL;
    d = domain_of(name == Py_None ? NULL : name);
    if (interruption) return raise_interruption();
    return Py_NewRef((PyObject *)(d ? d : default_domain));
}

static PyObject *domain_annotate(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *kwnames);

static PyObject *domain_reduce(PyObject *self, PyObject *unused) {
    (void)unused;
    return Py_BuildValue("O(O)", (PyObject *)&domain_type, ((domain_object *)self)->name);
}

static PyObject *domain_repr(PyObject *self) { return PyUnicode_FromFormat("<topstx.Domain %R>", ((domain_object *)self)->name); }

static PyMethodDef domain_methods[] = {
    {"push_range", AS_FUNCTION(domain_push), FASTCALL_KEYWORDS,
     "push_range($self, message=None, color=None, category=None, payload=None)\n--\n\nBegin a range of this thread (or task); pop_range() ends it."},
    {"pop_range", domain_pop, METH_NOARGS, "pop_range($self)\n--\n\nEnd the innermost range that this domain's push_range began."},
    {"mark", AS_FUNCTION(domain_mark), FASTCALL_KEYWORDS,
     "mark($self, message=None, color=None, category=None, payload=None)\n--\n\nRecord a moment."},
    {"start_range", AS_FUNCTION(domain_start), FASTCALL_KEYWORDS,
     "start_range($self, message=None, color=None, category=None, payload=None)\n--\n\nBegin a range that any thread may end, by the id returned."},
    {"end_range", domain_end, METH_O, "end_range($self, range_id)\n--\n\nEnd a range by the id that start_range returned."},
    {"annotate", AS_FUNCTION(domain_annotate), FASTCALL_KEYWORDS,
     "annotate($self, message=None, color=None, category=None, payload=None)\n--\n\nA context manager and decorator: a range of this domain."},
    {"counter", AS_FUNCTION(domain_counter), METH_VARARGS | METH_KEYWORDS,
     "counter($self, name, unit='')\n--\n\nThe counter of that name and unit in this domain."},
    {"get_registered_string", domain_string, METH_O,
     "get_registered_string($self, string)\n--\n\nThe string, interned: the quickest message to pass."},
    {"get_category_id", domain_category, METH_O,
     "get_category_id($self, name)\n--\n\nA number for a category's name, usable as `category`: 1, 2, ... in order of first use."},
    {"__reduce__", domain_reduce, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL}};
static PyMemberDef domain_members[] = {
    {"name", T_OBJECT, offsetof(domain_object, name), READONLY, "name of the domain; \"\" is the default one"}, {NULL, 0, 0, 0, NULL}};
static PyTypeObject domain_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "topstx.Domain",
    .tp_basicsize = sizeof(domain_object),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "Domain(name=None)\n--\n\nA group of annotations. The same name gives the same object, which lives as long as the program.",
    .tp_new = domain_new,
    .tp_repr = domain_repr,
    .tp_methods = domain_methods,
    .tp_members = domain_members,
};
