/* crec_annotate.h - annotate: context manager and decorator (part of _crec.c).
 *
 * `with` looks __enter__ and __exit__ up on the type and binds them, two allocations. Here each object of a pool has a type of its own,
 * whose __enter__ and __exit__ are builtins already bound to that one object, so nothing is bound or allocated. An object is
 * free for another call when only the pool refers to it and no range that it opened is open.
 */

#define POOL 256     /* objects that a program keeps open at a time before slower ones are made */
#define POOL_TRIES 8 /* places looked at for a free one */
#define POOL_REFERENCES 3 /* of a free one: the pool's and those of its two builtins */

typedef struct {
    PyObject_HEAD
    PyObject *message; /* NULL: none */
    PyObject *color;
    PyObject *category;
    PyObject *payload;
    domain_object *domain;
    uint32_t entered; /* entries that have not been left */
    int32_t place;    /* in the pool, or -1 */
    topstxi_handle handle; /* of the latest entry */
    topstxi_handle *outer; /* of those before it, in order */
    uint32_t outer_capacity;
} annotate_object;

static PyTypeObject annotate_type, wrapper_type;
static annotate_object *pool[POOL];
static int pool_count, pool_next;
static int disabled; /* by the environment, for good: decorators return the function itself */

/* ---- enter and leave ---------------------------------------------------------------------------------------------------- */

/* Open a range as described; h->index stays 0 when nothing is recorded. Recording is not off. */
static inline void open_range(topstxi_handle *h, PyObject *message, domain_object *d, PyObject *category, PyObject *color, PyObject *value) {
    uint32_t flags = 0, attr = domain_attr(d, category, color), name;
    topstxi_ring *r;
    payload p;
    if (TOPSTXI_UNLIKELY(attr == TOPSTXI_EXCLUDED) || !wanted(message, d, &flags)) return;
    name = name_id(message);
    if (TOPSTXI_UNLIKELY(value != NULL)) payload_from(&p, value);
    if (TOPSTXI_LIKELY((r = topstxi_ring_mine()) != NULL)) {
        follow_context(r);
        h->index = topstxi_open(r, name, attr, d->id, flags);
        if (TOPSTXI_LIKELY(h->index)) {
            h->ring = r;
            h->begin_tick = r->open[h->index - 1].begin_tick;
            h->epoch = r->epoch;
            if (TOPSTXI_UNLIKELY(value != NULL) && p.value.tag) topstxi_keep_payload(r, h->index, &p.value);
        }
    }
    if (TOPSTXI_UNLIKELY(value != NULL)) payload_done(&p);
}

/* An entry while another one is open: recursion, or several threads. 0: no memory. */
static __attribute__((noinline)) int keep_outer(annotate_object *a) {
    if (a->entered > a->outer_capacity) {
        uint32_t capacity = a->outer_capacity ? a->outer_capacity * 2 : 4;
        topstxi_handle *outer = PyMem_Realloc(a->outer, capacity * sizeof *outer);
        if (!outer) return 0;
        a->outer = outer;
        a->outer_capacity = capacity;
    }
    a->outer[a->entered - 1] = a->handle;
    return 1;
}

static inline void annotate_begin(annotate_object *a) {
    topstxi_handle h = {NULL, 0, 0, 0};
    hear(HEARD_ENTER, (uintptr_t)a, a->message, a->domain->name);
    if (topstxi_recording() == TOPSTX_RECORDING_OFF) {
        if (TOPSTXI_LIKELY(!a->entered)) return;
    } else {
        open_range(&h, a->message, a->domain, a->category, a->color, a->payload);
        if (!h.index && !a->entered) return;
    }
    if (TOPSTXI_UNLIKELY(a->entered) && !keep_outer(a)) {
        topstxi_close_handle(&h, NULL);
        return;
    }
    if (!h.index) h.ring = topstxi_mine;
    a->handle = h;
    a->entered++;
}

/* Of several open entries, leave the latest one of this thread and context. */
static __attribute__((noinline)) void take_handle(annotate_object *a, topstxi_handle *h) {
    topstxi_ring *mine = topstxi_mine;
    uint32_t i, last = a->entered - 1;
    for (int strict = 1; mine && strict >= 0; strict--)
        for (i = last + 1; i-- > 0;) {
            topstxi_handle *at = i == last ? &a->handle : &a->outer[i];
            if (at->ring != mine) continue;
            if (strict && at->index && at->epoch == topstxi_state.epoch && mine->open[at->index - 1].begin_tick == at->begin_tick &&
                mine->open[at->index - 1].context != mine->context)
                continue;
            *h = *at;
            if (i < last) memmove(&a->outer[i], &a->outer[i + 1], (last - 1 - i) * sizeof *a->outer); /* the latest stays */
            else a->handle = a->outer[last - 1];
            return;
        }
    *h = a->handle;
    a->handle = a->outer[last - 1];
}

/* Type name of the exception that left a range; NULL for none, and for the end of a generator by close(). */
static const char *error_name(PyObject *type) {
    const char *name, *dot;
    if (!type || type == Py_None || !PyType_Check(type) || type == PyExc_GeneratorExit) return NULL;
    name = ((PyTypeObject *)type)->tp_name;
    dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

static inline void annotate_end(annotate_object *a, PyObject *error) {
    topstxi_handle h;
    hear(HEARD_EXIT, (uintptr_t)a, NULL, a->domain->name);
    if (TOPSTXI_LIKELY(a->entered)) {
        if (TOPSTXI_LIKELY(a->entered == 1)) {
            h = a->handle;
        } else {
            if (topstxi_mine && topstxi_mine->epoch == topstxi_state.epoch) follow_context(topstxi_mine);
            take_handle(a, &h);
        }
        a->entered--;
        topstxi_close_handle(&h, error_name(error));
    }
    if (a->place >= 0) {
        pool_next = a->place;
        if (TOPSTXI_UNLIKELY(a->payload != NULL) && Py_REFCNT(a) == POOL_REFERENCES && !a->entered) Py_CLEAR(a->payload);
    }
}

static PyObject *annotate_enter(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    (void)args; /* contextlib.ExitStack calls type(x).__enter__(x): the builtin is bound to that x */
    (void)count;
    annotate_begin((annotate_object *)self);
    if (TOPSTXI_UNLIKELY(interruption != NULL)) { /* no __exit__ will follow */
        annotate_end((annotate_object *)self, NULL);
        return raise_interruption();
    }
    return Py_NewRef(self);
}

static PyObject *annotate_exit(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    PyObject *error = count == 3 ? args[0] : count == 4 ? args[1] : NULL; /* four: called through the type, see above */
    annotate_end((annotate_object *)self, error);
    Py_RETURN_NONE;
}

/* ---- making one --------------------------------------------------------------------------------------------------------- */

static void annotate_clear_fields(annotate_object *a) {
    Py_CLEAR(a->message);
    Py_CLEAR(a->color);
    Py_CLEAR(a->category);
    Py_CLEAR(a->payload);
    Py_CLEAR(a->domain);
}

static inline void set_field(PyObject **field, PyObject *value) {
    if (*field != value) {
        PyObject *old = *field;
        *field = Py_XNewRef(value);
        Py_XDECREF(old);
    }
}

static inline void annotate_set(annotate_object *a, PyObject *message, PyObject *color, domain_object *d, PyObject *category, PyObject *value) {
    set_field(&a->message, message);
    set_field(&a->color, color);
    set_field(&a->category, category);
    set_field(&a->payload, value);
    set_field((PyObject **)&a->domain, (PyObject *)d);
}

static annotate_object *annotate_alloc(PyTypeObject *type) {
    annotate_object *a = (annotate_object *)type->tp_alloc(type, 0);
    if (a) {
        memset((char *)a + sizeof(PyObject), 0, sizeof *a - sizeof(PyObject));
        a->place = -1;
    }
    return a;
}

static PyMethodDef enter_method = {"__enter__", AS_FUNCTION(annotate_enter), METH_FASTCALL, "Begin the range."};
static PyMethodDef exit_method = {"__exit__", AS_FUNCTION(annotate_exit), METH_FASTCALL, "End the range."};

static void pooled_dealloc(PyObject *self) { /* only at failures of pool_add; afterwards the pool keeps it */
    PyTypeObject *type = Py_TYPE(self);
    annotate_clear_fields((annotate_object *)self);
    type->tp_free(self);
    Py_DECREF(type);
}

/* One more object with a type of its own. NULL (no exception): it can't be had. Borrowed. */
static __attribute__((noinline)) annotate_object *pool_add(void) {
    PyType_Slot slots[] = {{Py_tp_dealloc, pooled_dealloc}, {Py_tp_doc, (void *)annotate_type.tp_doc}, {0, NULL}};
    PyType_Spec spec = {"topstx.annotate", sizeof(annotate_object), 0, Py_TPFLAGS_DEFAULT, slots};
    PyObject *bases = PyTuple_Pack(1, &annotate_type), *type = NULL, *enter = NULL, *leave = NULL;
    annotate_object *a = NULL;
    if (bases) type = PyType_FromSpecWithBases(&spec, bases);
    if (type) a = annotate_alloc((PyTypeObject *)type);
    if (a) {
        enter = PyCFunction_New(&enter_method, (PyObject *)a);
        leave = PyCFunction_New(&exit_method, (PyObject *)a);
        if (enter && leave && PyObject_SetAttrString(type, "__enter__", enter) == 0 && PyObject_SetAttrString(type, "__exit__", leave) == 0) {
            a->place = pool_count;
            pool[pool_count++] = a;
        } else {
            PyErr_Clear();
            Py_CLEAR(a);
        }
    }
    PyErr_Clear();
    Py_XDECREF(enter);
    Py_XDECREF(leave);
    Py_XDECREF(bases);
    Py_XDECREF(type);
    return a;
}

static inline int pool_free(int place) { return Py_REFCNT(pool[place]) == POOL_REFERENCES && !pool[place]->entered; }

static __attribute__((noinline)) annotate_object *pool_search(void) {
    int i, place;
    for (i = 0; i < POOL_TRIES && i < pool_count; i++) {
        place = (pool_next + i) % pool_count;
        if (pool_free(place)) {
            pool_next = place + 1;
            return pool[place];
        }
    }
    if (pool_count < POOL && pool_add()) {
        pool_next = pool_count;
        return pool[pool_count - 1];
    }
    return NULL;
}

/* A free object of the pool, else a plain one. A new reference. */
static inline annotate_object *annotate_take(void) {
    annotate_object *a;
    if (TOPSTXI_LIKELY(pool_next < pool_count) && TOPSTXI_LIKELY(pool_free(pool_next))) a = pool[pool_next++];
    else a = pool_search();
    if (TOPSTXI_UNLIKELY(!a)) return annotate_alloc(&annotate_type);
    Py_INCREF(a);
    return a;
}

static PyObject *annotate_make(PyObject *const a[ARGUMENTS], domain_object *d) {
    annotate_object *made = annotate_take();
    if (made) annotate_set(made, a[MESSAGE], a[COLOR], d, a[CATEGORY], a[PAYLOAD]);
    return (PyObject *)made;
}

/* `@annotate` without parentheses: the only argument is what to decorate, a function, method, class, or what else has a
 * qualified name of its own. Another callable object (a model, say) is a message as before. */
static __attribute__((noinline)) int is_decorated(PyObject *x) {
    PyObject *name;
    int known;
    if (Py_TYPE(x) == &PyClassMethod_Type) return 1;
    if (!PyCallable_Check(x)) return 0;
    name = PyObject_GetAttrString(x, "__qualname__");
    known = name && PyUnicode_Check(name);
    if (!name) forget_error();
    Py_XDECREF(name);
    return known;
}

static __attribute__((noinline)) PyObject *decorate_bare(PyObject *function, domain_object *d) {
    annotate_object *made;
    PyObject *result;
    if (!(made = annotate_alloc(&annotate_type))) return NULL;
    annotate_set(made, NULL, NULL, d, NULL, NULL);
    result = PyObject_CallOneArg((PyObject *)made, function);
    Py_DECREF(made);
    return result;
}

static PyObject *annotate_vectorcall(PyObject *type, PyObject *const *args, size_t flags, PyObject *kwnames) {
    Py_ssize_t count = PyVectorcall_NARGS(flags);
    PyObject *a[ARGUMENTS];
    domain_object *d;
    (void)type;
    if (TOPSTXI_LIKELY(count == 1) && TOPSTXI_LIKELY(!kwnames) && TOPSTXI_LIKELY(args[0] != Py_None)) {
        annotate_object *made;
        if (TOPSTXI_UNLIKELY(!PyUnicode_CheckExact(args[0]))) {
            if (is_decorated(args[0])) return decorate_bare(args[0], default_domain);
            if (TOPSTXI_UNLIKELY(interruption != NULL)) return raise_interruption();
        }
        made = annotate_take();
        if (TOPSTXI_LIKELY(made != NULL)) annotate_set(made, args[0], NULL, default_domain, NULL, NULL);
        return (PyObject *)made;
    }
    if (take_arguments("annotate", args, count, kwnames, 1, a) < 0) return NULL;
    d = domain_of(a[DOMAIN]);
    if (TOPSTXI_UNLIKELY(interruption != NULL)) return raise_interruption();
    return annotate_make(a, d ? d : default_domain);
}

static PyObject *domain_annotate(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *kwnames) {
    PyObject *a[ARGUMENTS];
    if (take_arguments("annotate", args, count, kwnames, 0, a) < 0) return NULL;
    if (count == 1 && !kwnames && a[MESSAGE] && !PyUnicode_CheckExact(a[MESSAGE])) {
        if (is_decorated(a[MESSAGE])) return decorate_bare(a[MESSAGE], (domain_object *)self);
        if (TOPSTXI_UNLIKELY(interruption != NULL)) return raise_interruption();
    }
    return annotate_make(a, (domain_object *)self);
}

/* A subclass of annotate is made here; annotate itself by annotate_vectorcall. */
static PyObject *annotate_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"message", "color", "domain", "category", "payload", NULL};
    PyObject *a[ARGUMENTS] = {NULL, NULL, NULL, NULL, NULL};
    annotate_object *made;
    domain_object *d;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OOOOO:annotate", names, &a[0], &a[1], &a[2], &a[3], &a[4])) return NULL;
    for (int i = 0; i < ARGUMENTS; i++)
        if (a[i] == Py_None) a[i] = NULL;
    if (type->tp_base == &annotate_type && type->tp_dealloc == pooled_dealloc) type = &annotate_type;
    made = annotate_alloc(type);
    if (!made) return NULL;
    d = domain_of(a[DOMAIN]);
    annotate_set(made, a[MESSAGE], a[COLOR], d ? d : default_domain, a[CATEGORY], a[PAYLOAD]);
    if (PyTuple_GET_SIZE(args) == 1 && !kwargs && a[MESSAGE] && !PyUnicode_CheckExact(a[MESSAGE]) && is_decorated(a[MESSAGE])) {
        PyObject *result;
        Py_CLEAR(made->message);
        result = PyObject_CallOneArg((PyObject *)made, PyTuple_GET_ITEM(args, 0));
        Py_DECREF(made);
        return result;
    }
    return (PyObject *)made;
}

static void annotate_dealloc(PyObject *self) {
    annotate_object *a = (annotate_object *)self;
    annotate_clear_fields(a);
    PyMem_Free(a->outer);
    Py_TYPE(self)->tp_free(self);
}

/* ---- decorator ---------------------------------------------------------------------------------------------------------- */

typedef struct { /* a plain function, with a range around each call */
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *function;
    PyObject *message;
    PyObject *color;
    PyObject *category;
    PyObject *payload;
    domain_object *domain;
    PyObject *attributes;
    PyObject *weak_references;
} wrapper_object;

/* A call while somebody listens. */
static __attribute__((noinline)) PyObject *wrapper_heard(wrapper_object *w, PyObject *const *args, size_t flags, PyObject *kwnames) {
    topstxi_handle h = {NULL, 0, 0, 0};
    PyObject *result;
    hear(HEARD_ENTER, (uintptr_t)w, w->message, w->domain->name);
    if (topstxi_recording() != TOPSTX_RECORDING_OFF) open_range(&h, w->message, w->domain, w->category, w->color, w->payload);
    result = interruption ? raise_interruption() : PyObject_Vectorcall(w->function, args, flags, kwnames);
    topstxi_close_handle(&h, TOPSTXI_LIKELY(result != NULL) ? NULL : error_name(PyErr_Occurred()));
    hear(HEARD_EXIT, (uintptr_t)w, NULL, w->domain->name);
    return result;
}

static PyObject *wrapper_vectorcall(PyObject *self, PyObject *const *args, size_t flags, PyObject *kwnames) {
    wrapper_object *w = (wrapper_object *)self;
    topstxi_handle h = {NULL, 0, 0, 0};
    PyObject *result;
    if (TOPSTXI_UNLIKELY(listener != NULL)) return wrapper_heard(w, args, flags, kwnames);
    if (topstxi_recording() == TOPSTX_RECORDING_OFF) return PyObject_Vectorcall(w->function, args, flags, kwnames);
    open_range(&h, w->message, w->domain, w->category, w->color, w->payload);
    if (TOPSTXI_UNLIKELY(interruption != NULL)) {
        topstxi_close_handle(&h, NULL);
        return raise_interruption();
    }
    result = PyObject_Vectorcall(w->function, args, flags, kwnames);
    topstxi_close_handle(&h, TOPSTXI_LIKELY(result != NULL) ? NULL : error_name(PyErr_Occurred()));
    return result;
}

static PyObject *wrapper_get(PyObject *self, PyObject *instance, PyObject *type) {
    (void)type;
    return !instance || instance == Py_None ? Py_NewRef(self) : PyMethod_New(self, instance);
}

/* What the wrapper has not (__code__, __defaults__, ...) is the function's. */
static PyObject *wrapper_getattro(PyObject *self, PyObject *name) {
    PyObject *found = PyObject_GenericGetAttr(self, name);
    if (found || !PyErr_ExceptionMatches(PyExc_AttributeError) || !((wrapper_object *)self)->function) return found;
    PyErr_Clear();
    return PyObject_GetAttr(((wrapper_object *)self)->function, name);
}

static PyObject *wrapper_repr(PyObject *self) { return PyUnicode_FromFormat("<annotated %R>", ((wrapper_object *)self)->function); }

/* Pickled and copied like a function: by its name. */
static PyObject *wrapper_reduce(PyObject *self, PyObject *unused) {
    (void)unused;
    return PyObject_GetAttrString(self, "__qualname__");
}

static int wrapper_traverse(PyObject *self, visitproc visit, void *arg) {
    wrapper_object *w = (wrapper_object *)self;
    Py_VISIT(w->function);
    Py_VISIT(w->message);
    Py_VISIT(w->color);
    Py_VISIT(w->category);
    Py_VISIT(w->payload);
    Py_VISIT(w->attributes);
    return 0;
}

static int wrapper_clear(PyObject *self) {
    wrapper_object *w = (wrapper_object *)self;
    Py_CLEAR(w->payload);
    Py_CLEAR(w->attributes);
    return 0;
}

static void wrapper_dealloc(PyObject *self) {
    wrapper_object *w = (wrapper_object *)self;
    PyObject_GC_UnTrack(self);
    if (w->weak_references) PyObject_ClearWeakRefs(self);
    wrapper_clear(self);
    Py_CLEAR(w->function);
    Py_CLEAR(w->message);
    Py_CLEAR(w->color);
    Py_CLEAR(w->category);
    Py_CLEAR(w->domain);
    PyObject_GC_Del(self);
}

static PyMethodDef wrapper_methods[] = {{"__reduce__", wrapper_reduce, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};
static PyGetSetDef wrapper_getset[] = {{"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL}, {NULL, NULL, NULL, NULL, NULL}};
static PyTypeObject wrapper_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "topstx.annotated",
    .tp_basicsize = sizeof(wrapper_object),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR |
                Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_dealloc = wrapper_dealloc,
    .tp_traverse = wrapper_traverse,
    .tp_clear = wrapper_clear,
    .tp_call = PyVectorcall_Call,
    .tp_repr = wrapper_repr,
    .tp_getattro = wrapper_getattro,
    .tp_setattro = PyObject_GenericSetAttr,
    .tp_descr_get = wrapper_get,
    .tp_methods = wrapper_methods,
    .tp_getset = wrapper_getset,
    .tp_vectorcall_offset = offsetof(wrapper_object, vectorcall),
    .tp_dictoffset = offsetof(wrapper_object, attributes),
    .tp_weaklistoffset = offsetof(wrapper_object, weak_references),
};

/* A fresh object with the fields of `self`, never of the pool: a bound method would hold on to it. */
static PyObject *annotate_copy(annotate_object *a, PyObject *message) {
    annotate_object *made = annotate_alloc(&annotate_type);
    if (made) annotate_set(made, message, a->color, a->domain, a->category, a->payload);
    return (PyObject *)made;
}

/* Another object like this one, ready to be entered: one for each call of a generator or coroutine function. */
static PyObject *annotate_again(PyObject *self, PyObject *unused) {
    annotate_object *a = (annotate_object *)self;
    PyObject *arguments[ARGUMENTS] = {a->message, a->color, NULL, a->category, a->payload};
    (void)unused;
    return annotate_make(arguments, a->domain);
}

static PyMethodDef again_method = {"again", annotate_again, METH_NOARGS, NULL};

static PyObject *wrap_plain(annotate_object *a, PyObject *function, PyObject *message) {
    static const char *const names[] = {"__module__", "__name__", "__qualname__", "__doc__", "__annotations__", "__type_params__"};
    wrapper_object *w = PyObject_GC_New(wrapper_object, &wrapper_type);
    PyObject *value;
    if (!w) return NULL;
    memset((char *)w + sizeof(PyObject), 0, sizeof *w - sizeof(PyObject));
    w->vectorcall = wrapper_vectorcall;
    w->function = Py_NewRef(function);
    w->message = Py_XNewRef(message);
    w->color = Py_XNewRef(a->color);
    w->category = Py_XNewRef(a->category);
    w->payload = Py_XNewRef(a->payload);
    w->domain = (domain_object *)Py_NewRef((PyObject *)a->domain);
    w->attributes = PyDict_New();
    PyObject_GC_Track((PyObject *)w);
    if (!w->attributes) goto failed;
    value = PyObject_GetAttrString(function, "__dict__");
    if (!value || PyDict_Update(w->attributes, value) < 0) PyErr_Clear();
    Py_XDECREF(value);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        value = PyObject_GetAttrString(function, names[i]);
        if (!value || PyDict_SetItemString(w->attributes, names[i], value) < 0) PyErr_Clear();
        Py_XDECREF(value);
    }
    if (PyDict_SetItemString(w->attributes, "__wrapped__", function) < 0) goto failed;
    return (PyObject *)w;
failed:
    Py_DECREF(w);
    return NULL;
}

/* staticmethod and classmethod: decorate what is in them. */
static PyObject *wrap_inner(PyObject *self, PyObject *method) {
    PyObject *inner = PyObject_GetAttrString(method, "__func__"), *wrapped = NULL, *result = NULL;
    if (inner) wrapped = PyObject_CallOneArg(self, inner);
    if (wrapped) result = PyObject_CallOneArg((PyObject *)Py_TYPE(method), wrapped);
    Py_XDECREF(inner);
    Py_XDECREF(wrapped);
    return result;
}

static PyObject *annotate_call(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"func", NULL};
    annotate_object *a = (annotate_object *)self;
    PyObject *function, *message, *result = NULL;
    int special;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:annotate", names, &function)) return NULL;
    if (disabled) return Py_NewRef(function);
    if (Py_TYPE(function) == &PyStaticMethod_Type || Py_TYPE(function) == &PyClassMethod_Type) return wrap_inner(self, function);
    if (!PyCallable_Check(function)) {
        PyErr_Format(PyExc_TypeError, "annotate() decorates functions, not '%s'", Py_TYPE(function)->tp_name);
        return NULL;
    }
    message = Py_XNewRef(a->message);
    if (!message && !(message = PyObject_GetAttrString(function, "__qualname__"))) {
        forget_error();
        message = text_argument(function);
        if (!message) return NULL;
    }
    if (PyFunction_Check(function))
        special = ((PyCodeObject *)PyFunction_GET_CODE(function))->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR);
    else
        special = !PyCFunction_Check(function); /* a class, a bound method, a partial, ...: Python looks closer */
    if (special) {
        PyObject *template = annotate_copy(a, message), *make = template ? PyCFunction_New(&again_method, template) : NULL;
        PyObject *module = make ? PyImport_ImportModule("topstx._wrap") : NULL;
        if (module) result = PyObject_CallMethod(module, "wrap", "OOO", function, make, template);
        Py_XDECREF(template);
        Py_XDECREF(make);
        Py_XDECREF(module);
        if (result == Py_None) {
            Py_DECREF(result);
            special = 0;
        }
    }
    if (!special) result = wrap_plain(a, function, message);
    Py_DECREF(message);
    return result;
}

static PyObject *annotate_reduce(PyObject *self, PyObject *unused) {
    annotate_object *a = (annotate_object *)self;
    (void)unused;
#define OR_NONE(x) ((x) ? (PyObject *)(x) : Py_None)
    return Py_BuildValue("O(OOOOO)", (PyObject *)&annotate_type, OR_NONE(a->message), OR_NONE(a->color),
                         a->domain == default_domain ? Py_None : (PyObject *)a->domain, OR_NONE(a->category), OR_NONE(a->payload));
}

static PyObject *annotate_repr(PyObject *self) {
    PyObject *message = ((annotate_object *)self)->message;
    return PyUnicode_FromFormat("<topstx.annotate %R>", message ? message : Py_None);
}

static PyMethodDef annotate_methods[] = {{"__enter__", AS_FUNCTION(annotate_enter), METH_FASTCALL, "Begin the range."},
                                         {"__exit__", AS_FUNCTION(annotate_exit), METH_FASTCALL, "End the range."},
                                         {"__reduce__", annotate_reduce, METH_NOARGS, NULL},
                                         {NULL, NULL, 0, NULL}};
static PyTypeObject annotate_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "topstx.annotate",
    .tp_basicsize = sizeof(annotate_object),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_doc = "annotate(message=None, color=None, domain=None, category=None, payload=None)\n--\n\n"
              "A range around a block (`with annotate(\"load\"):`) or around each call of a function (`@annotate`, `@annotate()`).\n\n"
              "Decorates plain functions, methods, generators, coroutines, async generators and classes (whose objects' making it\n"
              "ranges); without a message the range has the qualified name of what it decorates. An exception closes the range and marks it.",
    .tp_new = annotate_new,
    .tp_dealloc = annotate_dealloc,
    .tp_call = annotate_call,
    .tp_repr = annotate_repr,
    .tp_methods = annotate_methods,
    .tp_vectorcall = annotate_vectorcall,
};
