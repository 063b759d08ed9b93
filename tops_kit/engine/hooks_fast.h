/* Fast mode: results and faults, nothing else. */
#include "hooks_common.h"
