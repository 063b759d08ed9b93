/* JSON strings and numbers. */
#ifndef TOPSPROF_SCAN_TEXT_H
#define TOPSPROF_SCAN_TEXT_H

#include "scan_state.h"
#include <stdlib.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

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

#endif
