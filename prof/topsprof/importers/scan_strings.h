/* Growable memory, and the table of interned strings. */
#ifndef TOPSPROF_SCAN_STRINGS_H
#define TOPSPROF_SCAN_STRINGS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

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
    if (!size) return true;
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
        if ((size_t)(ends[id] - start) == n && (!n || memcmp(s->text.data + start, p, n) == 0)) return (int32_t)id;
    }
    if (!bytes_put(&s->text, p, n)) return -2;
    int64_t end = (int64_t)s->text.size;
    if (!bytes_put(&s->ends, &end, sizeof end)) return -2;
    s->hashes[k] = h;
    s->ids[k] = ++s->count;
    return (int32_t)(s->count - 1);
}

#endif
