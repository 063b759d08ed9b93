/* topstx_rows.h - rows of other tables than TX (internal to topstx.h): runtime API, kernels, transfers, ... See rows.py. */
#ifndef TOPSTX_ROWS_H
#define TOPSTX_ROWS_H
#include "topstx_ranges.h"

#define TOPSTXI_ROW_BODY_MAX (TOPSTX_PAYLOAD_MAX - 3u)

/* Is a row of this kind wanted at this moment? With TOPSTX_ROW_LATE: is it, where it was when what it tells of began? */
static inline int topstxi_row_wanted(uint32_t kind) {
    const uint32_t number = kind & ~(uint32_t)TOPSTX_ROW_LATE;
    if (topstxi_recording() != TOPSTX_RECORDING_ON && !(kind & TOPSTX_ROW_LATE && topstxi_state.control)) return 0;
    return number >= TOPSTX_KIND_TABLE_FIRST && number < 64 && !(topstxi_state.control->rows_off >> number & 1);
}

/* Write a row, of which topstxi_row_wanted said yes, into the calling thread's ring. 0: it is lost, which is counted, or the body too long. */
static inline int topstxi_row(topstxi_ring *r, uint32_t kind, uint64_t begin, uint64_t end, uint32_t name, uint32_t correlation,
                              const void *body, uint32_t bytes) {
    const uint8_t *from = (const uint8_t *)body;
    uint32_t rest = bytes + 3, part = 27, skip = 3; /* the first MORE slot begins with the tag and the length */
    uint64_t slots = 1 + (rest + 29) / 30, at = r->head;
    topstx_record *record;
    if (TOPSTXI_UNLIKELY(bytes > TOPSTXI_ROW_BODY_MAX)) return 0;
    if (TOPSTXI_UNLIKELY(r->head + slots > r->limit)) {
        if (!topstxi_room(r, slots)) return 0;
        at = r->head;
    }
    record = &r->records[at & r->mask];
    record->begin_tick = begin;
    record->end_tick = end;
    record->name = name;
    record->task = correlation;
    record->attr = r->top && r->open[r->top - 1].begin_tick ? r->open[r->top - 1].name : 0;
    record->depth = (uint16_t)r->depth;
    record->kind = (uint8_t)(kind & ~(uint32_t)TOPSTX_ROW_LATE);
    record->flags = TOPSTX_FLAG_MORE;
    do {
        topstx_more *more = (topstx_more *)&r->records[++at & r->mask];
        if (skip) {
            more->data[0] = TOPSTX_MORE_BODY;
            more->data[1] = (uint8_t)bytes;
            more->data[2] = (uint8_t)(bytes >> 8);
        }
        if (part > rest - skip) part = rest - skip;
        memcpy(more->data + skip, from, part);
        from += part;
        rest -= part + skip;
        more->kind = TOPSTX_KIND_MORE;
        more->used = (uint8_t)((part + skip) | (rest ? 0x80u : 0u));
        part = 30;
        skip = 0;
    } while (rest);
    r->head = at + 1;
    __atomic_store_n(&r->header->head, r->head, __ATOMIC_RELEASE);
    return 1;
}
#endif /* TOPSTX_ROWS_H */
