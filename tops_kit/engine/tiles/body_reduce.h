/* Reductions along a row, by 32 lanes whatever LANES is, and searches. Included by tiles_body.h.

   Lane j takes elements j, j + 32, ... in order, from the identity; then the upper half is folded onto the lower one, five times.
   In f32, max and min remember NaN in a mask: the instructions of x86 forget it. Where one was met the result is NaN. */

#define LANE_VECTORS (32 / LANES)
#define UNROLL_LANES _Pragma("GCC unroll 8")

static inline vf fr_sum(vf a, vf b) { return a + b; }

static inline vm m_first_lanes(int64_t n) {
    static const int32_t count[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return m_ilt(i_load(count), i_set((int32_t)n));
}

/* The mask of NaN met is returned; not for sums, which keep it themselves. */
INLINE vm f_lanes(vf *x, const float *a, int64_t n, vf (*op)(vf, vf), int keeps_nan) {
    vm nan[LANE_VECTORS];
    UNROLL_LANES for (int v = 0; v < LANE_VECTORS; v++) nan[v] = m_none();
    int64_t i = 0;
    for (; i + 32 <= n; i += 32) {
        UNROLL_LANES for (int v = 0; v < LANE_VECTORS; v++) {
            vf y = f_load(a + i + v * LANES);
            x[v] = op(x[v], y);
            if (!keeps_nan) nan[v] = m_or(nan[v], m_nan(y));
        }
    }
    if (i < n) {
        UNROLL_LANES for (int v = 0; v < LANE_VECTORS; v++) {
            int64_t left = n - i - v * LANES;
            if (left <= 0) break;
            vf y = left < LANES ? f_load_n(a + i + v * LANES, left) : f_load(a + i + v * LANES);
            x[v] = f_sel(m_first_lanes(left), op(x[v], y), x[v]);
            if (!keeps_nan) nan[v] = m_or(nan[v], m_nan(y));
        }
    }
    for (int h = LANE_VECTORS / 2; h > 0 && !keeps_nan; h /= 2)
        UNROLL_LANES for (int v = 0; v < h; v++) nan[v] = m_or(nan[v], nan[v + h]);
    return nan[0];
}

INLINE vm i_lanes(vi *x, const int32_t *a, int64_t n, vi (*op)(vi, vi), int keeps_nan) {
    (void)keeps_nan;
    int64_t i = 0;
    for (; i + 32 <= n; i += 32)
        UNROLL_LANES for (int v = 0; v < LANE_VECTORS; v++) x[v] = op(x[v], i_load(a + i + v * LANES));
    if (i < n) {
        UNROLL_LANES for (int v = 0; v < LANE_VECTORS; v++) {
            int64_t left = n - i - v * LANES;
            if (left <= 0) break;
            vi y = left < LANES ? i_load_n(a + i + v * LANES, left) : i_load(a + i + v * LANES);
            x[v] = i_sel(m_first_lanes(left), op(x[v], y), x[v]);
        }
    }
    return m_none();
}

/* x[j] = op(x[j], x[j + h]) for h = 16, 8, 4, 2, 1. */
INLINE reg f_fold(vf *x, vf (*op)(vf, vf), vm nan) {
    for (int h = LANE_VECTORS / 2; h > 0; h /= 2)
        UNROLL_LANES for (int v = 0; v < h; v++) x[v] = op(x[v], x[v + h]);
    vf last = x[0];
    UNROLL_LANES for (int h = LANES / 2; h > 0; h /= 2) last = op(last, f_down(last, h));
    float result = last[0];
    return (reg){.f = m_any(nan) ? tk_float(TK_NAN_BITS) : tk_canonical(result)};
}
INLINE reg i_fold(vi *x, vi (*op)(vi, vi), vm nan) {
    (void)nan;
    for (int h = LANE_VECTORS / 2; h > 0; h /= 2)
        UNROLL_LANES for (int v = 0; v < h; v++) x[v] = op(x[v], x[v + h]);
    vi last = x[0];
    UNROLL_LANES for (int h = LANES / 2; h > 0; h /= 2) last = op(last, i_down(last, h));
    return (reg){.i = last[0]};
}

/* Rows that come in parts keep their lanes in memory, and NaN there too. */
INLINE void f_keep(vf *x, vm nan) {
    if (m_any(nan)) x[0] = f_nan();
}
INLINE void i_keep(vi *x, vm nan) { (void)x, (void)nan; }
INLINE vm f_nan_of(const vf *x) {
    vm nan = m_none();
    UNROLL_LANES for (int v = 0; v < LANE_VECTORS; v++) nan = m_or(nan, m_nan(x[v]));
    return nan;
}
INLINE vm i_nan_of(const vi *x) {
    (void)x;
    return m_none();
}

#define REDUCTION(x, v, name, identity, op, keeps_nan)                                                      \
    static void lanes_##x##_##name(void *lanes, const void *a, int64_t n) {                                 \
        v state[LANE_VECTORS];                                                                              \
        UNROLL_LANES for (int i = 0; i < LANE_VECTORS; i++) state[i] = x##_load((uint8_t *)lanes + 4 * LANES * i); \
        vm nan = x##_nan_of(state);                                                                         \
        x##_keep(state, m_or(nan, x##_lanes(state, a, n, op, keeps_nan)));                                  \
        UNROLL_LANES for (int i = 0; i < LANE_VECTORS; i++) x##_store((uint8_t *)lanes + 4 * LANES * i, state[i]); \
    }                                                                                                       \
    static reg fold_##x##_##name(void *lanes) {                                                             \
        v state[LANE_VECTORS];                                                                              \
        UNROLL_LANES for (int i = 0; i < LANE_VECTORS; i++) state[i] = x##_load((uint8_t *)lanes + 4 * LANES * i); \
        return x##_fold(state, op, x##_nan_of(state));                                                      \
    }                                                                                                       \
    static reg reduce_##x##_##name(const void *a, int64_t n) {                                              \
        v state[LANE_VECTORS];                                                                              \
        UNROLL_LANES for (int i = 0; i < LANE_VECTORS; i++) state[i] = x##_set(identity);                   \
        vm nan = x##_lanes(state, a, n, op, keeps_nan);                                                     \
        return x##_fold(state, op, nan);                                                                    \
    }
REDUCTION(f, vf, sum, 0.0f, fr_sum, 1)
REDUCTION(f, vf, max, -INFINITY, f_greater, 0)
REDUCTION(f, vf, min, INFINITY, f_lesser, 0)
REDUCTION(i, vi, sum, 0, io_add, 1)
REDUCTION(i, vi, max, INT32_MIN, io_max, 1)
REDUCTION(i, vi, min, INT32_MAX, io_min, 1)

static int64_t find_f(const void *row, int64_t n, reg value) {
    const float *a = row;
    int search_nan = value.f != value.f;
    vf sought = f_set(value.f);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        vf y = f_load(a + i);
        vm hit = search_nan ? m_nan(y) : m_eq(y, sought);
        if (m_any(hit)) return i + m_first(hit);
    }
    for (; i < n; i++)
        if (search_nan ? a[i] != a[i] : a[i] == value.f) return i;
    return n;
}

static int64_t find_i(const void *row, int64_t n, reg value) {
    const int32_t *a = row;
    vi sought = i_set(value.i);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        vm hit = m_ieq(i_load(a + i), sought);
        if (m_any(hit)) return i + m_first(hit);
    }
    for (; i < n; i++)
        if (a[i] == value.i) return i;
    return n;
}
