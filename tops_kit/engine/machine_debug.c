/* The machine in debug mode. */
#define MACHINE machine_debug
#include "hooks_debug.h"
#include "machine_core.h"
