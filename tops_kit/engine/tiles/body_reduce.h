/* Reductions along a row, by 32 lanes whatever LANES is, and searches. Included by tiles_body.h.

   Lane j takes elements j, j + 32, ... in order, from the identity; then the upper half is folded onto the lower one, five times.
   In f32, max and min remember NaN in a mask: the instructions of x86 forget it. */

#define LANE_VECTORS (32 / LANES)
#define UNROLL_LANES _Pragma("GCC unroll 8")

static inline vf fr_sum(vf a, vf b) { return a + b; }
static inline vf fr_max(vf a, vf b) { return f_greater(a, b); }
static inline vf fr_min(vf a, vf b) { return f_lesser(a, b); }

static inline vm m_first_lanes(int64_t n) {
    static const int32_t count[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return m_ilt(i_load(count), i_set((int32_t)n));
}

INLINE void f_lanes(vf *x, const float *a, int64_t n, vf (*op)(vf, vf), int keeps_nan) {
    vm nan[LANE_VECTORS];
    UNROLL_LANES for (int v = 0; v < LANE_VECTORS; v++) nan[v] = keeps_nan ? m_none() : m_nan(x[v]);
    int64_t i = 0;
    for (; i + 32 <= n; i += 32) {
        UNROLL_LANES for (int v = 0; v < LANE_VECTORS; v++) {
            vf y = f_load(a + i + v * LANES);
            x[v] = op(x[v], y);
            if (!keeps_nan) nan[v] = m_or(nan[v], m_nan(y));
        }
    }
    UNROLL_LANES for (int v = 0; v < LANE_VECTORS; v++) {
        int64_t left = n - i - v * LANES;
        if (left <= 0) break;
        vf y = left < LANES ? f_load_n(a + i + v * LANES, left) : f_load(a + i + v * LANES);
        x[v] = f_sel(m_first_lanes(left), op(x[v], y), x[v]);
        if (!keeps_nan) nan[v] = m_or(nan[v], m_nan(y));
    }
    if (!keeps_nan) UNROLL_LANES for (int v = 0; v < LANE_VECTORS; v++) x[v] = f_sel(nan[v], f_nan(), x[v]);
}

INLINE void i_lanes(vi *x, const int32_t *a, int64_t n, vi (*op)(vi, vi), int unused) {
    (void)unused;
    int64_t i = 0;
    for (; i + 32 <= n; i += 32)
        UNROLL_LANES for (int v = 0; v < LANE_VECTORS; v++) x[v] = op(x[v], i_load(a + i + v * LANES));
    UNROLL_LANES for (int v = 0; v < LANE_VECTORS; v++) {
        int64_t left = n - i - v * LANES;
        if (left <= 0) break;
        vi y = left < LANES ? i_load_n(a + i + v * LANES, left) : i_load(a + i + v * LANES);
        x[v] = i_sel(m_first_lanes(left), op(x[v], y), x[v]);
    }
}

/* x[j] = op(x[j], x[j + h]) for h = 16, 8, 4, 2, 1. Here op keeps NaN. */
INLINE reg f_fold(vf *x, vf (*op)(vf, vf)) {
    for (int h = LANE_VECTORS / 2; h > 0; h /= 2)
        UNROLL_LANES for (int v = 0; v < h; v++) x[v] = op(x[v], x[v + h]);
    vf last = x[0];
    UNROLL_LANES for (int h = LANES / 2; h > 0; h /= 2) last = op(last, f_down(last, h));
    return (reg){.f = f_canonical(last)[0]};
}
INLINE reg i_fold(vi *x, vi (*op)(vi, vi)) {
    for (int h = LANE_VECTORS / 2; h > 0; h /= 2)
        UNROLL_LANES for (int v = 0; v < h; v++) x[v] = op(x[v], x[v + h]);
    vi last = x[0];
    UNROLL_LANES for (int h = LANES / 2; h > 0; h /= 2) last = op(last, i_down(last, h));
    return (reg){.i = last[0]};
}

#define REDUCTION(x, v, name, identity, accumulate, fold_op, keeps_nan)                                     \
    static void lanes_##x##_##name(void *lanes, const void *a, int64_t n) {                                 \
        v state[LANE_VECTORS];                                                                              \
        UNROLL_LANES for (int i = 0; i < LANE_VECTORS; i++) state[i] = x##_load((uint8_t *)lanes + 4 * LANES * i); \
        x##_lanes(state, a, n, accumulate, keeps_nan);                                                      \
        UNROLL_LANES for (int i = 0; i < LANE_VECTORS; i++) x##_store((uint8_t *)lanes + 4 * LANES * i, state[i]); \
    }                                                                                                       \
    static reg fold_##x##_##name(void *lanes) {                                                             \
        v state[LANE_VECTORS];                                                                              \
        UNROLL_LANES for (int i = 0; i < LANE_VECTORS; i++) state[i] = x##_load((uint8_t *)lanes + 4 * LANES * i); \
        return x##_fold(state, fold_op);                                                                    \
    }                                                                                                       \
    static reg reduce_##x##_##name(const void *a, int64_t n) {                                              \
        v state[LANE_VECTORS];                                                                              \
        UNROLL_LANES for (int i = 0; i < LANE_VECTORS; i++) state[i] = x##_set(identity);                   \
        x##_lanes(state, a, n, accumulate, keeps_nan);                                                      \
        return x##_fold(state, fold_op);                                                                    \
    }
REDUCTION(f, vf, sum, 0.0f, fr_sum, fr_sum, 1)
REDUCTION(f, vf, max, -INFINITY, fr_max, fo_max, 0)
REDUCTION(f, vf, min, INFINITY, fr_min, fo_min, 0)
REDUCTION(i, vi, sum, 0, io_add, io_add, 1)
REDUCTION(i, vi, max, INT32_MIN, io_max, io_max, 1)
REDUCTION(i, vi, min, INT32_MAX, io_min, io_min, 1)

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
