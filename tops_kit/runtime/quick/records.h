/* Who wants to hear of a kernel's end: others that share the device, and whoever listens. What Context._sink does. */
#ifndef QUICK_RECORDS_H
#define QUICK_RECORDS_H
#include "rows.h"

static bool tell_by(PyObject *sink, PyObject *operation) {
    PyObject *const done = PyObject_CallOneArg(sink, operation);
    Py_XDECREF(done);
    return done != NULL;
}

/* An operation without on_done is final. False with an exception. */
static bool tell(PyObject *operation) {
    PyObject *const sink = GET(GET(GET(operation, Operation, stream), StreamQueue, device), DeviceSimulation, sink);
    if (sink == Py_None) return true;
    PyObject *const tag = GET(operation, Operation, tag);
    const bool ours = PyMethod_Check(sink) && PyMethod_GET_FUNCTION(sink) == context_sink && GET(operation, Operation, kind) == name_kernel;
    const bool untold = Py_IS_TYPE(tag, type_Plan);
    if (!ours || !(untold || Py_IS_TYPE(tag, &tag_type))) return tell_by(sink, operation);
    PyObject *const sips = untold ? PyObject_GetAttr(tag, name_sips) : Py_NewRef(((kernel_tag *)tag)->sips);
    const bool noted = sips && note_kernel(PyMethod_GET_SELF(sink), operation, sips);
    Py_XDECREF(sips);
    return noted && (untold || tag_tell((kernel_tag *)tag, operation));
}

#endif
