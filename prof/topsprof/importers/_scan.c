/* Streaming scanner of Chrome trace JSON: bytes in, columns out, no Python object per event.
 *
 * feed() takes the file in pieces of any size and runs without the GIL; take() hands over the rows so far as raw
 * column buffers. An event that is cut by the end of a piece is parsed again when more has come (the text asked for
 * doubles, so that one huge event costs linear time). What is wrong with the text is repaired where its meaning is
 * clear and counted as an issue with its first position. scan_twin.py is the same machine in Python, with the same
 * results; SPECIFICATION of both: docs/import.md, "The scanner".
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

enum { OK = 0, MORE = 1, BAD = 2 };
enum { PAD = 64, MAX_KEYS = 64, MAX_DEPTH = 200 };

/* ---- growable memory: a failed allocation sets oom and the step that asked for it is given up ---- */

typedef struct { char *data; size_t size, room; } Bytes;

static bool bytes_room(Bytes *b, size_t more) {
    if (b->size + more <= b->room) return true;
    size_t room = b->room ? b->room : 4096;
    while (room < b->size + more) room *= 2;
    char *data = realloc(b->data, room);
    if (!data) return false;
    b->data = data;
    b->room = room;
    return true;
}

static bool bytes_put(Bytes *b, const void *data, size_t size) {
    if (!bytes_room(b, size)) return false;
    memcpy(b->data + b->size, data, size);
    b->size += size;
    return true;
}

/* ---- interned strings ---- */

typedef struct {
    Bytes text;          /* all strings, one after the other */
    Bytes ends;          /* int64 end offset of each */
    uint64_t *hashes;    /* open addressing: hash and id + 1 side by side */
    uint32_t *ids;
    size_t slots;
    uint32_t count;
} Strings;

static uint64_t hash_text(const char *p, size_t n) {
    uint64_t h = 0x9E3779B97F4A7C15ull ^ (n * 0xD6E8FEB86659FD93ull), w;
    while (n >= 8) {
        memcpy(&w, p, 8);
        h = (h ^ w) * 0xFF51AFD7ED558CCDull;
        h ^= h >> 32;
        p += 8;
        n -= 8;
    }
    w = 0;
    memcpy(&w, p, n);
    h = (h ^ w) * 0xC4CEB9FE1A85EC53ull;
    return h ^ (h >> 29);
}

static bool strings_grow(Strings *s) {
    size_t slots = s->slots ? s->slots * 2 : 4096;
    uint64_t *hashes = calloc(slots, sizeof *hashes);
    uint32_t *ids = calloc(slots, sizeof *ids);
    if (!hashes || !ids) {
        free(hashes);
        free(ids);
        return false;
    }
    for (size_t i = 0; i < s->slots; i++) {
        if (!s->ids[i]) continue;
        size_t k = s->hashes[i] & (slots - 1);
        while (ids[k]) k = (k + 1) & (slots - 1);
        hashes[k] = s->hashes[i];
        ids[k] = s->ids[i];
    }
    free(s->hashes);
    free(s->ids);
    s->hashes = hashes;
    s->ids = ids;
    s->slots = slots;
    return true;
}

/* The id of a string, a new one if it is new; -2 without memory. */
static int32_t intern(Strings *s, const char *p, size_t n) {
    if ((size_t)s->count * 2 >= s->slots && !strings_grow(s)) return -2;
    uint64_t h = hash_text(p, n);
    size_t k = h & (s->slots - 1);
    const int64_t *ends = (const int64_t *)s->ends.data;
    for (; s->ids[k]; k = (k + 1) & (s->slots - 1)) {
        if (s->hashes[k] != h) continue;
        uint32_t id = s->ids[k] - 1;
        int64_t start = id ? ends[id - 1] : 0;
        if ((size_t)(ends[id] - start) == n && memcmp(s->text.data + start, p, n) == 0) return (int32_t)id;
    }
    if (!bytes_put(&s->text, p, n)) return -2;
    int64_t end = (int64_t)s->text.size;
    if (!bytes_put(&s->ends, &end, sizeof end)) return -2;
    s->hashes[k] = h;
    s->ids[k] = ++s->count;
    return (int32_t)(s->count - 1);
}

/* ---- the scanner ---- */

enum Issue {
    NOT_A_NUMBER, CONTROL_CHARACTER, BAD_TEXT, MALFORMED_EVENT, TRUNCATED_EVENT, NOT_AN_OBJECT, EMPTY_EVENT,
    MISSING_COMMA, EXTRA_COMMA, MISSING_BRACKET, TRAILING_DATA, MALFORMED_METADATA, TRUNCATED_METADATA, NO_EVENTS,
    ISSUES
};
static const char *const ISSUE_CODES[ISSUES] = {
    "not_a_number", "control_character", "bad_text", "malformed_event", "truncated_event", "not_an_object",
    "empty_event", "missing_comma", "extra_comma", "missing_bracket", "trailing_data", "malformed_metadata",
    "truncated_metadata", "no_events",
};

enum State { START, TOP, TOP_LOST, EVENTS, LOST, DONE };

/* ts and dur: absent, right, or there but no number that fits int64 nanoseconds */
enum { ABSENT = 0, GIVEN = 1, WRONG = 2 };
/* pid, tid, id: what the value column holds */
enum { NONE = 0, NUMBER = 1, STRING = 2, LOCAL = 2, GLOBAL = 4 };

typedef struct {
    uint8_t ph, ts_state, dur_state, pid_kind, tid_kind, id_kind, bp, scope;
    int64_t ts, dur, pid, tid, id;
    int32_t name, cat, id_scope;
    uint64_t has;                     /* wanted args keys that are there */
    int64_t value[MAX_KEYS][3];
    const char *args;                 /* its text, when an object */
} Event;

typedef struct { char *name; size_t size; char kind; Bytes rows, values; } Key;
typedef struct { char *text; size_t key_size, size; } Meta;

enum Dense { PH, TS_STATE, DUR_STATE, PID_KIND, TID_KIND, ID_KIND, BP, SCOPE, TS, DUR, PID, TID, ID, NAME, CAT, ID_SCOPE,
             DENSE };
static const char *const DENSE_NAMES[DENSE] = {
    "ph", "ts_state", "dur_state", "pid_kind", "tid_kind", "id_kind", "bp", "s", "ts", "dur", "pid", "tid", "id",
    "name", "cat", "scope",
};

typedef struct {
    PyObject_HEAD
    Bytes buffer;                     /* text not yet consumed, then PAD zero bytes */
    size_t done;                      /* consumed bytes of buffer */
    size_t wanted;                    /* do not try again before the rest is this long */
    int64_t offset;                   /* position in the file of buffer's first byte */
    enum State state;
    bool array, final, oom, busy, any_events, comma;
    const char *end;
    Strings strings;
    Key keys[MAX_KEYS];
    int n_keys;
    uint8_t key_slots[256];           /* index + 1 by hash, for the wanted keys */
    Bytes dense[DENSE];
    Bytes rest_rows, rest_ends, rest; /* the args that no key took, as JSON objects */
    Bytes series_rows, series_keys, series_values;
    uint32_t rows;
    Bytes scratch, top_rest, args_rest, key_text, value_text;
    Bytes metas;                      /* Meta */
    int64_t issues[ISSUES], issue_at[ISSUES];
    int32_t pending[ISSUES];          /* issues of the event that is being parsed */
    int64_t pending_at[ISSUES];
} Scanner;

static void issue(Scanner *s, enum Issue what, const char *p) {
    if (!s->pending[what]++) s->pending_at[what] = s->offset + (p - s->buffer.data);
}

static void issues_keep(Scanner *s) {
    for (int i = 0; i < ISSUES; i++) {
        if (!s->pending[i]) continue;
        if (!s->issues[i]) s->issue_at[i] = s->pending_at[i];
        s->issues[i] += s->pending[i];
        s->pending[i] = 0;
    }
}

static void issues_forget(Scanner *s) { memset(s->pending, 0, sizeof s->pending); }

static void issue_now(Scanner *s, enum Issue what, const char *p) {
    if (!s->issues[what]++) s->issue_at[what] = s->offset + (p - s->buffer.data);
}

static int memory_gone(Scanner *s) {
    s->oom = true;
    return BAD;
}

static inline const char *blank(const char *p) {
    while (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t') p++;
    return p;
}

/* ---- text ---- */

static int hex4(const char *p) {
    int v = 0;
    for (int i = 0; i < 4; i++) {
        char c = p[i];
        int d = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10
              : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
        if (d < 0) return -1;
        v = v * 16 + d;
    }
    return v;
}

static size_t utf8_put(char *out, uint32_t c) {
    if (c < 0x80) { out[0] = (char)c; return 1; }
    if (c < 0x800) { out[0] = (char)(0xC0 | c >> 6); out[1] = (char)(0x80 | (c & 63)); return 2; }
    if (c < 0x10000) {
        out[0] = (char)(0xE0 | c >> 12); out[1] = (char)(0x80 | (c >> 6 & 63)); out[2] = (char)(0x80 | (c & 63));
        return 3;
    }
    out[0] = (char)(0xF0 | c >> 18); out[1] = (char)(0x80 | (c >> 12 & 63));
    out[2] = (char)(0x80 | (c >> 6 & 63)); out[3] = (char)(0x80 | (c & 63));
    return 4;
}

/* Length of the valid UTF-8 sequence at p, or minus the length of the invalid part that one U+FFFD stands for
 * (maximal subparts, as Python's "replace" does). */
static int utf8_step(const unsigned char *p, const unsigned char *end) {
    unsigned char a = p[0];
    int need = a >= 0xC2 && a <= 0xDF ? 1 : a >= 0xE0 && a <= 0xEF ? 2 : a >= 0xF0 && a <= 0xF4 ? 3 : 0;
    if (a < 0x80) return 1;
    if (!need) return -1;
    unsigned char low = a == 0xE0 ? 0xA0 : a == 0xF0 ? 0x90 : 0x80, high = a == 0xED ? 0x9F : a == 0xF4 ? 0x8F : 0xBF;
    for (int i = 1; i <= need; i++) {
        if (p + i >= end || p[i] < low || p[i] > high) return -i;
        low = 0x80;
        high = 0xBF;
    }
    return need + 1;
}

/* Append raw bytes as valid UTF-8. */
static bool text_put(Scanner *s, Bytes *out, const char *p, const char *end, bool *bad) {
    (void)s;
    if (!bytes_room(out, (size_t)(end - p) * 3)) return false;
    while (p < end) {
        int n = utf8_step((const unsigned char *)p, (const unsigned char *)end);
        if (n > 0) {
            memcpy(out->data + out->size, p, (size_t)n);
            out->size += (size_t)n;
            p += n;
        } else {
            memcpy(out->data + out->size, "\xEF\xBF\xBD", 3);
            out->size += 3;
            p -= n;
            *bad = true;
        }
    }
    return true;
}

typedef struct { const char *data; size_t size; bool plain; } Text; /* plain: the raw bytes are also valid JSON text */

/* Read the string at *pp (its opening quote). The text is a slice of the buffer, or of s->scratch when it had escapes. */
static int read_string(Scanner *s, const char **pp, Text *text) {
    const char *start = *pp + 1, *p = start;
    bool escaped = false, high = false, control = false;
    for (;;) {
#if defined(__SSE2__)
        __m128i v = _mm_loadu_si128((const __m128i *)p);
        int stop = _mm_movemask_epi8(_mm_or_si128(
            _mm_or_si128(_mm_cmpeq_epi8(v, _mm_set1_epi8('"')), _mm_cmpeq_epi8(v, _mm_set1_epi8('\\'))),
            _mm_cmpeq_epi8(_mm_min_epu8(v, _mm_set1_epi8(0x1F)), v)));
        int top = _mm_movemask_epi8(v);
        if (!stop) {
            high |= top != 0;
            p += 16;
            continue;
        }
        int at = __builtin_ctz((unsigned)stop);
        high |= (top & ((1 << at) - 1)) != 0;
        p += at;
#else
        while ((unsigned char)*p >= 0x20 && *p != '"' && *p != '\\') high |= (unsigned char)*p++ >= 0x80;
#endif
        if (p >= s->end) return MORE;
        if (*p == '"') break;
        if (*p == '\\') {
            escaped = true;
            p += 2;
            if (p >= s->end) return MORE;
        } else {
            control = true;
            p++;
        }
    }
    *pp = p + 1;
    if (control) issue(s, CONTROL_CHARACTER, start);
    text->plain = !control && !escaped;
    if (!escaped && !high) {
        *text = (Text){start, (size_t)(p - start), text->plain};
        return OK;
    }
    Bytes *out = &s->scratch;
    out->size = 0;
    bool bad = false;
    while (start < p) {
        const char *stop = memchr(start, '\\', (size_t)(p - start));
        if (!stop) stop = p;
        if (!text_put(s, out, start, stop, &bad)) return memory_gone(s);
        if (stop == p) break;
        start = stop + 2;
        uint32_t c;
        switch (stop[1]) {
        case '"': case '\\': case '/': c = (unsigned char)stop[1]; break;
        case 'n': c = '\n'; break;
        case 't': c = '\t'; break;
        case 'r': c = '\r'; break;
        case 'b': c = '\b'; break;
        case 'f': c = '\f'; break;
        case 'u': {
            int v = p - start >= 4 ? hex4(start) : -1;
            if (v < 0) return BAD;
            start += 4;
            c = (uint32_t)v;
            if (c >= 0xD800 && c <= 0xDBFF && p - start >= 6 && start[0] == '\\' && start[1] == 'u') {
                int w = hex4(start + 2);
                if (w >= 0xDC00 && w <= 0xDFFF) {
                    c = 0x10000 + ((c - 0xD800) << 10) + ((uint32_t)w - 0xDC00);
                    start += 6;
                }
            }
            if (c >= 0xD800 && c <= 0xDFFF) {
                c = 0xFFFD;
                bad = true;
            }
            break;
        }
        default: return BAD;
        }
        if (!bytes_room(out, 4)) return memory_gone(s);
        out->size += utf8_put(out->data + out->size, c);
    }
    if (bad) issue(s, BAD_TEXT, *pp - 1);
    *text = (Text){out->data, out->size, text->plain && !bad};
    return OK;
}

/* Append a decoded text as a JSON string. */
static bool quote(Bytes *out, const Text *t) {
    if (!bytes_room(out, t->size * 6 + 2)) return false;
    char *o = out->data + out->size;
    *o++ = '"';
    if (t->plain) {
        memcpy(o, t->data, t->size);
        o += t->size;
    } else {
        static const char HEX[] = "0123456789abcdef";
        for (size_t i = 0; i < t->size; i++) {
            unsigned char c = (unsigned char)t->data[i];
            char e = c == '"' || c == '\\' ? (char)c : c == '\n' ? 'n' : c == '\r' ? 'r' : c == '\t' ? 't'
                   : c == '\b' ? 'b' : c == '\f' ? 'f' : 0;
            if (e) { *o++ = '\\'; *o++ = e; }
            else if (c < 0x20) { memcpy(o, "\\u00", 4); o[4] = HEX[c >> 4]; o[5] = HEX[c & 15]; o += 6; }
            else *o++ = (char)c;
        }
    }
    *o++ = '"';
    out->size = (size_t)(o - out->data);
    return true;
}

/* ---- numbers ---- */

/* End of the JSON number at p; NULL when it is none. */
static const char *number_end(const char *p) {
    if (*p == '-') p++;
    if (*p == '0') p++;
    else if (*p >= '1' && *p <= '9') while (*p >= '0' && *p <= '9') p++;
    else return NULL;
    if (*p == '.' && p[1] >= '0' && p[1] <= '9') {
        p++;
        while (*p >= '0' && *p <= '9') p++;
    }
    if (*p == 'e' || *p == 'E') {
        const char *q = p + 1;
        if (*q == '+' || *q == '-') q++;
        if (*q >= '0' && *q <= '9') {
            while (*q >= '0' && *q <= '9') q++;
            p = q;
        }
    }
    return p;
}

/* Whether the number that seems to end at q may go on in text that is still to come: "1", "1." and "1e-" all may. */
static bool may_go_on(const Scanner *s, const char *q) {
    if (s->final) return false;
    while (q < s->end && (*q == '.' || *q == 'e' || *q == 'E' || *q == '+' || *q == '-')) q++;
    return q >= s->end;
}

/* Number text times 10^shift as int64, rounded half up in magnitude. False when it doesn't fit or is no number.
 * exact: whether nothing was rounded away. */
static bool scaled(const char *p, size_t n, int shift, int64_t *out, bool *exact) {
    const char *end = p + n;
    bool minus = false, any = false, dropped = false;
    unsigned __int128 m = 0;
    int64_t exponent = shift;
    int digits = 0;
    if (p < end && (*p == '-' || *p == '+')) minus = *p++ == '-';
    bool point = false;
    for (; p < end; p++) {
        if (*p == '.' && !point) { point = true; continue; }
        if (*p < '0' || *p > '9') break;
        any = true;
        if (digits >= 36) {
            if (*p != '0') dropped = true;
            if (!point) exponent++;
            continue;
        }
        m = m * 10 + (unsigned)(*p - '0');
        if (m) digits++;
        if (point) exponent--;
    }
    if (!any) return false;
    if (p < end && (*p == 'e' || *p == 'E')) {
        p++;
        bool down = false;
        if (p < end && (*p == '-' || *p == '+')) down = *p++ == '-';
        int64_t e = 0;
        if (p >= end) return false;
        for (; p < end && *p >= '0' && *p <= '9'; p++) if (e < 100000) e = e * 10 + (*p - '0');
        exponent += down ? -e : e;
    }
    if (p != end) return false;
    bool whole = !dropped;
    const unsigned __int128 limit = (unsigned __int128)INT64_MAX;
    while (exponent > 0 && m) {
        if (m > limit) return false;
        m *= 10;
        exponent--;
    }
    if (exponent < 0 && m) {
        if (exponent < -39) {
            m = 0;
            whole = false;
        } else {
            unsigned __int128 by = 1;
            while (exponent < 0) {
                by *= 10;
                exponent++;
            }
            unsigned __int128 rest = m % by;
            m /= by;
            if (rest) whole = false;
            if (rest >= by - rest) m++;
        }
    }
    if (exact) *exact = whole;
    if (m > limit + (minus ? 1 : 0)) {
        if (minus || !exact || m > (unsigned __int128)UINT64_MAX) return false;
        *out = (int64_t)(uint64_t)m; /* identifiers and addresses of 64 unsigned bits keep their bits */
        return true;
    }
    *out = minus ? (int64_t)(0 - (uint64_t)m) : (int64_t)m;
    return true;
}

static bool integer(const char *p, size_t n, int64_t *out) {
    bool exact = false;
    return n && n < 64 && scaled(p, n, 0, out, &exact) && exact;
}

/* "1f", "0x1f" -> 31. */
static bool hexadecimal(const char *p, size_t n, int64_t *out) {
    if (n > 2 && p[0] == '0' && (p[1] == 'x' || p[1] == 'X')) { p += 2; n -= 2; }
    if (!n || n > 16) return false;
    uint64_t v = 0;
    for (size_t i = 0; i < n; i++) {
        char c = p[i];
        int d = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10
              : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
        if (d < 0) return false;
        v = v << 4 | (unsigned)d;
    }
    *out = (int64_t)v;
    return true;
}

/* ---- values ---- */

/* Length of NaN, Infinity, inf and their like at p, sign included; 0 when there is none; -1 when more text is needed. */
static int odd_number(Scanner *s, const char *p) {
    static const char *const WORDS[] = {"Infinity", "infinity", "NaN", "nan", "NAN", "Inf", "inf", "INF"};
    const char *q = p + (*p == '-' || *p == '+');
    size_t have = (size_t)(s->end - q);
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++) {
        size_t n = strlen(WORDS[i]);
        if (memcmp(q, WORDS[i], have < n ? have : n) == 0) return have < n ? -1 : (int)(q - p + (int)n);
    }
    return 0;
}

/* Copy the value at *pp to out as compact, valid JSON. */
static int copy_value(Scanner *s, const char **pp, Bytes *out, int depth) {
    const char *p = blank(*pp);
    Text text;
    int r;
    if (p >= s->end) return MORE;
    switch (*p) {
    case '"':
        if ((r = read_string(s, &p, &text))) return r;
        if (!quote(out, &text)) return memory_gone(s);
        break;
    case '{':
    case '[': {
        char close = *p == '{' ? '}' : ']';
        if (depth >= MAX_DEPTH) return BAD;
        if (!bytes_put(out, p, 1)) return memory_gone(s);
        p = blank(p + 1);
        if (*p == close && p < s->end) {
            p++;
        } else {
            for (;;) {
                if (close == '}') {
                    p = blank(p);
                    if (p >= s->end) return MORE;
                    if (*p != '"') return BAD;
                    if ((r = read_string(s, &p, &text))) return r;
                    if (!quote(out, &text)) return memory_gone(s);
                    p = blank(p);
                    if (p >= s->end) return MORE;
                    if (*p++ != ':') return BAD;
                    if (!bytes_put(out, ":", 1)) return memory_gone(s);
                }
                if ((r = copy_value(s, &p, out, depth + 1))) return r;
                p = blank(p);
                if (p >= s->end) return MORE;
                if (*p == ',') {
                    const char *q = blank(p + 1);
                    if (q >= s->end) return MORE;
                    if (*q == close) { /* [1, 2,] */
                        issue(s, EXTRA_COMMA, p);
                        p = q + 1;
                        break;
                    }
                    if (!bytes_put(out, ",", 1)) return memory_gone(s);
                    p++;
                    continue;
                }
                if (*p != close) return BAD;
                p++;
                break;
            }
        }
        if (!bytes_put(out, &close, 1)) return memory_gone(s);
        break;
    }
    case 't': case 'f': case 'n': {
        const char *word = *p == 't' ? "true" : *p == 'f' ? "false" : "null";
        size_t n = strlen(word);
        if (memcmp(p, word, n) == 0) {
            if (!bytes_put(out, word, n)) return memory_gone(s);
            p += n;
            break;
        }
        if ((size_t)(s->end - p) < n && memcmp(p, word, (size_t)(s->end - p)) == 0) return MORE;
    }
    /* fall through */
    default: {
        const char *q = number_end(p);
        if (q) {
            if (may_go_on(s, q)) return MORE;
            if (!bytes_put(out, p, (size_t)(q - p))) return memory_gone(s);
            p = q;
            break;
        }
        int n = odd_number(s, p);
        if (n < 0) return MORE;
        if (!n) return BAD;
        issue(s, NOT_A_NUMBER, p);
        if (!bytes_put(out, "null", 4)) return memory_gone(s);
        p += n;
    }
    }
    *pp = p;
    return OK;
}

/* A number or string for an identifier or a time: its text. kind 'n' number, 's' string, 0 anything else (skipped). */
static int read_scalar(Scanner *s, const char **pp, Text *text, char *kind) {
    const char *p = blank(*pp);
    if (p >= s->end) return MORE;
    if (*p == '"') {
        *kind = 's';
        *pp = p;
        return read_string(s, pp, text);
    }
    const char *q = number_end(p);
    if (q) {
        if (may_go_on(s, q)) return MORE;
        *text = (Text){p, (size_t)(q - p), true};
        *kind = 'n';
        *pp = q;
        return OK;
    }
    *kind = 0;
    s->value_text.size = 0;
    *pp = p;
    return copy_value(s, pp, &s->value_text, 0);
}

static int read_time(Scanner *s, const char **pp, int64_t *ns, uint8_t *state) {
    Text text;
    char kind;
    int r = read_scalar(s, pp, &text, &kind);
    if (r) return r;
    if (kind == 's') {
        while (text.size && text.data[0] == ' ') { text.data++; text.size--; }
        while (text.size && text.data[text.size - 1] == ' ') text.size--;
    }
    *state = kind && scaled(text.data, text.size, 3, ns, NULL) ? GIVEN
           : !kind && s->value_text.size == 4 && !memcmp(s->value_text.data, "null", 4) ? ABSENT : WRONG;
    return OK;
}

/* pid and tid: numbers, numbers as strings, or names. */
static int read_who(Scanner *s, const char **pp, int64_t *value, uint8_t *state) {
    Text text;
    char kind;
    int r = read_scalar(s, pp, &text, &kind);
    if (r) return r;
    if (!kind || !text.size) {
        *state = NONE;
    } else if (integer(text.data, text.size, value)) {
        *state = NUMBER;
    } else {
        int32_t id = intern(&s->strings, text.data, text.size);
        if (id == -2) return memory_gone(s);
        *value = id;
        *state = STRING;
    }
    return OK;
}

/* id: numbers as they are, strings as hexadecimal where they are that, else as names. */
static int read_id(Scanner *s, const char **pp, int64_t *value, uint8_t *state) {
    Text text;
    char kind;
    int r = read_scalar(s, pp, &text, &kind);
    if (r) return r;
    if (!kind) {
        *state = NONE;
    } else if (kind == 'n' ? integer(text.data, text.size, value) : hexadecimal(text.data, text.size, value)) {
        *state = NUMBER;
    } else {
        int32_t id = intern(&s->strings, text.data, text.size);
        if (id == -2) return memory_gone(s);
        *value = id;
        *state = STRING;
    }
    return OK;
}

static int read_name(Scanner *s, const char **pp, int32_t *id) {
    Text text;
    char kind;
    int r = read_scalar(s, pp, &text, &kind);
    if (r) return r;
    if (!kind) {
        if (s->value_text.size == 4 && !memcmp(s->value_text.data, "null", 4)) return OK;
        text = (Text){s->value_text.data, s->value_text.size, true};
    }
    *id = intern(&s->strings, text.data, text.size);
    return *id == -2 ? memory_gone(s) : OK;
}

static int read_letter(Scanner *s, const char **pp, uint8_t *letter) {
    Text text;
    char kind;
    int r = read_scalar(s, pp, &text, &kind);
    if (!r && kind == 's' && text.size) *letter = (uint8_t)text.data[0];
    return r;
}

/* {"local": ID} or {"global": ID} */
static int read_id2(Scanner *s, const char **pp, Event *e) {
    const char *p = blank(*pp);
    Text text;
    int r;
    if (p >= s->end) return MORE;
    if (*p != '{') {
        s->value_text.size = 0;
        return copy_value(s, pp, &s->value_text, 0);
    }
    p = blank(p + 1);
    while (p < s->end && *p == '"') {
        if ((r = read_string(s, &p, &text))) return r;
        bool local = text.size == 5 && !memcmp(text.data, "local", 5);
        bool global = text.size == 6 && !memcmp(text.data, "global", 6);
        p = blank(p);
        if (p >= s->end) return MORE;
        if (*p++ != ':') return BAD;
        int64_t value = 0;
        uint8_t state = NONE;
        if ((r = read_id(s, &p, &value, &state))) return r;
        if (state != NONE && (local || global)) {
            e->id = value;
            e->id_kind = (uint8_t)(state + (local ? LOCAL : GLOBAL));
        }
        p = blank(p);
        if (*p == ',') p = blank(p + 1);
    }
    if (p >= s->end) return MORE;
    if (*p != '}') return BAD;
    *pp = p + 1;
    return OK;
}

static Key *find_key(Scanner *s, const char *p, size_t n) {
    unsigned h = (unsigned)(hash_text(p, n) & 255);
    for (; s->key_slots[h]; h = (h + 1) & 255) {
        Key *k = &s->keys[s->key_slots[h] - 1];
        if (k->size == n && memcmp(k->name, p, n) == 0) return k;
    }
    return NULL;
}

/* Three numbers out of [x, y, z], "[x, y, z]", "x,y,z" or "xXyXz"; fewer are filled up with 1. */
static bool triple(const char *p, size_t n, int64_t out[3]) {
    const char *end = p + n;
    int k = 0;
    out[0] = out[1] = out[2] = 1;
    while (p < end && *p == ' ') p++;
    if (p < end && (*p == '[' || *p == '(' || *p == '{')) p++;
    while (p < end && *p == ' ') p++;
    for (;;) {
        const char *start = p;
        while (p < end && ((*p >= '0' && *p <= '9') || *p == '-' || *p == '.' || *p == '+')) p++;
        if (!integer(start, (size_t)(p - start), &out[k++])) return false;
        while (p < end && *p == ' ') p++;
        if (k == 3 || p >= end || (*p != ',' && *p != 'x' && *p != 'X')) break;
        p++;
        while (p < end && *p == ' ') p++;
    }
    if (p < end && (*p == ']' || *p == ')' || *p == '}')) p++;
    while (p < end && *p == ' ') p++;
    return p == end;
}

/* Put a value into the event's column of key k. 0: taken; 1: it doesn't fit the column. -1: no memory. */
static int take_value(Scanner *s, Event *e, Key *k, const char *raw, size_t raw_size, const Text *text) {
    int index = (int)(k - s->keys);
    int64_t *v = e->value[index];
    const char *p = text ? text->data : raw;
    size_t n = text ? text->size : raw_size;
    bool null = !text && n == 4 && !memcmp(p, "null", 4);
    int32_t id;
    double f;
    char *stop;
    char number[64];
    switch (k->kind) {
    case 'i':
        if (!integer(p, n, v) && !(text && n > 2 && p[0] == '0' && (p[1] | 32) == 'x' && hexadecimal(p, n, v))) return 1;
        break;
    case 'f':
        if (!n || n >= sizeof number || !(p[0] == '-' || (p[0] >= '0' && p[0] <= '9'))) return 1;
        memcpy(number, p, n);
        number[n] = 0;
        if (number_end(number) != number + n) return 1;
        f = strtod(number, &stop);
        memcpy(v, &f, sizeof f);
        break;
    case 'x':
        if (!triple(p, n, v)) return 1;
        break;
    default: /* 's' text, 'j' JSON */
        if (null) return 1;
        if (text && !n) { /* "" says nothing */
            e->has &= ~(1ull << index);
            return 0;
        }
        id = intern(&s->strings, p, n);
        if (id == -2) return -1;
        v[0] = id;
    }
    e->has |= 1ull << index;
    return 0;
}

/* The args object at *pp. Wanted keys go to their columns, the rest to args_rest as `,"key":value` texts. */
static int read_args(Scanner *s, const char **pp, Event *e, bool wanted) {
    const char *p = blank(*pp + 1);
    Text text;
    int r;
    s->args_rest.size = 0;
    e->has = 0;
    if (p >= s->end) return MORE;
    if (*p == '}') {
        *pp = p + 1;
        return OK;
    }
    for (;;) {
        p = blank(p);
        if (p >= s->end) return MORE;
        if (*p != '"') return BAD;
        if ((r = read_string(s, &p, &text))) return r;
        Key *k = wanted ? find_key(s, text.data, text.size) : NULL;
        size_t mark = s->args_rest.size;
        if (!bytes_put(&s->args_rest, ",", 1) || !quote(&s->args_rest, &text)
            || !bytes_put(&s->args_rest, ":", 1)) return memory_gone(s);
        p = blank(p);
        if (p >= s->end) return MORE;
        if (*p++ != ':') return BAD;
        p = blank(p);
        if (p >= s->end) return MORE;
        int taken = 1;
        if (k && *p == '"') {
            if ((r = read_string(s, &p, &text))) return r;
            if ((taken = take_value(s, e, k, NULL, 0, &text)) < 0) return memory_gone(s);
            if (taken && !quote(&s->args_rest, &text)) return memory_gone(s);
        } else {
            size_t at = s->args_rest.size;
            if ((r = copy_value(s, &p, &s->args_rest, 0))) return r;
            if (k && (taken = take_value(s, e, k, s->args_rest.data + at, s->args_rest.size - at, NULL)) < 0)
                return memory_gone(s);
        }
        if (!taken) s->args_rest.size = mark;
        p = blank(p);
        if (p >= s->end) return MORE;
        if (*p == ',') {
            p = blank(p + 1);
            if (p >= s->end) return MORE;
            if (*p != '}') continue;
            issue(s, EXTRA_COMMA, p);
        }
        if (*p != '}') return BAD;
        *pp = p + 1;
        return OK;
    }
}

/* The args of a counter: each number is a series. The text has been seen to be right before. */
static bool keep_series(Scanner *s, Event *e) {
    const char *p = blank(e->args + 1);
    Text text;
    s->args_rest.size = 0;
    e->has = 0;
    while (*p == '"') {
        if (read_string(s, &p, &text)) return true;
        s->key_text.size = 0;
        if (!bytes_put(&s->key_text, text.data, text.size)) return false;
        Text key = {s->key_text.data, s->key_text.size, false};
        p = blank(blank(p) + 1);
        bool string = *p == '"';
        s->value_text.size = 0;
        if (string ? read_string(s, &p, &text) : copy_value(s, &p, &s->value_text, 0)) return true;
        const char *v = string ? text.data : s->value_text.data;
        size_t n = string ? text.size : s->value_text.size;
        char number[64];
        bool good = n && n < sizeof number;
        if (good) {
            memcpy(number, v, n);
            number[n] = 0;
            good = number_end(number) == number + n;
        }
        if (good) {
            double value = strtod(number, NULL);
            int32_t id = intern(&s->strings, key.data, key.size);
            if (id == -2 || !bytes_put(&s->series_rows, &s->rows, 4) || !bytes_put(&s->series_keys, &id, 4)
                || !bytes_put(&s->series_values, &value, 8)) return false;
        } else {
            if (!bytes_put(&s->args_rest, ",", 1) || !quote(&s->args_rest, &key) || !bytes_put(&s->args_rest, ":", 1)
                || !(string ? quote(&s->args_rest, &text) : bytes_put(&s->args_rest, v, n))) return false;
        }
        p = blank(p);
        if (*p == ',') p = blank(p + 1);
    }
    return true;
}

static bool keep_event(Scanner *s, const Event *e) {
    const uint8_t small[8] = {e->ph, e->ts_state, e->dur_state, e->pid_kind, e->tid_kind, e->id_kind, e->bp, e->scope};
    const int64_t wide[5] = {e->ts, e->dur, e->pid, e->tid, e->id};
    const int32_t names[3] = {e->name, e->cat, e->id_scope};
    bool good = true;
    for (int i = 0; i < 8; i++) good &= bytes_put(&s->dense[PH + i], &small[i], 1);
    for (int i = 0; i < 5; i++) good &= bytes_put(&s->dense[TS + i], &wide[i], 8);
    for (int i = 0; i < 3; i++) good &= bytes_put(&s->dense[NAME + i], &names[i], 4);
    for (uint64_t has = e->has; has; has &= has - 1) {
        int i = __builtin_ctzll(has);
        good &= bytes_put(&s->keys[i].rows, &s->rows, 4)
             && bytes_put(&s->keys[i].values, e->value[i], s->keys[i].kind == 'x' ? 24 : 8);
    }
    if (s->args_rest.size + s->top_rest.size) {
        Bytes *out = &s->rest;
        size_t mark = out->size;
        good &= bytes_put(out, s->args_rest.data, s->args_rest.size) && bytes_put(out, s->top_rest.data, s->top_rest.size)
             && bytes_put(out, "}", 1);
        if (good) out->data[mark] = '{'; /* in place of the first comma */
        int64_t end = (int64_t)out->size;
        good &= bytes_put(&s->rest_rows, &s->rows, 4) && bytes_put(&s->rest_ends, &end, 8);
    }
    s->rows++;
    return good;
}

/* The event object at *pp. */
static int read_event(Scanner *s, const char **pp) {
    const char *p = blank(*pp + 1);
    Text key;
    int r;
    Event e;
    memset(&e, 0, offsetof(Event, value));
    e.args = NULL;
    e.name = e.cat = e.id_scope = -1;
    s->args_rest.size = s->top_rest.size = 0;
    if (p >= s->end) return MORE;
    if (*p == '}') {
        issue(s, EMPTY_EVENT, p);
        issues_keep(s);
        *pp = p + 1;
        return OK;
    }
    for (;;) {
        p = blank(p);
        if (p >= s->end) return MORE;
        if (*p != '"') return BAD;
        if ((r = read_string(s, &p, &key))) return r;
        const char *k = key.data;
        p = blank(p);
        if (p >= s->end) return MORE;
        if (*p++ != ':') return BAD;
        bool known = true;
        switch (key.size) {
        case 1:
            if (*k == 's') r = read_letter(s, &p, &e.scope);
            else known = false;
            break;
        case 2:
            if (!memcmp(k, "ph", 2)) r = read_letter(s, &p, &e.ph);
            else if (!memcmp(k, "ts", 2)) r = read_time(s, &p, &e.ts, &e.ts_state);
            else if (!memcmp(k, "bp", 2)) r = read_letter(s, &p, &e.bp);
            else if (!memcmp(k, "id", 2)) {
                int64_t value = 0;
                uint8_t state = NONE;
                r = read_id(s, &p, &value, &state);
                if (e.id_kind <= STRING) {
                    e.id = value;
                    e.id_kind = state;
                }
            } else known = false;
            break;
        case 3:
            if (!memcmp(k, "pid", 3)) r = read_who(s, &p, &e.pid, &e.pid_kind);
            else if (!memcmp(k, "tid", 3)) r = read_who(s, &p, &e.tid, &e.tid_kind);
            else if (!memcmp(k, "dur", 3)) r = read_time(s, &p, &e.dur, &e.dur_state);
            else if (!memcmp(k, "cat", 3)) r = read_name(s, &p, &e.cat);
            else if (!memcmp(k, "id2", 3)) r = read_id2(s, &p, &e);
            else known = false;
            break;
        case 4:
            if (!memcmp(k, "name", 4)) r = read_name(s, &p, &e.name);
            else if (!memcmp(k, "args", 4)) {
                p = blank(p);
                if (p >= s->end) return MORE;
                if (*p != '{') known = false;
                else {
                    e.args = p;
                    r = read_args(s, &p, &e, true);
                }
            } else known = false;
            break;
        case 5:
            if (!memcmp(k, "scope", 5)) r = read_name(s, &p, &e.id_scope);
            else known = false;
            break;
        default:
            known = false;
        }
        if (!known) {
            size_t mark = s->top_rest.size;
            if (!bytes_put(&s->top_rest, ",", 1) || !quote(&s->top_rest, &key) || !bytes_put(&s->top_rest, ":", 1))
                return memory_gone(s);
            size_t at = s->top_rest.size;
            bool args = key.size == 4 && !memcmp(k, "args", 4);
            r = copy_value(s, &p, &s->top_rest, 0);
            if (!r && args && s->top_rest.size - at == 4 && !memcmp(s->top_rest.data + at, "null", 4))
                s->top_rest.size = mark; /* "args": null */
        }
        if (r) return r;
        p = blank(p);
        if (p >= s->end) return MORE;
        if (*p == ',') {
            p = blank(p + 1);
            if (p >= s->end) return MORE;
            if (*p != '}') continue;
            issue(s, EXTRA_COMMA, p);
        }
        if (*p != '}') return BAD;
        p++;
        break;
    }
    issues_keep(s);
    if (e.args && e.ph == 'C' && !keep_series(s, &e)) return memory_gone(s);
    if (e.args && (e.ph == 'M' || e.ph == 'P' || e.ph == 'O' || e.ph == 'N' || e.ph == 'D' || e.ph == 'v' || e.ph == 'V')) {
        const char *again = e.args; /* those phases want their args whole */
        if ((r = read_args(s, &again, &e, false))) return r;
    }
    issues_forget(s);
    if (!keep_event(s, &e)) return memory_gone(s);
    s->any_events = true;
    *pp = p;
    return OK;
}

/* ---- the whole file ---- */

static int read_metadata(Scanner *s, const char **pp) {
    const char *p = *pp;
    Text key;
    int r = read_string(s, &p, &key);
    if (r) return r;
    s->key_text.size = 0;
    if (!bytes_put(&s->key_text, key.data, key.size)) return memory_gone(s);
    p = blank(p);
    if (p >= s->end) return MORE;
    if (*p++ != ':') return BAD;
    p = blank(p);
    if (p >= s->end) return MORE;
    if (*p == '[' && s->key_text.size == 11 && !memcmp(s->key_text.data, "traceEvents", 11)) {
        *pp = p + 1;
        s->state = EVENTS;
        s->any_events = true;
        s->comma = true;
        return OK;
    }
    s->value_text.size = 0;
    if ((r = copy_value(s, &p, &s->value_text, 0))) return r;
    issues_keep(s);
    Meta m = {malloc(s->key_text.size + s->value_text.size + 1), s->key_text.size, s->value_text.size};
    if (!m.text || !bytes_put(&s->metas, &m, sizeof m)) {
        free(m.text);
        return memory_gone(s);
    }
    memcpy(m.text, s->key_text.data, m.key_size);
    memcpy(m.text + m.key_size, s->value_text.data, m.size);
    *pp = p;
    return OK;
}

/* After a malformed event: the start of the next one (past `},` or `}` and newline), or the end. */
static const char *next_event(Scanner *s, const char *p, bool *found) {
    *found = false;
    while (p < s->end) {
        const char *brace = memchr(p, '}', (size_t)(s->end - p));
        if (!brace) return s->end;
        const char *q = blank(brace + 1);
        if (q < s->end && *q == ',') {
            q = blank(q + 1);
            if (q < s->end && *q == '{') {
                *found = true;
                return q;
            }
        }
        if (q >= s->end) return s->final ? s->end : brace;
        p = brace + 1;
    }
    return s->end;
}

/* Run as far as the text goes. Returns the unconsumed position. */
static const char *run(Scanner *s, const char *p) {
    for (;;) {
        int r;
        p = blank(p);
        if (p >= s->end || s->oom) return p;
        switch (s->state) {
        case START:
            if (*p == '{') s->state = TOP;
            else if (*p == '[') {
                s->state = EVENTS;
                s->array = s->comma = s->any_events = true;
            } else {
                issue_now(s, NO_EVENTS, p);
                s->state = DONE;
            }
            p++;
            break;
        case TOP:
            if (*p == ',') { p++; break; }
            if (*p == '}') {
                s->state = DONE;
                p++;
                break;
            }
            issues_forget(s);
            r = *p == '"' ? read_metadata(s, &p) : BAD;
            if (r == MORE) {
                if (s->final) {
                    issue_now(s, TRUNCATED_METADATA, p);
                    return s->end;
                }
                return p;
            }
            if (r == BAD && !s->oom) {
                issue_now(s, MALFORMED_METADATA, p);
                s->state = TOP_LOST;
                p++;
            }
            break;
        case TOP_LOST: { /* look for the events, nothing else */
            static const char WORD[] = "\"traceEvents\"";
            const char *q = p;
            size_t n = sizeof WORD - 1;
            while (q < s->end && (q = memchr(q, '"', (size_t)(s->end - q)))) {
                if ((size_t)(s->end - q) < n) break;
                if (!memcmp(q, WORD, n)) break;
                q++;
            }
            if (!q || q >= s->end) return s->end;
            if ((size_t)(s->end - q) < n) return s->final ? s->end : q;
            s->state = TOP;
            p = q;
            break;
        }
        case EVENTS:
            if (*p == ',') {
                if (s->comma) issue_now(s, EXTRA_COMMA, p);
                s->comma = true;
                p++;
                break;
            }
            if (*p == ']') {
                if (s->comma && s->rows) issue_now(s, EXTRA_COMMA, p);
                s->state = s->array ? DONE : TOP;
                p++;
                break;
            }
            if (*p == '}' && !s->array) { /* the object ends, the array did not */
                issue_now(s, MISSING_BRACKET, p);
                s->state = DONE;
                p++;
                break;
            }
            issues_forget(s);
            const char *start = p;
            if (*p == '{') {
                r = read_event(s, &p);
            } else {
                s->value_text.size = 0;
                r = copy_value(s, &p, &s->value_text, 0);
                if (!r) issue_now(s, NOT_AN_OBJECT, start);
            }
            if (s->oom) return start;
            if (r == MORE) {
                if (!s->final) return start;
                issue_now(s, TRUNCATED_EVENT, start);
                return s->end;
            }
            if (r == BAD) {
                issue_now(s, MALFORMED_EVENT, start);
                s->state = LOST;
                p = start + 1;
                break;
            }
            if (!s->comma) issue_now(s, MISSING_COMMA, start);
            s->comma = false;
            break;
        case LOST: {
            bool found;
            p = next_event(s, p, &found);
            if (!found) return p;
            s->state = EVENTS;
            s->comma = true;
            break;
        }
        case DONE:
            if (!s->issues[TRAILING_DATA] && !s->issues[NO_EVENTS]) issue_now(s, TRAILING_DATA, p);
            return s->end;
        }
    }
}

static void step(Scanner *s, const char *data, size_t size) {
    Bytes *b = &s->buffer;
    size_t rest = b->size - s->done;
    if (s->done) {
        memmove(b->data, b->data + s->done, rest);
        s->offset += (int64_t)s->done;
        s->done = 0;
        b->size = rest;
    }
    if (!bytes_room(b, size + PAD)) {
        s->oom = true;
        return;
    }
    if (size) memcpy(b->data + b->size, data, size);
    b->size += size;
    memset(b->data + b->size, 0, PAD);
    if (b->size < s->wanted && !s->final) return;
    s->end = b->data + b->size;
    const char *p = run(s, b->data);
    if (p > s->end) p = s->end;
    s->done = (size_t)(p - b->data);
    rest = b->size - s->done;
    s->wanted = rest > 65536 ? rest * 2 : 0;
}

/* ---- Python ---- */

static int enter(Scanner *s) {
    if (s->busy) {
        PyErr_SetString(PyExc_RuntimeError, "the scanner is in use by another thread");
        return -1;
    }
    s->busy = true;
    return 0;
}

static PyObject *scanner_feed(Scanner *s, PyObject *data) {
    Py_buffer view;
    if (PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)) return NULL;
    if (enter(s)) {
        PyBuffer_Release(&view);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    step(s, view.buf, (size_t)view.len);
    Py_END_ALLOW_THREADS
    s->busy = false;
    PyBuffer_Release(&view);
    if (s->oom) return PyErr_NoMemory();
    return PyLong_FromUnsignedLong(s->rows);
}

static PyObject *scanner_finish(Scanner *s, PyObject *unused) {
    (void)unused;
    if (enter(s)) return NULL;
    s->final = true;
    Py_BEGIN_ALLOW_THREADS
    step(s, NULL, 0);
    Py_END_ALLOW_THREADS
    s->busy = false;
    if (s->oom) return PyErr_NoMemory();
    if (s->state == EVENTS || s->state == LOST) issue_now(s, MISSING_BRACKET, s->buffer.data + s->done);
    else if (s->state == TOP && !s->issues[TRUNCATED_METADATA])
        issue_now(s, TRUNCATED_METADATA, s->buffer.data + s->done);
    if (!s->any_events && !s->issues[NO_EVENTS]) issue_now(s, NO_EVENTS, s->buffer.data + s->buffer.size);
    return PyLong_FromUnsignedLong(s->rows);
}

/* Move a buffer's bytes into a dict and empty it. */
static int hand_over(PyObject *dict, const char *name, Bytes *b) {
    PyObject *value = PyBytes_FromStringAndSize(b->data, (Py_ssize_t)b->size);
    b->size = 0;
    if (!value) return -1;
    int r = PyDict_SetItemString(dict, name, value);
    Py_DECREF(value);
    return r;
}

static PyObject *scanner_take(Scanner *s, PyObject *unused) {
    (void)unused;
    if (enter(s)) return NULL;
    PyObject *out = PyDict_New(), *keys = PyDict_New();
    int bad = !out || !keys || PyDict_SetItemString(out, "keys", keys);
    for (int i = 0; i < DENSE && !bad; i++) bad = hand_over(out, DENSE_NAMES[i], &s->dense[i]);
    bad = bad || hand_over(out, "rest_rows", &s->rest_rows) || hand_over(out, "rest_ends", &s->rest_ends)
       || hand_over(out, "rest", &s->rest) || hand_over(out, "series_rows", &s->series_rows)
       || hand_over(out, "series_keys", &s->series_keys) || hand_over(out, "series_values", &s->series_values);
    for (int i = 0; i < s->n_keys && !bad; i++) {
        Key *k = &s->keys[i];
        if (!k->rows.size) continue;
        PyObject *pair = Py_BuildValue("(y#y#)", k->rows.data, (Py_ssize_t)k->rows.size, k->values.data,
                                       (Py_ssize_t)k->values.size);
        bad = !pair || PyDict_SetItemString(keys, k->name, pair);
        Py_XDECREF(pair);
        k->rows.size = k->values.size = 0;
    }
    s->rows = 0;
    s->busy = false;
    Py_XDECREF(keys);
    if (bad) Py_CLEAR(out);
    return out;
}

static PyObject *scanner_strings(Scanner *s, PyObject *arg) {
    long first = PyLong_AsLong(arg);
    if (first == -1 && PyErr_Occurred()) return NULL;
    if (first < 0 || first > (long)s->strings.count) {
        PyErr_SetString(PyExc_IndexError, "no such string");
        return NULL;
    }
    const int64_t *ends = (const int64_t *)s->strings.ends.data;
    int64_t start = first ? ends[first - 1] : 0, end = s->strings.count ? ends[s->strings.count - 1] : 0;
    return Py_BuildValue("(Ly#y#)", (long long)start, ends ? (const char *)(ends + first) : "",
                         (Py_ssize_t)((s->strings.count - (size_t)first) * sizeof(int64_t)),
                         s->strings.text.data ? s->strings.text.data + start : "", (Py_ssize_t)(end - start));
}

static PyObject *scanner_metadata(Scanner *s, PyObject *unused) {
    (void)unused;
    size_t n = s->metas.size / sizeof(Meta);
    const Meta *m = (const Meta *)s->metas.data;
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < n; i++) {
        PyObject *pair = Py_BuildValue("(y#y#)", m[i].text, (Py_ssize_t)m[i].key_size, m[i].text + m[i].key_size,
                                       (Py_ssize_t)m[i].size);
        if (!pair || PyList_Append(list, pair)) Py_CLEAR(list);
        Py_XDECREF(pair);
    }
    return list;
}

static PyObject *scanner_issues(Scanner *s, PyObject *unused) {
    (void)unused;
    PyObject *list = PyList_New(0);
    for (int i = 0; list && i < ISSUES; i++) {
        if (!s->issues[i]) continue;
        PyObject *entry = Py_BuildValue("(sLL)", ISSUE_CODES[i], (long long)s->issues[i], (long long)s->issue_at[i]);
        if (!entry || PyList_Append(list, entry)) Py_CLEAR(list);
        Py_XDECREF(entry);
    }
    return list;
}

static PyObject *scanner_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *keys;
    static char *names[] = {"keys", NULL};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O", names, &keys)) return NULL;
    PyObject *fast = PySequence_Fast(keys, "keys must be a sequence of (name, kind)");
    if (!fast) return NULL;
    Scanner *s = (Scanner *)type->tp_alloc(type, 0);
    Py_ssize_t n = PySequence_Fast_GET_SIZE(fast);
    if (s && n > MAX_KEYS) {
        PyErr_Format(PyExc_ValueError, "at most %d keys", MAX_KEYS);
        Py_CLEAR(s);
    }
    for (Py_ssize_t i = 0; s && i < n; i++) {
        const char *name, *kind;
        PyObject *item = PySequence_Fast_GET_ITEM(fast, i);
        if (!PyTuple_Check(item) || !PyArg_ParseTuple(item, "ss", &name, &kind)) {
            if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "keys must be a sequence of (name, kind)");
            Py_CLEAR(s);
            break;
        }
        Key *k = &s->keys[i];
        k->size = strlen(name);
        k->kind = kind[0];
        k->name = malloc(k->size + 1);
        if (!k->name) {
            PyErr_NoMemory();
            Py_CLEAR(s);
            break;
        }
        memcpy(k->name, name, k->size + 1);
        s->n_keys = (int)i + 1;
        unsigned h = (unsigned)(hash_text(name, k->size) & 255);
        while (s->key_slots[h]) h = (h + 1) & 255;
        s->key_slots[h] = (uint8_t)(i + 1);
    }
    Py_DECREF(fast);
    return (PyObject *)s;
}

static void scanner_dealloc(Scanner *s) {
    Bytes *all[] = {&s->buffer, &s->strings.text, &s->strings.ends, &s->rest_rows, &s->rest_ends, &s->rest,
                    &s->series_rows, &s->series_keys, &s->series_values, &s->scratch, &s->top_rest, &s->args_rest,
                    &s->key_text, &s->value_text};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]->data);
    for (int i = 0; i < DENSE; i++) free(s->dense[i].data);
    for (int i = 0; i < s->n_keys; i++) {
        free(s->keys[i].name);
        free(s->keys[i].rows.data);
        free(s->keys[i].values.data);
    }
    for (size_t i = 0; i < s->metas.size / sizeof(Meta); i++) free(((Meta *)s->metas.data)[i].text);
    free(s->metas.data);
    free(s->strings.hashes);
    free(s->strings.ids);
    PyTypeObject *type = Py_TYPE(s);
    type->tp_free((PyObject *)s);
    Py_DECREF(type);
}

static PyObject *scanner_rows(Scanner *s, void *unused) {
    (void)unused;
    return PyLong_FromUnsignedLong(s->rows);
}

static PyMethodDef SCANNER_METHODS[] = {
    {"feed", (PyCFunction)scanner_feed, METH_O, "Scan one more piece of the file; returns the rows that wait."},
    {"finish", (PyCFunction)scanner_finish, METH_NOARGS, "The file has ended; returns the rows that wait."},
    {"take", (PyCFunction)scanner_take, METH_NOARGS, "The waiting rows as a dict of column buffers; empties them."},
    {"strings", (PyCFunction)scanner_strings, METH_O, "(start, int64 end offsets, text) of the strings from an id on."},
    {"metadata", (PyCFunction)scanner_metadata, METH_NOARGS, "[(key, JSON text)] beside the events, so far."},
    {"issues", (PyCFunction)scanner_issues, METH_NOARGS, "[(code, count, first position)] so far."},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef SCANNER_GETTERS[] = {
    {"rows", (getter)scanner_rows, NULL, "Rows that wait to be taken.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot SCANNER_SLOTS[] = {
    {Py_tp_new, scanner_new}, {Py_tp_dealloc, scanner_dealloc}, {Py_tp_methods, SCANNER_METHODS},
    {Py_tp_getset, SCANNER_GETTERS}, {Py_tp_doc, "Streaming scanner of Chrome trace JSON."}, {0, NULL},
};
static PyType_Spec SCANNER_SPEC = {"topsprof.importers._scan.Scanner", sizeof(Scanner), 0, Py_TPFLAGS_DEFAULT, SCANNER_SLOTS};

/* ---- stacks of traced Python functions: which of them each row of the trace lies in ---- */

typedef struct { int64_t end; int32_t path; } Frame;
typedef struct { Frame *frames; size_t depth, room; } Track;

typedef struct {
    PyObject_HEAD
    Bytes tracks;   /* Track, by number */
    Bytes paths;    /* int32 pairs (caller's path or -1, function) */
    uint32_t *slots; /* open addressing: path + 1 */
    size_t n_slots;
} Stacks;

static bool stacks_grow(Stacks *s) {
    size_t n = s->n_slots ? s->n_slots * 2 : 1024;
    uint32_t *slots = calloc(n, sizeof *slots);
    if (!slots) return false;
    const uint64_t *paths = (const uint64_t *)s->paths.data;
    for (uint32_t i = 0; i < s->paths.size / 8; i++) {
        size_t k = hash_text((const char *)&paths[i], 8) & (n - 1);
        while (slots[k]) k = (k + 1) & (n - 1);
        slots[k] = i + 1;
    }
    free(s->slots);
    s->slots = slots;
    s->n_slots = n;
    return true;
}

/* The path of `function` called from path `caller`; -2 without memory. */
static int32_t stacks_path(Stacks *s, int32_t caller, int32_t function) {
    if (s->paths.size / 8 * 2 >= s->n_slots && !stacks_grow(s)) return -2;
    const int32_t pair[2] = {caller, function};
    size_t k = hash_text((const char *)pair, 8) & (s->n_slots - 1);
    for (; s->slots[k]; k = (k + 1) & (s->n_slots - 1))
        if (!memcmp(s->paths.data + (s->slots[k] - 1) * 8, pair, 8)) return (int32_t)s->slots[k] - 1;
    if (!bytes_put(&s->paths, pair, 8)) return -2;
    s->slots[k] = (uint32_t)(s->paths.size / 8);
    return (int32_t)s->slots[k] - 1;
}

static bool stacks_walk_rows(Stacks *s, const int64_t *track, const int64_t *start, const int64_t *end,
                             const int32_t *function, int32_t *out, size_t n) {
    for (size_t i = 0; i < n; i++) {
        size_t need = ((size_t)track[i] + 1) * sizeof(Track);
        if (need > s->tracks.size) {
            size_t old = s->tracks.size;
            if (!bytes_room(&s->tracks, need - old)) return false;
            memset(s->tracks.data + old, 0, need - old);
            s->tracks.size = need;
        }
        Track *t = (Track *)s->tracks.data + track[i];
        while (t->depth && t->frames[t->depth - 1].end <= start[i]) t->depth--;
        int32_t path = t->depth ? t->frames[t->depth - 1].path : -1;
        if (function[i] >= 0) {
            path = stacks_path(s, path, function[i]);
            if (path == -2) return false;
            if (t->depth == t->room) {
                size_t room = t->room ? t->room * 2 : 64;
                Frame *frames = realloc(t->frames, room * sizeof *frames);
                if (!frames) return false;
                t->frames = frames;
                t->room = room;
            }
            t->frames[t->depth++] = (Frame){end[i], path};
        }
        out[i] = path;
    }
    return true;
}

static PyObject *stacks_walk(Stacks *s, PyObject *args) {
    Py_buffer track, start, end, function;
    if (!PyArg_ParseTuple(args, "y*y*y*y*", &track, &start, &end, &function)) return NULL;
    size_t n = (size_t)track.len / 8;
    PyObject *out = NULL;
    if ((size_t)start.len != n * 8 || (size_t)end.len != n * 8 || (size_t)function.len != n * 4)
        PyErr_SetString(PyExc_ValueError, "columns of different lengths");
    else if ((out = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)n * 4))
             && !stacks_walk_rows(s, track.buf, start.buf, end.buf, function.buf, (int32_t *)PyBytes_AS_STRING(out), n)) {
        Py_CLEAR(out);
        PyErr_NoMemory();
    }
    PyBuffer_Release(&track);
    PyBuffer_Release(&start);
    PyBuffer_Release(&end);
    PyBuffer_Release(&function);
    return out;
}

static PyObject *stacks_paths(Stacks *s, PyObject *unused) {
    (void)unused;
    return PyBytes_FromStringAndSize(s->paths.data, (Py_ssize_t)s->paths.size);
}

static void stacks_dealloc(Stacks *s) {
    for (size_t i = 0; i < s->tracks.size / sizeof(Track); i++) free(((Track *)s->tracks.data)[i].frames);
    free(s->tracks.data);
    free(s->paths.data);
    free(s->slots);
    PyTypeObject *type = Py_TYPE(s);
    type->tp_free((PyObject *)s);
    Py_DECREF(type);
}

static PyMethodDef STACKS_METHODS[] = {
    {"walk", (PyCFunction)stacks_walk, METH_VARARGS,
     "Rows by start (int64 track, start, end, int32 function or -1) -> int32 path of each, -1: in no function."},
    {"paths", (PyCFunction)stacks_paths, METH_NOARGS, "int32 pairs (caller's path or -1, function) of all paths."},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot STACKS_SLOTS[] = {
    {Py_tp_new, PyType_GenericNew}, {Py_tp_dealloc, stacks_dealloc}, {Py_tp_methods, STACKS_METHODS},
    {Py_tp_doc, "Call stacks of traced functions, over many batches."}, {0, NULL},
};
static PyType_Spec STACKS_SPEC = {"topsprof.importers._scan.Stacks", sizeof(Stacks), 0, Py_TPFLAGS_DEFAULT, STACKS_SLOTS};

/* How many intervals overlap another one without lying within it. The arrays are sorted by (track, start, -length). */
static PyObject *overlaps(PyObject *module, PyObject *args) {
    (void)module;
    Py_buffer track, start, end;
    if (!PyArg_ParseTuple(args, "y*y*y*", &track, &start, &end)) return NULL;
    const int64_t *t = track.buf, *b = start.buf, *e = end.buf;
    Py_ssize_t n = track.len / (Py_ssize_t)sizeof *t, depth = 0, count = 0;
    int64_t *open = NULL;
    bool good = start.len == track.len && end.len == track.len && (open = malloc((size_t)(n + 1) * sizeof *open));
    if (good) {
        Py_BEGIN_ALLOW_THREADS
        for (Py_ssize_t i = 0; i < n; i++) {
            if (i && t[i] != t[i - 1]) depth = 0;
            while (depth && open[depth - 1] <= b[i]) depth--;
            if (depth && e[i] > open[depth - 1]) count++; /* goes on beside the one it began in */
            else open[depth++] = e[i];
        }
        Py_END_ALLOW_THREADS
    }
    free(open);
    PyBuffer_Release(&track);
    PyBuffer_Release(&start);
    PyBuffer_Release(&end);
    if (!good) return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    return PyLong_FromSsize_t(count);
}

static PyMethodDef MODULE_METHODS[] = {
    {"overlaps", overlaps, METH_VARARGS, "Intervals (int64 track, start, end, sorted) that overlap without nesting."},
    {NULL, NULL, 0, NULL},
};

static int module_exec(PyObject *module) {
    PyObject *type = PyType_FromSpec(&SCANNER_SPEC);
    if (!type) return -1;
    int r = PyModule_AddObjectRef(module, "Scanner", type);
    Py_DECREF(type);
    if (r || !(type = PyType_FromSpec(&STACKS_SPEC))) return -1;
    r = PyModule_AddObjectRef(module, "Stacks", type);
    Py_DECREF(type);
    return r;
}
static PyModuleDef_Slot MODULE_SLOTS[] = {{Py_mod_exec, module_exec}, {0, NULL}};
static PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "_scan", NULL, 0, MODULE_METHODS, MODULE_SLOTS, NULL, NULL, NULL};
PyMODINIT_FUNC PyInit__scan(void) { return PyModuleDef_Init(&MODULE); }
