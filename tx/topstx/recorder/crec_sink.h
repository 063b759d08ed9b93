/* crec_sink.h - RowSink: from tuples to rows by descriptions (part of _crec.c). The same as topstx/recorder/row_sink.py, which says how. */

enum { ITEM_FIELD, ITEM_INTERN, ITEM_THREE, ITEM_CONST, ITEM_EXTRA };
#define SINK_KINDS 32
#define SINK_ITEMS 32
#define SINK_BODY 256
#define SINK_SAMPLED 256
#define SINK_FIRST 16 /* the one of so many that is timed; the first records have more to do */

typedef struct {
    uint8_t operation, code, bytes;
    int64_t at;
} sink_item;

typedef struct {
    PyObject *texts; /* names by number: a tuple, or a mapping; NULL: the name itself is in the record */
    Py_ssize_t start, end, correlation, name, device, filter, longest;
    uint32_t row, count, body;
    sink_item items[SINK_ITEMS];
} sink_packing;

typedef struct {
    PyObject_HEAD
    PyObject *slow;
    PyObject *known;
    unsigned long long slow_kinds;
    unsigned long long count, cost_ns, slow_count, slow_ns; /* of the slow ones each is timed */
    uint64_t clock_ns; /* that timing a record takes itself */
    uint64_t devices; /* seen, as bits */
    sink_packing *packings[SINK_KINDS];
} sink_object;

static PyTypeObject sink_type;

static uint8_t code_bytes(int code) {
    switch (code) {
    case 'q': case 'Q': return 8;
    case 'i': case 'I': return 4;
    case 'h': case 'H': return 2;
    case 'b': case 'B': return 1;
    default: return 0;
    }
}

/* Store a number, clamped to what the field can hold. Returns where the next field is. */
static uint8_t *put_number(uint8_t *to, uint8_t code, uint8_t bytes, PyObject *number) {
    int overflow;
    long long value = PyLong_AsLongLongAndOverflow(number, &overflow);
    if (TOPSTXI_UNLIKELY(code == 'Q')) {
        uint64_t wide = (uint64_t)value;
        if (overflow > 0) {
            wide = PyLong_AsUnsignedLongLong(number);
            if (wide == (uint64_t)-1 && PyErr_Occurred()) PyErr_Clear();
        } else if (overflow < 0 || value < 0) {
            wide = 0;
        }
        memcpy(to, &wide, 8);
        return to + 8;
    }
    if (TOPSTXI_UNLIKELY(overflow)) value = overflow > 0 ? INT64_MAX : INT64_MIN;
    if (bytes < 8) {
        int64_t low = 0, high = ((int64_t)1 << (8 * bytes)) - 1;
        if (code >= 'a') { /* signed */
            high >>= 1;
            low = -high - 1;
        }
        if (value < low) value = low;
        if (value > high) value = high;
    }
    memcpy(to, &value, bytes);
    return to + bytes;
}

/* Write the row of a record. 1: it is in the ring; 0: not wanted, or dropped; -1: an exception. */
static int sink_pack(sink_packing *p, PyObject *record, PyObject *extra) {
    uint8_t body[SINK_BODY], *to = body;
    PyObject *name;
    uint32_t id;
    long long begin, end;
    if (topstxi_recording() != TOPSTX_RECORDING_ON && !(p->row & TOPSTX_ROW_LATE)) return 0;
    if (TOPSTXI_UNLIKELY(!PyTuple_Check(record) || PyTuple_GET_SIZE(record) <= p->longest)) {
        PyErr_SetString(PyExc_TypeError, "RowSink: no tuple, or too short a one");
        return -1;
    }
    for (uint32_t i = 0; i < p->count; i++) {
        const sink_item *item = &p->items[i];
        uint64_t constant;
        PyObject *value;
        switch (item->operation) {
        case ITEM_FIELD:
            to = put_number(to, item->code, item->bytes, PyTuple_GET_ITEM(record, item->at));
            break;
        case ITEM_EXTRA:
            to = put_number(to, item->code, item->bytes, extra);
            break;
        case ITEM_INTERN:
            value = PyTuple_GET_ITEM(record, item->at);
            id = PyUnicode_Check(value) && PyUnicode_GET_LENGTH(value) ? name_id(value) : 0;
            memcpy(to, &id, 4);
            to += 4;
            break;
        case ITEM_THREE:
            value = PyTuple_GET_ITEM(record, item->at);
            for (Py_ssize_t k = 0; k < 3; k++) {
                static const uint64_t one = 1;
                if (PyTuple_Check(value) && k < PyTuple_GET_SIZE(value)) {
                    to = put_number(to, item->code, item->bytes, PyTuple_GET_ITEM(value, k));
                } else {
                    memcpy(to, &one, item->bytes);
                    to += item->bytes;
                }
            }
            break;
        default:
            constant = (uint64_t)item->at;
            memcpy(to, &constant, item->bytes);
            to += item->bytes;
        }
    }
    name = PyTuple_GET_ITEM(record, p->name);
    if (p->texts) {
        PyObject *found = PyObject_GetItem(p->texts, name);
        if (!found) PyErr_Clear();
        id = found ? name_id(found) : topstxi_name_id("?");
        Py_XDECREF(found);
    } else {
        id = name_id(name);
    }
    begin = PyLong_AsLongLong(PyTuple_GET_ITEM(record, p->start));
    end = PyLong_AsLongLong(PyTuple_GET_ITEM(record, p->end));
    if (TOPSTXI_UNLIKELY((begin == -1 || end == -1) && PyErr_Occurred())) return -1;
    if (TOPSTXI_UNLIKELY(PyErr_Occurred() != NULL)) return -1;
    if (TOPSTXI_UNLIKELY(interruption != NULL)) return raise_interruption(), -1;
    return write_row(p->row, begin, end, id, (uint32_t)PyLong_AsUnsignedLongMask(PyTuple_GET_ITEM(record, p->correlation)), body,
                     (uint32_t)(to - body));
}

static sink_packing *sink_packing_of(sink_object *s, PyObject *kind) {
    unsigned long long bit = PyLong_AsUnsignedLongLongMask(kind);
    int number = bit ? __builtin_ctzll(bit) : SINK_KINDS;
    if (PyErr_Occurred()) return NULL;
    if (number < SINK_KINDS && s->packings[number]) return s->packings[number];
    PyErr_Format(PyExc_KeyError, "RowSink: no packing of kind %R", kind);
    return NULL;
}

/* Processor time of the calling thread: that it waits, or others have its processor, is no cost of recording. */
static uint64_t thread_cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* `sampled`: when the record that is timed began, 0: it is not; one that is slow is no part of the sample. */
static int sink_do(sink_object *s, PyObject *kind, PyObject *record, uint64_t *sampled) {
    PyObject *wanted, *result;
    uint64_t begin, took;
    sink_packing *p;
    if (TOPSTXI_UNLIKELY(s->slow_kinds & PyLong_AsUnsignedLongLongMask(kind))) goto slow; /* which may have no packing */
    p = sink_packing_of(s, kind);
    if (!p) return -1;
    if (p->device >= 0 || p->filter >= 0) {
        if (!PyTuple_Check(record) || PyTuple_GET_SIZE(record) <= p->longest) goto pack; /* which says so */
    }
    if (p->device >= 0) {
        long device = PyLong_AsLong(PyTuple_GET_ITEM(record, p->device));
        if (device == -1 && PyErr_Occurred()) return -1;
        if (TOPSTXI_UNLIKELY(device < 0 || device > 63 || !(s->devices >> device & 1))) goto slow;
    }
    if (p->filter >= 0) {
        wanted = PyDict_GetItemWithError(s->known, PyTuple_GET_ITEM(record, p->filter));
        if (TOPSTXI_UNLIKELY(!wanted)) {
            if (PyErr_Occurred()) return -1;
            goto slow;
        }
        if (wanted != Py_True) return 0;
    }
pack:
    return sink_pack(p, record, Py_False) < 0 ? -1 : 0;
slow:
    *sampled = 0;
    s->count--;
    s->slow_count++;
    begin = thread_cpu_ns();
    result = PyObject_CallFunctionObjArgs(s->slow, kind, record, NULL);
    took = thread_cpu_ns() - begin;
    if (took > s->clock_ns) s->slow_ns += took - s->clock_ns;
    Py_XDECREF(result);
    return result ? 0 : -1;
}

/* The least that two readings of that clock in a row differ by. */
static uint64_t clock_cost_ns(void) {
    uint64_t least = UINT64_MAX;
    for (int k = 0; k < 32; k++) {
        const uint64_t begin = thread_cpu_ns(), took = thread_cpu_ns() - begin;
        if (took < least) least = took;
    }
    return least;
}

static PyObject *sink_take(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    sink_object *s = (sink_object *)self;
    uint64_t begin = 0;
    int failed;
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "take() takes 2 arguments");
        return NULL;
    }
    if (TOPSTXI_UNLIKELY(s->count++ % SINK_SAMPLED == SINK_FIRST)) begin = thread_cpu_ns();
    failed = sink_do(s, args[0], args[1], &begin) < 0;
    if (TOPSTXI_UNLIKELY(begin)) {
        const uint64_t took = thread_cpu_ns() - begin;
        if (took > s->clock_ns) s->cost_ns += SINK_SAMPLED * (took - s->clock_ns);
    }
    if (failed) return NULL;
    Py_RETURN_NONE;
}

static PyObject *sink_pack_method(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    sink_packing *p;
    int written;
    if (count < 2 || count > 3 || (count == 3 && !PyLong_Check(args[2]))) {
        PyErr_SetString(PyExc_TypeError, "pack() takes a kind, a record and a number");
        return NULL;
    }
    p = sink_packing_of((sink_object *)self, args[0]);
    written = p ? sink_pack(p, args[1], count == 3 ? args[2] : Py_False) : -1;
    return written < 0 ? NULL : PyBool_FromLong(written);
}

static PyObject *sink_see_device(PyObject *self, PyObject *device) {
    long number = PyLong_AsLong(device);
    if (number == -1 && PyErr_Occurred()) return NULL;
    if (number >= 0 && number < 64) ((sink_object *)self)->devices |= (uint64_t)1 << number;
    Py_RETURN_NONE;
}

/* One description; see Packing.described. NULL with an exception. */
static sink_packing *read_packing(PyObject *described, int *number) {
    unsigned long long kind;
    PyObject *name, *items;
    sink_packing *p = PyMem_Calloc(1, sizeof *p);
    if (!p) return (sink_packing *)PyErr_NoMemory();
    if (!PyArg_ParseTuple(described, "KInnnOnnO!", &kind, &p->row, &p->start, &p->end, &p->correlation, &name, &p->device, &p->filter,
                          &PyTuple_Type, &items))
        goto failed;
    *number = kind ? __builtin_ctzll(kind) : SINK_KINDS;
    if (PyLong_Check(name)) {
        p->name = PyLong_AsSsize_t(name);
    } else if (!PyTuple_Check(name)) {
        goto wrong;
    } else if (!PyArg_ParseTuple(name, "nO", &p->name, &p->texts)) {
        p->texts = NULL;
        goto failed;
    }
    Py_XINCREF(p->texts);
    p->longest = p->start > p->end ? p->start : p->end;
    if (p->correlation > p->longest) p->longest = p->correlation;
    if (p->name > p->longest) p->longest = p->name;
    if (p->device > p->longest) p->longest = p->device;
    if (p->filter > p->longest) p->longest = p->filter;
    if (*number >= SINK_KINDS || PyTuple_GET_SIZE(items) > SINK_ITEMS || p->start < 0 || p->end < 0 || p->correlation < 0 || p->name < 0)
        goto wrong;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items); i++) {
        sink_item *item = &p->items[p->count++];
        int operation, code;
        long long at;
        if (!PyTuple_Check(PyTuple_GET_ITEM(items, i))) goto wrong;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(items, i), "iLC", &operation, &at, &code)) goto failed;
        item->operation = (uint8_t)operation;
        item->at = at;
        item->code = (uint8_t)code;
        item->bytes = code_bytes(code);
        if (!item->bytes || operation < 0 || operation > ITEM_EXTRA || (operation == ITEM_INTERN && item->bytes != 4)) goto wrong;
        if (operation <= ITEM_THREE) {
            if (at < 0) goto wrong;
            if (at > p->longest) p->longest = (Py_ssize_t)at;
        }
        p->body += (operation == ITEM_THREE ? 3u : 1u) * item->bytes;
    }
    if (p->body <= SINK_BODY) return p;
wrong:
    PyErr_SetString(PyExc_ValueError, "RowSink: a description makes no sense");
failed:
    Py_XDECREF(p->texts);
    PyMem_Free(p);
    return NULL;
}

static PyObject *sink_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *slow, *packings;
    sink_object *s;
    if (kwargs && PyDict_GET_SIZE(kwargs)) {
        PyErr_SetString(PyExc_TypeError, "RowSink() takes no keywords");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "OO!:RowSink", &slow, &PyList_Type, &packings)) return NULL;
    s = (sink_object *)type->tp_alloc(type, 0);
    if (!s) return NULL;
    s->slow = Py_NewRef(slow);
    s->clock_ns = clock_cost_ns();
    if (!(s->known = PyDict_New())) goto failed;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(packings); i++) {
        int number = 0;
        sink_packing *p = read_packing(PyList_GET_ITEM(packings, i), &number);
        if (!p) goto failed;
        if (s->packings[number]) {
            Py_XDECREF(s->packings[number]->texts);
            PyMem_Free(s->packings[number]);
        }
        s->packings[number] = p;
    }
    return (PyObject *)s;
failed:
    Py_DECREF(s);
    return NULL;
}

static int sink_traverse(PyObject *self, visitproc visit, void *arg) {
    sink_object *s = (sink_object *)self;
    Py_VISIT(s->slow);
    Py_VISIT(s->known);
    return 0;
}

static int sink_clear(PyObject *self) {
    sink_object *s = (sink_object *)self;
    Py_CLEAR(s->slow);
    Py_CLEAR(s->known);
    return 0;
}

static void sink_dealloc(PyObject *self) {
    sink_object *s = (sink_object *)self;
    PyObject_GC_UnTrack(self);
    sink_clear(self);
    for (int i = 0; i < SINK_KINDS; i++) {
        if (!s->packings[i]) continue;
        Py_XDECREF(s->packings[i]->texts);
        PyMem_Free(s->packings[i]);
    }
    Py_TYPE(self)->tp_free(self);
}

static PyMethodDef sink_methods[] = {
    {"take", AS_FUNCTION(sink_take), METH_FASTCALL, "take(kind, record): write the row of a record, or let slow(kind, record) do it."},
    {"pack", AS_FUNCTION(sink_pack_method), METH_FASTCALL, "pack(kind, record, extra=0): write the row; whether it is in the ring."},
    {"see_device", sink_see_device, METH_O, "Records of this device need no slow(kind, record) any more."},
    {NULL, NULL, 0, NULL}};
static PyMemberDef sink_members[] = {
    {"known", T_OBJECT_EX, offsetof(sink_object, known), READONLY, "Which names are wanted."},
    {"slow_kinds", T_ULONGLONG, offsetof(sink_object, slow_kinds), 0, "Kinds of which all records go to slow(kind, record)."},
    {"count", T_ULONGLONG, offsetof(sink_object, count), READONLY, "Records that take packed."},
    {"slow_count", T_ULONGLONG, offsetof(sink_object, slow_count), 0, "Records that went to slow(kind, record)."},
    {"slow_ns", T_ULONGLONG, offsetof(sink_object, slow_ns), 0, "What those cost, each of them timed."},
    {"cost_ns", T_ULONGLONG, offsetof(sink_object, cost_ns), 0, "What they cost, reckoned from a sample."},
    {NULL, 0, 0, 0, NULL}};
static PyTypeObject sink_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "topstx.recorder._crec.RowSink",
    .tp_basicsize = sizeof(sink_object),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "RowSink(slow, packings)\n--\n\nWrites tuples as rows; see topstx.recorder.row_sink.",
    .tp_new = sink_new,
    .tp_dealloc = sink_dealloc,
    .tp_traverse = sink_traverse,
    .tp_clear = sink_clear,
    .tp_methods = sink_methods,
    .tp_members = sink_members,
};
