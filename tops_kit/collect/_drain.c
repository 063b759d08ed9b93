/* _drain.c - the collector's loops over records: ring -> journal -> columns. Its Python twin is drain.py; both have the same tests.
 *
 * Nothing here trusts a ring's contents: geometry comes from the caller, who checked it against the file's size when the ring
 * was opened, and every chain of MORE slots ends with its block.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <string.h>
#include "topstx_layout.h"

/* The Python side repeats this number (backend.py). Raise both when a name, an argument, a result or a layout changes
 * on which the two rely: an extension built from other sources is then not used. */
#define INTERFACE 2

/* Layout of a journal file: see journal.py. */
#define JOURNAL_USED 24
#define JOURNAL_BLOCKS 4096
#define BLOCK_MAGIC 0x4B424A54u
typedef struct {
    uint32_t magic, kind;
    uint64_t process_serial, ring_serial, first, slots;
    uint32_t tid, clock;
    uint8_t pad[16];
} block_header;
_Static_assert(sizeof(block_header) == 64, "block_header");

/* One row of the ring table that the caller keeps: int64 each. */
enum { RING_RECORDS, RING_CAPACITY, RING_TAIL, RING_TID, RING_PROCESS, RING_SERIAL, RING_BAD, RING_CLOCK, RING_COLUMNS };

#define SLOT 32
#define KIND_AT 30
#define FLAGS_AT 31

static uint64_t load(const uint8_t *at) { return __atomic_load_n((const uint64_t *)at, __ATOMIC_ACQUIRE); }
static void store(uint8_t *at, uint64_t value) { __atomic_store_n((uint64_t *)at, value, __ATOMIC_RELEASE); }

static PyObject *read_tsc(PyObject *module, PyObject *unused)
{
    (void)module; (void)unused;
#if defined(__x86_64__)
    uint32_t low, high;
    __asm__ __volatile__("lfence\n\trdtsc" : "=a"(low), "=d"(high) : : "memory");
    return PyLong_FromUnsignedLongLong(((uint64_t)high << 32) | low);
#else
    PyErr_SetString(PyExc_OSError, "this processor has no time stamp counter that we read");
    return NULL;
#endif
}

static PyObject *load_u64(PyObject *module, PyObject *args)
{
    (void)module;
    Py_buffer view;
    Py_ssize_t at;
    if (!PyArg_ParseTuple(args, "y*n", &view, &at)) return NULL;
    if (at < 0 || at + 8 > view.len || at % 8) {
        PyBuffer_Release(&view);
        PyErr_SetString(PyExc_ValueError, "offset outside of the buffer");
        return NULL;
    }
    uint64_t value = load((const uint8_t *)view.buf + at);
    PyBuffer_Release(&view);
    return PyLong_FromUnsignedLongLong(value);
}

static PyObject *store_u64(PyObject *module, PyObject *args)
{
    (void)module;
    Py_buffer view;
    Py_ssize_t at;
    unsigned long long value;
    if (!PyArg_ParseTuple(args, "w*nK", &view, &at, &value)) return NULL;
    if (at < 0 || at + 8 > view.len || at % 8) {
        PyBuffer_Release(&view);
        PyErr_SetString(PyExc_ValueError, "offset outside of the buffer");
        return NULL;
    }
    store((uint8_t *)view.buf + at, value);
    PyBuffer_Release(&view);
    Py_RETURN_NONE;
}

/* How many of `take` slots from `tail` on end with a whole record. `available` slots are published. */
static uint64_t whole_records(const uint8_t *records, uint64_t capacity, uint64_t tail, uint64_t take, uint64_t available)
{
    uint64_t mask = capacity - 1, end = tail + take;
    const uint8_t *last = records + ((end - 1) & mask) * SLOT;
    bool cut = take < available
        ? records[(end & mask) * SLOT + KIND_AT] == TOPSTX_KIND_MORE
        : last[KIND_AT] == TOPSTX_KIND_MORE ? (last[FLAGS_AT] & 0x80) != 0 : (last[FLAGS_AT] & TOPSTX_FLAG_MORE) != 0;
    if (!cut) return take;
    end--;
    while (end > tail && records[(end & mask) * SLOT + KIND_AT] == TOPSTX_KIND_MORE) end--;
    return end - tail;
}

/* copy(rings, table, journal, start, final) -> (index of the first ring that has more than fits, slots copied) */
static PyObject *copy(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *rings;
    Py_buffer table, journal;
    Py_ssize_t start;
    int final;
    if (!PyArg_ParseTuple(args, "O!w*w*np", &PyList_Type, &rings, &table, &journal, &start, &final)) return NULL;
    Py_ssize_t count = PyList_GET_SIZE(rings), index = start;
    uint64_t copied = 0;
    PyObject *result = NULL;
    uint8_t *out = journal.buf;
    if (table.len < count * RING_COLUMNS * 8 || journal.len < JOURNAL_BLOCKS + 64 || start < 0) {
        PyErr_SetString(PyExc_ValueError, "copy: table or journal too small");
        goto done;
    }
    uint64_t room_bytes = (uint64_t)journal.len - JOURNAL_BLOCKS, used = load(out + JOURNAL_USED);
    for (; index < count; index++) {
        int64_t *row = (int64_t *)table.buf + index * RING_COLUMNS;
        if (row[RING_BAD]) continue;
        Py_buffer ring;
        if (PyObject_GetBuffer(PyList_GET_ITEM(rings, index), &ring, PyBUF_WRITABLE) < 0) goto done;
        uint8_t *base = ring.buf;
        uint64_t capacity = (uint64_t)row[RING_CAPACITY], tail = (uint64_t)row[RING_TAIL];
        uint64_t available = load(base + 128) - tail;
        if (available == 0) { PyBuffer_Release(&ring); continue; }
        if (available > capacity || (uint64_t)row[RING_RECORDS] + capacity * SLOT > (uint64_t)ring.len) {
            row[RING_BAD] = 1;
            PyBuffer_Release(&ring);
            continue;
        }
        uint64_t room = used + sizeof(block_header) + SLOT > room_bytes ? 0 : (room_bytes - used - sizeof(block_header)) / SLOT;
        uint64_t take = available < room ? available : room;
        if (take == 0) { PyBuffer_Release(&ring); break; }
        const uint8_t *records = base + row[RING_RECORDS];
        uint64_t whole = whole_records(records, capacity, tail, take, available);
        bool partial = take < available;
        if (whole == 0 && (used == 0 ? partial : false)) whole = take;         /* larger than a whole journal: split it */
        else if (whole == 0 && !partial && (final || available == capacity)) whole = take; /* its producer died in it */
        else if (whole == 0) {
            PyBuffer_Release(&ring);
            if (partial) break;
            continue;
        } else if (final && !partial) whole = take;
        block_header *header = (block_header *)(out + JOURNAL_BLOCKS + used);
        uint8_t *to = (uint8_t *)(header + 1);
        *header = (block_header){.magic = BLOCK_MAGIC, .kind = 0, .process_serial = (uint64_t)row[RING_PROCESS],
            .ring_serial = (uint64_t)row[RING_SERIAL], .first = tail, .slots = whole, .tid = (uint32_t)row[RING_TID],
            .clock = (uint32_t)row[RING_CLOCK]};
        uint64_t at = tail & (capacity - 1), first = whole < capacity - at ? whole : capacity - at;
        uint32_t tid = header->tid;
        Py_BEGIN_ALLOW_THREADS
        memcpy(to, records + at * SLOT, first * SLOT);
        memcpy(to + first * SLOT, records, (whole - first) * SLOT);
        for (uint64_t k = 0; k < whole; k++)
            if (to[k * SLOT + KIND_AT] == TOPSTX_KIND_THREAD) memcpy(&tid, to + k * SLOT + 20, 4);
        Py_END_ALLOW_THREADS
        used += sizeof(block_header) + whole * SLOT;
        store(out + JOURNAL_USED, used);        /* now the journal has them */
        row[RING_TID] = tid;
        row[RING_TAIL] = (int64_t)(tail + whole);
        memcpy(base + 264, &tid, 4);            /* the thread at `tail`, for recovery: see rings.py */
        store(base + 256, tail + whole);        /* and only now the producer may use the slots again */
        copied += whole;
        PyBuffer_Release(&ring);
        if (partial) break;
    }
    result = Py_BuildValue("nK", index, (unsigned long long)copied);
done:
    PyBuffer_Release(&table);
    PyBuffer_Release(&journal);
    return result;
}

/* ---- columns ------------------------------------------------------------------------------------------------------ */

typedef struct {
    const int64_t *ticks, *ns;
    const double *slope;
    Py_ssize_t count, at;
} clock_table;

static inline int64_t to_ns(clock_table *clock, uint64_t raw)
{
    int64_t tick = (int64_t)raw;
    Py_ssize_t count = clock->count, at = clock->at;
    if (tick < clock->ticks[at] || (at + 1 < count && tick >= clock->ticks[at + 1])) {
        Py_ssize_t low = 0, high = count;       /* the last piece that begins at or before the tick, else the first */
        while (high - low > 1) {
            Py_ssize_t middle = (low + high) / 2;
            if (clock->ticks[middle] <= tick) low = middle; else high = middle;
        }
        clock->at = at = low;
    }
    double progress = (double)(int64_t)((uint64_t)tick - (uint64_t)clock->ticks[at]);
    progress *= clock->slope[at];
    if (!(progress < 4e18)) progress = 4e18;
    if (!(progress > -4e18)) progress = -4e18;
    int64_t value;
    if (__builtin_add_overflow(clock->ns[at], (int64_t)progress, &value)) value = progress > 0 ? INT64_MAX / 2 : INT64_MIN / 2;
    if (at + 1 < count && value > clock->ns[at + 1]) value = clock->ns[at + 1];
    return value;
}

enum { IN_JOURNAL, IN_BLOCKS, IN_TICKS, IN_NS, IN_SLOPE, OUT_BEGIN, OUT_DURATION, OUT_NAME, OUT_TASK, OUT_ATTR, OUT_TID, OUT_DEPTH,
       OUT_KIND, OUT_FLAGS, OUT_MORE, BUFFERS };
static const int out_bytes[] = {8, 8, 4, 4, 4, 8, 4, 1, 1, 8};

/* split(journal, blocks, ticks, ns, slope, begin, duration, name, task, attr, tid, depth, kind, flags, more)
 *     -> (rows, kinds, flags, task, attr, tid_changes, name_max, clipped) */
static PyObject *split(PyObject *module, PyObject *args)
{
    (void)module;
    Py_buffer b[BUFFERS];
    memset(b, 0, sizeof b);
    if (!PyArg_ParseTuple(args, "y*y*y*y*y*w*w*w*w*w*w*w*w*w*w*", &b[0], &b[1], &b[2], &b[3], &b[4], &b[5], &b[6], &b[7], &b[8],
                          &b[9], &b[10], &b[11], &b[12], &b[13], &b[14])) return NULL;
    PyObject *result = NULL;
    const uint8_t *journal = b[IN_JOURNAL].buf;
    const int64_t *blocks = b[IN_BLOCKS].buf;
    Py_ssize_t block_count = b[IN_BLOCKS].len / 24;
    uint64_t total = 0;
    for (Py_ssize_t k = 0; k < block_count; k++) {
        int64_t offset = blocks[k * 3], slots = blocks[k * 3 + 1];
        if (offset < 0 || slots < 0 || slots > b[IN_JOURNAL].len / SLOT || offset > b[IN_JOURNAL].len - slots * SLOT) {
            PyErr_SetString(PyExc_ValueError, "split: block outside of the journal");
            goto done;
        }
        total += (uint64_t)slots;
    }
    clock_table clock = {b[IN_TICKS].buf, b[IN_NS].buf, b[IN_SLOPE].buf, b[IN_TICKS].len / 8, 0};
    if (clock.count < 1 || b[IN_NS].len != b[IN_TICKS].len || b[IN_SLOPE].len != b[IN_TICKS].len) {
        PyErr_SetString(PyExc_ValueError, "split: bad clock table");
        goto done;
    }
    for (int k = 0; k < 10; k++)
        if ((uint64_t)b[OUT_BEGIN + k].len < total * (uint64_t)out_bytes[k]) {
            PyErr_SetString(PyExc_ValueError, "split: column too short");
            goto done;
        }
    int64_t *begin = b[OUT_BEGIN].buf, *duration = b[OUT_DURATION].buf, *tids = b[OUT_TID].buf, *more = b[OUT_MORE].buf;
    uint32_t *name = b[OUT_NAME].buf, *task = b[OUT_TASK].buf, *attr = b[OUT_ATTR].buf;
    int32_t *depth = b[OUT_DEPTH].buf;
    uint8_t *kind = b[OUT_KIND].buf, *flags = b[OUT_FLAGS].buf;
    uint64_t rows = 0, kinds = 0, clipped = 0, tid_changes = 0;
    uint32_t all_flags = 0, all_task = 0, all_attr = 0, name_max = 0;
    int64_t last_tid = block_count ? blocks[2] : 0;
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t k = 0; k < block_count; k++) {
        const uint8_t *slot = journal + blocks[k * 3], *end = slot + blocks[k * 3 + 1] * SLOT;
        int64_t tid = blocks[k * 3 + 2];
        tid_changes += tid != last_tid;
        for (; slot < end; slot += SLOT) {
            topstx_record record;
            memcpy(&record, slot, SLOT);
            if (record.kind == TOPSTX_KIND_MORE) continue;
            if (record.kind == TOPSTX_KIND_THREAD) {
                tid_changes += (int64_t)record.task != tid;
                tid = record.task;
            }
            bool session = record.kind >= TOPSTX_KIND_TABLE_FIRST && record.kind < TOPSTX_KIND_TICKS_FIRST;   /* its times are no ticks */
            int64_t from = session ? (int64_t)record.begin_tick : to_ns(&clock, record.begin_tick);
            begin[rows] = record.begin_tick || record.kind != TOPSTX_KIND_THREAD ? from : 0;   /* 0: no time was told */
            if (record.kind == TOPSTX_KIND_COUNTER) {
                duration[rows] = (int64_t)record.end_tick;      /* bits of a double */
            } else {
                int64_t length = 0;
                if (session) length = (int64_t)(record.end_tick - record.begin_tick);
                else if (record.end_tick != record.begin_tick) length = to_ns(&clock, record.end_tick) - from;
                if (length < 0) { length = 0; clipped++; }
                duration[rows] = length;
            }
            name[rows] = record.name;
            task[rows] = record.task;
            attr[rows] = record.attr;
            tids[rows] = tid;
            depth[rows] = record.depth;
            kind[rows] = record.kind;
            flags[rows] = record.flags;
            more[rows] = (record.flags & TOPSTX_FLAG_MORE) && slot + SLOT < end && slot[SLOT + KIND_AT] == TOPSTX_KIND_MORE
                ? (int64_t)(slot + SLOT - journal) : -1;
            kinds |= 1ULL << (record.kind & 63);
            all_flags |= record.flags;
            if (record.kind < TOPSTX_KIND_TABLE_FIRST) {
                if (record.kind != TOPSTX_KIND_THREAD) all_task |= record.task;
                all_attr |= record.attr;
            }
            if (record.name > name_max) name_max = record.name;
            rows++;
        }
        last_tid = tid;
    }
    Py_END_ALLOW_THREADS
    result = Py_BuildValue("KKIIIKIK", rows, kinds, all_flags, all_task, all_attr, tid_changes, name_max, clipped);
done:
    for (int k = 0; k < BUFFERS; k++) PyBuffer_Release(&b[k]);
    return result;
}

/* ---- what MORE slots carry ---------------------------------------------------------------------------------------- */

typedef struct {
    uint8_t *data;
    size_t used, size;
    bool failed;
} text;

static void put(text *to, const void *bytes, size_t count)
{
    if (to->used + count > to->size) {
        size_t size = (to->size + count) * 2 + 256;
        uint8_t *data = realloc(to->data, size);
        if (!data) { to->failed = true; return; }
        to->data = data;
        to->size = size;
    }
    if (count) memcpy(to->data + to->used, bytes, count);
    to->used += count;
}

/* Text as UTF-8, in quotes as a JSON string where that is wanted. What is no UTF-8 is replaced by the interpreter itself: its
 * rule (one U+FFFD for each maximal part of a sequence, also at a cut end) is the twin's. False with an exception: no memory. */
static bool put_text(text *to, const uint8_t *at, size_t count, bool quoted)
{
    PyObject *valid = NULL;
    size_t k = 0, from = 0;
    while (k < count && at[k] < 0x80) k++;
    if (k < count) {
        Py_ssize_t bytes;
        valid = PyUnicode_DecodeUTF8((const char *)at, (Py_ssize_t)count, "replace");
        at = valid ? (const uint8_t *)PyUnicode_AsUTF8AndSize(valid, &bytes) : NULL;
        if (!at) { Py_XDECREF(valid); return false; }
        count = (size_t)bytes;
    }
    if (quoted) put(to, "\"", 1);
    for (k = 0; quoted && k < count; k++) {     /* the escapes of the json module */
        char c = (char)at[k], escape[8] = {'\\'};
        if (at[k] >= 0x20 && c != '"' && c != '\\') continue;
        escape[1] = c == '\b' ? 'b' : c == '\f' ? 'f' : c == '\n' ? 'n' : c == '\r' ? 'r' : c == '\t' ? 't' : at[k] >= 0x20 ? c : 'u';
        if (escape[1] == 'u') snprintf(escape + 2, sizeof escape - 2, "%04x", at[k]);
        put(to, at + from, k - from);
        put(to, escape, escape[1] == 'u' ? 6 : 2);
        from = k + 1;
    }
    put(to, at + from, count - from);
    if (quoted) put(to, "\"", 1);
    Py_XDECREF(valid);
    return true;
}

static void put_base64(text *to, const uint8_t *at, size_t count)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    put(to, "{\"base64\": \"", 12);
    for (size_t k = 0; k < count; k += 3) {
        uint32_t v = (uint32_t)at[k] << 16 | (k + 1 < count ? at[k + 1] << 8 : 0) | (k + 2 < count ? at[k + 2] : 0);
        char four[4] = {digits[v >> 18], digits[v >> 12 & 63], k + 1 < count ? digits[v >> 6 & 63] : '=', k + 2 < count ? digits[v & 63] : '='};
        put(to, four, 4);
    }
    put(to, "\"}", 2);
}

/* Joins the chain of MORE slots that begins at `at` into `chain`. */
static void gather(text *chain, const uint8_t *journal, size_t size, int64_t at)
{
    chain->used = 0;
    for (size_t k = (size_t)at; at >= 0 && k + SLOT <= size && journal[k + KIND_AT] == TOPSTX_KIND_MORE; k += SLOT) {
        uint8_t used = journal[k + FLAGS_AT];
        size_t bytes = used & 0x7F;
        put(chain, journal + k, bytes > 30 ? 30 : bytes);
        if (!(used & 0x80)) break;
    }
}

/* Finds an entry whose tag is in the bit set `tags`; its length is cut to what the chain has. */
static const uint8_t *entry(const text *chain, uint32_t tags, uint8_t *tag, size_t *length)
{
    for (size_t k = 0; k + 3 <= chain->used;) {
        size_t bytes = chain->data[k + 1] | (size_t)chain->data[k + 2] << 8;
        if (bytes > chain->used - k - 3) bytes = chain->used - k - 3;
        if (chain->data[k] < 32 && (tags >> chain->data[k] & 1)) {
            *tag = chain->data[k];
            *length = bytes;
            return chain->data + k + 3;
        }
        k += 3 + bytes;
    }
    return NULL;
}

#define PAYLOAD_TAGS (1u << TOPSTX_MORE_INT | 1u << TOPSTX_MORE_FLOAT | 1u << TOPSTX_MORE_STR | 1u << TOPSTX_MORE_BYTES | 1u << TOPSTX_MORE_JSON)

/* payloads(journal, more, flags, offsets, valid) -> bytes: an Arrow string column of JSON, one row a record */
static PyObject *payloads(PyObject *module, PyObject *args)
{
    (void)module;
    Py_buffer journal, more, flags, offsets, valid;
    if (!PyArg_ParseTuple(args, "y*y*y*w*w*", &journal, &more, &flags, &offsets, &valid)) return NULL;
    Py_ssize_t rows = more.len / 8;
    PyObject *result = NULL;
    text out = {0}, chain = {0};
    if (flags.len < rows || offsets.len < (rows + 1) * 4 || valid.len < rows) {
        PyErr_SetString(PyExc_ValueError, "payloads: column too short");
        goto done;
    }
    int32_t *offset = offsets.buf;
    uint8_t *ok = valid.buf;
    for (Py_ssize_t row = 0; row < rows; row++) {
        offset[row] = (int32_t)out.used;
        ok[row] = 0;
        int64_t at = ((const int64_t *)more.buf)[row];
        if (at < 0) continue;
        gather(&chain, journal.buf, (size_t)journal.len, at);
        uint8_t tag = 0;
        size_t length = 0;
        const uint8_t *body = entry(&chain, PAYLOAD_TAGS, &tag, &length);
        if (!body || ((tag == TOPSTX_MORE_INT || tag == TOPSTX_MORE_FLOAT) && length < 8)) continue;
        ok[row] = 1;
        if (tag == TOPSTX_MORE_INT) {
            int64_t value;
            char number[32];
            memcpy(&value, body, 8);
            put(&out, number, (size_t)snprintf(number, sizeof number, "%lld", (long long)value));
        } else if (tag == TOPSTX_MORE_FLOAT) {
            double value;
            memcpy(&value, body, 8);
            if (value != value) put(&out, "\"nan\"", 5);
            else if (value - value != 0) put(&out, value > 0 ? "\"inf\"" : "\"-inf\"", value > 0 ? 5 : 6);
            else {
                char *number = PyOS_double_to_string(value, 'r', 0, Py_DTSF_ADD_DOT_0, NULL);
                if (!number) goto done;
                put(&out, number, strlen(number));
                PyMem_Free(number);
            }
        } else if (tag == TOPSTX_MORE_BYTES) put_base64(&out, body, length);
        else if (!put_text(&out, body, length, tag == TOPSTX_MORE_STR || (((const uint8_t *)flags.buf)[row] & TOPSTX_FLAG_TRUNCATED)))
            goto done;
        if (out.failed || chain.failed || out.used > INT32_MAX) { PyErr_NoMemory(); goto done; }
    }
    offset[rows] = (int32_t)out.used;
    result = PyBytes_FromStringAndSize((const char *)out.data, (Py_ssize_t)out.used);
done:
    free(out.data);
    free(chain.data);
    PyBuffer_Release(&journal); PyBuffer_Release(&more); PyBuffer_Release(&flags); PyBuffer_Release(&offsets); PyBuffer_Release(&valid);
    return result;
}

/* errors(journal, more) -> list of str: the exception that left each range, '?' when unknown */
static PyObject *errors(PyObject *module, PyObject *args)
{
    (void)module;
    Py_buffer journal, more;
    if (!PyArg_ParseTuple(args, "y*y*", &journal, &more)) return NULL;
    Py_ssize_t rows = more.len / 8;
    text chain = {0};
    PyObject *result = PyList_New(rows);
    for (Py_ssize_t row = 0; result && row < rows; row++) {
        uint8_t tag;
        size_t length;
        gather(&chain, journal.buf, (size_t)journal.len, ((const int64_t *)more.buf)[row]);
        const uint8_t *body = entry(&chain, 1u << TOPSTX_MORE_ERROR, &tag, &length);
        PyObject *name = body && length ? PyUnicode_DecodeUTF8((const char *)body, (Py_ssize_t)length, "replace") : PyUnicode_FromString("?");
        if (!name) { Py_CLEAR(result); break; }
        PyList_SET_ITEM(result, row, name);
    }
    free(chain.data);
    PyBuffer_Release(&journal); PyBuffer_Release(&more);
    return result;
}

/* end_threads(journal, more, out): the thread that ended each range, -1 when none is told */
static PyObject *end_threads(PyObject *module, PyObject *args)
{
    (void)module;
    Py_buffer journal, more, out;
    if (!PyArg_ParseTuple(args, "y*y*w*", &journal, &more, &out)) return NULL;
    Py_ssize_t rows = more.len / 8;
    text chain = {0};
    for (Py_ssize_t row = 0; row < rows && row < out.len / 8; row++) {
        uint8_t tag;
        size_t length;
        uint32_t tid = 0;
        gather(&chain, journal.buf, (size_t)journal.len, ((const int64_t *)more.buf)[row]);
        const uint8_t *body = entry(&chain, 1u << TOPSTX_MORE_END_TID, &tag, &length);
        if (body && length >= 4) memcpy(&tid, body, 4);
        ((int64_t *)out.buf)[row] = body && length >= 4 ? (int64_t)tid : -1;
    }
    free(chain.data);
    PyBuffer_Release(&journal); PyBuffer_Release(&more); PyBuffer_Release(&out);
    Py_RETURN_NONE;
}

/* entries(data, id_max) -> (bytes consumed, whether what follows is damaged, ids of names, their texts, [(kind, id, body)]) */
static PyObject *entries(PyObject *module, PyObject *args)
{
    (void)module;
    Py_buffer data;
    Py_ssize_t id_max;
    if (!PyArg_ParseTuple(args, "y*n", &data, &id_max)) return NULL;
    const uint8_t *bytes = data.buf;
    Py_ssize_t at = 0;
    bool damaged = false;
    PyObject *ids = PyList_New(0), *texts = PyList_New(0), *others = PyList_New(0), *result = NULL;
    if (!ids || !texts || !others) goto done;
    while (at + (Py_ssize_t)sizeof(topstx_entry) <= data.len) {
        topstx_entry entry;
        memcpy(&entry, bytes + at, sizeof entry);
        if (entry.bytes < sizeof entry || entry.bytes % 8 || (Py_ssize_t)entry.bytes > data.len - at ||
            entry.body_bytes > entry.bytes - sizeof entry || (Py_ssize_t)entry.id > id_max) {
            damaged = true;
            break;
        }
        const char *body = (const char *)bytes + at + sizeof entry;
        if (entry.kind == TOPSTX_ENTRY_NAME) {
            PyObject *id = PyLong_FromUnsignedLong(entry.id), *text = PyUnicode_DecodeUTF8(body, entry.body_bytes, "replace");
            int failed = !id || !text || PyList_Append(ids, id) < 0 || PyList_Append(texts, text) < 0;
            Py_XDECREF(id);
            Py_XDECREF(text);
            if (failed) goto done;
        } else {
            PyObject *other = Py_BuildValue("HIy#", entry.kind, entry.id, body, (Py_ssize_t)entry.body_bytes);
            int failed = !other || PyList_Append(others, other) < 0;
            Py_XDECREF(other);
            if (failed) goto done;
        }
        at += entry.bytes;
    }
    result = Py_BuildValue("nOOOO", at, damaged ? Py_True : Py_False, ids, texts, others);
done:
    Py_XDECREF(ids);
    Py_XDECREF(texts);
    Py_XDECREF(others);
    PyBuffer_Release(&data);
    return result;
}

static PyMethodDef methods[] = {
    {"read_tsc", read_tsc, METH_NOARGS, "The time stamp counter."},
    {"load_u64", load_u64, METH_VARARGS, "load_u64(buffer, offset): load with acquire order."},
    {"store_u64", store_u64, METH_VARARGS, "store_u64(buffer, offset, value): store with release order."},
    {"copy", copy, METH_VARARGS, "Copy new records of rings into the journal."},
    {"split", split, METH_VARARGS, "Split blocks of a journal into columns."},
    {"payloads", payloads, METH_VARARGS, "Payloads as an Arrow string column of JSON."},
    {"entries", entries, METH_VARARGS, "Parse entries of a names file."},
    {"errors", errors, METH_VARARGS, "Names of exceptions."},
    {"end_threads", end_threads, METH_VARARGS, "Threads that ended ranges."},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_drain", "The collector's loops over records.", 0, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__drain(void) {
    PyObject *made = PyModule_Create(&definition);
    if (made && PyModule_AddIntConstant(made, "INTERFACE", INTERFACE) < 0) Py_CLEAR(made);
    return made;
}
