/* Signals while an extension works. With the GIL. */
#ifndef TOPS_SIGNALS_H
#define TOPS_SIGNALS_H

int look_for_signals(void); /* PyErr_CheckSignals, where the runtime has handlers wait, too */

#endif
