/* The scanner's state: what is read of an event, the columns it goes to, and what was wrong with the text.
 * Include Python.h first. */
#ifndef TOPSPROF_SCAN_STATE_H
#define TOPSPROF_SCAN_STATE_H

#include <stddef.h>
#include "scan_strings.h"

enum { OK = 0, MORE = 1, BAD = 2 }; /* of reading: done; the text ends within it; no JSON, not even with repairs */
enum { PAD = 64, MAX_KEYS = 64, MAX_DEPTH = 200 };

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

#endif
