/* Lanes, pyramids and groups: the passes over a segment's rows that numpy can't do at speed.
 *
 * All functions have a twin in _lanes_py.py with the same results to the bit; lanes.py chooses. They take and return
 * plain buffers, so that this file needs no numpy headers.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The Python side repeats this number (backend.py). Raise both when a name, an argument, a result or a layout changes
 * on which the two rely: an extension built from other sources is then not used. */
#define INTERFACE 1

/* ---- buffers ---------------------------------------------------------------------------------------------------- */

/* Whether a buffer holds n items of `size` bytes; sets ValueError if not. */
static int holds(const Py_buffer *view, Py_ssize_t n, Py_ssize_t size, const char *name)
{
    if (view->len == n * size)
        return 1;
    PyErr_Format(PyExc_ValueError, "%s has %zd bytes instead of %zd", name, view->len, n * size);
    return 0;
}

static int64_t end_of(int64_t start, int64_t duration)
{
    if (duration <= 0)
        return start;
    return start > INT64_MAX - duration ? INT64_MAX : start + duration;
}

/* ---- order: (track, start, longest first, row) -------------------------------------------------------------------- */

typedef struct {
    uint64_t key; /* start - smallest start of the track */
    uint32_t row;
} Item;

#define DIGIT 11
#define BUCKETS (1 << DIGIT)

/* Sort items by key, keeping the order of equal keys. `spare` has room for n items. */
static void radix_sort(Item *items, Item *spare, size_t n)
{
    uint64_t all = 0;
    int sorted = 1;
    for (size_t i = 0; i < n; i++) {
        all |= items[i].key;
        if (i && items[i].key < items[i - 1].key)
            sorted = 0;
    }
    if (sorted)
        return;
    if (n <= 48) {
        for (size_t i = 1; i < n; i++) {
            Item item = items[i];
            size_t j = i;
            for (; j && items[j - 1].key > item.key; j--)
                items[j] = items[j - 1];
            items[j] = item;
        }
        return;
    }
    Item *from = items, *to = spare;
    uint32_t count[BUCKETS];
    for (int shift = 0; shift < 64 && (all >> shift); shift += DIGIT) {
        memset(count, 0, sizeof count);
        for (size_t i = 0; i < n; i++)
            count[(from[i].key >> shift) & (BUCKETS - 1)]++;
        uint32_t sum = 0;
        for (int b = 0; b < BUCKETS; b++) {
            uint32_t c = count[b];
            count[b] = sum;
            sum += c;
        }
        for (size_t i = 0; i < n; i++)
            to[count[(from[i].key >> shift) & (BUCKETS - 1)]++] = from[i];
        Item *swap = from;
        from = to;
        to = swap;
    }
    if (from != items)
        memcpy(items, from, n * sizeof *items);
}

static void sort_track(Item *items, Item *spare, size_t n, const int64_t *start, const int64_t *duration)
{
    if (!n)
        return;
    int64_t low = start[items[0].row];
    for (size_t i = 1; i < n; i++)
        if (start[items[i].row] < low)
            low = start[items[i].row];
    for (size_t i = 0; i < n; i++)
        items[i].key = (uint64_t)start[items[i].row] - (uint64_t)low;
    radix_sort(items, spare, n);
    for (size_t i = 0; i < n;) {
        size_t j = i + 1;
        while (j < n && items[j].key == items[i].key)
            j++;
        if (j - i > 1) { /* of one start: the longest first, then as they came */
            for (size_t k = i; k < j; k++)
                items[k].key = (uint64_t)INT64_MAX - (uint64_t)duration[items[k].row];
            radix_sort(items + i, spare, j - i);
        }
        i = j;
    }
}

/* ---- depths ------------------------------------------------------------------------------------------------------- */

/* Per depth the end of the last event placed there, as a tree of maxima and minima over `capacity` (a power of two) depths. */
typedef struct {
    int64_t *high, *low; /* 2 * capacity each; leaves at capacity + depth */
    size_t capacity;
} Depths;

static int depths_grow(Depths *d, size_t capacity)
{
    int64_t *high = malloc(2 * capacity * sizeof *high), *low = malloc(2 * capacity * sizeof *low);
    if (!high || !low) {
        free(high);
        free(low);
        return 0;
    }
    for (size_t i = 0; i < capacity; i++) {
        int64_t value = i < d->capacity ? d->high[d->capacity + i] : INT64_MIN;
        high[capacity + i] = low[capacity + i] = value;
    }
    for (size_t i = capacity - 1; i; i--) {
        high[i] = high[2 * i] > high[2 * i + 1] ? high[2 * i] : high[2 * i + 1];
        low[i] = low[2 * i] < low[2 * i + 1] ? low[2 * i] : low[2 * i + 1];
    }
    free(d->high);
    free(d->low);
    d->high = high;
    d->low = low;
    d->capacity = capacity;
    return 1;
}

static void depths_set(Depths *d, size_t depth, int64_t end)
{
    size_t i = d->capacity + depth;
    d->high[i] = d->low[i] = end;
    for (i /= 2; i; i /= 2) {
        int64_t high = d->high[2 * i] > d->high[2 * i + 1] ? d->high[2 * i] : d->high[2 * i + 1];
        int64_t low = d->low[2 * i] < d->low[2 * i + 1] ? d->low[2 * i] : d->low[2 * i + 1];
        if (d->high[i] == high && d->low[i] == low)
            break;
        d->high[i] = high;
        d->low[i] = low;
    }
}

/* The deepest depth whose last end is at least `end`; -1: none. */
static Py_ssize_t depths_enclosing(const Depths *d, int64_t end)
{
    if (d->high[1] < end)
        return -1;
    size_t i = 1;
    while (i < d->capacity)
        i = d->high[2 * i + 1] >= end ? 2 * i + 1 : 2 * i;
    return (Py_ssize_t)(i - d->capacity);
}

/* The first depth from `floor` on whose last end is at most `start`; capacity: none so far. */
static size_t depths_free(const Depths *d, size_t floor, int64_t start)
{
    if (floor >= d->capacity)
        return floor;
    size_t i = d->capacity + floor;
    if (d->low[i] <= start)
        return floor;
    for (;;) {
        while (i & 1) { /* a right child: go up until there is a sibling to the right */
            i /= 2;
            if (i <= 1)
                return d->capacity;
        }
        i++;
        if (d->low[i] <= start)
            break;
    }
    while (i < d->capacity)
        i = d->low[2 * i] <= start ? 2 * i : 2 * i + 1;
    return i - d->capacity;
}

/* Depth of each item of a track in their order: below every event that encloses it, where nothing is in the way. */
static int assign_depths(const Item *items, size_t n, const int64_t *start, const int64_t *duration,
                         const int32_t *recorded, Depths *d, int32_t *out)
{
    for (size_t i = 0; i < d->capacity; i++)
        d->high[d->capacity + i] = d->low[d->capacity + i] = INT64_MIN;
    for (size_t i = 1; i < d->capacity; i++)
        d->high[i] = d->low[i] = INT64_MIN;
    for (size_t k = 0; k < n; k++) {
        uint32_t row = items[k].row;
        int64_t begin = start[row], end = end_of(begin, duration[row]);
        /* An event that merely ends where this one begins doesn't enclose it, even when this one has no length. */
        Py_ssize_t enclosing = -1;
        if (begin < INT64_MAX)
            enclosing = depths_enclosing(d, end > begin ? end : begin + 1);
        size_t depth = (size_t)(enclosing + 1);
        if (recorded && recorded[row] > 0 && (size_t)recorded[row] > depth)
            depth = (size_t)recorded[row];
        if (depth < d->capacity)
            depth = depths_free(d, depth, begin);
        if (depth >= d->capacity) {
            size_t capacity = d->capacity;
            while (capacity <= depth)
                capacity *= 2;
            if (!depths_grow(d, capacity))
                return 0;
        }
        depths_set(d, depth, end);
        out[k] = (int32_t)depth;
    }
    return 1;
}

/* Stable sort of a track's items by depth, into order and depth. False when memory is short. */
static int sort_by_depth(const Item *items, const int32_t *depths, size_t n, uint32_t *order, int32_t *sorted)
{
    int32_t most = 0;
    for (size_t k = 0; k < n; k++)
        if (depths[k] > most)
            most = depths[k];
    size_t *place = calloc((size_t)most + 2, sizeof *place);
    if (!place)
        return 0;
    for (size_t k = 0; k < n; k++)
        place[depths[k] + 1]++;
    for (int32_t depth = 0; depth < most; depth++)
        place[depth + 1] += place[depth];
    for (size_t k = 0; k < n; k++) {
        size_t at = place[depths[k]]++;
        order[at] = items[k].row;
        sorted[at] = depths[k];
    }
    free(place);
    return 1;
}

PyDoc_STRVAR(lane_order_doc,
"lane_order(track, tracks, start, duration, recorded, order, depth)\n\n"
"Sort rows by (track, depth, start). track: int32[n] below `tracks`; start, duration: int64[n]; recorded: int32[n] of\n"
"least depths, or None; order: uint32[n] and depth: int32[n] are filled, both in the new order.");

static PyObject *lane_order(PyObject *self, PyObject *args)
{
    (void)self;
    Py_buffer track = {0}, start = {0}, duration = {0}, recorded = {0}, order = {0}, depth = {0};
    PyObject *recorded_object;
    Py_ssize_t tracks;
    if (!PyArg_ParseTuple(args, "y*ny*y*Ow*w*", &track, &tracks, &start, &duration, &recorded_object, &order, &depth))
        return NULL;
    PyObject *result = NULL;
    Item *items = NULL, *spare = NULL;
    size_t *bounds = NULL;
    int32_t *depths = NULL;
    Depths tree = {NULL, NULL, 0};
    Py_ssize_t n = track.len / 4;
    if (recorded_object != Py_None && PyObject_GetBuffer(recorded_object, &recorded, PyBUF_SIMPLE) < 0)
        goto done;
    if (!holds(&start, n, 8, "start") || !holds(&duration, n, 8, "duration") || !holds(&order, n, 4, "order")
        || !holds(&depth, n, 4, "depth") || (recorded.obj && !holds(&recorded, n, 4, "recorded")))
        goto done;
    if (n > UINT32_MAX || tracks < 0) {
        PyErr_SetString(PyExc_ValueError, "too many rows");
        goto done;
    }
    items = malloc((size_t)(n + 1) * sizeof *items);
    spare = malloc((size_t)(n + 1) * sizeof *spare);
    depths = malloc((size_t)(n + 1) * sizeof *depths);
    bounds = calloc((size_t)tracks + 1, sizeof *bounds);
    if (!items || !spare || !depths || !bounds || !depths_grow(&tree, 16)) {
        PyErr_NoMemory();
        goto done;
    }
    const int32_t *of = track.buf;
    for (Py_ssize_t i = 0; i < n; i++) {
        if (of[i] < 0 || of[i] >= tracks) {
            PyErr_SetString(PyExc_ValueError, "a track is out of range");
            goto done;
        }
        bounds[of[i]]++;
    }
    size_t sum = 0;
    for (Py_ssize_t t = 0; t <= tracks; t++) {
        size_t count = bounds[t];
        bounds[t] = sum;
        sum += count;
    }
    for (Py_ssize_t i = 0; i < n; i++)
        items[bounds[of[i]]++].row = (uint32_t)i;
    size_t begin = 0;
    for (Py_ssize_t t = 0; t < tracks; t++) {
        size_t length = bounds[t] - begin;
        sort_track(items + begin, spare, length, start.buf, duration.buf);
        if (!assign_depths(items + begin, length, start.buf, duration.buf, recorded.buf, &tree, depths)
            || !sort_by_depth(items + begin, depths, length, (uint32_t *)order.buf + begin, (int32_t *)depth.buf + begin)) {
            PyErr_NoMemory();
            goto done;
        }
        begin = bounds[t];
    }
    result = Py_NewRef(Py_None);
done:
    free(items);
    free(spare);
    free(depths);
    free(bounds);
    free(tree.high);
    free(tree.low);
    if (recorded.obj)
        PyBuffer_Release(&recorded);
    PyBuffer_Release(&track);
    PyBuffer_Release(&start);
    PyBuffer_Release(&duration);
    PyBuffer_Release(&order);
    PyBuffer_Release(&depth);
    return result;
}

/* ---- pyramid ------------------------------------------------------------------------------------------------------ */

typedef struct {
    int64_t start, end, count, busy, longest, name_time;
    int32_t name;
} Run;

typedef struct {
    Run *runs;
    size_t size, room;
} Runs;

static Run *runs_more(Runs *runs, size_t n)
{
    if (runs->size + n > runs->room) {
        size_t room = runs->room * 2 > runs->size + n ? runs->room * 2 : runs->size + n;
        Run *grown = realloc(runs->runs, room * sizeof *grown);
        if (!grown)
            return NULL;
        runs->runs = grown;
        runs->room = room;
    }
    return runs->runs + runs->size;
}

static int together(const Run *a, const Run *b, int shift)
{
    int64_t width = (int64_t)1 << shift;
    /* Lengths as unsigned: start and end may lie further apart than an int64 holds. */
    return (a->start >> shift) == (b->start >> shift) && (uint64_t)a->end - (uint64_t)a->start < (uint64_t)width
           && (uint64_t)b->end - (uint64_t)b->start < (uint64_t)width;
}

static size_t count_runs(const Run *runs, size_t n, int shift)
{
    size_t count = n ? 1 : 0;
    for (size_t i = 1; i < n; i++)
        count += !together(&runs[i - 1], &runs[i], shift);
    return count;
}

/* Merge neighbours; `time` has a zero for every name and is left so. */
static void merge_runs(const Run *runs, size_t n, int shift, Run *out, int64_t *time)
{
    for (size_t i = 0; i < n; out++) {
        size_t j = i + 1;
        while (j < n && together(&runs[j - 1], &runs[j], shift))
            j++;
        *out = runs[i];
        if (j - i > 1) {
            out->end = runs[j - 1].end;
            out->count = out->busy = out->longest = 0;
            for (size_t k = i; k < j; k++) {
                out->count += runs[k].count;
                out->busy += runs[k].busy;
                if (runs[k].longest > out->longest)
                    out->longest = runs[k].longest;
                time[runs[k].name] += runs[k].name_time;
            }
            out->name_time = -1;
            for (size_t k = i; k < j; k++) /* the first of the busiest */
                if (time[runs[k].name] > out->name_time) {
                    out->name_time = time[runs[k].name];
                    out->name = runs[k].name;
                }
            for (size_t k = i; k < j; k++)
                time[runs[k].name] = 0;
        }
        i = j;
    }
}

typedef struct {
    int64_t lane, shift, begin, count;
} Level;

static PyObject *column_bytes(const Runs *runs, size_t offset, size_t size)
{
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(runs->size * size));
    if (!bytes)
        return NULL;
    char *to = PyBytes_AS_STRING(bytes);
    for (size_t i = 0; i < runs->size; i++)
        memcpy(to + i * size, (const char *)&runs->runs[i] + offset, size);
    return bytes;
}

PyDoc_STRVAR(pyramid_doc,
"pyramid(bounds, start, end, name, names, first_shift, last_shift, least, first_percent, percent) -> tuple of bytes\n\n"
"Levels of merged runs of each lane. bounds: int64[lanes+1] of row numbers; start, end: int64[n]; name: int32[n] below\n"
"`names`. A level of bucket width 1 << shift is kept when its runs are at most `percent` of those below, the first when\n"
"they are at most `first_percent` of the rows; lanes of fewer than `least` rows (levels: runs) are left. Returns start, end, name (int32), count, busy, longest of the runs, and the\n"
"levels as int64[m, 4]: lane, shift, first run, number of runs. All but names are int64.");

static PyObject *pyramid(PyObject *self, PyObject *args)
{
    (void)self;
    Py_buffer bounds = {0}, start = {0}, end = {0}, name = {0};
    Py_ssize_t names;
    int first_shift, last_shift, first_percent, percent;
    Py_ssize_t least;
    if (!PyArg_ParseTuple(args, "y*y*y*y*niinii", &bounds, &start, &end, &name, &names, &first_shift, &last_shift,
                          &least, &first_percent, &percent))
        return NULL;
    PyObject *result = NULL;
    Runs out = {NULL, 0, 0}, lane_runs = {NULL, 0, 0};
    Level *levels = NULL;
    size_t level_count = 0, level_room = 0;
    int64_t *time = NULL;
    Py_ssize_t n = start.len / 8, lanes = bounds.len / 8 - 1;
    if (!holds(&end, n, 8, "end") || !holds(&name, n, 4, "name"))
        goto done;
    const int64_t *bound = bounds.buf, *starts = start.buf, *ends = end.buf;
    const int32_t *name_of = name.buf;
    if (lanes < 0 || first_shift < 0 || last_shift > 62 || names < 0) {
        PyErr_SetString(PyExc_ValueError, "bad arguments");
        goto done;
    }
    for (Py_ssize_t lane = 0; lane < lanes; lane++)
        if (bound[lane] < 0 || bound[lane] > bound[lane + 1] || bound[lane + 1] > n) {
            PyErr_SetString(PyExc_ValueError, "bad bounds");
            goto done;
        }
    for (Py_ssize_t i = 0; i < n; i++)
        if (name_of[i] < 0 || name_of[i] >= names) {
            PyErr_SetString(PyExc_ValueError, "a name is out of range");
            goto done;
        }
    time = calloc((size_t)names + 1, sizeof *time);
    if (!time) {
        PyErr_NoMemory();
        goto done;
    }
    for (Py_ssize_t lane = 0; lane < lanes; lane++) {
        size_t below = (size_t)(bound[lane + 1] - bound[lane]);
        if (below < (size_t)least)
            continue;
        lane_runs.size = 0;
        Run *base = runs_more(&lane_runs, below);
        if (!base) {
            PyErr_NoMemory();
            goto done;
        }
        for (size_t i = 0; i < below; i++) {
            size_t row = (size_t)bound[lane] + i;
            int64_t length = ends[row] - starts[row];
            base[i] = (Run){starts[row], ends[row], 1, length, length, length, name_of[row]};
        }
        size_t from = SIZE_MAX; /* where in `out` the level below begins; SIZE_MAX: it is `base` */
        for (int shift = first_shift; shift <= last_shift && below >= (size_t)least; shift += 2) {
            const Run *runs = from == SIZE_MAX ? base : out.runs + from;
            size_t count = count_runs(runs, below, shift);
            if (count * 100 > below * (size_t)(from == SIZE_MAX ? first_percent : percent))
                continue;
            if (!runs_more(&out, count)) {
                PyErr_NoMemory();
                goto done;
            }
            runs = from == SIZE_MAX ? base : out.runs + from; /* `out` may have moved */
            merge_runs(runs, below, shift, out.runs + out.size, time);
            if (level_count == level_room) {
                level_room = level_room ? 2 * level_room : 64;
                Level *grown = realloc(levels, level_room * sizeof *levels);
                if (!grown) {
                    PyErr_NoMemory();
                    goto done;
                }
                levels = grown;
            }
            levels[level_count++] = (Level){lane, shift, (int64_t)out.size, (int64_t)count};
            from = out.size;
            below = count;
            out.size += count;
        }
    }
    result = Py_BuildValue("(NNNNNNy#)",
        column_bytes(&out, offsetof(Run, start), 8), column_bytes(&out, offsetof(Run, end), 8),
        column_bytes(&out, offsetof(Run, name), 4), column_bytes(&out, offsetof(Run, count), 8),
        column_bytes(&out, offsetof(Run, busy), 8), column_bytes(&out, offsetof(Run, longest), 8),
        levels ? (const char *)levels : "", (Py_ssize_t)(level_count * sizeof *levels));
done:
    free(out.runs);
    free(lane_runs.runs);
    free(levels);
    free(time);
    PyBuffer_Release(&bounds);
    PyBuffer_Release(&start);
    PyBuffer_Release(&end);
    PyBuffer_Release(&name);
    return result;
}

/* ---- groups ------------------------------------------------------------------------------------------------------- */

PyDoc_STRVAR(scatter_doc,
"scatter(codes, values, counts, out)\n\n"
"Bring values together by code, each code's in their order. codes: int32[n]; values, out: 8 bytes[n]; counts: int64 of\n"
"how many rows each code has. ValueError when the counts are not those of the codes.");

static PyObject *scatter(PyObject *self, PyObject *args)
{
    (void)self;
    Py_buffer codes = {0}, values = {0}, counts = {0}, out = {0};
    if (!PyArg_ParseTuple(args, "y*y*y*w*", &codes, &values, &counts, &out))
        return NULL;
    PyObject *result = NULL;
    int64_t *place = NULL, *last = NULL;
    Py_ssize_t n = codes.len / 4, groups = counts.len / 8;
    if (!holds(&values, n, 8, "values") || !holds(&out, n, 8, "out"))
        goto done;
    place = malloc((size_t)(groups + 1) * sizeof *place);
    last = malloc((size_t)(groups + 1) * sizeof *last);
    if (!place || !last) {
        PyErr_NoMemory();
        goto done;
    }
    const int32_t *code = codes.buf;
    const uint64_t *from = values.buf;
    uint64_t *to = out.buf;
    int64_t sum = 0;
    int fits = 1;
    for (Py_ssize_t g = 0; g < groups; g++) {
        int64_t count = ((const int64_t *)counts.buf)[g];
        place[g] = sum;
        if (count < 0 || count > n - sum)
            fits = 0;
        else
            sum += count;
        last[g] = sum;
    }
    for (Py_ssize_t i = 0; fits && i < n; i++) {
        int32_t g = code[i];
        if (g < 0 || g >= groups || place[g] >= last[g])
            fits = 0;
        else
            to[place[g]++] = from[i];
    }
    if (!fits || sum != n)
        PyErr_SetString(PyExc_ValueError, "the counts are not those of the codes");
    else
        result = Py_NewRef(Py_None);
done:
    free(place);
    free(last);
    PyBuffer_Release(&codes);
    PyBuffer_Release(&values);
    PyBuffer_Release(&counts);
    PyBuffer_Release(&out);
    return result;
}

static PyMethodDef methods[] = {
    {"lane_order", lane_order, METH_VARARGS, lane_order_doc},
    {"pyramid", pyramid, METH_VARARGS, pyramid_doc},
    {"scatter", scatter, METH_VARARGS, scatter_doc},
    {NULL, NULL, 0, NULL},
};

static int module_exec(PyObject *made) { return PyModule_AddIntConstant(made, "INTERFACE", INTERFACE); }

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, module_exec}, {0, NULL}};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "tops_kit.session._lanes", "Lanes, pyramids and groups of a segment's rows.", 0, methods, module_slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__lanes(void)
{
    return PyModuleDef_Init(&module);
}
