/* Lanes without any particular processor: vectors of four as the compiler's vector extension has them.
   The three lanes_*.h files offer the same names; what they compute is the same to the bit.

   vf floats, vi signed ints, vu unsigned ints, vm a mask. f_ floats, i_ ints, m_ masks. */
#ifndef TOPS_TILES_LANES_H
#define TOPS_TILES_LANES_H
#include "elements.h"
#include <math.h>

#define PATH_NAME "generic"
#define LANES 4

typedef float vf __attribute__((vector_size(16)));
typedef int32_t vi __attribute__((vector_size(16)));
typedef uint32_t vu __attribute__((vector_size(16)));
typedef vi vm; /* all ones where true */

static inline vf f_set(float x) { return (vf){x, x, x, x}; }
static inline vi i_set(int32_t x) { return (vi){x, x, x, x}; }

static inline vf f_load(const void *p) {
    vf v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline vi i_load(const void *p) {
    vi v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline void f_store(void *p, vf v) { memcpy(p, &v, sizeof v); }
static inline void i_store(void *p, vi v) { memcpy(p, &v, sizeof v); }

/* Bytes to be copied; b_stream writes past the caches where that can be asked for, to an aligned address. */
typedef vf vb;
static inline vb b_load(const void *p) { return f_load(p); }
static inline void b_store(void *p, vb v) { f_store(p, v); }
static inline void b_stream(void *p, vb v) { f_store(p, v); }

/* The first n of LANES; the others are 0, and not stored. */
static inline vf f_load_n(const void *p, int64_t n) {
    vf v = f_set(0);
    memcpy(&v, p, (size_t)n * 4);
    return v;
}
static inline vi i_load_n(const void *p, int64_t n) {
    vi v = i_set(0);
    memcpy(&v, p, (size_t)n * 4);
    return v;
}
static inline void f_store_n(void *p, vf v, int64_t n) { memcpy(p, &v, (size_t)n * 4); }
static inline void i_store_n(void *p, vi v, int64_t n) { memcpy(p, &v, (size_t)n * 4); }

static inline vm m_lt(vf a, vf b) { return (vm)(a < b); }
static inline vm m_le(vf a, vf b) { return (vm)(a <= b); }
static inline vm m_eq(vf a, vf b) { return (vm)(a == b); }
static inline vm m_ne(vf a, vf b) { return (vm)(a != b); }
static inline vm m_nan(vf a) { return (vm)(a != a); }
static inline vm m_nan2(vf a, vf b) { return (vm)(a != a) | (vm)(b != b); }
static inline vm m_ilt(vi a, vi b) { return (vm)(a < b); }
static inline vm m_ile(vi a, vi b) { return (vm)(a <= b); }
static inline vm m_ieq(vi a, vi b) { return (vm)(a == b); }
static inline vm m_ine(vi a, vi b) { return (vm)(a != b); }
static inline vm m_or(vm a, vm b) { return a | b; }
static inline vm m_and(vm a, vm b) { return a & b; }
static inline vm m_none(void) { return i_set(0); }
static inline int m_any(vm m) { return (m[0] | m[1] | m[2] | m[3]) != 0; }
static inline int m_first(vm m) { return m[0] ? 0 : m[1] ? 1 : m[2] ? 2 : 3; } /* of a mask that has one */

static inline vf f_sel(vm m, vf a, vf b) { return (vf)((m & (vi)a) | (~m & (vi)b)); }
static inline vi i_sel(vm m, vi a, vi b) { return (m & a) | (~m & b); }

/* a < b ? a : b, and a > b ? a : b */
static inline vf f_lesser(vf a, vf b) { return f_sel((vm)(a < b), a, b); }
static inline vf f_greater(vf a, vf b) { return f_sel((vm)(a > b), a, b); }

static inline vf f_from_i(vi a) { return __builtin_convertvector(a, vf); }
static inline vi i_from_f(vf a) { return __builtin_convertvector(a, vi); } /* of what fits */

static inline vf f_sqrt(vf a) { return (vf){sqrtf(a[0]), sqrtf(a[1]), sqrtf(a[2]), sqrtf(a[3])}; }

/* Floor of what is below 2**23 by conversion; the rest, and NaN, is whole already. The sign of 0 stays. */
static inline vf f_floor(vf a) {
    vi sign = (vi)a & INT32_MIN, size = (vi)a & INT32_MAX;
    vm small = size < 0x4B000000;
    vf inner = f_sel(small, a, f_set(0)), whole = f_from_i(i_from_f(inner));
    whole = whole - f_sel((vm)(whole > inner), f_set(1), f_set(0));
    return f_sel(small, (vf)((vi)whole | sign), a);
}
static inline vf f_ceil(vf a) {
    vi minus = i_set(INT32_MIN);
    return (vf)((vi)f_floor((vf)((vi)a ^ minus)) ^ minus);
}

/* a * b + c, rounded once. Without such an instruction: the product is exact in double; the sum is rounded to odd (its error
   comes from Knuth's two-sum), so that rounding it once more, to float, is right. */
static inline vf f_fma(vf a, vf b, vf c) {
#ifdef __FP_FAST_FMAF
    return (vf){fmaf(a[0], b[0], c[0]), fmaf(a[1], b[1], c[1]), fmaf(a[2], b[2], c[2]), fmaf(a[3], b[3], c[3])};
#else
    typedef double vd __attribute__((vector_size(32)));
    typedef int64_t vl __attribute__((vector_size(32)));
    const int64_t infinite = (int64_t)0x7FF << 52;
    vd p = __builtin_convertvector(a, vd) * __builtin_convertvector(b, vd), addend = __builtin_convertvector(c, vd);
    vd s = p + addend, part = s - p, error = (p - (s - part)) + (addend - part);
    vl bits = (vl)s, even = (bits & 1) - 1, finite = (vl)((bits & infinite) != infinite);
    vl same = ~((vl)(error > 0) ^ (vl)(s > 0));
    bits += (-2 * same - 1) & (vl)(error != 0) & even & finite;
    return __builtin_convertvector((vd)bits, vf);
#endif
}

/* p * 2**n for n in [-252, 254], p near 1: in two steps, of which only the second may round. */
static inline vf f_scale(vf p, vi n) {
    vi half = n >> 1;
    return p * (vf)((half + 127) << 23) * (vf)((n - half + 127) << 23);
}

/* v[j + h] in lane j, for j < h; h is a power of two below LANES. */
static inline vf f_down(vf v, int h) { return h == 2 ? (vf){v[2], v[3], v[2], v[3]} : (vf){v[1], v[1], v[3], v[3]}; }
static inline vi i_down(vi v, int h) { return (vi)f_down((vf)v, h); }

/* BLOCK x BLOCK elements of 4 bytes, rows lda and ldd bytes apart. */
#define BLOCK 4
static inline void transpose_block(uint8_t *d, int64_t ldd, const uint8_t *a, int64_t lda) {
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) memcpy(d + j * ldd + 4 * i, a + i * lda + 4 * j, 4);
}

/* LANES elements of other types. */
static inline vf f_load_f16(const void *p) {
    uint16_t h[4];
    memcpy(h, p, sizeof h);
    return (vf){tk_f16_to_f32(h[0]), tk_f16_to_f32(h[1]), tk_f16_to_f32(h[2]), tk_f16_to_f32(h[3])};
}
static inline void f_store_f16(void *p, vf v) {
    uint16_t h[4] = {tk_f32_to_f16(v[0]), tk_f32_to_f16(v[1]), tk_f32_to_f16(v[2]), tk_f32_to_f16(v[3])};
    memcpy(p, h, sizeof h);
}
static inline vf f_load_bf16(const void *p) {
    uint16_t h[4];
    memcpy(h, p, sizeof h);
    return (vf)((vu){h[0], h[1], h[2], h[3]} << 16);
}
static inline void f_store_bf16(void *p, vf v) {
    uint16_t h[4] = {tk_f32_to_bf16(v[0]), tk_f32_to_bf16(v[1]), tk_f32_to_bf16(v[2]), tk_f32_to_bf16(v[3])};
    memcpy(p, h, sizeof h);
}
static inline vi i_load_i8(const void *p) {
    int8_t h[4];
    memcpy(h, p, sizeof h);
    return (vi){h[0], h[1], h[2], h[3]};
}
static inline vi i_load_u8(const void *p) {
    uint8_t h[4];
    memcpy(h, p, sizeof h);
    return (vi){h[0], h[1], h[2], h[3]};
}
static inline vi i_load_i16(const void *p) {
    int16_t h[4];
    memcpy(h, p, sizeof h);
    return (vi){h[0], h[1], h[2], h[3]};
}
static inline void i_store_8(void *p, vi v) {
    uint8_t h[4] = {(uint8_t)v[0], (uint8_t)v[1], (uint8_t)v[2], (uint8_t)v[3]};
    memcpy(p, h, sizeof h);
}
static inline void i_store_16(void *p, vi v) {
    uint16_t h[4] = {(uint16_t)v[0], (uint16_t)v[1], (uint16_t)v[2], (uint16_t)v[3]};
    memcpy(p, h, sizeof h);
}
static inline vm m_load_bool(const void *p) { return (vm)(i_load_u8(p) != 0); }
static inline void m_store_bool(void *p, vm m) { i_store_8(p, m & 1); }
#endif
