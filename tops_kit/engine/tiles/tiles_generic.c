/* The tile library for any processor. */
#include "exact.h"
#include "lanes_generic.h"
#define KERNELS tk_generic
#include "tiles_body.h"
