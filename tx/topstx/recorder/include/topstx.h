/* topstx.h - annotations for C and C++ programs: ranges, marks and counters, recorded into the session of `topsprof run`.
 *
 * Header only. Include it, link with -lpthread, run the program under `topsprof run -- ./program`. Without a session (or with
 * TOPSTX_DISABLE in the environment) every call is a no-op; with TOPSTX_DISABLE defined at compile time none is left.
 * Works as C11 and as C++11 or newer, with GCC or Clang on Linux. Include it first, or compile with -D_GNU_SOURCE.
 *
 *     topstx_range_push("load");  ...  topstx_range_pop();
 *     topstx_mark("epoch");
 *     topstx_range_id id = topstx_range_start("request");  ...  topstx_range_end(id);      // any thread may end it
 *     topstx_domain d = topstx_domain_create("io");   topstx_domain_range_push(d, "read"); topstx_domain_range_pop(d);
 *     topstx_counter c = topstx_counter_create(d, "queue", "items");   topstx_counter_sample(c, 3);
 *     topstx_attributes a = TOPSTX_ATTRIBUTES("step");  a.payload = topstx_payload_int(17);  topstx_range_push_ex(&a);
 *     TOPSTX_PUSH("inner loop");                          // a literal, looked up once: the quickest push
 *     topstx_profiler_start();  ...  topstx_profiler_stop();   // what `topsprof run -c topsProfilerApi` records
 *     { topstx::range r("phase"); ... }                   // C++
 *
 * No call fails visibly: what can't be recorded is counted, see topstx_layout.h. Strings are UTF-8; NULL counts as "".
 */
#ifndef TOPSTX_H
#define TOPSTX_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdint.h>

typedef struct topstx_domain { /* a group of annotations; all zeros: the default domain */
    uint32_t id;
    uint32_t attr;
    uint32_t epoch;
} topstx_domain;
typedef uint64_t topstx_range_id;
typedef struct topstx_counter {
    uint32_t id;
    uint32_t epoch;
} topstx_counter;
typedef struct topstx_payload { /* see topstx_payload_int and its siblings; all zeros: none */
    uint32_t kind;
    uint32_t bytes;
    union {
        int64_t i;
        double f;
        const void *data;
    } value;
} topstx_payload;
typedef struct topstx_attributes {
    const char *message;
    topstx_domain domain;
    const char *category; /* NULL: none */
    uint32_t color;       /* 0xAARRGGBB, 0: none */
    topstx_payload payload;
} topstx_attributes;

#ifdef __cplusplus
#define TOPSTX_ATTRIBUTES(text) topstx_attributes { text, topstx_domain(), nullptr, 0, topstx_payload() }
#else
#define TOPSTX_ATTRIBUTES(text) { .message = (text) }
#endif

#ifndef TOPSTX_DISABLE
#include "topstx_attach.h"
#include "topstx_ranges.h"
#include "topstx_rows.h"
#define TOPSTXI_API static inline __attribute__((unused))
#define TOPSTXI_OFF() TOPSTXI_LIKELY(topstxi_recording() == TOPSTX_RECORDING_OFF)

#ifndef TOPSTX_NO_CONSTRUCTOR
/* Enter the session that the environment names, before main. */
__attribute__((constructor, unused)) static void topstxi_construct(void) {
    const char *folder = getenv("TOPSTX_SESSION"), *disable = getenv("TOPSTX_DISABLE");
    char line[16384], executable[4096];
    ssize_t got;
    size_t i, used = 0;
    int fd;
    if (!folder || !*folder || topstxi_state.control || (disable && *disable && strcmp(disable, "0") != 0)) return;
    if (!topstxi_attach(folder)) return;
    got = readlink("/proc/self/exe", executable, sizeof executable - 1);
    if (got > 0) {
        executable[got] = 0;
        topstxi_note_process("executable", executable, strlen(executable));
    }
    if (getcwd(executable, sizeof executable)) topstxi_note_process("cwd", executable, strlen(executable));
    fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    got = read(fd, executable, sizeof executable);
    close(fd);
    if (got <= 0) return;
    line[used++] = '[';
    line[used++] = '"';
    for (i = 0; i < (size_t)got && used < sizeof line - 16; i++) { /* arguments, NUL-terminated, as a JSON list */
        unsigned char c = (unsigned char)executable[i];
        if (!c && i + 1 < (size_t)got) {
            memcpy(line + used, "\", \"", 4);
            used += 4;
        } else if (c == '"' || c == '\\') {
            line[used++] = '\\';
            line[used++] = (char)c;
        } else if (c && c < 32) {
            used += (size_t)snprintf(line + used, 8, "\\u%04x", c);
        } else if (c) {
            line[used++] = (char)c;
        }
    }
    line[used++] = '"';
    line[used++] = ']';
    topstxi_note_process("argv", line, used);
}
#endif

/* The text of a domain entry, for the capture range; "" for the default domain. */
TOPSTXI_SLOW void topstxi_domain_text(uint32_t id, char *text, size_t bytes) {
    topstxi_process *p = &topstxi_state;
    uint32_t i;
    *text = 0;
    pthread_mutex_lock(&p->names_lock);
    for (i = 0; id && i < p->slot_capacity; i++)
        if (p->slots[i].id == id) {
            const topstxi_name *name = (const topstxi_name *)(p->arena + p->slots[i].at);
            size_t length = name->bytes < bytes ? name->bytes : bytes - 1;
            memcpy(text, name + 1, length);
            text[length] = 0;
        }
    pthread_mutex_unlock(&p->names_lock);
}

/* Is a range to be recorded now? Recording is not off when this is called. */
static inline int topstxi_wanted(const char *message, topstx_domain domain, uint32_t *flags) {
    char text[256];
    if (domain.attr == TOPSTXI_EXCLUDED || (!domain.id && topstxi_state.default_attr == TOPSTXI_EXCLUDED)) return 0;
    if (TOPSTXI_LIKELY(topstxi_recording() == TOPSTX_RECORDING_ON)) return 1;
    topstxi_domain_text(domain.id, text, sizeof text);
    return topstxi_capture(message, strlen(message), text, strlen(text), flags);
}

static inline topstxi_value topstxi_value_of(const topstx_payload *payload) {
    topstxi_value value = {NULL, payload->bytes, (uint8_t)payload->kind};
    value.data = payload->kind == TOPSTX_MORE_INT || payload->kind == TOPSTX_MORE_FLOAT ? (const void *)&payload->value : payload->value.data;
    return value;
}

static inline uint32_t topstxi_attributes_attr(const topstx_attributes *a) {
    if (!a->category && !a->color) return a->domain.attr;
    return topstxi_attr_id(a->domain.id, a->category ? topstxi_category_id(a->domain.id, 0, a->category, strlen(a->category)) : 0, a->color);
}

/* A push that is not recorded, above ranges that are still open. */
static inline void topstxi_skip(topstx_domain domain) {
    topstxi_ring *r = topstxi_mine;
    if (TOPSTXI_LIKELY(r == NULL) || r->epoch != topstxi_state.epoch || !r->open_count) return;
    if (domain.attr != TOPSTXI_EXCLUDED && (domain.id || topstxi_state.default_attr != TOPSTXI_EXCLUDED)) topstxi_hide(r, domain.id);
}

/* ---- domains ---- */

/* A domain by name; the same name gives the same domain. */
TOPSTXI_API topstx_domain topstx_domain_create(const char *name) {
    topstx_domain domain = {0, 0, 0};
    if (!name || !*name || !topstxi_state.control) return domain;
    domain.epoch = topstxi_state.name_epoch;
    domain.id = topstxi_domain_id(name, strlen(name));
    domain.attr = topstxi_attr_id(domain.id, 0, 0);
    return domain;
}

/* ---- ranges of the calling thread ---- */

TOPSTXI_API void topstx_domain_range_push(topstx_domain domain, const char *message) {
    uint32_t flags = TOPSTX_FLAG_PUSHED;
    topstxi_ring *r;
    if (!message) message = "";
    if (TOPSTXI_OFF() || !topstxi_wanted(message, domain, &flags)) topstxi_skip(domain);
    else if ((r = topstxi_ring_mine())) topstxi_open(r, topstxi_name_id(message), domain.attr, domain.id, flags);
}

TOPSTXI_API void topstx_domain_range_pop(topstx_domain domain) {
    topstxi_ring *r = topstxi_mine;
    if (TOPSTXI_OFF() && (!r || !r->open_count)) return;
    if (domain.attr == TOPSTXI_EXCLUDED || (!domain.id && topstxi_state.default_attr == TOPSTXI_EXCLUDED)) return;
    if (topstxi_recording() == TOPSTX_RECORDING_ON) r = topstxi_ring_mine();
    if (r && r->epoch == topstxi_state.epoch) topstxi_pop(r, domain.id);
}

TOPSTXI_API void topstx_range_push(const char *message) {
    topstx_domain domain = {0, 0, 0};
    topstx_domain_range_push(domain, message);
}

TOPSTXI_API void topstx_range_pop(void) {
    topstx_domain domain = {0, 0, 0};
    topstx_domain_range_pop(domain);
}

/* Push with domain, category, colour and payload; topstx_domain_range_pop(a->domain) ends it. */
TOPSTXI_API void topstx_range_push_ex(const topstx_attributes *a) {
    uint32_t flags = TOPSTX_FLAG_PUSHED, index;
    const char *message = a->message ? a->message : "";
    topstxi_ring *r;
    if (TOPSTXI_OFF() || !topstxi_wanted(message, a->domain, &flags)) {
        topstxi_skip(a->domain);
        return;
    }
    if (!(r = topstxi_ring_mine())) return;
    index = topstxi_open(r, topstxi_name_id(message), topstxi_attributes_attr(a), a->domain.id, flags);
    if (index && a->payload.kind) {
        topstxi_value value = topstxi_value_of(&a->payload);
        topstxi_keep_payload(r, index, &value);
    }
}

/* The id of a string that is pushed often. Valid until the session changes. 0 without a session. */
TOPSTXI_API uint32_t topstx_string_register(const char *text) {
    return topstxi_state.control ? topstxi_name_id(text ? text : "") : 0;
}

TOPSTXI_API void topstx_range_push_registered(uint32_t string) {
    topstx_domain domain = {0, 0, 0};
    topstxi_ring *r;
    if (TOPSTXI_UNLIKELY(topstxi_recording() != TOPSTX_RECORDING_ON)) topstxi_skip(domain);
    else if (topstxi_state.default_attr != TOPSTXI_EXCLUDED && string && (r = topstxi_ring_mine()))
        topstxi_open(r, string, 0, 0, TOPSTX_FLAG_PUSHED);
}

/* Push a literal; its id is kept at the call site. */
#define TOPSTX_PUSH(literal)                                                                           \
    do {                                                                                               \
        static uint32_t topstxi_site, topstxi_site_epoch;                                              \
        if (topstxi_recording() != TOPSTX_RECORDING_ON) {                                              \
            topstx_range_push(literal);                                                                \
        } else {                                                                                       \
            if (TOPSTXI_UNLIKELY(__atomic_load_n(&topstxi_site_epoch, __ATOMIC_ACQUIRE) != topstxi_state.name_epoch)) { \
                __atomic_store_n(&topstxi_site, topstx_string_register(literal), __ATOMIC_RELAXED);    \
                __atomic_store_n(&topstxi_site_epoch, topstxi_state.name_epoch, __ATOMIC_RELEASE);     \
            }                                                                                          \
            topstx_range_push_registered(__atomic_load_n(&topstxi_site, __ATOMIC_RELAXED));            \
        }                                                                                              \
    } while (0)
#define TOPSTX_POP() topstx_range_pop()

/* ---- marks ---- */

TOPSTXI_API void topstx_mark_ex(const topstx_attributes *a) {
    topstxi_value value;
    topstxi_ring *r;
    if (topstxi_recording() != TOPSTX_RECORDING_ON || a->domain.attr == TOPSTXI_EXCLUDED) return;
    if (!a->domain.id && topstxi_state.default_attr == TOPSTXI_EXCLUDED) return;
    if (!(r = topstxi_ring_mine())) return;
    value = topstxi_value_of(&a->payload);
    topstxi_mark(r, topstxi_name_id(a->message ? a->message : ""), topstxi_attributes_attr(a), &value);
}

TOPSTXI_API void topstx_domain_mark(topstx_domain domain, const char *message) {
    topstx_attributes a = TOPSTX_ATTRIBUTES(message);
    a.domain = domain;
    topstx_mark_ex(&a);
}

TOPSTXI_API void topstx_mark(const char *message) {
    topstx_attributes a = TOPSTX_ATTRIBUTES(message);
    topstx_mark_ex(&a);
}

/* ---- ranges of the process: any thread may end them ---- */

TOPSTXI_API topstx_range_id topstx_range_start_ex(const topstx_attributes *a) {
    uint32_t flags = 0;
    topstxi_value value;
    const char *message = a->message ? a->message : "";
    if (TOPSTXI_OFF() || !topstxi_wanted(message, a->domain, &flags)) return 0;
    value = topstxi_value_of(&a->payload);
    return topstxi_start(topstxi_name_id(message), topstxi_attributes_attr(a), &value, 0, flags);
}

TOPSTXI_API topstx_range_id topstx_domain_range_start(topstx_domain domain, const char *message) {
    topstx_attributes a = TOPSTX_ATTRIBUTES(message);
    a.domain = domain;
    return topstx_range_start_ex(&a);
}

TOPSTXI_API topstx_range_id topstx_range_start(const char *message) {
    topstx_attributes a = TOPSTX_ATTRIBUTES(message);
    return topstx_range_start_ex(&a);
}

TOPSTXI_API void topstx_range_end(topstx_range_id id) {
    if (id && topstxi_state.control) topstxi_end(id);
}

/* ---- counters ---- */

TOPSTXI_API topstx_counter topstx_counter_create(topstx_domain domain, const char *name, const char *unit) {
    topstx_counter counter = {0, 0};
    if (!topstxi_state.control || domain.id == TOPSTXI_EXCLUDED || (!domain.id && topstxi_state.default_attr)) return counter;
    if (!name) name = "";
    if (!unit) unit = "";
    counter.id = topstxi_counter_id(domain.id, name, strlen(name), unit, strlen(unit));
    counter.epoch = topstxi_state.name_epoch;
    return counter;
}

TOPSTXI_API void topstx_counter_sample(topstx_counter counter, double value) {
    topstxi_ring *r;
    if (topstxi_recording() == TOPSTX_RECORDING_ON && counter.id && counter.epoch == topstxi_state.name_epoch && (r = topstxi_ring_mine()))
        topstxi_sample(r, counter.id, value);
}

/* ---- rows of other tables (runtime calls, I/O, ...), for libraries that record what a program does ---- */

/* The present time on the recording's clock, for topstx_row of kinds whose times are ticks. */
TOPSTXI_API uint64_t topstx_now(void) { return topstxi_now(); }

/* A row of the table `kind`, `body` as that table defines it (topstx/recorder/rows.py). Kinds TOPSTX_KIND_TABLE_FIRST and up take
 * session ns, kinds TOPSTX_KIND_TICKS_FIRST to 63 ticks (topstx_now). A body of more than TOPSTX_PAYLOAD_MAX - 3 bytes is not recorded. */
TOPSTXI_API void topstx_row(uint32_t kind, uint64_t begin, uint64_t end, const char *name, const void *body, uint32_t bytes) {
    topstxi_ring *r;
    if (!topstxi_row_wanted(kind) || !(r = topstxi_ring_mine())) return;
    topstxi_row(r, kind, begin, end, topstxi_name_id(name), 0, body, bytes);
}

/* ---- names ---- */

/* Name a thread by its kernel id (0: the calling one). */
TOPSTXI_API void topstx_name_thread(uint32_t tid, const char *name) {
    if (topstxi_state.control && name) topstxi_note_thread(tid ? tid : topstxi_tid(), name, strlen(name));
}

TOPSTXI_API void topstx_name_process(const char *name) {
    if (topstxi_state.control && name) topstxi_note_process("name", name, strlen(name));
}

/* ---- the session's switch ---- */

/* Begin and end a capture from within the program (`topsprof run -c topsProfilerApi`): recording goes on and off for all
 * processes of the session. Each stop counts as a captured range, and --capture-range-end says what follows it; without -c,
 * start and stop are a plain switch. Nothing while the recording waits for a range (-c topstx), or when it is over. */
TOPSTXI_API void topstx_profiler_start(void) { topstxi_profiler_start(); }
TOPSTXI_API void topstx_profiler_stop(void) { topstxi_profiler_stop(); }

/* 1 while calls are recorded. */
TOPSTXI_API int topstx_is_recording(void) { return topstxi_recording() == TOPSTX_RECORDING_ON; }

/* ---- payloads ---- */

TOPSTXI_API topstx_payload topstx_payload_int(int64_t i) {
    topstx_payload payload = {TOPSTX_MORE_INT, 8, {0}};
    payload.value.i = i;
    return payload;
}

TOPSTXI_API topstx_payload topstx_payload_float(double f) {
    topstx_payload payload = {TOPSTX_MORE_FLOAT, 8, {0}};
    payload.value.f = f;
    return payload;
}

/* `text` must live until the call that takes the payload returns. */
TOPSTXI_API topstx_payload topstx_payload_string(const char *text) {
    topstx_payload payload = {TOPSTX_MORE_STR, 0, {0}};
    payload.bytes = (uint32_t)strlen(text);
    payload.value.data = text;
    return payload;
}

TOPSTXI_API topstx_payload topstx_payload_bytes(const void *data, uint32_t bytes) {
    topstx_payload payload = {TOPSTX_MORE_BYTES, bytes, {0}};
    payload.value.data = data;
    return payload;
}

/* JSON text of an object. */
TOPSTXI_API topstx_payload topstx_payload_json(const char *text) {
    topstx_payload payload = topstx_payload_string(text);
    payload.kind = TOPSTX_MORE_JSON;
    return payload;
}
#else
#include "topstx_off.h"
#endif /* TOPSTX_DISABLE */

/* The spellings of the vendor's and of NVTX's functions. */
#define topstxRangePushA(message) topstx_range_push(message)
#define topstxRangePop() topstx_range_pop()
#define topstxRangeStartA(message) topstx_range_start(message)
#define topstxRangeEnd(id) topstx_range_end(id)
#define topstxMarkA(message) topstx_mark(message)
#define topstxNameOsThreadA(tid, name) topstx_name_thread(tid, name)
#define topstxDomainCreateA(name) topstx_domain_create(name)

#ifdef __cplusplus
namespace topstx {
class range { /* a range as long as the object lives */
public:
    explicit range(const char *message, topstx_domain domain = topstx_domain()) : domain_(domain) { topstx_domain_range_push(domain, message); }
    explicit range(const topstx_attributes &attributes) : domain_(attributes.domain) { topstx_range_push_ex(&attributes); }
    ~range() { topstx_domain_range_pop(domain_); }
    range(const range &) = delete;
    range &operator=(const range &) = delete;

private:
    topstx_domain domain_;
};
} // namespace topstx
#endif
#endif /* TOPSTX_H */
