/* Looking for signals, in every extension that works for long. */
#include "signals.h"

#include <Python.h>

#include "../deferral.h"

int look_for_signals(void) {
    static const deferral_functions *deferral;
    if (!deferral && !(deferral = PyCapsule_Import(DEFERRAL_CAPSULE, 0))) PyErr_Clear(); /* without it nothing is deferred */
    return deferral ? deferral->check() : PyErr_CheckSignals();
}
