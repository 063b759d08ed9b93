/* The whole file: events one after the other, what stands beside them, and recovery from what is damaged. */
#ifndef TOPSPROF_SCAN_FILE_H
#define TOPSPROF_SCAN_FILE_H

#include "scan_event.h"

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
    if (m.key_size) memcpy(m.text, s->key_text.data, m.key_size);
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

#endif
