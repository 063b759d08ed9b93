/* The tile library for x86-64 with AVX2, FMA and F16C. Compilers that take no target from a pragma leave it out, unless they
   are told to build everything for such a processor. */
#include "exact.h"
#include "paths.h"
#ifdef TK_HAS_AVX2
#ifndef __clang__
#pragma GCC target("avx2,fma,f16c")
#endif
#include "lanes_avx2.h"
#define KERNELS tk_avx2
#include "tiles_body.h"
#endif
