/* _nvtx.c - records what a program says through NVTX (version 3, unchanged, C or Python) into the session of `topsprof run`.
 *
 * A plain shared library, loaded by NVTX itself in the program's first NVTX call (NVTX_INJECTION64_PATH); it needs no Python.
 * It is a producer of its own beside the recorder of `topstx`: in a program that uses both, each has its own process serial, rings
 * and names under the same pid, and the collector puts their records on the same threads.
 *
 * Mapping: a push is a push and a start/end range a start/end range of topstx.h, in a domain of the same name; a category keeps its
 * number and name; numbers become int or float payloads, registered strings are interned once, payloads with a schema are kept as
 * bytes. Deferred events and counter groups are not recorded.
 */
#define _GNU_SOURCE
#define TOPSTX_ONE_UNIT
#include "topstx.h"

#include "nvtx_abi.h"

#define EXPORT __attribute__((visibility("default")))
/* __init__.py looks for this text in the file of the library, which it can't load. Raise both numbers when the layout of the session's
 * files changes: a library built from other sources is then not used. */
__attribute__((used)) static const char interface_stamp[] = "topstx _nvtx interface 1;";
#define TEXT_BYTES 4097 /* the longest name that is kept, and its end */
enum { NOT_TRACKED = -2 /* what NVTX lets a tool answer that does not count levels */ };

typedef struct category {
    uint32_t number;
    uint32_t id; /* of its entry */
    struct category *next;
} category;

typedef struct domain { /* what an NVTX domain handle points to; never freed, as a thread may still hold it */
    topstx_domain tx;
    category *categories;
} domain;

typedef struct string { /* what a handle of a registered string points to */
    uint32_t id;
    char text[1]; /* of its own length */
} string;

static domain default_domain;

static domain *domain_of(void *handle) { return handle ? (domain *)handle : &default_domain; }

/* UTF-8 of wide text, cut between characters to what fits. */
static const char *narrow(const wchar_t *wide, char *to) {
    size_t used = 0;
    if (!wide) return "";
    for (; *wide; wide++) {
        uint32_t c = (uint32_t)*wide;
        if (used + 5 > TEXT_BYTES) break;
        if (c >= 0x110000 || (c >= 0xD800 && c < 0xE000)) c = 0xFFFD;
        if (c < 0x80) {
            to[used++] = (char)c;
        } else if (c < 0x800) {
            to[used++] = (char)(0xC0 | c >> 6);
            to[used++] = (char)(0x80 | (c & 0x3F));
        } else if (c < 0x10000) {
            to[used++] = (char)(0xE0 | c >> 12);
            to[used++] = (char)(0x80 | (c >> 6 & 0x3F));
            to[used++] = (char)(0x80 | (c & 0x3F));
        } else {
            to[used++] = (char)(0xF0 | c >> 18);
            to[used++] = (char)(0x80 | (c >> 12 & 0x3F));
            to[used++] = (char)(0x80 | (c >> 6 & 0x3F));
            to[used++] = (char)(0x80 | (c & 0x3F));
        }
    }
    to[used] = 0;
    return to;
}

/* ---- categories ---------------------------------------------------------------------------------------------------- */

/* Put a number's entry at the front of the list, where it is found before an older one. No lock: a fork could leave it taken. */
static uint32_t add_category(domain *d, uint32_t number, const char *name) {
    category *c = (category *)malloc(sizeof *c);
    if (!c) return 0;
    c->number = number;
    c->id = topstxi_category_id(d->tx.id, number, name, strlen(name));
    c->next = __atomic_load_n(&d->categories, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&d->categories, &c->next, c, 1, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
    }
    return c->id;
}

static uint32_t category_id(domain *d, uint32_t number) {
    const category *c;
    for (c = __atomic_load_n(&d->categories, __ATOMIC_ACQUIRE); c; c = c->next)
        if (c->number == number) return c->id;
    return add_category(d, number, ""); /* used before it was named, or never named */
}

static void name_category(domain *d, uint32_t number, const char *name) {
    if (d->tx.attr != TOPSTXI_EXCLUDED) add_category(d, number, name ? name : "");
}

/* ---- events -------------------------------------------------------------------------------------------------------- */

typedef struct event { /* an abi_event in our terms */
    const char *text;
    uint32_t name; /* 0: not interned yet */
    uint32_t attr;
    topstx_payload payload;
    char storage[TEXT_BYTES]; /* of wide text */
    char digits[24];
} event;

static uint32_t attr_of(domain *d, const abi_event *e) {
    uint32_t color = e->color_type == ABI_COLOR_ARGB ? e->color : 0, in = e->category;
    if (color && color <= 0xFFFFFF) color |= 0xFF000000; /* the Python package leaves the alpha out */
    if (d->tx.attr == TOPSTXI_EXCLUDED || (!color && !in)) return d->tx.attr;
    return topstxi_attr_id(d->tx.id, in ? category_id(d, in) : 0, color);
}

static topstx_payload payload_of(const abi_event *e, event *to) {
    topstx_payload none = {0, 0, {0}};
    const abi_binary *binary;
    switch (e->payload_type) {
    case ABI_PAYLOAD_UINT64:
        if (e->payload.u64 <= INT64_MAX) return topstx_payload_int((int64_t)e->payload.u64);
        snprintf(to->digits, sizeof to->digits, "%llu", (unsigned long long)e->payload.u64);
        return topstx_payload_string(to->digits);
    case ABI_PAYLOAD_INT64: return topstx_payload_int(e->payload.i64);
    case ABI_PAYLOAD_DOUBLE: return topstx_payload_float(e->payload.f64);
    case ABI_PAYLOAD_UINT32: return topstx_payload_int(e->payload.u32);
    case ABI_PAYLOAD_INT32: return topstx_payload_int(e->payload.i32);
    case ABI_PAYLOAD_FLOAT: return topstx_payload_float((double)e->payload.f32);
    case ABI_PAYLOAD_EXTENDED:
        binary = (const abi_binary *)(uintptr_t)e->payload.u64;
        if (e->reserved < 1 || !binary || !binary->data || binary->size > UINT32_MAX) return none;
        return topstx_payload_bytes(binary->data, (uint32_t)binary->size);
    default: return none;
    }
}

static void read_event(domain *d, const abi_event *e, event *to) {
    to->text = "";
    to->name = 0;
    if (e->message_type == ABI_MESSAGE_ASCII && e->message.ascii) {
        to->text = e->message.ascii;
    } else if (e->message_type == ABI_MESSAGE_UNICODE) {
        to->text = narrow(e->message.unicode, to->storage);
    } else if (e->message_type == ABI_MESSAGE_REGISTERED && e->message.registered) {
        to->text = ((const string *)e->message.registered)->text;
        to->name = ((const string *)e->message.registered)->id;
    }
    to->attr = attr_of(d, e);
    to->payload = payload_of(e, to);
}

static uint32_t name_of(const event *e) { return e->name ? e->name : topstxi_name_id(e->text); }

static void push_event(domain *d, const abi_event *e) {
    uint32_t flags = TOPSTX_FLAG_PUSHED, index;
    topstxi_ring *r;
    event in;
    if (TOPSTXI_OFF()) {
        topstxi_skip(d->tx);
        return;
    }
    read_event(d, e, &in);
    if (!topstxi_wanted(in.text, d->tx, &flags)) {
        topstxi_skip(d->tx);
        return;
    }
    if (!(r = topstxi_ring_mine())) return;
    index = topstxi_open(r, name_of(&in), in.attr, d->tx.id, flags);
    if (index && in.payload.kind) {
        topstxi_value value = topstxi_value_of(&in.payload);
        topstxi_keep_payload(r, index, &value);
    }
}

static uint64_t start_event(domain *d, const abi_event *e) {
    uint32_t flags = 0;
    topstxi_value value;
    event in;
    if (TOPSTXI_OFF()) return 0;
    read_event(d, e, &in);
    if (!topstxi_wanted(in.text, d->tx, &flags)) return 0;
    value = topstxi_value_of(&in.payload);
    return topstxi_start(name_of(&in), in.attr, &value, 0, flags);
}

static void mark_event(domain *d, const abi_event *e) {
    topstxi_value value;
    topstxi_ring *r;
    event in;
    if (topstxi_recording() != TOPSTX_RECORDING_ON || d->tx.attr == TOPSTXI_EXCLUDED) return;
    if (!d->tx.id && topstxi_state.default_attr == TOPSTXI_EXCLUDED) return;
    if (!(r = topstxi_ring_mine())) return;
    read_event(d, e, &in);
    value = topstxi_value_of(&in.payload);
    topstxi_mark(r, name_of(&in), in.attr, &value);
}

/* ---- functions of the core ------------------------------------------------------------------------------------------ */

static void on_mark_ex(const abi_event *e) {
    if (e) mark_event(&default_domain, e);
}
static void on_mark_a(const char *message) { topstx_mark(message); }
static void on_mark_w(const wchar_t *message) {
    char text[TEXT_BYTES];
    if (topstx_is_recording()) topstx_mark(narrow(message, text));
}
static uint64_t on_range_start_ex(const abi_event *e) { return e ? start_event(&default_domain, e) : 0; }
static uint64_t on_range_start_a(const char *message) { return topstx_range_start(message); }
static uint64_t on_range_start_w(const wchar_t *message) {
    char text[TEXT_BYTES];
    return TOPSTXI_OFF() ? 0 : topstx_range_start(narrow(message, text));
}
static void on_range_end(uint64_t id) { topstx_range_end(id); }
static int on_range_push_ex(const abi_event *e) {
    if (e) push_event(&default_domain, e);
    return NOT_TRACKED;
}
static int on_range_push_a(const char *message) {
    topstx_range_push(message);
    return NOT_TRACKED;
}
static int on_range_push_w(const wchar_t *message) {
    char text[TEXT_BYTES];
    topstx_range_push(TOPSTXI_OFF() ? "" : narrow(message, text));
    return NOT_TRACKED;
}
static int on_range_pop(void) {
    topstx_range_pop();
    return NOT_TRACKED;
}
static void on_name_category_a(uint32_t number, const char *name) { name_category(&default_domain, number, name); }
static void on_name_category_w(uint32_t number, const wchar_t *name) {
    char text[TEXT_BYTES];
    name_category(&default_domain, number, narrow(name, text));
}
static void on_name_thread_a(uint32_t tid, const char *name) { topstx_name_thread(tid, name); }
static void on_name_thread_w(uint32_t tid, const wchar_t *name) {
    char text[TEXT_BYTES];
    topstx_name_thread(tid, narrow(name, text));
}

/* ---- functions of domains -------------------------------------------------------------------------------------------- */

static void on_domain_mark_ex(void *d, const abi_event *e) {
    if (e) mark_event(domain_of(d), e);
}
static uint64_t on_domain_range_start_ex(void *d, const abi_event *e) { return e ? start_event(domain_of(d), e) : 0; }
static void on_domain_range_end(void *d, uint64_t id) {
    (void)d;
    topstx_range_end(id);
}
static int on_domain_range_push_ex(void *d, const abi_event *e) {
    if (e) push_event(domain_of(d), e);
    return NOT_TRACKED;
}
static int on_domain_range_pop(void *d) {
    topstx_domain_range_pop(domain_of(d)->tx);
    return NOT_TRACKED;
}
static void on_domain_name_category_a(void *d, uint32_t number, const char *name) { name_category(domain_of(d), number, name); }
static void on_domain_name_category_w(void *d, uint32_t number, const wchar_t *name) {
    char text[TEXT_BYTES];
    name_category(domain_of(d), number, narrow(name, text));
}
static void *on_domain_register_string_a(void *d, const char *text) {
    size_t length = text ? strlen(text) : 0;
    string *s = (string *)malloc(sizeof *s + length);
    (void)d;
    if (!s) return NULL;
    memcpy(s->text, text ? text : "", length + 1);
    s->id = topstx_string_register(s->text);
    return s;
}
static void *on_domain_register_string_w(void *d, const wchar_t *wide) {
    char text[TEXT_BYTES];
    return on_domain_register_string_a(d, narrow(wide, text));
}
static void *on_domain_create_a(const char *name) {
    domain *d = (domain *)calloc(1, sizeof *d);
    if (!d) return NULL;
    d->tx = topstx_domain_create(name);
    return d;
}
static void *on_domain_create_w(const wchar_t *wide) {
    char text[TEXT_BYTES];
    return on_domain_create_a(narrow(wide, text));
}

/* ---- payloads with a schema ----------------------------------------------------------------------------------------- */

typedef struct schema {
    uint64_t id;
    const void *domain;
    struct schema *next;
    char name[1]; /* of its own length */
} schema;

static schema *schemas; /* newest first; only ever added to */
static uint64_t next_schema = ABI_SCHEMA_FIRST_DYNAMIC;

static uint64_t on_schema_register(void *d, const abi_schema *attributes) {
    const char *name = attributes && (attributes->fields & ABI_SCHEMA_HAS_NAME) && attributes->name ? attributes->name : "";
    schema *s = attributes ? (schema *)malloc(sizeof *s + strlen(name)) : NULL;
    if (!s) return 0;
    strcpy(s->name, name);
    s->domain = d;
    s->id = attributes->fields & ABI_SCHEMA_HAS_ID ? attributes->id : 0;
    if (!s->id) s->id = __atomic_fetch_add(&next_schema, 1, __ATOMIC_RELAXED);
    s->next = __atomic_load_n(&schemas, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&schemas, &s->next, s, 1, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
    }
    return s->id;
}

/* An event that is payload alone: it gets the name of its schema. */
static abi_event event_of(const void *d, const abi_binary *data, size_t count) {
    abi_event e;
    const schema *s;
    memset(&e, 0, sizeof e);
    e.message_type = ABI_MESSAGE_ASCII;
    e.message.ascii = "payload";
    if (!data || !count) return e;
    for (s = __atomic_load_n(&schemas, __ATOMIC_ACQUIRE); s; s = s->next)
        if (s->id == data->schema && s->domain == d && *s->name) {
            e.message.ascii = s->name;
            break;
        }
    e.payload_type = ABI_PAYLOAD_EXTENDED;
    e.payload.u64 = (uint64_t)(uintptr_t)data;
    e.reserved = (int32_t)count;
    return e;
}

static void on_mark_payload(void *d, const abi_binary *data, size_t count) {
    abi_event e = event_of(d, data, count);
    mark_event(domain_of(d), &e);
}
static int on_range_push_payload(void *d, const abi_binary *data, size_t count) {
    abi_event e = event_of(d, data, count);
    push_event(domain_of(d), &e);
    return NOT_TRACKED;
}
static int on_range_pop_payload(void *d, const abi_binary *data, size_t count) {
    (void)data, (void)count; /* a range keeps the payload of its begin */
    return on_domain_range_pop(d);
}
static uint64_t on_range_start_payload(void *d, const abi_binary *data, size_t count) {
    abi_event e = event_of(d, data, count);
    return start_event(domain_of(d), &e);
}
static void on_range_end_payload(void *d, uint64_t id, const abi_binary *data, size_t count) {
    (void)d, (void)data, (void)count;
    topstx_range_end(id);
}
static uint8_t on_domain_is_enabled(void *d) { return domain_of(d)->tx.attr != TOPSTXI_EXCLUDED; }

/* ---- counters -------------------------------------------------------------------------------------------------------- */

typedef struct counter {
    const void *domain;
    uint64_t id; /* the program's number of it */
    uint64_t schema;
    topstx_counter tx;
    struct counter *next;
} counter;

static counter *counters; /* newest first; only ever added to */
static uint64_t next_counter = ABI_COUNTER_FIRST_DYNAMIC;

static const counter *find_counter(const void *d, uint64_t id) {
    const counter *c;
    for (c = __atomic_load_n(&counters, __ATOMIC_ACQUIRE); c; c = c->next)
        if (c->id == id && c->domain == d) return c;
    return NULL;
}

static uint64_t on_counter_register(void *d, const abi_counter *attributes) {
    const abi_semantic *s;
    const char *unit = "";
    counter *c;
    if (!attributes || !(c = (counter *)malloc(sizeof *c))) return 0;
    for (s = attributes->semantics; s; s = s->next)
        if (s->id == ABI_SEMANTIC_COUNTER && s->struct_size >= sizeof(abi_counter_semantic) && ((const abi_counter_semantic *)s)->unit)
            unit = ((const abi_counter_semantic *)s)->unit;
    c->domain = d;
    c->schema = attributes->schema;
    c->tx = topstx_counter_create(domain_of(d)->tx, attributes->name, unit);
    c->id = attributes->id ? attributes->id : __atomic_fetch_add(&next_counter, 1, __ATOMIC_RELAXED);
    c->next = __atomic_load_n(&counters, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&counters, &c->next, c, 1, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
    }
    return c->id;
}

static void sample(const void *d, uint64_t id, double value) {
    const counter *c = topstx_is_recording() ? find_counter(d, id) : NULL;
    if (c) topstx_counter_sample(c->tx, value);
}
static void on_counter_sample_int64(void *d, uint64_t id, int64_t value) { sample(d, id, (double)value); }
static void on_counter_sample_float64(void *d, uint64_t id, double value) { sample(d, id, value); }

#define AS(type)                                    \
    {                                               \
        type number;                                \
        if (size < sizeof number) return;           \
        memcpy(&number, data, sizeof number);       \
        topstx_counter_sample(c->tx, (double)number); \
        return;                                     \
    }
static void on_counter_sample(void *d, uint64_t id, const void *data, size_t size) {
    const counter *c = topstx_is_recording() && data ? find_counter(d, id) : NULL;
    if (!c) return;
    switch (c->schema) {
    case ABI_ENTRY_INT: AS(int)
    case ABI_ENTRY_UINT: AS(unsigned int)
    case ABI_ENTRY_LONGLONG: AS(long long)
    case ABI_ENTRY_ULONGLONG: AS(unsigned long long)
    case ABI_ENTRY_INT8: AS(int8_t)
    case ABI_ENTRY_UINT8: AS(uint8_t)
    case ABI_ENTRY_INT16: AS(int16_t)
    case ABI_ENTRY_UINT16: AS(uint16_t)
    case ABI_ENTRY_INT32: AS(int32_t)
    case ABI_ENTRY_UINT32: AS(uint32_t)
    case ABI_ENTRY_INT64: AS(int64_t)
    case ABI_ENTRY_UINT64: AS(uint64_t)
    case ABI_ENTRY_FLOAT:
    case ABI_ENTRY_FLOAT32: AS(float)
    case ABI_ENTRY_DOUBLE:
    case ABI_ENTRY_FLOAT64: AS(double)
    default: return; /* a group of counters */
    }
}

/* ---- entry ----------------------------------------------------------------------------------------------------------- */

static void install(const abi_callbacks *table, int module, const abi_function *functions, unsigned int count) {
    abi_function **slots = NULL;
    unsigned int have = 0, i;
    if (!table->get_module(module, &slots, &have) || !slots) return;
    for (i = 1; i < count && i < have; i++)
        if (functions[i] && slots[i]) *slots[i] = functions[i];
}

#define F(function) ((abi_function)(void (*)(void))(function))

/* Called by each copy of NVTX in the program at its first use. 0: no session, and NVTX turns itself off. */
EXPORT int InitializeInjectionNvtx2(abi_get_table get_table) {
    static const abi_function core[] = {
        [ABI_MARK_EX] = F(on_mark_ex),
        [ABI_MARK_A] = F(on_mark_a),
        [ABI_MARK_W] = F(on_mark_w),
        [ABI_RANGE_START_EX] = F(on_range_start_ex),
        [ABI_RANGE_START_A] = F(on_range_start_a),
        [ABI_RANGE_START_W] = F(on_range_start_w),
        [ABI_RANGE_END] = F(on_range_end),
        [ABI_RANGE_PUSH_EX] = F(on_range_push_ex),
        [ABI_RANGE_PUSH_A] = F(on_range_push_a),
        [ABI_RANGE_PUSH_W] = F(on_range_push_w),
        [ABI_RANGE_POP] = F(on_range_pop),
        [ABI_NAME_CATEGORY_A] = F(on_name_category_a),
        [ABI_NAME_CATEGORY_W] = F(on_name_category_w),
        [ABI_NAME_THREAD_A] = F(on_name_thread_a),
        [ABI_NAME_THREAD_W] = F(on_name_thread_w),
    };
    static const abi_function domains[] = {
        [ABI_DOMAIN_MARK_EX] = F(on_domain_mark_ex),
        [ABI_DOMAIN_RANGE_START_EX] = F(on_domain_range_start_ex),
        [ABI_DOMAIN_RANGE_END] = F(on_domain_range_end),
        [ABI_DOMAIN_RANGE_PUSH_EX] = F(on_domain_range_push_ex),
        [ABI_DOMAIN_RANGE_POP] = F(on_domain_range_pop),
        [ABI_DOMAIN_NAME_CATEGORY_A] = F(on_domain_name_category_a),
        [ABI_DOMAIN_NAME_CATEGORY_W] = F(on_domain_name_category_w),
        [ABI_DOMAIN_REGISTER_STRING_A] = F(on_domain_register_string_a),
        [ABI_DOMAIN_REGISTER_STRING_W] = F(on_domain_register_string_w),
        [ABI_DOMAIN_CREATE_A] = F(on_domain_create_a),
        [ABI_DOMAIN_CREATE_W] = F(on_domain_create_w),
    };
    const abi_callbacks *callbacks;
    const abi_version *version;
    if (!topstxi_state.control || !get_table) return 0;
    callbacks = (const abi_callbacks *)get_table(ABI_TABLE_CALLBACKS);
    if (!callbacks || callbacks->struct_size < sizeof *callbacks || !callbacks->get_module) return 0;
    version = (const abi_version *)get_table(ABI_TABLE_VERSION);
    if (version && version->struct_size >= sizeof *version && version->set_tool_version) version->set_tool_version(3);
    default_domain.tx.attr = topstxi_state.default_attr;
    install(callbacks, ABI_MODULE_CORE, core, sizeof core / sizeof *core);
    install(callbacks, ABI_MODULE_CORE2, domains, sizeof domains / sizeof *domains);
    return 1;
}

static int extend(const abi_extension *extension, const abi_function *functions, size_t count) {
    const abi_segment *segment = extension->segments;
    size_t i;
    if (extension->segment_count < 1 || !segment || !segment->slots) return 0;
    for (i = 0; i < count && i < segment->count; i++)
        if (functions[i]) segment->slots[i] = (intptr_t)functions[i];
    return 1;
}

/* Called by each copy of an NVTX extension at its first use. */
EXPORT int InitializeInjectionNvtxExtension(abi_extension *extension) {
    static const abi_function payload[] = {
        [ABI_SCHEMA_REGISTER] = F(on_schema_register),
        [ABI_MARK_PAYLOAD] = F(on_mark_payload),
        [ABI_RANGE_PUSH_PAYLOAD] = F(on_range_push_payload),
        [ABI_RANGE_POP_PAYLOAD] = F(on_range_pop_payload),
        [ABI_RANGE_START_PAYLOAD] = F(on_range_start_payload),
        [ABI_RANGE_END_PAYLOAD] = F(on_range_end_payload),
        [ABI_DOMAIN_IS_ENABLED] = F(on_domain_is_enabled),
    };
    static const abi_function counting[] = {
        [ABI_COUNTER_REGISTER] = F(on_counter_register),
        [ABI_COUNTER_SAMPLE_INT64] = F(on_counter_sample_int64),
        [ABI_COUNTER_SAMPLE_FLOAT64] = F(on_counter_sample_float64),
        [ABI_COUNTER_SAMPLE] = F(on_counter_sample),
    };
    if (!topstxi_state.control || !extension) return 0;
    if (extension->module == ABI_EXTENSION_PAYLOAD) return extend(extension, payload, sizeof payload / sizeof *payload);
    if (extension->module == ABI_EXTENSION_COUNTERS) return extend(extension, counting, sizeof counting / sizeof *counting);
    return 0;
}
