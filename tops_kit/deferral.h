/* What tops_kit._deferral gives other extensions: sections in which no handler of Python's signals runs. With the GIL. */
#ifndef TOPS_DEFERRAL_H
#define TOPS_DEFERRAL_H

#define DEFERRAL_CAPSULE "tops_kit._deferral.functions"

typedef struct {
    void (*enter)(void);
    int (*leave)(void); /* -1: a handler that waited for the outermost one's end raised */
    int (*check)(void); /* PyErr_CheckSignals, also within sections */
} deferral_functions;

#endif
