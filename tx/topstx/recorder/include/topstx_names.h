/* topstx_names.h - interning of names into the process's names file (internal to topstx.h).
 *
 * A name is interned once; its id is good for the life of the attachment, also in fork children, whose files continue the
 * parent's ids. Lookups go through a hash of our own memory, so nothing here reads the file back.
 */
#ifndef TOPSTX_NAMES_H
#define TOPSTX_NAMES_H
#include "topstx_process.h"

typedef struct topstxi_name {
    uint32_t kind;
    uint32_t bytes;
} topstxi_name; /* its bytes follow, then padding to 8 */

static void topstxi_reincarnate(void); /* topstx_attach.h */

#define TOPSTXI_NAMES_FIRST_BYTES 32768u
#define TOPSTXI_NAMES_BYTES_MAX (128u << 20) /* text of all names together; past it names count as too many */

/* How much to keep of `bytes` of a text that goes on behind them: all but a character that the cut would halve. What is no
 * UTF-8 stays, for the reader to replace. */
static inline uint32_t topstxi_whole(const void *text, uint32_t bytes) {
    const unsigned char *end = (const unsigned char *)text + bytes;
    uint32_t back;
    for (back = 1; back <= 3 && back <= bytes; back++) {
        unsigned char lead = end[-(int)back], second = back > 1 ? end[1 - (int)back] : 0;
        if ((lead & 0xC0) == 0x80) continue;
        if (lead < 0xC2 || lead > 0xF4 || back >= (lead < 0xE0 ? 2u : lead < 0xF0 ? 3u : 4u)) break;
        if (back > 1 && ((lead == 0xE0 && second < 0xA0) || (lead == 0xED && second > 0x9F) || (lead == 0xF0 && second < 0x90) ||
                         (lead == 0xF4 && second > 0x8F)))
            break; /* no character begins so */
        return bytes - back;
    }
    return bytes;
}

/* The same for a text of `length` bytes of which at most `limit` fit. */
static inline uint32_t topstxi_fit(const char *text, size_t length, uint32_t limit) {
    return length > limit ? topstxi_whole(text, limit) : (uint32_t)length;
}

static inline uint32_t topstxi_hash(uint32_t kind, const char *body, uint32_t bytes) {
    uint64_t hash = kind * 0x9E3779B97F4A7C15ull ^ bytes, word;
    for (; bytes >= 8; bytes -= 8, body += 8) {
        memcpy(&word, body, 8);
        hash = (hash ^ word) * 0xFF51AFD7ED558CCDull;
        hash ^= hash >> 32;
    }
    word = 0;
    memcpy(&word, body, bytes);
    hash = (hash ^ word) * 0xC4CEB9FE1A85EC53ull;
    return (uint32_t)(hash ^ hash >> 32);
}

static inline uint32_t topstxi_find(uint32_t hash, uint32_t kind, const char *body, uint32_t bytes) {
    topstxi_process *p = &topstxi_state;
    uint32_t i;
    if (!p->slot_capacity) return 0;
    for (i = hash & (p->slot_capacity - 1); p->slots[i].id; i = (i + 1) & (p->slot_capacity - 1)) {
        const topstxi_name *name = (const topstxi_name *)(p->arena + p->slots[i].at);
        if (p->slots[i].hash == hash && name->kind == kind && name->bytes == bytes && !memcmp(name + 1, body, bytes))
            return p->slots[i].id;
    }
    return 0;
}

/* Room for one more name in our own memory. */
TOPSTXI_SLOW int topstxi_names_reserve(uint32_t bytes) {
    topstxi_process *p = &topstxi_state;
    uint64_t need = p->arena_bytes + sizeof(topstxi_name) + bytes + 8;
    if (need > p->arena_capacity) {
        uint64_t capacity = p->arena_capacity ? p->arena_capacity * 2 : 16384;
        char *arena;
        while (capacity < need) capacity *= 2;
        arena = (char *)realloc(p->arena, capacity);
        if (!arena) return 0;
        p->arena = arena;
        p->arena_capacity = capacity;
    }
    if (p->name_count * 2 >= p->slot_capacity) {
        uint32_t capacity = p->slot_capacity ? p->slot_capacity * 2 : 512, i, j;
        topstxi_name_slot *slots = (topstxi_name_slot *)calloc(capacity, sizeof *slots);
        if (!slots) return 0;
        for (i = 0; i < p->slot_capacity; i++) {
            if (!p->slots[i].id) continue;
            for (j = p->slots[i].hash & (capacity - 1); slots[j].id; j = (j + 1) & (capacity - 1)) {
            }
            slots[j] = p->slots[i];
        }
        free(p->slots);
        p->slots = slots;
        p->slot_capacity = capacity;
    }
    return 1;
}

TOPSTXI_SLOW void topstxi_remember(uint32_t hash, uint32_t kind, const char *body, uint32_t bytes, uint32_t id) {
    topstxi_process *p = &topstxi_state;
    topstxi_name *name = (topstxi_name *)(p->arena + p->arena_bytes);
    uint32_t i;
    name->kind = kind;
    name->bytes = bytes;
    memcpy(name + 1, body, bytes);
    for (i = hash & (p->slot_capacity - 1); p->slots[i].id; i = (i + 1) & (p->slot_capacity - 1)) {
    }
    p->slots[i].hash = hash;
    p->slots[i].id = id;
    p->slots[i].at = p->arena_bytes;
    p->arena_bytes += (sizeof *name + bytes + 7) & ~7ull;
    p->name_count++;
}

/* Make the names file at least `bytes` long. The file is opened by its path again, because a program may close all descriptors. */
TOPSTXI_SLOW int topstxi_names_grow(uint64_t bytes) {
    topstxi_process *p = &topstxi_state;
    uint64_t size = p->names_bytes;
    char path[3200];
    void *map;
    while (size < bytes) size += size < (8u << 20) ? size : (8u << 20);
    snprintf(path, sizeof path, "%s/names/%016llx.names", p->folder, (unsigned long long)p->serial);
    map = topstxi_map_file(path, size, 0);
    if (!map) return 0;
    munmap(p->names, p->names_bytes);
    p->names = (topstx_names_header *)map;
    p->names_bytes = size;
    return 1;
}

/* Count a record that found no ring, and its thread the first time. Under the lock, as the mapping moves when the file grows. */
TOPSTXI_SLOW void topstxi_count_lost(int thread) {
    topstxi_process *p = &topstxi_state;
    pthread_mutex_lock(&p->names_lock);
    if (p->names) {
        p->names->lost_threads += (uint64_t)thread;
        p->names->lost_records++;
    }
    pthread_mutex_unlock(&p->names_lock);
}

/* Count a call that had nothing to record, in one of the two fields. As above. */
TOPSTXI_SLOW void topstxi_count_bad(int is_end) {
    topstxi_process *p = &topstxi_state;
    if (TOPSTXI_UNLIKELY(p->forked)) topstxi_reincarnate();
    pthread_mutex_lock(&p->names_lock);
    if (p->names) {
        if (is_end) p->names->bad_ends++;
        else p->names->bad_samples++;
    }
    pthread_mutex_unlock(&p->names_lock);
}

/* Append one entry to the file; names_lock is held. 0: it can't be written (counted). */
TOPSTXI_SLOW uint32_t topstxi_append(uint32_t kind, const char *body, uint32_t bytes) {
    topstxi_process *p = &topstxi_state;
    uint64_t committed = p->names->committed_bytes;
    uint32_t whole = (uint32_t)((sizeof(topstx_entry) + bytes + 7) & ~7ull), id = p->names->next_id;
    topstx_entry *entry;
    if (id > TOPSTX_NAMES_MAX || p->arena_bytes > TOPSTXI_NAMES_BYTES_MAX) {
        p->names->too_many++;
        return 0;
    }
    if (TOPSTX_PAGE + committed + whole > p->names_bytes) {
        if (p->names_patience) {
            p->names_patience--;
            p->names->lost_names++;
            return 0;
        }
        if (!topstxi_names_grow(TOPSTX_PAGE + committed + whole)) {
            p->names_patience = TOPSTXI_PATIENCE;
            p->names->lost_names++;
            return 0;
        }
    }
    entry = (topstx_entry *)((char *)p->names + TOPSTX_PAGE + committed);
    entry->bytes = whole;
    entry->kind = (uint16_t)kind;
    entry->reserved = 0;
    entry->id = id;
    entry->body_bytes = bytes;
    memcpy(entry + 1, body, bytes);
    p->names->next_id = id + 1;
    __atomic_store_n(&p->names->committed_bytes, committed + whole, __ATOMIC_RELEASE);
    return id;
}

/* The id of an entry, written at its first use. TOPSTX_NAME_TOO_MANY when it can't be written. `cut`: a part of the body was
 * longer than this. */
TOPSTXI_SLOW uint32_t topstxi_intern_cut(uint32_t kind, const char *body, size_t length, int cut) {
    topstxi_process *p = &topstxi_state;
    uint32_t bytes = topstxi_fit(body, length, TOPSTXI_NAME_BYTES_MAX), hash, id;
    hash = topstxi_hash(kind, body, bytes);
    if (TOPSTXI_UNLIKELY(p->forked)) topstxi_reincarnate();
    pthread_mutex_lock(&p->names_lock);
    id = topstxi_find(hash, kind, body, bytes);
    if (!id && p->names) {
        if (topstxi_names_reserve(bytes)) {
            id = topstxi_append(kind, body, bytes);
            if (id) {
                topstxi_remember(hash, kind, body, bytes, id);
                p->names->cut_names += cut || bytes < length;
            }
        } else {
            p->names->lost_names++;
        }
    }
    pthread_mutex_unlock(&p->names_lock);
    return id ? id : TOPSTX_NAME_TOO_MANY;
}

static inline uint32_t topstxi_intern(uint32_t kind, const char *body, size_t length) {
    return topstxi_intern_cut(kind, body, length, 0);
}

static inline uint32_t topstxi_name_id(const char *text) { return topstxi_intern(TOPSTX_ENTRY_NAME, text, strlen(text)); }

/* An entry that is a fact and no name: written each time, not remembered. `cut` as above. */
TOPSTXI_SLOW void topstxi_note(uint32_t kind, const char *body, size_t length, int cut) {
    if (TOPSTXI_UNLIKELY(topstxi_state.forked)) topstxi_reincarnate();
    pthread_mutex_lock(&topstxi_state.names_lock);
    if (topstxi_state.names && topstxi_append(kind, body, topstxi_fit(body, length, 65536))) topstxi_state.names->cut_names += cut != 0;
    pthread_mutex_unlock(&topstxi_state.names_lock);
}

TOPSTXI_SLOW void topstxi_note_process(const char *key, const char *value, size_t value_bytes) {
    size_t key_bytes = strlen(key) + 1;
    char *body = (char *)malloc(key_bytes + value_bytes);
    if (!body) return;
    memcpy(body, key, key_bytes);
    memcpy(body + key_bytes, value, value_bytes);
    topstxi_note(TOPSTX_ENTRY_PROCESS, body, key_bytes + value_bytes, 0);
    free(body);
}

TOPSTXI_SLOW void topstxi_note_thread(uint32_t tid, const char *name, size_t length) {
    char body[4 + 1024];
    uint32_t bytes = topstxi_fit(name, length, 1024);
    memcpy(body, &tid, 4);
    memcpy(body + 4, name, bytes);
    topstxi_note(TOPSTX_ENTRY_THREAD, body, 4 + bytes, bytes < length);
}

/* Is `name` in a NUL-separated list that an empty name ends? */
static inline int topstxi_listed(const char *list, size_t bytes, const char *name, size_t length) {
    const char *end = list + bytes;
    for (; list < end && *list; list += strlen(list) + 1)
        if (strlen(list) == length && !memcmp(list, name, length)) return 1;
    return 0;
}

/* Did the tool filter this domain out? The default domain is called "default" in its lists. */
TOPSTXI_SLOW int topstxi_domain_excluded(const char *name, size_t length) {
    const topstx_control *c = topstxi_state.control;
    if (!c) return 0;
    if (!length) {
        name = "default";
        length = strlen(name);
    }
    if (c->domain_include[0] && !topstxi_listed(c->domain_include, sizeof c->domain_include - 1, name, length)) return 1;
    return topstxi_listed(c->domain_exclude, sizeof c->domain_exclude - 1, name, length);
}

/* Entry of a domain; 0 for the default one, TOPSTXI_EXCLUDED when filtered out. */
TOPSTXI_SLOW uint32_t topstxi_domain_id(const char *name, size_t length) {
    if (!length) return topstxi_state.default_attr;
    if (topstxi_domain_excluded(name, length)) return TOPSTXI_EXCLUDED;
    return topstxi_intern(TOPSTX_ENTRY_DOMAIN, name, length);
}

TOPSTXI_SLOW uint32_t topstxi_category_id(uint32_t domain, uint32_t number, const char *text, size_t length) {
    char body[8 + 1024];
    uint32_t bytes = topstxi_fit(text, length, 1024);
    memcpy(body, &domain, 4);
    memcpy(body + 4, &number, 4);
    memcpy(body + 8, text, bytes);
    return topstxi_intern_cut(TOPSTX_ENTRY_CATEGORY, body, 8 + bytes, bytes < length);
}

/* Id of the combination; 0 for the default domain with neither category nor colour. */
TOPSTXI_SLOW uint32_t topstxi_attr_id(uint32_t domain, uint32_t category, uint32_t color) {
    uint32_t body[3] = {domain, category, color}, id;
    if (domain == TOPSTXI_EXCLUDED) return TOPSTXI_EXCLUDED;
    if (!domain && !category && !color) return 0;
    id = topstxi_intern(TOPSTX_ENTRY_ATTR, (const char *)body, sizeof body);
    return id == TOPSTX_NAME_TOO_MANY ? 0 : id;
}

TOPSTXI_SLOW uint32_t topstxi_counter_id(uint32_t domain, const char *name, size_t name_length, const char *unit, size_t unit_length) {
    char body[8 + 2048];
    uint32_t name_bytes = topstxi_fit(name, name_length, 1536), unit_bytes = topstxi_fit(unit, unit_length, 256);
    memcpy(body, &domain, 4);
    memcpy(body + 4, &name_bytes, 4);
    memcpy(body + 8, name, name_bytes);
    memcpy(body + 8 + name_bytes, unit, unit_bytes);
    return topstxi_intern_cut(TOPSTX_ENTRY_COUNTER, body, 8 + name_bytes + unit_bytes, name_bytes < name_length || unit_bytes < unit_length);
}
#endif /* TOPSTX_NAMES_H */
