/* A table of code objects. The location table is decoded when a code object is first seen; the format is that of CPython's
 * Objects/locations.md: entries of code (4 bits) and length, with varints for the lines. */
#include "code.h"
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 4096, MAX_UNITS = 1 << 22, MAX_TABLE = 1 << 24, MAX_CODES = 1 << 20, MAX_BATCH = 64, OLD_PROOFS = 64, OLD_TICKS = 8 };

static uint32_t hash_address(uint64_t address)
{
    return (uint32_t)(address * 0x9E3779B97F4A7C15ULL >> 32);
}

static uint32_t hash_bytes(uint32_t hash, const void *bytes, size_t count)
{
    for (size_t k = 0; k < count; k++) hash = (hash ^ ((const uint8_t *)bytes)[k]) * 16777619u;
    return hash;
}

bool codes_begin(code_table *codes)
{
    memset(codes, 0, sizeof *codes);
    codes->room = codes->place_room = 512;
    codes->by_address.mask = codes->by_content.mask = 1023;
    codes->by_address.slots = calloc(1024, sizeof(uint32_t));
    codes->by_content.slots = calloc(1024, sizeof(uint32_t));
    codes->codes = calloc((size_t)codes->room, sizeof *codes->codes);
    codes->places = calloc((size_t)codes->place_room, sizeof *codes->places);
    codes->count = 1;
    return codes->by_address.slots && codes->by_content.slots && codes->codes && codes->places;
}

static void drop(py_code *code)
{
    free(code->name);
    free(code->file);
    free(code->lines);
}

void codes_end(code_table *codes)
{
    for (int32_t k = 0; codes->codes && k < codes->count; k++) drop(&codes->codes[k]);
    free(codes->codes);
    free(codes->places);
    free(codes->by_address.slots);
    free(codes->by_content.slots);
    memset(codes, 0, sizeof *codes);
}

static py_place *find_place(code_table *codes, uint64_t address)
{
    const hash_index *index = &codes->by_address;
    for (uint32_t k = hash_address(address) & index->mask; index->slots[k]; k = (k + 1) & index->mask)
        if (codes->places[index->slots[k] - 1].address == address) return &codes->places[index->slots[k] - 1];
    return NULL;
}

static void put(hash_index *index, uint32_t hash, uint32_t value)
{
    uint32_t k = hash & index->mask;
    while (index->slots[k]) k = (k + 1) & index->mask;
    index->slots[k] = value + 1;
    index->used++;
}

/* Room for one more entry in an index and its rows; `hash_of` gives the hashes anew. */
static bool room_for(hash_index *index, void **rows, size_t bytes, int32_t count, int32_t *room,
                     uint32_t (*hash_of)(const void *row))
{
    if (count == *room) {
        void *more = realloc(*rows, (size_t)*room * 2 * bytes);
        if (!more) return false;
        *rows = more;
        *room *= 2;
    }
    if (index->used * 2 < index->mask) return true;
    hash_index larger = {calloc((size_t)index->mask * 2 + 2, sizeof(uint32_t)), index->mask * 2 + 1, 0};
    if (!larger.slots) return false;
    for (uint32_t k = 0; k <= index->mask; k++) {
        uint32_t value = index->slots[k];
        if (value) put(&larger, hash_of((char *)*rows + (value - 1) * bytes), value - 1);
    }
    free(index->slots);
    *index = larger;
    return true;
}

static uint32_t hash_of_place(const void *row)
{
    return hash_address(((const py_place *)row)->address);
}

static uint32_t hash_of_code(const void *row)
{
    return ((const py_code *)row)->hash;
}

/* The fields that stay as they are while a code object lives: one by one, since between them lie counters and caches. */
static bool same_header(const py_layout *at, const uint8_t *a, const uint8_t *b)
{
    const int64_t words[] = {at->object_type, at->code_length, at->code_consts, at->code_filename, at->code_qualname,
                             at->code_linetable, at->code_names, at->code_kinds};
    for (size_t k = 0; k < sizeof words / sizeof *words; k++)
        if (word_at(a, words[k]) != word_at(b, words[k])) return false;
    return int_at(a, at->code_firstlineno) == int_at(b, at->code_firstlineno) && int_at(a, at->code_flags) == int_at(b, at->code_flags);
}

static const uint8_t *varint(const uint8_t *at, const uint8_t *end, uint32_t *value)
{
    *value = 0;
    for (int shift = 0; at < end && shift < 32; shift += 6) {
        uint8_t byte = *at++;
        *value |= (uint32_t)(byte & 63) << shift;
        if (!(byte & 64)) break;
    }
    return at;
}

/* Lines of all units from a location table; false where it is none. */
static bool decode(const uint8_t *at, const uint8_t *end, int32_t line, int32_t *lines, uint64_t units)
{
    uint64_t unit = 0;
    while (at < end && unit < units) {
        uint8_t first = *at++;
        if (!(first & 128)) return false;
        uint32_t kind = first >> 3 & 15, change = 0;
        int32_t shown;
        if (kind == 13 || kind == 14) {
            at = varint(at, end, &change);
            line += change & 1 ? -(int32_t)(change >> 1) : (int32_t)(change >> 1);
        } else if (kind >= 10 && kind <= 12) {
            line += (int32_t)kind - 10;
        }
        shown = kind == 15 || line < 0 ? 0 : line & ~AT_CALL;
        while (at < end && !(*at & 128)) at++;      /* columns */
        for (uint32_t k = 0; k < (first & 7u) + 1 && unit < units; k++) lines[unit++] = shown;
    }
    while (unit < units) lines[unit++] = 0;
    return true;
}

/* Marks the instructions that are calls: which they are stays so, however the interpreter specialises them. */
static bool mark_calls(remote *from, uint64_t address, py_code *code)
{
    const int64_t calls[4] = {from->at.calls_0, from->at.calls_1, from->at.calls_2, from->at.calls_3};
    uint8_t *units = malloc(code->length * 2);
    bool ok = units && remote_read(from, address + (uint64_t)from->at.code_size, units, code->length * 2);
    for (uint64_t k = 0; ok && k < code->length; k++) {
        uint8_t opcode = units[k * 2];
        if ((uint64_t)calls[opcode / 64] >> opcode % 64 & 1) code->lines[k] |= AT_CALL;
    }
    free(units);
    return ok;
}

/* Reads the texts and the table of a code object whose header stands in `place`. */
static bool read_parts(remote *from, py_place *place, py_code *code)
{
    const py_layout *at = &from->at;
    char name[NAME_BYTES], file[NAME_BYTES];
    uint8_t head[64];
    uint64_t qualname = word_at(place->header, at->code_qualname), table_object = word_at(place->header, at->code_linetable);
    if (!plausible(qualname) || !remote_read(from, qualname, head, (size_t)at->bytes_data)) return false;
    /* a trampoline has, in 3.12, empty bytes for a name and, in 3.13, the same text for name and file */
    code->hidden = word_at(head, at->object_type) == from->bytes_type || qualname == word_at(place->header, at->code_filename);
    if (remote_text(from, qualname, name, sizeof name) < 0 && !code->hidden) return false;
    if (remote_text(from, word_at(place->header, at->code_filename), file, sizeof file) < 0 && !code->hidden) return false;
    if (!plausible(table_object) || !remote_read(from, table_object, head, (size_t)at->bytes_data)) return false;
    uint64_t bytes = word_at(head, at->var_size);
    if (!lives_at(head) || word_at(head, at->object_type) != from->bytes_type || bytes > MAX_TABLE) return false;
    place->table_at = table_object + (uint64_t)at->bytes_data;
    uint8_t *table = malloc(bytes + 1);
    code->lines = malloc(code->length * sizeof *code->lines);
    bool ok = table && code->lines && (!bytes || remote_read(from, place->table_at, table, bytes)) &&
        decode(table, table + bytes, code->firstlineno, code->lines, code->length);
    if (ok) {
        place->table_bytes = (uint32_t)(bytes < PROOF_TABLE ? bytes : PROOF_TABLE);
        memcpy(place->table, table, place->table_bytes);
    }
    free(table);
    if (!ok || !remote_read(from, qualname, head, (size_t)at->str_ascii)) return false;
    if (word_at(head, at->object_type) != from->str_type) memset(head, 0, sizeof head);
    uint32_t state = (uint32_t)int_at(head, at->str_state);
    uint64_t characters = word_at(head, at->str_length) * (state >> 2 & 7);
    place->text_at = qualname + (uint64_t)(state >> 6 & 1 ? at->str_ascii : at->str_compact);
    place->text_bytes = (uint32_t)(characters < PROOF_TEXT ? characters : PROOF_TEXT);
    if (place->text_bytes && !remote_read(from, place->text_at, place->text, place->text_bytes)) return false;
    code->name = strdup(name);
    code->file = strdup(file);
    return code->name && code->file;
}

/* Reads the code object at an address. False where what lies there is none, or changed meanwhile. */
static bool read_code(remote *from, uint64_t address, py_place *place, py_code *code)
{
    const py_layout *at = &from->at;
    uint8_t again[CODE_BLOCK];
    memset(place, 0, sizeof *place);
    memset(code, 0, sizeof *code);
    place->address = address;
    if (!plausible(address) || !remote_read(from, address, place->header, (size_t)at->code_size)) return false;
    if (!lives_at(place->header) || word_at(place->header, at->object_type) != from->code_type) return false;
    code->length = word_at(place->header, at->code_length);
    code->firstlineno = int_at(place->header, at->code_firstlineno);
    code->flags = int_at(place->header, at->code_flags);
    if (code->length == 0 || code->length > MAX_UNITS || code->firstlineno < 0) return false;
    if (read_parts(from, place, code) && mark_calls(from, address, code) && remote_read(from, address, again, (size_t)at->code_size) &&
        lives_at(again) && same_header(at, place->header, again)) {
        uint32_t hash = hash_bytes(2166136261u, code->name, strlen(code->name));
        hash = hash_bytes(hash, code->file, strlen(code->file));
        code->hash = hash_bytes(hash, code->lines, (code->length < 64 ? code->length : 64) * sizeof *code->lines);
        return true;
    }
    drop(code);
    return false;
}

static bool same_code(const py_code *a, const py_code *b)
{
    return a->hash == b->hash && a->length == b->length && a->firstlineno == b->firstlineno && a->flags == b->flags &&
        !strcmp(a->name, b->name) && !strcmp(a->file, b->file) && !memcmp(a->lines, b->lines, a->length * sizeof *a->lines);
}

/* The id of a function, which becomes the table's or is dropped. */
static int32_t intern(code_table *codes, py_code *code)
{
    const hash_index *index = &codes->by_content;
    for (uint32_t k = code->hash & index->mask; index->slots[k]; k = (k + 1) & index->mask) {
        int32_t id = (int32_t)index->slots[k] - 1;
        if (!same_code(&codes->codes[id], code)) continue;
        drop(code);
        return id;
    }
    if (codes->count == MAX_CODES) {
        drop(code);
        return CODE_LOST;
    }
    if (!room_for(&codes->by_content, (void **)&codes->codes, sizeof *code, codes->count, &codes->room, hash_of_code)) {
        drop(code);
        return CODE_NO_MEMORY;
    }
    codes->codes[codes->count] = *code;
    put(&codes->by_content, code->hash, (uint32_t)codes->count);
    return codes->count++;
}

/* The id of what lies at an address now, read anew. */
static int32_t learn(code_table *codes, remote *from, uint64_t address, uint64_t time)
{
    py_place place, *known = find_place(codes, address);
    py_code code;
    if (!read_code(from, address, &place, &code)) {
        codes->lost++;
        return CODE_LOST;
    }
    place.id = intern(codes, &code);
    place.checked = time;
    if (place.id < 0) return place.id;
    if (known) {
        codes->replaced += known->id != place.id;
        *known = place;
        return place.id;
    }
    if (!room_for(&codes->by_address, (void **)&codes->places, sizeof place, codes->place_count, &codes->place_room,
                  hash_of_place)) return CODE_NO_MEMORY;
    put(&codes->by_address, hash_address(address), (uint32_t)codes->place_count);
    codes->places[codes->place_count++] = place;
    return place.id;
}

/* Looks at known places in one read; those that hold what they did are marked with the time. */
static void check(remote *from, py_place *const *places, int count, uint64_t time)
{
    enum { PARTS = 3 };
    remote_item items[MAX_BATCH * PARTS];
    uint8_t header[MAX_BATCH][CODE_BLOCK], text[MAX_BATCH][PROOF_TEXT], table[MAX_BATCH][PROOF_TABLE];
    for (int k = 0; k < count; k++) {
        items[k * PARTS] = (remote_item){places[k]->address, header[k], (size_t)from->at.code_size};
        items[k * PARTS + 1] = (remote_item){places[k]->text_at, text[k], places[k]->text_bytes};
        items[k * PARTS + 2] = (remote_item){places[k]->table_at, table[k], places[k]->table_bytes};
    }
    for (int first = 0; first < count;) {
        int whole = remote_read_items(from, items + first * PARTS, (count - first) * PARTS) / PARTS;
        for (int k = first; k < first + whole; k++) {
            bool same = lives_at(header[k]) && same_header(&from->at, places[k]->header, header[k]) &&
                !memcmp(places[k]->text, text[k], places[k]->text_bytes) &&
                !memcmp(places[k]->table, table[k], places[k]->table_bytes);
            places[k]->checked = same ? time : 0;
            places[k]->proofs = same ? places[k]->proofs + 1 : 0;
        }
        first += whole;
        if (first < count) places[first++]->checked = 0;        /* this one could not be read */
    }
}

bool codes_resolve(code_table *codes, remote *from, const uint64_t *addresses, int32_t *ids, int count, int stable, uint64_t time)
{
    py_place *batch[MAX_BATCH];
    int waiting = 0;
    for (int k = 0; k < count; k++) {
        py_place *place = find_place(codes, addresses[k]);
        if (place && place->checked != time) {
            bool old = k >= count - stable && place->proofs >= OLD_PROOFS && time - place->checked < OLD_TICKS;
            ids[k] = old ? place->id : CODE_LOST;
            if (!old) {
                place->checked = time;      /* so that it is looked at once; `check` takes it back where it has changed */
                batch[waiting++] = place;
            }
        } else {
            ids[k] = CODE_LOST;
        }
        if (waiting && (k == count - 1 || waiting == MAX_BATCH)) {
            check(from, batch, waiting, time);
            waiting = 0;
        }
    }
    for (int k = 0; k < count; k++) {
        if (ids[k] >= 0) continue;
        py_place *place = find_place(codes, addresses[k]);
        ids[k] = place && place->checked == time ? place->id : learn(codes, from, addresses[k], time);
        if (ids[k] == CODE_NO_MEMORY) return false;
        if (ids[k] == CODE_LOST) break;         /* the whole sample is of no use */
    }
    return true;
}

int32_t code_line(const py_code *code, int64_t offset)
{
    if (offset < 0) return code->firstlineno;       /* not yet begun */
    return code->lines[offset / 2] & ~AT_CALL;
}

bool code_at_call(const py_code *code, int64_t offset)
{
    return offset >= 0 && code->lines[offset / 2] & AT_CALL;
}
