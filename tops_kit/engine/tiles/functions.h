/* Functions of f32 over lanes: one definition for tiles, vectors and scalars, of +, -, *, /, sqrt, fma and bits only, so that
   every processor gives the same bits. tiles_twin/functions.py is the same in numpy. Polynomials are minimax fits with f32
   coefficients; n = nearest whole number of x comes from adding 1.5 * 2**23. tiles.h states the errors.

   NaN gives TK_NAN_BITS: what goes wrong for NaN on the way is put right by `f_clean` at the end. */
#ifndef TOPS_TILES_FUNCTIONS_H
#define TOPS_TILES_FUNCTIONS_H

#define ROUNDER 12582912.0f /* 1.5 * 2**23: the sum's last place is 1 */
#define LN2_HIGH 0x1.62e43p-1f
#define LN2_LOW -0x1.05c61p-29f

static inline vf f_nan(void) { return (vf)i_set((int32_t)TK_NAN_BITS); }
static inline vf f_clean(vf x, vf result) { return f_sel(m_nan(x), f_nan(), result); }
static inline vf f_canonical(vf x) { return f_clean(x, x); }
static inline vf f_abs(vf x) { return (vf)((vi)x & INT32_MAX); }
static inline vf f_neg(vf x) { return (vf)((vi)x ^ i_set(INT32_MIN)); }
static inline vf f_with_sign(vf x, vf sign) { return (vf)((vi)x | ((vi)sign & INT32_MIN)); } /* of x >= 0, or with that sign */
static inline vi i_add(vi a, vi b) { return (vi)((vu)a + (vu)b); } /* wraps */
static inline vi i_sub(vi a, vi b) { return (vi)((vu)a - (vu)b); }

/* exp of what is not NaN. Below -104 the result is 0, above 89 infinite. */
static inline vf exp_of(vf x) {
    x = f_sel(m_lt(x, f_set(-104.0f)), f_set(-104.0f), x);
    x = f_sel(m_lt(f_set(89.0f), x), f_set(89.0f), x);
    vf shifted = f_fma(x, f_set(0x1.715476p0f), f_set(ROUNDER)), n = shifted - f_set(ROUNDER);
    vf r = f_fma(n, f_set(-LN2_HIGH), x);
    r = f_fma(n, f_set(-LN2_LOW), r);
    vf q = f_fma(f_set(0x1.696e34p-10f), r, f_set(0x1.123f78p-7f));
    q = f_fma(q, r, f_set(0x1.555a12p-5f));
    q = f_fma(q, r, f_set(0x1.55548ap-3f));
    q = f_fma(q, r, f_set(0x1.fffffap-2f));
    vf sum = f_set(1.0f) + r, rest = r - (sum - f_set(1.0f)); /* exact together */
    vf p = sum + f_fma(q, r * r, rest);
    return f_scale(p, i_sub((vi)shifted, (vi)f_set(ROUNDER)));
}

static inline vf t_exp(vf x) { return f_clean(x, exp_of(x)); }

/* x = m * 2**e with m in [sqrt(1/2), sqrt(2)); log(x) = e * ln 2 + log(1 + f), f = m - 1. */
static inline vf t_log(vf x) {
    const int32_t half_root = 0x3F3504F3; /* the bits of sqrt(1/2) */
    vm tiny = m_lt(x, f_set(0x1p-126f));
    vf scaled = f_sel(tiny, x * f_set(0x1p23f), x);
    vi bits = i_sub((vi)scaled, i_set(half_root)), e = bits >> 23;
    vf f = (vf)((bits & 0x7FFFFF) + half_root) - f_set(1.0f);
    vf count = f_from_i(e) - f_sel(tiny, f_set(23.0f), f_set(0.0f));
    vf q = f_fma(f_set(-0x1.2a6f78p-4f), f, f_set(0x1.015974p-3f));
    q = f_fma(q, f, f_set(-0x1.0e96ccp-3f));
    q = f_fma(q, f, f_set(0x1.239ce2p-3f));
    q = f_fma(q, f, f_set(-0x1.5466fep-3f));
    q = f_fma(q, f, f_set(0x1.99944ep-3f));
    q = f_fma(q, f, f_set(-0x1.000234p-2f));
    q = f_fma(q, f, f_set(0x1.55557p-2f));
    q = f_fma(q, f, f_set(-0.5f));
    vf tail = f_fma(q, f * f, count * f_set(LN2_LOW)) + f;
    vf result = f_fma(count, f_set(LN2_HIGH), tail);
    result = f_sel(m_eq(x, f_set(INFINITY)), x, result);
    result = f_sel(m_eq(x, f_set(0.0f)), f_set(-INFINITY), result);
    result = f_sel(m_lt(x, f_set(0.0f)), f_nan(), result);
    return f_clean(x, result);
}

/* `a // b` as Python has it, of doubles, and `a % b` in *rest: each rounded to f32 once. By 0: a / b, and NaN. */
static float divide_down_one(float x, float y, float *rest) {
    const double a = x, b = y;
    double r = fmod(a, b), q = (a - r) / b;
    if (b == 0) {
        *rest = tk_float(TK_NAN_BITS);
        return x / y;
    }
    if (r == 0) {
        r = copysign(0, b);
    } else if ((r < 0) != (b < 0)) {
        r += b;
        q -= 1;
    }
    if (q == 0) {
        q = copysign(0, a / b);
    } else {
        const double whole = floor(q);
        q = q - whole > 0.5 ? whole + 1 : whole;
    }
    *rest = (float)r;
    return (float)q;
}

/* The same in lanes, to the bit. Up to 2**22 the quotient that is cut off is right, or one too far from 0 where dividing rounded
   up to a whole number; so the fused rest is exact, and its sign tells. Larger quotients and infinite divisors go one by one. */
static inline vf divide_down(vf a, vf b, vf *rest) {
    vf ratio = a / b, size = f_abs(ratio), q = f_with_sign(f_floor(size), ratio), r = f_fma(f_neg(q), b, a);
    vm below = m_lt((vf)((vi)r ^ ((vi)b & INT32_MIN)), f_set(0)); /* its sign is not b's */
    *rest = f_sel(below, r + b, f_with_sign(f_abs(r), b));
    q = f_sel(below, q - f_set(1), q);
    vm other = m_or(m_le(f_set(0x1p22f), size), m_eq(f_abs(b), f_set(INFINITY)));
    if (__builtin_expect(m_any(other), 0)) {
        float as[LANES], bs[LANES], sizes[LANES], qs[LANES], rs[LANES];
        f_store(as, a), f_store(bs, b), f_store(sizes, size), f_store(qs, q), f_store(rs, *rest);
        for (int i = 0; i < LANES; i++) {
            if (sizes[i] >= 0x1p22f || fabsf(bs[i]) == INFINITY) qs[i] = divide_down_one(as[i], bs[i], &rs[i]);
        }
        q = f_load(qs), *rest = f_load(rs);
    }
    return q;
}

static inline vf t_sqrt(vf x) { return f_canonical(f_sqrt(x)); }
static inline vf t_rsqrt(vf x) { return f_canonical(f_set(1.0f) / f_sqrt(x)); }
static inline vf t_recip(vf x) { return f_canonical(f_set(1.0f) / x); }
static inline vf t_floor(vf x) { return f_canonical(f_floor(x)); }
static inline vf t_ceil(vf x) { return f_canonical(f_ceil(x)); }

/* With e = exp(-|x|): 1 / (1 + e); below 0 e / (1 + e), computed as e - e * (e / (1 + e)), which rounds e's own digits once. */
static inline vf t_sigmoid(vf x) {
    vm below = m_lt(x, f_set(0.0f));
    vf e = exp_of(f_neg(f_abs(x))), part = f_sel(below, e, f_set(1.0f)) / (f_set(1.0f) + e);
    return f_clean(x, f_sel(below, f_fma(f_neg(e), part, e), part));
}

/* Below 0.6 a polynomial, above 1 - 2 / (exp(2x) + 1). */
static inline vf t_tanh(vf x) {
    vf size = f_abs(x), s = x * x;
    vf large = f_set(1.0f) - f_set(2.0f) / (exp_of(size + size) + f_set(1.0f));
    vf p = f_fma(f_set(-0x1.828776p-8f), s, f_set(0x1.54c3c2p-6f));
    p = f_fma(p, s, f_set(-0x1.b89abap-5f));
    p = f_fma(p, s, f_set(0x1.1109bep-3f));
    p = f_fma(p, s, f_set(-0x1.55553ep-2f));
    vf small = f_fma(p * s, x, x);
    return f_clean(x, f_with_sign(f_sel(m_lt(size, f_set(0.6f)), small, large), x));
}

/* Below 0.9 a polynomial, above 1 - exp(p(x)), p fitted to log(erfc); from 4 on it is 1. */
static inline vf t_erf(vf x) {
    vf size = f_abs(x), s = x * x, t = f_sel(m_lt(size, f_set(4.0f)), size, f_set(4.0f));
    vf p = f_fma(f_set(0x1.a33924p-13f), t, f_set(-0x1.93f692p-9f));
    p = f_fma(p, t, f_set(0x1.6eb0d2p-6f));
    p = f_fma(p, t, f_set(-0x1.ab024p-4f));
    p = f_fma(p, t, f_set(-0x1.460d5cp-1f));
    p = f_fma(p, t, f_set(-0x1.20bd5cp0f));
    p = f_fma(p, t, f_set(-0x1.2e6f8cp-13f));
    vf large = f_set(1.0f) - exp_of(p);
    vf q = f_fma(f_set(-0x1.3fc37ap-11f), s, f_set(0x1.4890acp-8f));
    q = f_fma(q, s, f_set(-0x1.b6c27ep-6f));
    q = f_fma(q, s, f_set(0x1.ce1df4p-4f));
    q = f_fma(q, s, f_set(-0x1.8126f8p-2f));
    q = f_fma(q, s, f_set(0x1.06eba6p-3f));
    vf small = f_fma(q, x, x);
    return f_clean(x, f_with_sign(f_sel(m_lt(size, f_set(0.9f)), small, large), x));
}

/* The remainder of a large x (finite) in [-pi/4, pi/4], and how many quarter turns were taken out, modulo 4: x = m * 2**e is
   multiplied by those 96 bits of 2/pi that matter, and whole turns fall off at the top. */
static float reduce_large(float x, int32_t *quarters) {
    static const uint32_t two_over_pi[] = {0, 0xA2F9836E, 0x4E441529, 0xFC2757D1, 0xF534DDC0, 0xDB629599, 0x3C439041,
                                           0xFE5163AB, 0xDEBBC561}; /* the first word is left of the point */
    uint32_t bits = tk_bits(x), m = (bits & 0x7FFFFF) | 0x800000, at = (bits >> 23 & 0xFF) - 120; /* e = exponent - 150 */
    const uint32_t *word = two_over_pi + at / 32;
    uint32_t shift = at % 32, w[3];
    for (int i = 0; i < 3; i++) w[i] = (uint32_t)((((uint64_t)word[i] << 32) | word[i + 1]) << shift >> 32);
    uint64_t low = (uint64_t)m * w[2], middle = (uint64_t)m * w[1] + (low >> 32);
    uint64_t turns = (((uint64_t)m * w[0] << 32) + middle); /* in units of 2**-62 quarter turns */
    uint64_t fraction = turns << 2;
    int32_t quarter = (int32_t)(turns >> 62) + (int32_t)(fraction >> 63);
    float r = (float)((double)(int64_t)fraction * 0x1.921fb54442d18p-64);
    *quarters = x < 0 ? -quarter : quarter;
    return x < 0 ? -r : r;
}

/* sin (ahead 0) or cos (ahead 1) of x: quarter turns are taken out in three steps of pi/2 up to LARGE, beyond bit by bit. */
#define LARGE 102943.0f /* 65536 quarter turns, less a little */
static inline vf sine_of(vf x, int32_t ahead) {
    vf shifted = f_fma(x, f_set(0x1.45f306p-1f), f_set(ROUNDER)), n = shifted - f_set(ROUNDER);
    vi quarters = i_sub((vi)shifted, (vi)f_set(ROUNDER));
    vf r = f_fma(n, f_set(-0x1.921fb4p0f), x); /* parts of one sign: -0.0 stays -0.0 */
    r = f_fma(n, f_set(-0x1.4442dp-24f), r);
    r = f_fma(n, f_set(-0x1.84698ap-48f), r);
    vm large = m_lt(f_set(LARGE), f_abs(x));
    if (__builtin_expect(m_any(large), 0)) {
        float xs[LANES], rs[LANES];
        int32_t qs[LANES];
        f_store(xs, x), f_store(rs, r), i_store(qs, quarters);
        for (int i = 0; i < LANES; i++) {
            float size = fabsf(xs[i]);
            if (size > LARGE && size < INFINITY) rs[i] = reduce_large(xs[i], &qs[i]);
        }
        r = f_load(rs), quarters = i_load(qs);
    }
    quarters = i_add(quarters, i_set(ahead));
    vf s = r * r;
    vf p = f_fma(f_set(-0x1.9953fep-13f), s, f_set(0x1.110778p-7f));
    p = f_fma(p, s, f_set(-0x1.555546p-3f));
    vf sine = f_with_sign(f_fma(p * s, r, r), r);
    vf q = f_fma(f_set(0x1.99e91p-16f), s, f_set(-0x1.6c0c2ap-10f));
    q = f_fma(q, s, f_set(0x1.55554ap-5f));
    q = f_fma(q, s, f_set(-0.5f));
    vf cosine = f_fma(q, s, f_set(1.0f));
    vf result = f_sel(m_ine(quarters & 1, i_set(0)), cosine, sine);
    result = (vf)((vi)result ^ ((quarters & 2) << 30));
    return f_sel(m_lt(f_abs(x), f_set(INFINITY)), result, f_nan());
}

static inline vf t_sin(vf x) { return sine_of(x, 0); }
static inline vf t_cos(vf x) { return sine_of(x, 1); }
#endif
