#include "timing_object.h"
#include <string.h>

static PyObject *bytes(const void *from, int64_t count, size_t each) { return PyBytes_FromStringAndSize(from, (Py_ssize_t)(count * (int64_t)each)); }

PyObject *timing_object(const timing *t) {
    const timing_result *const r = timing_results(t);
    return Py_BuildValue("(LNNNNLNLLN)", (long long)r->cycles, bytes(r->sip, r->sips, sizeof *r->sip), bytes(r->pc, r->pcs, sizeof *r->pc),
                         bytes(r->channel, (int64_t)r->sips * r->channels, sizeof *r->channel), bytes(r->bytes, 1, sizeof r->bytes),
                         (long long)r->l1_bytes, bytes(r->flops, 1, sizeof r->flops), (long long)r->transfers, (long long)r->solves,
                         bytes(r->interval, r->intervals, sizeof *r->interval));
}

bool timing_parse(PyObject *packed, timing_parameters *p) {
    if (!PyBytes_Check(packed) || PyBytes_GET_SIZE(packed) != (Py_ssize_t)sizeof *p) {
        PyErr_Format(PyExc_ValueError, "parameters: %zu bytes expected", sizeof *p);
        return false;
    }
    memcpy(p, PyBytes_AS_STRING(packed), sizeof *p);
    return true;
}
