#include "findings.h"
#include <stdlib.h>

enum { BUCKETS = 4096 }; /* more than MAX_FINDINGS: there is always a free one */

static uint32_t hashed(const finding *x) {
    uint32_t h = (uint32_t)x->fault.kind * 0x9E3779B1u;
    h = (h ^ (uint32_t)x->fault.pc) * 0x85EBCA77u;
    h = (h ^ (uint32_t)x->second.pc) * 0xC2B2AE3Du;
    return (h ^ h >> 15) % BUCKETS;
}

static bool same(const finding *x, const finding *y) {
    return x->fault.kind == y->fault.kind && x->fault.pc == y->fault.pc && x->second.pc == y->second.pc;
}

static bool has_room(findings *all) {
    if (!all->bucket) all->bucket = calloc(BUCKETS, sizeof *all->bucket);
    if (all->count == all->capacity && all->count < MAX_FINDINGS) {
        const int32_t capacity = all->capacity ? 2 * all->capacity : 16;
        finding *const grown = realloc(all->item, (size_t)capacity * sizeof *grown);
        if (grown) {
            all->item = grown;
            all->capacity = capacity;
        }
    }
    return all->bucket && all->count < all->capacity && all->count < MAX_FINDINGS;
}

void findings_add(findings *all, const finding *like) {
    const bool room = has_room(all);
    if (!all->bucket) {
        all->limits |= LIMIT_MEMORY;
        return;
    }
    uint32_t at = hashed(like);
    for (; all->bucket[at]; at = (at + 1) % BUCKETS) {
        finding *const x = &all->item[all->bucket[at] - 1];
        if (!same(x, like)) continue;
        x->count++;
        return;
    }
    if (!room) {
        all->limits |= all->count < MAX_FINDINGS ? LIMIT_MEMORY : LIMIT_FINDINGS;
        return;
    }
    all->item[all->count] = *like;
    all->item[all->count].count = 1;
    all->bucket[at] = ++all->count;
}

void findings_free(findings *all) {
    free(all->item);
    free(all->bucket);
    *all = (findings){0};
}
