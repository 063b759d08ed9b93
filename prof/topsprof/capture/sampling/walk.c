/* The walk: thread state, then its newest stack chunk as a whole, then frame by frame in the copy. Frames of generators lie in
 * their objects and are read one by one. The process runs on meanwhile, so nothing is believed: each code pointer has to be a
 * code object and each instruction one of it, else the walk begins again, and after some attempts the sample is unresolved. */
#include "walk.h"
#include <stdlib.h>
#include <string.h>

enum { CHUNK_BYTES = 16384, CHUNK_COPY_MAX = 1 << 18, AHEAD_BYTES = 1024, ATTEMPTS = 4, CHUNKS_MAX = 4096 };

bool walker_begin(walker *w, int max)
{
    memset(w, 0, sizeof *w);
    w->max = max;
    w->frames = malloc((size_t)max * sizeof *w->frames);
    w->codes = malloc((size_t)max * sizeof *w->codes);
    w->ids = malloc((size_t)max * sizeof *w->ids);
    w->lines = malloc((size_t)max * sizeof *w->lines);
    return w->frames && w->codes && w->ids && w->lines;
}

void walker_end(walker *w)
{
    for (int k = 0; k < w->chunk_room; k++) free(w->chunks[k].copy);
    free(w->chunks);
    free(w->frames);
    free(w->codes);
    free(w->ids);
    free(w->lines);
    memset(w, 0, sizeof *w);
}

/* Room for one more copy of `bytes`; it counts once `chunk_count` is raised. */
static chunk_copy *copy_of(walker *w, uint64_t bytes)
{
    if (w->chunk_count == w->chunk_room) {
        chunk_copy *more = realloc(w->chunks, (size_t)(w->chunk_room + 4) * sizeof *more);
        if (!more) return NULL;
        memset(more + w->chunk_room, 0, 4 * sizeof *more);
        w->chunks = more;
        w->chunk_room += 4;
    }
    chunk_copy *chunk = &w->chunks[w->chunk_count];
    if (chunk->room < bytes) {
        free(chunk->copy);
        chunk->room = 0;
        chunk->copy = malloc(bytes);
        if (!chunk->copy) return NULL;
        chunk->room = bytes;
    }
    return chunk;
}

static const uint8_t *find(const walker *w, uint64_t address, uint64_t bytes)
{
    for (int k = w->chunk_count - 1; k >= 0; k--) {
        const chunk_copy *chunk = &w->chunks[k];
        if (address >= chunk->base && address - chunk->base + bytes <= chunk->bytes) return chunk->copy + (address - chunk->base);
    }
    return NULL;
}

/* Copies the chunk before the oldest one that we have; its address is `*previous`, which moves on. */
static enum walk_result load_older(walker *w, remote *from, uint64_t *previous)
{
    uint8_t head[64];
    uint64_t base = *previous, bytes = CHUNK_BYTES;
    if (!base || w->chunk_count >= CHUNKS_MAX) return WALK_TORN;
    chunk_copy *chunk = copy_of(w, bytes);
    if (!chunk) return WALK_NO_MEMORY;
    bool have = remote_read(from, base, chunk->copy, bytes);
    if (have) memcpy(head, chunk->copy, sizeof head);
    else if (!remote_read(from, base, head, (size_t)from->at.chunk_data)) return WALK_TORN;
    uint64_t size = word_at(head, from->at.chunk_size);
    *previous = word_at(head, from->at.chunk_previous);
    if (size < 64 || size > 1ULL << 32) return WALK_TORN;
    if (size > CHUNK_BYTES || !have) {
        bytes = size < CHUNK_COPY_MAX ? size : CHUNK_COPY_MAX;
        uint64_t used = (uint64_t)from->at.chunk_data + word_at(head, from->at.chunk_used) * 8;
        uint64_t start = used > bytes && used <= size ? base + used - bytes : base;
        chunk = copy_of(w, bytes);
        if (!chunk) return WALK_NO_MEMORY;
        if (!remote_read(from, start, chunk->copy, bytes)) return WALK_TORN;
        base = start;
    }
    chunk->base = base;
    chunk->bytes = bytes;
    w->chunk_count++;
    return WALK_OK;
}

/* Reads the thread's state and its newest chunk; `*frame` is the innermost frame, `*previous` the chunk before. */
static enum walk_result load(walker *w, remote *from, walk_hint *hint, uint64_t thread, uint64_t interp, int32_t tid,
                             uint64_t *frame, uint64_t *previous)
{
    const py_layout *at = &from->at;
    uint8_t state[LAYOUT_BLOCK], cframe[32] = {0};
    bool indirect = at->thread_cframe >= 0;
    uint64_t ahead = hint->used + AHEAD_BYTES < hint->chunk_bytes ? hint->used + AHEAD_BYTES : hint->chunk_bytes;
    chunk_copy *chunk = copy_of(w, ahead > CHUNK_BYTES ? ahead : CHUNK_BYTES);
    if (!chunk) return WALK_NO_MEMORY;
    remote_item items[3 + APART] = {{thread, state, (size_t)at->thread_top + 8}};
    int count = 1, cframe_item = -1, chunk_item = -1;
    if (hint->cframe && indirect) {
        cframe_item = count;
        items[count++] = (remote_item){hint->cframe, cframe, (size_t)at->cframe_frame + 8};
    }
    if (hint->chunk && ahead) {
        chunk_item = count;
        items[count++] = (remote_item){hint->chunk, chunk->copy, ahead};
    }
    int first_apart = count;
    for (int k = 0; k < hint->apart_count; k++)
        items[count++] = (remote_item){hint->apart[k], w->apart[k], (size_t)at->frame_locals};
    int whole = remote_read_items(from, items, count);
    if (whole == 0) return WALK_GONE;
    w->apart_count = whole > first_apart ? whole - first_apart : 0;
    if (word_at(state, at->thread_interp) != interp || (int32_t)word_at(state, at->thread_tid) != tid) return WALK_GONE;
    if (indirect) {
        uint64_t where = word_at(state, at->thread_cframe);
        if (cframe_item < 0 || whole <= cframe_item || where != hint->cframe) {
            hint->cframe = 0;
            if (!where) {
                *frame = 0;
                return WALK_OK;
            }
            if (!remote_read(from, where, cframe, (size_t)at->cframe_frame + 8)) return WALK_TORN;
            hint->cframe = where;
        }
        *frame = word_at(cframe, at->cframe_frame);
    } else {
        *frame = word_at(state, at->thread_frame);
    }
    uint64_t base = word_at(state, at->thread_chunk), top = word_at(state, at->thread_top);
    *previous = 0;
    if (!base || top < base) return WALK_OK;            /* no frame of Python yet: or only those on the C stack */
    uint64_t used = top - base;
    if (used > 1ULL << 32) return WALK_TORN;
    if (used <= CHUNK_COPY_MAX && (chunk_item < 0 || whole <= chunk_item || base != hint->chunk || ahead < used)) {
        uint8_t head[64];
        if (!remote_read(from, base, head, (size_t)at->chunk_data)) return WALK_TORN;
        uint64_t size = word_at(head, at->chunk_size);
        if (size < used || size > 1ULL << 32) return WALK_TORN;
        hint->chunk = base;
        hint->chunk_bytes = size;
        ahead = used + AHEAD_BYTES < size ? used + AHEAD_BYTES : size;
        chunk = copy_of(w, ahead);
        if (!chunk) return WALK_NO_MEMORY;
        if (!remote_read(from, base, chunk->copy, ahead)) return WALK_TORN;
    } else if (used > CHUNK_COPY_MAX) {                 /* the newest frames are what counts */
        hint->chunk = 0;
        ahead = CHUNK_COPY_MAX;
        chunk = copy_of(w, ahead);
        if (!chunk) return WALK_NO_MEMORY;
        if (!remote_read(from, top - ahead, chunk->copy, ahead)) return WALK_TORN;
        base = top - ahead;
    }
    hint->used = used;
    chunk->base = base;
    chunk->bytes = ahead;
    if (hint->chunk) *previous = word_at(chunk->copy, at->chunk_previous);
    w->chunk_count = 1;
    return WALK_OK;
}

/* A frame that lies in no chunk: read ahead where the last walk met it, too. `*met` is noted for the next. */
static const uint8_t *find_apart(const walker *w, remote *from, const walk_hint *hint, walk_hint *met, uint64_t frame, uint8_t *block)
{
    if (met->apart_count < APART) met->apart[met->apart_count++] = frame;
    for (int k = 0; k < w->apart_count; k++)
        if (hint->apart[k] == frame) return w->apart[k];
    return remote_read(from, frame, block, (size_t)from->at.frame_locals) ? block : NULL;
}

static enum walk_result frames(walker *w, remote *from, walk_hint *hint, uint64_t frame, uint64_t previous)
{
    walk_hint met = {0};
    uint8_t last_owner = 0;
    const py_layout *at = &from->at;
    const uint64_t bytes = (uint64_t)at->frame_locals;
    uint8_t block[FRAME_BLOCK];
    w->count = 0;
    w->cut = false;
    for (int step = 0; frame; step++) {
        if (w->count == w->max || step == 2 * w->max) {
            w->cut = true;
            last_owner = 0;
            break;
        }
        if (!plausible(frame)) return WALK_TORN;
        const uint8_t *found = find(w, frame, bytes);
        if (!found) {
            const uint8_t *apart = found = find_apart(w, from, hint, &met, frame, block);
            if (!apart) return WALK_TORN;
            while (apart[at->frame_owner] == 0 && previous) {      /* it is in one of the older chunks */
                enum walk_result loaded = load_older(w, from, &previous);
                if (loaded != WALK_OK) return loaded;
                found = find(w, frame, bytes);
                if (found) break;
                found = apart;
            }
        }
        uint8_t owner = found[at->frame_owner];
        uint64_t before = frame;
        frame = word_at(found, at->frame_previous);
        if (frame == before || owner > 4) return WALK_TORN;
        last_owner = owner;
        if (owner >= OWNED_BY_C_STACK) continue;                    /* how C calls Python: no function of the program's */
        raw_frame *to = &w->frames[w->count];
        *to = (raw_frame){before, word_at(found, at->frame_code), word_at(found, at->frame_instr), owner};
        if (!plausible(to->code)) return WALK_TORN;
        w->codes[w->count++] = to->code;
    }
    /* a generator that has just been left has no caller: the frames that it had are not known */
    bool left = last_owner == OWNED_BY_GENERATOR && w->count;
    if (left && w->loose != w->frames[w->count - 1].address) {
        w->loose = w->frames[w->count - 1].address;
        return WALK_TORN;
    }
    hint->apart_count = met.apart_count;
    memcpy(hint->apart, met.apart, sizeof met.apart);
    return WALK_OK;
}

/* Finds the lines; leaves out frames that are nobody's. */
static enum walk_result lines(walker *w, const remote *from, const code_table *codes)
{
    int kept = 0;
    for (int k = 0; k < w->count; k++) {
        if (w->ids[k] < 0) return WALK_TORN;
        const py_code *code = &codes->codes[w->ids[k]];
        int64_t offset = (int64_t)(w->frames[k].instr - w->frames[k].code) - from->at.code_size;
        if (offset < -2 || offset >= (int64_t)code->length * 2) return WALK_TORN;
        if (k == 0) w->at_call = code_at_call(code, offset);
        if (code->hidden) continue;
        w->frames[kept] = w->frames[k];
        w->ids[kept] = w->ids[k];
        w->lines[kept++] = code_line(code, offset);
    }
    w->count = kept;
    return WALK_OK;
}

/* How many of the outermost frames are what they were in the last walk. */
static int stable_frames(const walker *w, const walk_hint *hint)
{
    int k = 0;
    for (; k < w->count && k < hint->count; k++) {
        const raw_frame *a = &w->frames[w->count - 1 - k], *b = &hint->frames[hint->count - 1 - k];
        if (a->address != b->address || a->code != b->code || a->instr != b->instr) break;
    }
    return k;
}

static bool remember(const walker *w, walk_hint *hint)
{
    if (hint->room < w->count) {
        free(hint->frames);
        hint->room = hint->count = 0;
        hint->frames = malloc((size_t)w->count * 2 * sizeof *hint->frames);
        if (!hint->frames) return false;
        hint->room = w->count * 2;
    }
    hint->count = w->count;
    if (w->count) memcpy(hint->frames, w->frames, (size_t)w->count * sizeof *w->frames);
    return true;
}

static void forget(walk_hint *hint)
{
    hint->cframe = hint->chunk = hint->chunk_bytes = hint->used = 0;
    hint->count = hint->apart_count = 0;
}

void hint_end(walk_hint *hint)
{
    free(hint->frames);
    *hint = (walk_hint){0};
}

enum walk_result walk(walker *w, remote *from, code_table *codes, walk_hint *hint, uint64_t thread, uint64_t interp, int32_t tid,
                      uint64_t time)
{
    enum walk_result result = WALK_TORN;
    w->loose = 0;
    for (w->attempts = 0; w->attempts < ATTEMPTS && result == WALK_TORN; w->attempts++) {
        uint64_t frame = 0, previous = 0;
        w->chunk_count = w->count = 0;
        w->cut = w->at_call = false;
        result = load(w, from, hint, thread, interp, tid, &frame, &previous);
        if (result == WALK_OK) result = frames(w, from, hint, frame, previous);
        if (result == WALK_OK) {
            int stable = stable_frames(w, hint);
            if (!remember(w, hint)) return WALK_NO_MEMORY;
            if (!codes_resolve(codes, from, w->codes, w->ids, w->count, stable, time)) return WALK_NO_MEMORY;
            result = lines(w, from, codes);
        }
        if (result == WALK_TORN) forget(hint);
    }
    return result;
}
