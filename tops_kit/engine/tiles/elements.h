/* One element: conversions between element types and scalar registers, each defined to the bit.

   Floats of 16 bits are widened exactly, and narrowed to nearest even; NaN stays NaN and becomes quiet, with its sign and the
   upper part of its payload. Integers are narrowed by their low bits; bool is 0 or 1, and any byte but 0 reads as 1. */
#ifndef TOPS_TILES_ELEMENTS_H
#define TOPS_TILES_ELEMENTS_H
#include "../machine.h"
#include <string.h>

#define TK_NAN_BITS 0x7FC00000u /* what arithmetic gives where its result is NaN */

static const uint8_t tk_size[DT_COUNT] = {4, 4, 2, 2, 1, 2, 1, 1}; /* bytes of an element */

static inline int tk_is_float(int dtype) { return dtype == DT_F32 || dtype == DT_F16 || dtype == DT_BF16; }

static inline uint32_t tk_bits(float x) {
    uint32_t u;
    memcpy(&u, &x, 4);
    return u;
}

static inline float tk_float(uint32_t u) {
    float x;
    memcpy(&x, &u, 4);
    return x;
}

/* `x`, or the one NaN that arithmetic gives: the payloads of processors differ. A jump that is never taken costs
   nothing; the empty assembly keeps gcc from a conditional move, which a chain of sums would wait for. */
static inline float tk_canonical(float x) {
    if (__builtin_expect(x != x, 0)) {
        __asm__ volatile("");
        x = tk_float(TK_NAN_BITS);
    }
    return x;
}

static inline float tk_f16_to_f32(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = h & 0x7FFF;
    if (rest >= 0x7C00) return tk_float(sign | 0x7F800000u | (rest & 0x3FF ? 0x400000u | (rest & 0x3FF) << 13 : 0));
    if (rest < 0x400) return tk_float(sign | tk_bits((float)rest * 0x1p-24f)); /* a subnormal is its number of 2**-24 */
    return tk_float(sign | ((rest << 13) + (112u << 23)));
}

static inline uint16_t tk_f32_to_f16(float x) {
    uint32_t u = tk_bits(x), sign = u >> 16 & 0x8000, rest = u & 0x7FFFFFFF;
    if (rest > 0x7F800000) return (uint16_t)(sign | 0x7E00 | (rest >> 13 & 0x3FF));
    if (rest >= 0x477FF000) return (uint16_t)(sign | 0x7C00); /* from half way above 65504 */
    if (rest < 0x38800000) { /* subnormal or 0: adding 0.5 puts the unit 2**-24 in the last place, and rounds */
        return (uint16_t)(sign | (tk_bits(tk_float(rest) + 0.5f) - 0x3F000000));
    }
    return (uint16_t)(sign | ((rest - (112u << 23) + 0xFFF + (rest >> 13 & 1)) >> 13));
}

static inline float tk_bf16_to_f32(uint16_t h) { return tk_float((uint32_t)h << 16); }

static inline uint16_t tk_f32_to_bf16(float x) {
    uint32_t u = tk_bits(x);
    if ((u & 0x7FFFFFFF) > 0x7F800000) return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7FFF + (u >> 16 & 1)) >> 16);
}

static inline float tk_round_f16(float x) { return tk_f16_to_f32(tk_f32_to_f16(x)); }
static inline float tk_round_bf16(float x) { return tk_bf16_to_f32(tk_f32_to_bf16(x)); }

/* Towards 0, saturating; NaN gives 0. */
static inline int32_t f2i_sat(float x) {
    if (x != x) return 0;
    if (x >= 2147483648.0f) return INT32_MAX;
    if (x < -2147483648.0f) return INT32_MIN;
    return (int32_t)x;
}

/* Rounded down, b not 0; INT32_MIN / -1 wraps to INT32_MIN. */
static inline int32_t idiv_floor(int32_t a, int32_t b) {
    if (b == -1) return (int32_t)(0u - (uint32_t)a);
    return a / b - (a % b != 0 && (a % b < 0) != (b < 0));
}

/* The remainder of idiv_floor: it has the sign of b. */
static inline int32_t imod_floor(int32_t a, int32_t b) {
    if (b == -1) return 0;
    int32_t r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

/* One element as a scalar register has it: floats as f32, the rest as i32. */
static inline reg tk_load(const void *p, int dtype) {
    reg r = {0};
    uint16_t h;
    switch (dtype) {
    case DT_F32:
    case DT_I32:
        memcpy(&r, p, 4);
        break;
    case DT_F16:
        memcpy(&h, p, 2);
        r.f = tk_f16_to_f32(h);
        break;
    case DT_BF16:
        memcpy(&h, p, 2);
        r.f = tk_bf16_to_f32(h);
        break;
    case DT_I16:
        memcpy(&h, p, 2);
        r.i = (int16_t)h;
        break;
    case DT_I8:
        r.i = *(const int8_t *)p;
        break;
    case DT_U8:
        r.i = *(const uint8_t *)p;
        break;
    default:
        r.i = *(const uint8_t *)p != 0;
    }
    return r;
}

/* A scalar register into one element. */
static inline void tk_store(void *p, int dtype, reg r) {
    uint16_t h;
    switch (dtype) {
    case DT_F32:
    case DT_I32:
        memcpy(p, &r, 4);
        break;
    case DT_F16:
        h = tk_f32_to_f16(r.f);
        memcpy(p, &h, 2);
        break;
    case DT_BF16:
        h = tk_f32_to_bf16(r.f);
        memcpy(p, &h, 2);
        break;
    case DT_I16:
        h = (uint16_t)r.u;
        memcpy(p, &h, 2);
        break;
    case DT_BOOL:
        *(uint8_t *)p = r.i != 0;
        break;
    default:
        *(uint8_t *)p = (uint8_t)r.u;
    }
}
#endif
