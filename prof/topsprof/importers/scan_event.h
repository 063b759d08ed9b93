/* One event: its keys, its args, and its row in the columns. */
#ifndef TOPSPROF_SCAN_EVENT_H
#define TOPSPROF_SCAN_EVENT_H

#include "scan_value.h"

/* What follows a member of an object: *more says whether another member does; else the object has ended, before *pp. */
static inline int after_member(Scanner *s, const char **pp, bool *more) {
    const char *p = blank(*pp);
    *more = false;
    if (p >= s->end) return MORE;
    if (*p == ',') {
        const char *comma = p;
        p = blank(p + 1);
        if (p >= s->end) return MORE;
        if (*p != '}') {
            *more = true;
            *pp = p;
            return OK;
        }
        issue(s, EXTRA_COMMA, comma);
    }
    if (*p != '}') return BAD;
    *pp = p + 1;
    return OK;
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
        bool more;
        if ((r = after_member(s, &p, &more))) return r;
        if (more) continue;
        *pp = p;
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
        bool more;
        if ((r = after_member(s, &p, &more))) return r;
        if (!more) break;
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

#endif
