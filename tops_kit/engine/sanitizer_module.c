/* What the sanitizer found, as Python objects; findings.py says it in words. */
#include "module.h"
#include "sanitizer.h"

/* (pc, thread, block, access, transfer, open), or None */
static PyObject *actor_object(const actor *x) {
    if (x->pc < 0) Py_RETURN_NONE;
    return Py_BuildValue("(iiiiii)", x->pc, x->thread, x->block, x->access, x->transfer, x->open);
}

/* (fault, first, second, slot, from, to, count) */
static PyObject *finding_object(const finding *x) {
    return Py_BuildValue("(NNNiLLL)", fault_object(&x->fault), actor_object(&x->first), actor_object(&x->second), x->slot,
                         (long long)x->from, (long long)x->to, (long long)x->count);
}

PyObject *findings_object(const launch *l) {
    if (!l->sanitizer) Py_RETURN_NONE;
    const findings *const all = sanitizer_findings(l->sanitizer);
    PyObject *const list = PyList_New(all->count);
    for (int32_t k = 0; list && k < all->count; k++) {
        PyObject *const item = finding_object(&all->item[k]);
        if (!item) {
            Py_DECREF(list);
            return NULL;
        }
        PyList_SET_ITEM(list, k, item);
    }
    return list ? Py_BuildValue("(NI)", list, (unsigned)all->limits) : NULL;
}
