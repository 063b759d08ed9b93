/* The machine in counted mode. */
#define MACHINE machine_counted
#include "hooks_counted.h"
#include "machine_core.h"
