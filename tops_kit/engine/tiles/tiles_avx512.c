/* The tile library for x86-64 with AVX-512 (F, BW, DQ, VL). */
#include "exact.h"
#include "paths.h"
#ifdef TK_HAS_AVX512
#ifndef __clang__
#pragma GCC target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")
#endif
#include "lanes_avx512.h"
#define KERNELS tk_avx512
#include "tiles_body.h"
#endif
