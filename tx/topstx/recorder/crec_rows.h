/* crec_rows.h - rows of other tables for Python, and for C extensions through a capsule (part of _crec.c). */

static uint64_t own_serial(void) {
    if (topstxi_state.forked) topstxi_reincarnate();
    return topstxi_state.names ? topstxi_state.serial : 0;
}

static int write_row(uint32_t kind, int64_t begin, int64_t end, uint32_t name, uint32_t correlation, const void *body, uint32_t bytes) {
    topstxi_ring *r;
    if (!topstxi_row_wanted(kind) || !(r = topstxi_ring_mine())) return 0;
    follow_context(r);
    return topstxi_row(r, kind, (uint64_t)begin, (uint64_t)end, name, correlation, body, bytes);
}

static uint32_t row_name(const char *text, size_t bytes) {
    return topstxi_state.control ? topstxi_intern(TOPSTX_ENTRY_NAME, text, bytes) : 0;
}

/* row(kind, begin_ns, end_ns, name, body, correlation_id=0) -> bool */
static PyObject *row(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    unsigned long kind, correlation = 0;
    long long begin, end;
    uint32_t name;
    (void)self;
    if (TOPSTXI_UNLIKELY(count < 5 || count > 6)) {
        PyErr_Format(PyExc_TypeError, "row() takes 5 or 6 arguments (%zd given)", count);
        return NULL;
    }
    kind = PyLong_AsUnsignedLong(args[0]);
    if (topstxi_recording() != TOPSTX_RECORDING_ON && !(kind & TOPSTX_ROW_LATE) && !PyErr_Occurred()) Py_RETURN_FALSE;
    begin = PyLong_AsLongLong(args[1]);
    end = PyLong_AsLongLong(args[2]);
    if (count == 6) correlation = PyLong_AsUnsignedLongMask(args[5]);
    if (TOPSTXI_UNLIKELY((begin == -1 || end == -1 || kind == (unsigned long)-1 || correlation == (unsigned long)-1) && PyErr_Occurred()))
        return NULL;
    if (TOPSTXI_UNLIKELY(!PyBytes_Check(args[4]))) {
        PyErr_SetString(PyExc_TypeError, "row(): the body has to be bytes");
        return NULL;
    }
    if (PyLong_Check(args[3])) name = (uint32_t)PyLong_AsUnsignedLongMask(args[3]);
    else name = name_id(args[3]);
    if (TOPSTXI_UNLIKELY(interruption != NULL)) return raise_interruption();
    if (TOPSTXI_UNLIKELY(PyBytes_GET_SIZE(args[4]) > (Py_ssize_t)TOPSTXI_ROW_BODY_MAX)) {
        PyErr_Format(PyExc_ValueError, "row(): a body has %u bytes at most", TOPSTXI_ROW_BODY_MAX);
        return NULL;
    }
    return PyBool_FromLong(write_row((uint32_t)(kind > 255 ? 64 : kind), begin, end, name, (uint32_t)correlation, PyBytes_AS_STRING(args[4]),
                                     (uint32_t)PyBytes_GET_SIZE(args[4])));
}

static PyObject *row_wanted(PyObject *self, PyObject *kind) {
    unsigned long number = PyLong_AsUnsignedLong(kind);
    (void)self;
    if (number == (unsigned long)-1 && PyErr_Occurred()) return NULL;
    return PyBool_FromLong(topstxi_row_wanted(number > 255 ? 64 : (uint32_t)number));
}

static PyObject *intern(PyObject *self, PyObject *text) {
    uint32_t id;
    (void)self;
    if (!topstxi_state.control) return PyLong_FromLong(0);
    id = name_id(text);
    return interruption ? raise_interruption() : PyLong_FromUnsignedLong(id);
}

static PyObject *process_serial(PyObject *self, PyObject *unused) {
    (void)self;
    (void)unused;
    return PyLong_FromUnsignedLongLong(own_serial());
}
