/* Lanes of AVX-512 (F, BW, DQ, VL): see lanes_generic.h. Masks are bits here. */
#ifndef TOPS_TILES_LANES_H
#define TOPS_TILES_LANES_H
#include "elements.h"
#include <immintrin.h>
#include <math.h>

#define PATH_NAME "avx512"
#define LANES 16

typedef float vf __attribute__((vector_size(64)));
typedef int32_t vi __attribute__((vector_size(64)));
typedef uint32_t vu __attribute__((vector_size(64)));
typedef __mmask16 vm;

static inline vf f_set(float x) { return _mm512_set1_ps(x); }
static inline vi i_set(int32_t x) { return (vi)_mm512_set1_epi32(x); }
static inline vf f_load(const void *p) { return _mm512_loadu_ps(p); }
static inline vi i_load(const void *p) { return (vi)_mm512_loadu_si512(p); }
static inline void f_store(void *p, vf v) { _mm512_storeu_ps(p, v); }
static inline void i_store(void *p, vi v) { _mm512_storeu_si512(p, (__m512i)v); }

typedef __m256i vb;
static inline vb b_load(const void *p) { return _mm256_loadu_si256(p); }
static inline void b_store(void *p, vb v) { _mm256_storeu_si256(p, v); }
static inline void b_stream(void *p, vb v) { _mm256_stream_si256(p, v); }

static inline vm m_head(int64_t n) { return (vm)((1u << n) - 1); }
static inline vf f_load_n(const void *p, int64_t n) { return _mm512_maskz_loadu_ps(m_head(n), p); }
static inline vi i_load_n(const void *p, int64_t n) { return (vi)_mm512_maskz_loadu_epi32(m_head(n), p); }
static inline void f_store_n(void *p, vf v, int64_t n) { _mm512_mask_storeu_ps(p, m_head(n), v); }
static inline void i_store_n(void *p, vi v, int64_t n) { _mm512_mask_storeu_epi32(p, m_head(n), (__m512i)v); }

static inline vm m_lt(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
static inline vm m_le(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ); }
static inline vm m_eq(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
static inline vm m_ne(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_NEQ_UQ); }
static inline vm m_nan(vf a) { return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q); }
static inline vm m_nan2(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q); }
static inline vm m_ilt(vi a, vi b) { return _mm512_cmplt_epi32_mask((__m512i)a, (__m512i)b); }
static inline vm m_ile(vi a, vi b) { return _mm512_cmple_epi32_mask((__m512i)a, (__m512i)b); }
static inline vm m_ieq(vi a, vi b) { return _mm512_cmpeq_epi32_mask((__m512i)a, (__m512i)b); }
static inline vm m_ine(vi a, vi b) { return _mm512_cmpneq_epi32_mask((__m512i)a, (__m512i)b); }
static inline vm m_or(vm a, vm b) { return a | b; }
static inline vm m_and(vm a, vm b) { return a & b; }
static inline vm m_none(void) { return 0; }
static inline int m_any(vm m) { return m != 0; }
static inline int m_first(vm m) { return __builtin_ctz(m); }

static inline vf f_sel(vm m, vf a, vf b) { return _mm512_mask_blend_ps(m, b, a); }
static inline vi i_sel(vm m, vi a, vi b) { return (vi)_mm512_mask_blend_epi32(m, (__m512i)b, (__m512i)a); }

static inline vf f_lesser(vf a, vf b) { return _mm512_min_ps(a, b); }
static inline vf f_greater(vf a, vf b) { return _mm512_max_ps(a, b); }

static inline vf f_from_i(vi a) { return _mm512_cvtepi32_ps((__m512i)a); }
static inline vi i_from_f(vf a) { return (vi)_mm512_cvttps_epi32(a); }
static inline vf f_sqrt(vf a) { return _mm512_sqrt_ps(a); }
static inline vf f_floor(vf a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
static inline vf f_ceil(vf a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC); }
static inline vf f_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
static inline vf f_scale(vf p, vi n) { return _mm512_scalef_ps(p, _mm512_cvtepi32_ps((__m512i)n)); }

static inline vf f_down(vf v, int h) {
    return h == 8   ? _mm512_shuffle_f32x4(v, v, 0x4E)
           : h == 4 ? _mm512_shuffle_f32x4(v, v, 0xB1)
           : h == 2 ? _mm512_permute_ps(v, 0x4E)
                    : _mm512_permute_ps(v, 0xB1);
}
static inline vi i_down(vi v, int h) { return (vi)f_down((vf)v, h); }

#define BLOCK 8
static inline void transpose_block(uint8_t *d, int64_t ldd, const uint8_t *a, int64_t lda) {
    __m256 r[8], s[8];
    for (int i = 0; i < 8; i++) r[i] = _mm256_loadu_ps((const float *)(a + i * lda));
    for (int i = 0; i < 8; i += 2) { /* pairs of rows, then of pairs, then of halves */
        s[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        s[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        r[i] = _mm256_shuffle_ps(s[i], s[i + 2], 0x44);
        r[i + 1] = _mm256_shuffle_ps(s[i], s[i + 2], 0xEE);
        r[i + 2] = _mm256_shuffle_ps(s[i + 1], s[i + 3], 0x44);
        r[i + 3] = _mm256_shuffle_ps(s[i + 1], s[i + 3], 0xEE);
    }
    for (int i = 0; i < 4; i++) {
        _mm256_storeu_ps((float *)(d + i * ldd), _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
        _mm256_storeu_ps((float *)(d + (i + 4) * ldd), _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
    }
}

static inline vf f_load_f16(const void *p) { return _mm512_cvtph_ps(_mm256_loadu_si256(p)); }
static inline void f_store_f16(void *p, vf v) {
    _mm256_storeu_si256(p, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
static inline vf f_load_bf16(const void *p) {
    return (vf)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(p)), 16);
}
static inline void i_store_16(void *p, vi v) { _mm256_storeu_si256(p, _mm512_cvtepi32_epi16((__m512i)v)); }
static inline void f_store_bf16(void *p, vf v) {
    vu u = (vu)v, rounded = (u + 0x7FFF + (u >> 16 & 1)) >> 16;
    i_store_16(p, i_sel(m_nan(v), (vi)(u >> 16 | 0x40), (vi)rounded));
}
static inline vi i_load_i8(const void *p) { return (vi)_mm512_cvtepi8_epi32(_mm_loadu_si128(p)); }
static inline vi i_load_u8(const void *p) { return (vi)_mm512_cvtepu8_epi32(_mm_loadu_si128(p)); }
static inline vi i_load_i16(const void *p) { return (vi)_mm512_cvtepi16_epi32(_mm256_loadu_si256(p)); }
static inline void i_store_8(void *p, vi v) { _mm_storeu_si128(p, _mm512_cvtepi32_epi8((__m512i)v)); }
static inline vm m_load_bool(const void *p) {
    __m128i bytes = _mm_loadu_si128(p);
    return _mm_test_epi8_mask(bytes, bytes);
}
static inline void m_store_bool(void *p, vm m) { _mm_storeu_si128(p, _mm_maskz_set1_epi8(m, 1)); }

/* In each lane the sum of the products of two pairs of 16-bit integers. */
#define HAS_PAIRS
static inline vi i_pairs(vi a, vi b) { return (vi)_mm512_madd_epi16((__m512i)a, (__m512i)b); }
#endif
