#include "footprint.h"
#include "../tiles/elements.h"

static void swap(int64_t *x, int64_t *y) {
    const int64_t kept = *x;
    *x = *y;
    *y = kept;
}

bool footprint_of(footprint *f, const tile *view, int32_t region, const uint8_t *base) {
    footprint_row(f, region, (int64_t)((uintptr_t)view->p - (uintptr_t)base), tk_size[view->dtype]);
    int64_t n[MAX_AXES], stride[MAX_AXES];
    int axes = 0;
    for (int k = view->rank; k-- > 0;) {
        const int64_t count = (int64_t)view->hi[k] - view->lo[k];
        if (count <= 0) return false;
        int64_t step = view->stride[k];
        f->start += view->lo[k] * step;
        if (step < 0) {
            f->start += (count - 1) * step;
            step = -step;
        }
        if (count == 1 || step == 0) continue;
        int at = axes++;
        n[at] = count;
        stride[at] = step;
        for (; at > 0 && stride[at] < stride[at - 1]; at--) {
            swap(&n[at], &n[at - 1]);
            swap(&stride[at], &stride[at - 1]);
        }
    }
    int axis = 0;
    for (; axis < axes && stride[axis] <= f->row_bytes; axis++) f->row_bytes += (n[axis] - 1) * stride[axis];
    f->end = f->start + f->row_bytes;
    for (; axis < axes; axis++) {
        f->end += (n[axis] - 1) * stride[axis];
        if (f->axes && stride[axis] == f->axis[f->axes - 1].n * f->axis[f->axes - 1].stride) {
            f->axis[f->axes - 1].n *= n[axis];
            continue;
        }
        f->axis[f->axes].n = n[axis];
        f->axis[f->axes++].stride = stride[axis];
    }
    return true;
}

static int64_t floor_divided(int64_t a, int64_t b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t greatest(int64_t a, int64_t b) { return a > b ? a : b; }

/* Rows along one axis, or a single one (n 1, stride 1). */
typedef struct {
    int64_t start, bytes, n, stride;
} rows;

static rows rows_of(const footprint *f, int axes, int64_t start) {
    return axes ? (rows){start, f->row_bytes, f->axis[0].n, f->axis[0].stride} : (rows){start, f->row_bytes, 1, 1};
}

static bool rows_common(int64_t x, int64_t x_bytes, int64_t y, int64_t y_bytes, int64_t *from, int64_t *to) {
    *from = greatest(x, y);
    *to = least(x + x_bytes, y + y_bytes);
    return *from < *to;
}

/* Rows at the same distance, or one of the two a single row: row i of x meets row j of y when j - i lies in a range. */
static bool even_rows_meet(const rows *x, const rows *y, int64_t *from, int64_t *to) {
    const int64_t stride = x->n > 1 ? x->stride : y->stride, ahead = y->start - x->start;
    const int64_t low = greatest(floor_divided(-y->bytes - ahead, stride) + 1, 1 - x->n);
    const int64_t high = least(floor_divided(x->bytes - 1 - ahead, stride), y->n - 1);
    if (low > high) return false;
    const int64_t apart = low <= 0 && high >= 0 ? 0 : low > 0 ? low : high;
    const int64_t i = greatest(0, -apart);
    return rows_common(x->start + i * stride, x->bytes, y->start + (i + apart) * stride, y->bytes, from, to);
}

static bool rows_meet(const rows *x, const rows *y, int64_t *from, int64_t *to, int64_t *work) {
    if (x->n == 1 || y->n == 1 || x->stride == y->stride) return even_rows_meet(x, y, from, to);
    const rows *const few = x->n <= y->n ? x : y, *const many = few == x ? y : x;
    /* only rows within the other's hull */
    const int64_t end = many->start + (many->n - 1) * many->stride + many->bytes;
    const int64_t first = greatest(0, floor_divided(many->start - few->start - few->bytes, few->stride) + 1);
    const int64_t last = least(few->n - 1, floor_divided(end - 1 - few->start, few->stride));
    for (int64_t i = first; i <= last && (*work)-- > 0; i++) {
        const rows one = {few->start + i * few->stride, few->bytes, 1, 1};
        if (even_rows_meet(&one, many, from, to)) return true;
    }
    return false;
}

static int64_t span(const footprint *f, int axes) {
    int64_t bytes = f->row_bytes;
    for (int k = 0; k < axes; k++) bytes += (f->axis[k].n - 1) * f->axis[k].stride;
    return bytes;
}

static bool meet(const footprint *x, int x_axes, int64_t x_start, const footprint *y, int y_axes, int64_t y_start, int64_t *from,
                 int64_t *to, int64_t *work) {
    const int64_t y_end = y_start + span(y, y_axes);
    if (--*work < 0 || x_start >= y_end || y_start >= x_start + span(x, x_axes)) return false;
    if (x_axes <= 1 && y_axes <= 1) {
        const rows a = rows_of(x, x_axes, x_start), b = rows_of(y, y_axes, y_start);
        return rows_meet(&a, &b, from, to, work);
    }
    if (x_axes < y_axes) return meet(y, y_axes, y_start, x, x_axes, x_start, from, to, work);
    const int64_t stride = x->axis[x_axes - 1].stride;
    const int64_t first = greatest(0, floor_divided(y_start - x_start - span(x, x_axes - 1), stride) + 1);
    const int64_t last = least(x->axis[x_axes - 1].n - 1, floor_divided(y_end - 1 - x_start, stride));
    for (int64_t i = first; i <= last; i++) {
        if (meet(x, x_axes - 1, x_start + i * stride, y, y_axes, y_start, from, to, work)) return true;
    }
    return false;
}

bool footprints_meet(const footprint *x, const footprint *y, int64_t *from, int64_t *to, int64_t *work) {
    if (x->region != y->region || x->start >= y->end || y->start >= x->end) return false;
    return meet(x, x->axes, x->start, y, y->axes, y->start, from, to, work);
}

static void close_rows(footprint *x) {
    if (x->axes && x->axis[0].stride == x->row_bytes) {
        x->row_bytes *= x->axis[0].n;
        x->axes = 0;
    }
    x->end = x->start + span(x, x->axes);
}

/* Whether y has x's rows, but for axis `without` of x (-1: none is left out). */
static bool same_rows(const footprint *x, int32_t without, const footprint *y) {
    if (x->row_bytes != y->row_bytes || y->axes != x->axes - (without >= 0)) return false;
    for (int32_t k = 0, m = 0; k < x->axes; k++) {
        if (k == without) continue;
        if (x->axis[k].n != y->axis[m].n || x->axis[k].stride != y->axis[m].stride) return false;
        m++;
    }
    return true;
}

/* Absorbs what repeats x, or what x repeats, at a constant distance: columns that a thread takes in turn. */
static bool absorb_repeated(footprint *x, const footprint *y) {
    const int64_t ahead = y->start - x->start;
    if (ahead < 0) return false;
    for (int32_t k = 0; k < x->axes; k++) {
        const int64_t number = ahead / x->axis[k].stride;
        if (ahead % x->axis[k].stride || number > x->axis[k].n || !same_rows(x, k, y)) continue;
        if (number == x->axis[k].n) x->axis[k].n++;
        x->end = x->start + span(x, x->axes);
        return true;
    }
    if (!same_rows(x, -1, y)) return false;
    if (ahead == 0) return true;
    if (ahead <= x->row_bytes || x->axes == MAX_AXES) return false;
    int32_t at = x->axes++;
    for (; at > 0 && x->axis[at - 1].stride > ahead; at--) x->axis[at] = x->axis[at - 1];
    x->axis[at].n = 2;
    x->axis[at].stride = ahead;
    x->end = x->start + span(x, x->axes);
    return true;
}

bool footprint_absorb(footprint *x, const footprint *y) {
    if (x->region != y->region) return false;
    if (x->axes > 1 || y->axes > 1) return absorb_repeated(x, y);
    const int64_t ahead = y->start - x->start;
    if (x->axes == 0) {
        if (y->start >= x->start && y->end <= x->end) return true;
        if (y->axes == 0 && y->start <= x->end && y->end >= x->start) {
            footprint_row(x, x->region, least(x->start, y->start), greatest(x->end, y->end) - least(x->start, y->start));
            return true;
        }
        if (x->row_bytes != y->row_bytes || ahead <= x->row_bytes || (y->axes && y->axis[0].stride != ahead)) return false;
        x->axes = 1; /* the first two of several rows */
        x->axis[0].stride = ahead;
        x->axis[0].n = 1 + (y->axes ? y->axis[0].n : 1);
        close_rows(x);
        return true;
    }
    if (ahead < 0) return false;
    if (y->axes && y->axis[0].stride != x->axis[0].stride) return absorb_repeated(x, y);
    const int64_t row = ahead / x->axis[0].stride, column = ahead % x->axis[0].stride, y_rows = y->axes ? y->axis[0].n : 1;
    if (row + y_rows <= x->axis[0].n && column + y->row_bytes <= x->row_bytes) return true;
    if (column == 0 && row <= x->axis[0].n && y->row_bytes == x->row_bytes) {
        x->axis[0].n = row + y_rows; /* more rows */
    } else if (row == 0 && column == x->row_bytes && y_rows == x->axis[0].n && x->row_bytes + y->row_bytes <= x->axis[0].stride) {
        x->row_bytes += y->row_bytes; /* longer rows */
    } else {
        return absorb_repeated(x, y);
    }
    close_rows(x);
    return true;
}

static bool each_row(const footprint *f, int axes, int64_t start, bool (*row)(void *, int64_t, int64_t), void *data) {
    if (axes == 0) return row(data, start, f->row_bytes);
    for (int64_t i = 0; i < f->axis[axes - 1].n; i++) {
        if (!each_row(f, axes - 1, start + i * f->axis[axes - 1].stride, row, data)) return false;
    }
    return true;
}

bool footprint_rows(const footprint *f, bool (*row)(void *data, int64_t start, int64_t bytes), void *data) {
    return each_row(f, f->axes, f->start, row, data);
}
