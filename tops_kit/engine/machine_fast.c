/* The machine in fast mode. */
#define MACHINE machine_fast
#include "hooks_fast.h"
#include "machine_core.h"
