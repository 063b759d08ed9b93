/* JSON values: copied as valid JSON, or read as what a column holds. */
#ifndef TOPSPROF_SCAN_VALUE_H
#define TOPSPROF_SCAN_VALUE_H

#include "scan_text.h"

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
    case 'i': case 'u': /* only u may need all 64 bits */
        if (integer(p, n, v)) {
            if (*v < 0 && p[0] != '-' && k->kind == 'i') return 1;
        } else if ( !(text && n > 2 && p[0] == '0' && (p[1] | 32) == 'x' && hexadecimal(p, n, v)
                     && (*v >= 0 || k->kind == 'u'))) return 1;
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

#endif
