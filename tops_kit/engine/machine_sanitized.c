/* The machine in sanitized mode. */
#define MACHINE machine_sanitized
#include "hooks_sanitized.h"
#include "machine_core.h"
