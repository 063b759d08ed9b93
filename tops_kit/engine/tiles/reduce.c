/* Reductions and running sums along an axis. */
#include "exact.h"
#include "rows.h"
#include <math.h>

typedef struct {
    uint8_t *d;
    const uint8_t *a;
    int64_t n, stride; /* along the axis, of `a` */
    int d_dtype, a_dtype;
} line;

static int is_direct(const line *l) { return tk_size[l->a_dtype] == 4 && (l->stride == 4 || l->n == 1); }

/* Elements from i on, at most CHUNK, as 32 bits: in place or in the buffer. */
static const void *part_of(const line *l, int64_t i, int64_t *count, void *buffer) {
    *count = l->n - i < CHUNK ? l->n - i : CHUNK;
    if (is_direct(l)) return l->a + 4 * i;
    fetch(buffer, l->a + i * l->stride, l->stride, *count, l->a_dtype);
    return buffer;
}

static int lane_op(int op) { return op == TK_SUM ? 0 : op == TK_MAX || op == TK_ARGMAX ? 1 : 2; }

static reg reduce_line(int op, const line *l) {
    int ints = !tk_is_float(l->a_dtype), which = lane_op(op);
    if (is_direct(l)) return tk_kernels->reduce[ints][which](l->a, l->n);
    const reg identity[2][3] = {{{.f = 0}, {.f = -INFINITY}, {.f = INFINITY}}, {{.i = 0}, {.i = INT32_MIN}, {.i = INT32_MAX}}};
    reg lanes[32];
    uint32_t buffer[CHUNK];
    for (int j = 0; j < 32; j++) lanes[j] = identity[ints][which];
    for (int64_t i = 0, count; i < l->n; i += count) {
        const void *part = part_of(l, i, &count, buffer);
        tk_kernels->lanes[ints][which](lanes, part, count);
    }
    return tk_kernels->fold[ints][which](lanes);
}

static int64_t find_line(const line *l, reg value) {
    int ints = !tk_is_float(l->a_dtype);
    uint32_t buffer[CHUNK];
    for (int64_t i = 0, count; i < l->n; i += count) {
        const void *part = part_of(l, i, &count, buffer);
        int64_t at = tk_kernels->find[ints](part, count, value);
        if (at < count) return i + at;
    }
    return 0;
}

/* Whether an element is (ANY) not 0, or (ALL) none is 0. */
static int truth_of_line(int op, const line *l) {
    uint32_t buffer[CHUNK];
    uint8_t truth[CHUNK];
    for (int64_t i = 0, count; i < l->n; i += count) {
        const void *part = part_of(l, i, &count, buffer);
        tk_kernels->compare[!tk_is_float(l->a_dtype)][TK_NE - TK_LT][ROW_B](truth, part, &(int32_t){0}, count);
        if (memchr(truth, op == TK_ANY, (size_t)count)) return op == TK_ANY;
    }
    return op == TK_ALL;
}

static void along_last(int op, const line *l) {
    reg result;
    if (op == TK_ANY || op == TK_ALL) {
        result.i = truth_of_line(op, l);
    } else {
        result = reduce_line(op, l);
        if (op == TK_ARGMAX || op == TK_ARGMIN) result.i = (int32_t)find_line(l, result);
    }
    tk_store(l->d, l->d_dtype, result);
}

/* Across rows: each of `count` elements of a row with those of the next one, in order. `row` steps along the axis. */
typedef struct {
    const uint8_t *a;
    int64_t rows, row, stride;
    int dtype;
} sheet;

static void row_of(const sheet *s, int64_t j, int64_t i, int64_t count, void *buffer) {
    fetch(buffer, s->a + j * s->row + i * s->stride, s->stride, count, s->dtype);
}

static void arg_across(int op, const sheet *s, int64_t i, int64_t count, int32_t *where) {
    reg best[CHUNK], next[CHUNK];
    int sign = op == TK_ARGMAX ? 1 : -1, ints = !tk_is_float(s->dtype);
    row_of(s, 0, i, count, best);
    memset(where, 0, (size_t)count * 4);
    for (int64_t j = 1; j < s->rows; j++) {
        row_of(s, j, i, count, next);
        for (int64_t q = 0; q < count; q++) {
            const reg x = next[q], y = best[q];
            int better = sign > 0 ? (ints ? x.i > y.i : x.f > y.f) : (ints ? x.i < y.i : x.f < y.f);
            if (!ints) better |= x.f != x.f && y.f == y.f;
            if (better) best[q] = next[q], where[q] = (int32_t)j;
        }
    }
}

static void truth_across(int op, const sheet *s, int64_t i, int64_t count, int32_t *result) {
    uint32_t next[CHUNK];
    uint8_t truth[CHUNK];
    for (int64_t q = 0; q < count; q++) result[q] = op == TK_ALL;
    for (int64_t j = 0; j < s->rows; j++) {
        row_of(s, j, i, count, next);
        tk_kernels->compare[!tk_is_float(s->dtype)][TK_NE - TK_LT][ROW_B](truth, next, &(int32_t){0}, count);
        for (int64_t q = 0; q < count; q++) result[q] = op == TK_ALL ? result[q] & truth[q] : result[q] | truth[q];
    }
}

static void fold_across(int op, const sheet *s, int64_t i, int64_t count, void *result) {
    uint32_t next[CHUNK];
    int ints = !tk_is_float(s->dtype);
    binary_row *combine = tk_kernels->binary[ints][op == TK_SUM ? TK_ADD : op][0];
    if (op == TK_SUM) memset(result, 0, (size_t)count * 4);
    else row_of(s, 0, i, count, result);
    for (int64_t j = op != TK_SUM; j < s->rows; j++) {
        const uint8_t *row = s->a + j * s->row + i * s->stride;
        if (tk_size[s->dtype] == 4 && s->stride == 4) {
            combine(result, result, row, count);
        } else {
            row_of(s, j, i, count, next);
            combine(result, result, next, count);
        }
    }
    if (!ints) tk_kernels->clean(result, result, count);
}

/* `a` without the axes `drop` and `other` (-1: none), to walk over the rest; p stays. */
static tile without(const tile *a, int drop, int other) {
    tile t = *a;
    t.rank = 0;
    for (int axis = 0; axis < a->rank; axis++) {
        if (axis == drop || axis == other) continue;
        t.n[t.rank] = a->n[axis];
        t.stride[t.rank++] = a->stride[axis];
    }
    return t;
}

static int reduced_type(int op, int a) {
    if (op == TK_SUM) return tk_is_float(a) ? DT_F32 : DT_I32;
    if (op == TK_ARGMAX || op == TK_ARGMIN) return DT_I32;
    return op == TK_ANY || op == TK_ALL ? DT_BOOL : a;
}

static void reduce_all(int op, const tile *d, const tile *a, int axis) {
    int last = a->rank - 1, more = d->rank - a->rank, across = axis != last;
    tile rest_a = without(a, axis, across ? last : -1), rest_d = without(d, axis + more, across ? last + more : -1);
    walk w;
    int64_t index[MAX_AXES] = {0};
    uint8_t *p[WALK_VIEWS];
    walk_make(&w, 2, (const tile *const[]){&rest_d, &rest_a});
    memcpy(p, w.p, sizeof p);
    for (int64_t row = 0; row < w.rows; row++) {
        for (int64_t q = 0; q < w.n[w.axes - 1]; q++) {
            uint8_t *pd = p[0] + q * w.stride[0][w.axes - 1];
            const uint8_t *pa = p[1] + q * w.stride[1][w.axes - 1];
            if (!across) {
                along_last(op, &(line){pd, pa, a->n[axis], a->stride[axis], d->dtype, a->dtype});
                continue;
            }
            sheet s = {pa, a->n[axis], a->stride[axis], a->stride[last], a->dtype};
            uint32_t result[CHUNK];
            for (int64_t i = 0; i < a->n[last]; i += CHUNK) {
                int64_t count = a->n[last] - i < CHUNK ? a->n[last] - i : CHUNK;
                if (op == TK_ARGMAX || op == TK_ARGMIN) arg_across(op, &s, i, count, (int32_t *)result);
                else if (op == TK_ANY || op == TK_ALL) truth_across(op, &s, i, count, (int32_t *)result);
                else fold_across(op, &s, i, count, result);
                put(pd + i * d->stride[last + more], result, d->stride[last + more], count, d->dtype);
            }
        }
        walk_next(&w, index, p);
    }
}

int tk_reduce(int op, tile *d, const tile *a, int axis) {
    tile exact = *d;
    source_copies copies;
    int fault = check_l1(2, (const tile *const[]){d, a});
    if (fault) return fault;
    if (d->dtype != reduced_type(op, a->dtype)) return FAULT_TYPE;
    exact.result = 0;
    if (tk_shape_reduce(&exact, a, axis)) return FAULT_SHAPE;
    if (a->n[axis] == 0 && op != TK_SUM && op != TK_ANY && op != TK_ALL) return FAULT_SHAPE;
    const tile *views[] = {d, a};
    if ((fault = sources_apart(&copies, 2, views, 0))) return fault;
    reduce_all(op, d, views[1], axis);
    sources_free(&copies);
    return FAULT_NONE;
}

static void add_up(reg *sum, int started, const reg *next, reg *out, int64_t n, int ints) {
    reg total = *sum;
    for (int64_t i = 0; i < n; i++) {
        if (ints) total.u = started || i ? total.u + next[i].u : next[i].u;
        else total.f = tk_canonical(started || i ? total.f + next[i].f : next[i].f);
        out[i] = total;
    }
    *sum = total;
}

int tk_cumsum(tile *d, const tile *a, int axis) {
    tile exact = *d;
    source_copies copies;
    int fault = check_l1(2, (const tile *const[]){d, a}), ints = !tk_is_float(a->dtype);
    if (fault) return fault;
    if (d->dtype != a->dtype && d->dtype != (ints ? DT_I32 : DT_F32)) return FAULT_TYPE;
    exact.result = 0;
    if (tk_shape_same(&exact, a) || axis < 0 || axis >= a->rank) return FAULT_SHAPE;
    const tile *views[] = {d, a};
    if ((fault = sources_apart(&copies, 2, views, 1))) return fault;
    a = views[1];
    int last = a->rank - 1, more = d->rank - a->rank, across = axis != last;
    int64_t n = a->n[axis], step_a = a->stride[axis], step_d = d->stride[axis + more];
    tile rest_a = without(a, axis, across ? last : -1), rest_d = without(d, axis + more, across ? last + more : -1);
    walk w;
    int64_t index[MAX_AXES] = {0};
    uint8_t *p[WALK_VIEWS];
    walk_make(&w, 2, (const tile *const[]){&rest_d, &rest_a});
    memcpy(p, w.p, sizeof p);
    for (int64_t row = 0; row < w.rows; row++) {
        for (int64_t q = 0; q < w.n[w.axes - 1]; q++) {
            uint8_t *pd = p[0] + q * w.stride[0][w.axes - 1];
            const uint8_t *pa = p[1] + q * w.stride[1][w.axes - 1];
            reg sum[CHUNK] = {{0}}, next[CHUNK];
            for (int64_t i = 0; i < n && !across; i += CHUNK) {
                int64_t count = n - i < CHUNK ? n - i : CHUNK;
                fetch(next, pa + i * step_a, step_a, count, a->dtype);
                add_up(sum, i > 0, next, next, count, ints);
                put(pd + i * step_d, next, step_d, count, d->dtype);
            }
            for (int64_t i = 0; across && i < a->n[last]; i += CHUNK) {
                int64_t count = a->n[last] - i < CHUNK ? a->n[last] - i : CHUNK;
                int64_t stride_a = a->stride[last], stride_d = d->stride[last + more];
                for (int64_t j = 0; j < n; j++) {
                    fetch(j ? next : sum, pa + j * step_a + i * stride_a, stride_a, count, a->dtype);
                    if (j) tk_kernels->binary[ints][TK_ADD][0](sum, sum, next, count);
                    else if (!ints) tk_kernels->clean(sum, sum, count);
                    put(pd + j * step_d + i * stride_d, sum, stride_d, count, d->dtype);
                }
            }
        }
        walk_next(&w, index, p);
    }
    sources_free(&copies);
    return FAULT_NONE;
}
