/* Choosing the tile library's path for this processor; floating-point control. */
#include "kernels.h"
#include "paths.h"
#include <stdlib.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

const tile_kernels *tk_kernels = &tk_generic;

#ifdef TK_HAS_AVX2
static int has_avx2(void) {
#ifndef __clang__ /* which knows no f16c here; processors with AVX2 have it */
    if (!__builtin_cpu_supports("f16c")) return 0;
#endif
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#endif

#ifdef TK_HAS_AVX512
static int has_avx512(void) {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#endif

int tk_use_path(const char *name) {
    const tile_kernels *chosen = NULL;
    if (strcmp(name, "generic") == 0) chosen = &tk_generic;
#ifdef TK_HAS_AVX2
    if (strcmp(name, "avx2") == 0 && has_avx2()) chosen = &tk_avx2;
#endif
#ifdef TK_HAS_AVX512
    if (strcmp(name, "avx512") == 0 && has_avx512()) chosen = &tk_avx512;
#endif
    if (!chosen) return 0;
    tk_kernels = chosen;
    return 1;
}

const char *tk_path(void) { return tk_kernels->name; }

__attribute__((constructor)) static void choose_path(void) {
#if defined(__x86_64__) && defined(__GNUC__)
    __builtin_cpu_init();
#endif
    const char *wanted = getenv("TOPSKIT_TILES");
    if (wanted && tk_use_path(wanted)) return;
    if (!tk_use_path("avx512")) tk_use_path("avx2");
}

/* Rounding to nearest, no flush to zero, no denormals as zero; exceptions masked. */
#if defined(__x86_64__)
uint32_t tk_fp_begin(void) {
    uint32_t saved = _mm_getcsr();
    _mm_setcsr(0x1F80);
    return saved;
}
void tk_fp_end(uint32_t saved) {
    _mm_sfence(); /* what was streamed past the caches */
    _mm_setcsr(saved);
}
#elif defined(__aarch64__)
uint32_t tk_fp_begin(void) {
    uint64_t saved, plain = 0;
    __asm__ volatile("mrs %0, fpcr" : "=r"(saved));
    __asm__ volatile("msr fpcr, %0" : : "r"(plain));
    return (uint32_t)saved;
}
void tk_fp_end(uint32_t saved) {
    uint64_t value = saved;
    __asm__ volatile("msr fpcr, %0" : : "r"(value));
}
#else
uint32_t tk_fp_begin(void) { return 0; }
void tk_fp_end(uint32_t saved) { (void)saved; }
#endif
