/* The machine in timed mode. */
#define MACHINE machine_timed
#include "hooks_timed.h"
#include "machine_core.h"
