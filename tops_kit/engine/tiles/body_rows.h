/* Rows by elements: binary, compare, unary, fma, select, conversions. Included by tiles_body.h.

   A loop over rows is written once and takes its operation as a constant function pointer, which the compiler inlines. */

#define INLINE static inline __attribute__((always_inline))

/* Operations on lanes. */
static inline vf fo_add(vf a, vf b) { return f_canonical(a + b); }
static inline vf fo_sub(vf a, vf b) { return f_canonical(a - b); }
static inline vf fo_mul(vf a, vf b) { return f_canonical(a * b); }
static inline vf fo_div(vf a, vf b) { return f_canonical(a / b); }
static inline vf fo_min(vf a, vf b) { return f_sel(m_nan2(a, b), f_nan(), f_lesser(a, b)); }
static inline vf fo_max(vf a, vf b) { return f_sel(m_nan2(a, b), f_nan(), f_greater(a, b)); }
static inline vf fo_floordiv(vf a, vf b) {
    vf rest;
    return f_canonical(divide_down(a, b, &rest));
}
static inline vf fo_mod(vf a, vf b) {
    vf rest;
    (void)divide_down(a, b, &rest);
    return f_canonical(rest);
}
static inline vi io_add(vi a, vi b) { return i_add(a, b); }
static inline vi io_sub(vi a, vi b) { return i_sub(a, b); }
static inline vi io_mul(vi a, vi b) { return (vi)((vu)a * (vu)b); }
static inline vi io_min(vi a, vi b) { return i_sel(m_ilt(a, b), a, b); }
static inline vi io_max(vi a, vi b) { return i_sel(m_ilt(b, a), a, b); }
static inline vi io_and(vi a, vi b) { return a & b; }
static inline vi io_or(vi a, vi b) { return a | b; }
static inline vi io_xor(vi a, vi b) { return a ^ b; }
static inline vi io_shl(vi a, vi b) { return (vi)((vu)a << (vu)(b & 31)); }
static inline vi io_shr(vi a, vi b) { return a >> (b & 31); }

static inline vm fc_lt(vf a, vf b) { return m_lt(a, b); }
static inline vm fc_le(vf a, vf b) { return m_le(a, b); }
static inline vm fc_gt(vf a, vf b) { return m_lt(b, a); }
static inline vm fc_ge(vf a, vf b) { return m_le(b, a); }
static inline vm fc_eq(vf a, vf b) { return m_eq(a, b); }
static inline vm fc_ne(vf a, vf b) { return m_ne(a, b); }
static inline vm ic_lt(vi a, vi b) { return m_ilt(a, b); }
static inline vm ic_le(vi a, vi b) { return m_ile(a, b); }
static inline vm ic_gt(vi a, vi b) { return m_ilt(b, a); }
static inline vm ic_ge(vi a, vi b) { return m_ile(b, a); }
static inline vm ic_eq(vi a, vi b) { return m_ieq(a, b); }
static inline vm ic_ne(vi a, vi b) { return m_ine(a, b); }

static inline vi iu_neg(vi a) { return i_sub(i_set(0), a); }
static inline vi iu_abs(vi a) { return i_sel(m_ilt(a, i_set(0)), iu_neg(a), a); }
static inline vi iu_not(vi a) { return ~a; }
static inline vf f_multiply_add(vf a, vf b, vf c) { return f_canonical(f_fma(a, b, c)); }
static inline vi i_multiply_add(vi a, vi b, vi c) { return i_add(io_mul(a, b), c); }

INLINE vf f_one(const void *p) { return f_set(*(const float *)p); }
INLINE vi i_one(const void *p) { return i_set(*(const int32_t *)p); }

/* The row loops for floats and for ints: x is f or i, v its vector. */
#define ROW_LOOPS(x, v)                                                                                                     \
    INLINE void x##_binary(uint8_t *d, const uint8_t *a, const uint8_t *b, int64_t n, int single, v (*op)(v, v)) {          \
        v va = x##_set(0), vb = va;                                                                                         \
        if (single & ROW_A) va = x##_one(a);                                                                                \
        if (single & ROW_B) vb = x##_one(b);                                                                                \
        int64_t i = 0;                                                                                                      \
        for (; i + LANES <= n; i += LANES) {                                                                                \
            if (!(single & ROW_A)) va = x##_load(a + 4 * i);                                                                \
            if (!(single & ROW_B)) vb = x##_load(b + 4 * i);                                                                \
            x##_store(d + 4 * i, op(va, vb));                                                                               \
        }                                                                                                                   \
        if (i == n) return;                                                                                                 \
        if (!(single & ROW_A)) va = x##_load_n(a + 4 * i, n - i);                                                           \
        if (!(single & ROW_B)) vb = x##_load_n(b + 4 * i, n - i);                                                           \
        x##_store_n(d + 4 * i, op(va, vb), n - i);                                                                          \
    }                                                                                                                       \
    INLINE void x##_compare(uint8_t *d, const uint8_t *a, const uint8_t *b, int64_t n, int single, vm (*op)(v, v)) {        \
        v va = x##_set(0), vb = va;                                                                                         \
        if (single & ROW_A) va = x##_one(a);                                                                                \
        if (single & ROW_B) vb = x##_one(b);                                                                                \
        int64_t i = 0;                                                                                                      \
        for (; i + LANES <= n; i += LANES) {                                                                                \
            if (!(single & ROW_A)) va = x##_load(a + 4 * i);                                                                \
            if (!(single & ROW_B)) vb = x##_load(b + 4 * i);                                                                \
            m_store_bool(d + i, op(va, vb));                                                                                \
        }                                                                                                                   \
        if (i == n) return;                                                                                                 \
        if (!(single & ROW_A)) va = x##_load_n(a + 4 * i, n - i);                                                           \
        if (!(single & ROW_B)) vb = x##_load_n(b + 4 * i, n - i);                                                           \
        uint8_t tail[LANES];                                                                                                \
        m_store_bool(tail, op(va, vb));                                                                                     \
        for (int64_t j = i; j < n; j++) d[j] = tail[j - i];                                                                 \
    }                                                                                                                       \
    INLINE void x##_unary(uint8_t *d, const uint8_t *a, int64_t n, v (*op)(v)) {                                            \
        int64_t i = 0;                                                                                                      \
        for (; i + LANES <= n; i += LANES) x##_store(d + 4 * i, op(x##_load(a + 4 * i)));                                   \
        if (i < n) x##_store_n(d + 4 * i, op(x##_load_n(a + 4 * i, n - i)), n - i);                                         \
    }                                                                                                                       \
    INLINE void x##_ternary(uint8_t *d, const uint8_t *a, const uint8_t *b, const uint8_t *c, int64_t n, int single,        \
                            v (*op)(v, v, v)) {                                                                             \
        v va = x##_set(0), vb = va, vc = va;                                                                                \
        if (single & ROW_A) va = x##_one(a);                                                                                \
        if (single & ROW_B) vb = x##_one(b);                                                                                \
        if (single & ROW_C) vc = x##_one(c);                                                                                \
        int64_t i = 0;                                                                                                      \
        for (; i + LANES <= n; i += LANES) {                                                                                \
            if (!(single & ROW_A)) va = x##_load(a + 4 * i);                                                                \
            if (!(single & ROW_B)) vb = x##_load(b + 4 * i);                                                                \
            if (!(single & ROW_C)) vc = x##_load(c + 4 * i);                                                                \
            x##_store(d + 4 * i, op(va, vb, vc));                                                                           \
        }                                                                                                                   \
        if (i == n) return;                                                                                                 \
        if (!(single & ROW_A)) va = x##_load_n(a + 4 * i, n - i);                                                           \
        if (!(single & ROW_B)) vb = x##_load_n(b + 4 * i, n - i);                                                           \
        if (!(single & ROW_C)) vc = x##_load_n(c + 4 * i, n - i);                                                           \
        x##_store_n(d + 4 * i, op(va, vb, vc), n - i);                                                                      \
    }
ROW_LOOPS(f, vf)
ROW_LOOPS(i, vi)

/* The functions that the table of kernels points to. */
#define ROW_BINARY(row, loop, op, single) \
    static void row(void *d, const void *a, const void *b, int64_t n) { loop(d, a, b, n, single, op); }
#define ROWS_BINARY(kind, loop, name)                             \
    ROW_BINARY(row_##kind##_##name, loop, kind##_##name, 0)       \
    ROW_BINARY(row_##kind##_##name##_a, loop, kind##_##name, ROW_A) \
    ROW_BINARY(row_##kind##_##name##_b, loop, kind##_##name, ROW_B)
#define FORMS(kind, name) {row_##kind##_##name, row_##kind##_##name##_a, row_##kind##_##name##_b}
#define NO_FORMS {NULL, NULL, NULL}

ROWS_BINARY(fo, f_binary, add)
ROWS_BINARY(fo, f_binary, sub)
ROWS_BINARY(fo, f_binary, mul)
ROWS_BINARY(fo, f_binary, div)
ROWS_BINARY(fo, f_binary, min)
ROWS_BINARY(fo, f_binary, max)
ROWS_BINARY(fo, f_binary, floordiv)
ROWS_BINARY(fo, f_binary, mod)
ROWS_BINARY(io, i_binary, add)
ROWS_BINARY(io, i_binary, sub)
ROWS_BINARY(io, i_binary, mul)
ROWS_BINARY(io, i_binary, min)
ROWS_BINARY(io, i_binary, max)
ROWS_BINARY(io, i_binary, and)
ROWS_BINARY(io, i_binary, or)
ROWS_BINARY(io, i_binary, xor)
ROWS_BINARY(io, i_binary, shl)
ROWS_BINARY(io, i_binary, shr)
ROWS_BINARY(fc, f_compare, lt)
ROWS_BINARY(fc, f_compare, le)
ROWS_BINARY(fc, f_compare, gt)
ROWS_BINARY(fc, f_compare, ge)
ROWS_BINARY(fc, f_compare, eq)
ROWS_BINARY(fc, f_compare, ne)
ROWS_BINARY(ic, i_compare, lt)
ROWS_BINARY(ic, i_compare, le)
ROWS_BINARY(ic, i_compare, gt)
ROWS_BINARY(ic, i_compare, ge)
ROWS_BINARY(ic, i_compare, eq)
ROWS_BINARY(ic, i_compare, ne)

/* Integer division has no lanes. The divisors were looked at before: none is 0. */
#define ROWS_DIVIDE(name, function)                                                                                   \
    INLINE void divide_##name(int32_t *d, const int32_t *a, const int32_t *b, int64_t n, int single) {                \
        for (int64_t i = 0; i < n; i++) d[i] = function(a[single & ROW_A ? 0 : i], b[single & ROW_B ? 0 : i]);        \
    }                                                                                                                 \
    static void row_io_##name(void *d, const void *a, const void *b, int64_t n) { divide_##name(d, a, b, n, 0); }     \
    static void row_io_##name##_a(void *d, const void *a, const void *b, int64_t n) { divide_##name(d, a, b, n, ROW_A); } \
    static void row_io_##name##_b(void *d, const void *a, const void *b, int64_t n) { divide_##name(d, a, b, n, ROW_B); }
ROWS_DIVIDE(floordiv, idiv_floor)
ROWS_DIVIDE(mod, imod_floor)

#define ROWS_UNARY(name, loop, function) \
    static void row_##name(void *d, const void *a, int64_t n) { loop(d, a, n, function); }
ROWS_UNARY(f_neg, f_unary, f_neg)
ROWS_UNARY(f_abs, f_unary, f_abs)
ROWS_UNARY(exp, f_unary, t_exp)
ROWS_UNARY(log, f_unary, t_log)
ROWS_UNARY(sqrt, f_unary, t_sqrt)
ROWS_UNARY(rsqrt, f_unary, t_rsqrt)
ROWS_UNARY(tanh, f_unary, t_tanh)
ROWS_UNARY(erf, f_unary, t_erf)
ROWS_UNARY(sigmoid, f_unary, t_sigmoid)
ROWS_UNARY(sin, f_unary, t_sin)
ROWS_UNARY(cos, f_unary, t_cos)
ROWS_UNARY(floor, f_unary, t_floor)
ROWS_UNARY(ceil, f_unary, t_ceil)
ROWS_UNARY(recip, f_unary, t_recip)
ROWS_UNARY(clean, f_unary, f_canonical)
ROWS_UNARY(i_neg, i_unary, iu_neg)
ROWS_UNARY(i_abs, i_unary, iu_abs)
ROWS_UNARY(i_not, i_unary, iu_not)

#define TERNARY_CASE(loop, op, single) \
    case single: loop(d, a, b, c, n, single, op); break;
#define ROWS_TERNARY(name, loop, op)                                                                                         \
    static void name(void *d, const void *a, const void *b, const void *c, int64_t n, int single) {                          \
        switch (single) {                                                                                                    \
            TERNARY_CASE(loop, op, 0) TERNARY_CASE(loop, op, 1) TERNARY_CASE(loop, op, 2) TERNARY_CASE(loop, op, 3)          \
            TERNARY_CASE(loop, op, 4) TERNARY_CASE(loop, op, 5) TERNARY_CASE(loop, op, 6) TERNARY_CASE(loop, op, 7)          \
        }                                                                                                                    \
    }
ROWS_TERNARY(row_f_fma, f_ternary, f_multiply_add)
ROWS_TERNARY(row_i_fma, i_ternary, i_multiply_add)

/* a where c, else b. */
INLINE void select4(int32_t *d, const uint8_t *c, const int32_t *a, const int32_t *b, int64_t n, int single) {
    int64_t i = 0;
    vi va = i_set(0), vb = va;
    if (single & ROW_A) va = i_set(*a);
    if (single & ROW_B) vb = i_set(*b);
    for (; i + LANES <= n; i += LANES) {
        if (!(single & ROW_A)) va = i_load(a + i);
        if (!(single & ROW_B)) vb = i_load(b + i);
        i_store(d + i, i_sel(m_load_bool(c + i), va, vb));
    }
    for (; i < n; i++) d[i] = c[i] ? a[single & ROW_A ? 0 : i] : b[single & ROW_B ? 0 : i];
}
#define SELECT_NARROW(name, type)                                                                          \
    INLINE void name(type *d, const uint8_t *c, const type *a, const type *b, int64_t n, int single) {     \
        for (int64_t i = 0; i < n; i++) {                                                                  \
            type mask = (type)-(c[i] != 0);                                                                \
            d[i] = (type)((a[single & ROW_A ? 0 : i] & mask) | (b[single & ROW_B ? 0 : i] & ~mask));       \
        }                                                                                                  \
    }
SELECT_NARROW(select1, uint8_t)
SELECT_NARROW(select2, uint16_t)

#define ROWS_SELECT(name, loop)                                                                                           \
    static void name(void *d, const uint8_t *c, const void *a, const void *b, int64_t n, int single) {                    \
        switch (single) {                                                                                                 \
        case 0: loop(d, c, a, b, n, 0); break;                                                                            \
        case ROW_A: loop(d, c, a, b, n, ROW_A); break;                                                                    \
        case ROW_B: loop(d, c, a, b, n, ROW_B); break;                                                                    \
        default: loop(d, c, a, b, n, ROW_A | ROW_B); break;                                                               \
        }                                                                                                                 \
    }
ROWS_SELECT(row_select1, select1)
ROWS_SELECT(row_select2, select2)
ROWS_SELECT(row_select4, select4)

/* Conversions of rows. The tail goes through whole vectors in a corner of the stack. */
INLINE void f_widen(float *d, const uint8_t *a, int64_t n, int size, vf (*load)(const void *)) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) f_store(d + i, load(a + size * i));
    if (i == n) return;
    uint8_t tail[4 * LANES] = {0};
    memcpy(tail, a + size * i, (size_t)(size * (n - i)));
    f_store_n(d + i, load(tail), n - i);
}
INLINE void i_widen(int32_t *d, const uint8_t *a, int64_t n, int size, vi (*load)(const void *)) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) i_store(d + i, load(a + size * i));
    if (i == n) return;
    uint8_t tail[4 * LANES] = {0};
    memcpy(tail, a + size * i, (size_t)(size * (n - i)));
    i_store_n(d + i, load(tail), n - i);
}
INLINE void f_narrow(uint8_t *d, const float *a, int64_t n, int size, void (*store)(void *, vf)) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) store(d + size * i, f_load(a + i));
    if (i == n) return;
    uint8_t tail[4 * LANES];
    store(tail, f_load_n(a + i, n - i));
    memcpy(d + size * i, tail, (size_t)(size * (n - i)));
}
INLINE void i_narrow(uint8_t *d, const int32_t *a, int64_t n, int size, void (*store)(void *, vi)) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) store(d + size * i, i_load(a + i));
    if (i == n) return;
    uint8_t tail[4 * LANES];
    store(tail, i_load_n(a + i, n - i));
    memcpy(d + size * i, tail, (size_t)(size * (n - i)));
}
static inline vi i_load_bool(const void *p) { return i_sel(m_load_bool(p), i_set(1), i_set(0)); }
static inline void i_store_bool(void *p, vi v) { m_store_bool(p, m_ine(v, i_set(0))); }
static void widen_f16(void *d, const void *a, int64_t n) { f_widen(d, a, n, 2, f_load_f16); }
static void widen_bf16(void *d, const void *a, int64_t n) { f_widen(d, a, n, 2, f_load_bf16); }
static void widen_i8(void *d, const void *a, int64_t n) { i_widen(d, a, n, 1, i_load_i8); }
static void widen_u8(void *d, const void *a, int64_t n) { i_widen(d, a, n, 1, i_load_u8); }
static void widen_i16(void *d, const void *a, int64_t n) { i_widen(d, a, n, 2, i_load_i16); }
static void widen_bool(void *d, const void *a, int64_t n) { i_widen(d, a, n, 1, i_load_bool); }
static void narrow_f16(void *d, const void *a, int64_t n) { f_narrow(d, a, n, 2, f_store_f16); }
static void narrow_bf16(void *d, const void *a, int64_t n) { f_narrow(d, a, n, 2, f_store_bf16); }
static void narrow_8(void *d, const void *a, int64_t n) { i_narrow(d, a, n, 1, i_store_8); }
static void narrow_16(void *d, const void *a, int64_t n) { i_narrow(d, a, n, 2, i_store_16); }
static void narrow_bool(void *d, const void *a, int64_t n) { i_narrow(d, a, n, 1, i_store_bool); }

/* Towards 0, saturating, NaN to 0. */
static inline vi i_truncate(vf x) {
    vi r = i_from_f(f_sel(m_lt(f_abs(x), f_set(0x1p31f)), x, f_set(0)));
    r = i_sel(m_le(f_set(0x1p31f), x), i_set(INT32_MAX), r);
    return i_sel(m_le(x, f_set(-0x1p31f)), i_set(INT32_MIN), r);
}
static void row_f_to_i(void *d, const void *a, int64_t n) {
    int32_t *pd = d;
    const float *pa = a;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) i_store(pd + i, i_truncate(f_load(pa + i)));
    if (i < n) i_store_n(pd + i, i_truncate(f_load_n(pa + i, n - i)), n - i);
}
static void row_i_to_f(void *d, const void *a, int64_t n) {
    float *pd = d;
    const int32_t *pa = a;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) f_store(pd + i, f_from_i(i_load(pa + i)));
    if (i < n) f_store_n(pd + i, f_from_i(i_load_n(pa + i, n - i)), n - i);
}
