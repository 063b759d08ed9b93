/* Plays NVTX in a program: loads the library that NVTX_INJECTION64_PATH names, hands it tables as NVTX does, and calls what it put
 * there. So the library is tried without NVTX's headers, including the calls that the Python package never makes. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nvtx_abi.h"

enum { CORE_SLOTS = 16, DOMAIN_SLOTS = 16, EXTENSION_SLOTS = 63 };
static abi_function core[CORE_SLOTS], domains[DOMAIN_SLOTS];
static abi_function *core_slots[CORE_SLOTS], *domain_slots[DOMAIN_SLOTS];
static uint32_t told_version;

static int get_module(int module, abi_function ***slots, unsigned int *count) {
    int i;
    for (i = 1; i < CORE_SLOTS; i++) core_slots[i] = &core[i], domain_slots[i] = &domains[i];
    if (module != ABI_MODULE_CORE && module != ABI_MODULE_CORE2) return 0;
    *slots = module == ABI_MODULE_CORE ? core_slots : domain_slots;
    *count = CORE_SLOTS;
    return 1;
}
static void set_version(uint32_t version) { told_version = version; }
static const void *get_table(uint32_t table) {
    static const abi_callbacks callbacks = {sizeof callbacks, get_module};
    static const abi_version version = {sizeof version, 3, 0, set_version};
    return table == ABI_TABLE_CALLBACKS ? (const void *)&callbacks : table == ABI_TABLE_VERSION ? (const void *)&version : NULL;
}

#define CALL(table, slot, type, ...) (((type)(table)[slot])(__VA_ARGS__))
typedef void (*v_p)(const void *);
typedef void (*v_u)(uint64_t);
typedef void (*v_up)(uint32_t, const void *);
typedef void (*v_pu)(const void *, uint64_t);
typedef void (*v_pp)(const void *, const void *);
typedef void (*v_pup)(const void *, uint32_t, const void *);
typedef int (*i_)(void);
typedef int (*i_p)(const void *);
typedef int (*i_pp)(const void *, const void *);
typedef uint64_t (*u_p)(const void *);
typedef uint64_t (*u_pp)(const void *, const void *);
typedef void *(*p_p)(const void *);
typedef void *(*p_pp)(const void *, const void *);

static abi_event event(const char *message) {
    abi_event e;
    memset(&e, 0, sizeof e);
    e.version = 3;
    e.size = sizeof e;
    e.message_type = ABI_MESSAGE_ASCII;
    e.message.ascii = message;
    return e;
}

static void *ends(void *id) {
    CALL(core, ABI_RANGE_END, v_u, *(uint64_t *)id);
    return NULL;
}

static void calls_of_the_core(void) {
    abi_event e = event("ex");
    uint64_t id;
    pthread_t thread;
    CALL(core, ABI_NAME_THREAD_A, v_up, (uint32_t)getpid(), "main thread");
    CALL(core, ABI_RANGE_PUSH_A, i_p, "a");
    CALL(core, ABI_RANGE_PUSH_W, i_p, L"w \u00e9\u20ac\U0001F600");
    CALL(core, ABI_NAME_CATEGORY_A, v_up, 5, "five");
    e.category = 5;
    e.color_type = ABI_COLOR_ARGB;
    e.color = 0x80112233;
    e.payload_type = ABI_PAYLOAD_UINT64;
    e.payload.u64 = UINT64_MAX;
    CALL(core, ABI_RANGE_PUSH_EX, i_p, &e);
    CALL(core, ABI_MARK_A, v_p, "mark a");
    CALL(core, ABI_MARK_W, v_p, L"mark w");
    if (CALL(core, ABI_RANGE_POP, i_) != -2) abort();
    CALL(core, ABI_RANGE_POP, i_);
    CALL(core, ABI_RANGE_POP, i_);
    CALL(core, ABI_RANGE_POP, i_); /* one too many */
    e = event("mark ex");
    e.category = 6; /* never named */
    e.payload_type = ABI_PAYLOAD_FLOAT;
    e.payload.f32 = 1.5f;
    CALL(core, ABI_MARK_EX, v_p, &e);
    id = CALL(core, ABI_RANGE_START_A, u_p, "start a");
    pthread_create(&thread, NULL, ends, &id);
    pthread_join(thread, NULL);
    ends((id = CALL(core, ABI_RANGE_START_W, u_p, L"start w"), &id));
    e = event("start ex");
    e.payload_type = ABI_PAYLOAD_INT32;
    e.payload.i32 = -3;
    ends((id = CALL(core, ABI_RANGE_START_EX, u_p, &e), &id));
    CALL(core, ABI_MARK_A, v_p, NULL);
}

static void calls_of_domains(void) {
    void *d = CALL(domains, ABI_DOMAIN_CREATE_A, p_p, "io"), *w = CALL(domains, ABI_DOMAIN_CREATE_W, p_p, L"wide");
    abi_event e = event(NULL);
    abi_binary binary = {99, 4, "\1\2\3\4"};
    CALL(domains, ABI_DOMAIN_NAME_CATEGORY_A, v_pup, d, 1, "one");
    CALL(domains, ABI_DOMAIN_NAME_CATEGORY_W, v_pup, w, 1, L"uno");
    e.message_type = ABI_MESSAGE_REGISTERED;
    e.message.registered = CALL(domains, ABI_DOMAIN_REGISTER_STRING_A, p_pp, d, "registered");
    e.category = 1;
    CALL(domains, ABI_DOMAIN_RANGE_PUSH_EX, i_pp, d, &e);
    e.message.registered = CALL(domains, ABI_DOMAIN_REGISTER_STRING_W, p_pp, w, L"registered wide");
    CALL(domains, ABI_DOMAIN_RANGE_PUSH_EX, i_pp, w, &e);
    CALL(domains, ABI_DOMAIN_RANGE_POP, i_p, d); /* the domains' ranges overlap */
    CALL(domains, ABI_DOMAIN_RANGE_POP, i_p, w);
    e = event("binary");
    e.payload_type = ABI_PAYLOAD_EXTENDED;
    e.reserved = 1;
    e.payload.u64 = (uint64_t)(uintptr_t)&binary;
    CALL(domains, ABI_DOMAIN_MARK_EX, v_pp, d, &e);
    e = event("null domain");
    e.payload_type = ABI_PAYLOAD_DOUBLE;
    e.payload.f64 = 0.5;
    CALL(domains, ABI_DOMAIN_RANGE_END, v_pu, NULL, CALL(domains, ABI_DOMAIN_RANGE_START_EX, u_pp, NULL, &e));
}

static void counters(int (*init)(abi_extension *)) {
    static intptr_t slots[EXTENSION_SLOTS];
    abi_segment segment = {0, EXTENSION_SLOTS, slots};
    abi_extension extension = {3, sizeof extension, ABI_EXTENSION_COUNTERS, 0x0102, 1, &segment, NULL, NULL};
    abi_counter_semantic unit = {{sizeof unit, ABI_SEMANTIC_COUNTER, 1, NULL}, 0, "items"};
    abi_counter attributes = {sizeof attributes, ABI_ENTRY_INT64, "queue", NULL, 0, &unit.header, 0};
    void *d = CALL(domains, ABI_DOMAIN_CREATE_A, p_p, "io");
    int64_t value = 7;
    uint64_t id;
    if (!init(&extension)) abort();
    id = ((uint64_t (*)(void *, const abi_counter *))slots[ABI_COUNTER_REGISTER])(d, &attributes);
    ((void (*)(void *, uint64_t, int64_t))slots[ABI_COUNTER_SAMPLE_INT64])(d, id, 5);
    ((void (*)(void *, uint64_t, double))slots[ABI_COUNTER_SAMPLE_FLOAT64])(d, id, 5.5);
    ((void (*)(void *, uint64_t, const void *, size_t))slots[ABI_COUNTER_SAMPLE])(d, id, &value, sizeof value);
    ((void (*)(void *, uint64_t, int64_t))slots[ABI_COUNTER_SAMPLE_INT64])(d, id + 1, 5); /* unknown */
    extension.module = 77;
    if (init(&extension)) abort();
}

static void payloads(int (*init)(abi_extension *)) {
    static intptr_t slots[EXTENSION_SLOTS];
    abi_segment segment = {0, EXTENSION_SLOTS, slots};
    abi_extension extension = {3, sizeof extension, ABI_EXTENSION_PAYLOAD, 0x0103, 1, &segment, NULL, NULL};
    abi_schema attributes = {ABI_SCHEMA_HAS_NAME, "point", 0, 0, NULL, 0, 0, 0, 0, NULL};
    abi_binary binary = {0, 2, "xy"};
    if (!init(&extension)) abort();
    if (((uint8_t(*)(void *))slots[ABI_DOMAIN_IS_ENABLED])(NULL) != 1) abort();
    binary.schema = ((uint64_t (*)(void *, const abi_schema *))slots[ABI_SCHEMA_REGISTER])(NULL, &attributes);
    ((int (*)(void *, const abi_binary *, size_t))slots[ABI_RANGE_PUSH_PAYLOAD])(NULL, &binary, 1);
    ((void (*)(void *, const abi_binary *, size_t))slots[ABI_MARK_PAYLOAD])(NULL, &binary, 1);
    ((int (*)(void *, const abi_binary *, size_t))slots[ABI_RANGE_POP_PAYLOAD])(NULL, NULL, 0);
}

int main(int argc, char **argv) {
    void *library = dlopen(getenv("NVTX_INJECTION64_PATH"), RTLD_NOW);
    int (*init)(abi_get_table);
    int (*init_extension)(abi_extension *);
    const char *what = argc > 1 ? argv[1] : "all";
    if (!library) return fprintf(stderr, "%s\n", dlerror()), 2;
    init = (int (*)(abi_get_table))dlsym(library, "InitializeInjectionNvtx2");
    init_extension = (int (*)(abi_extension *))dlsym(library, "InitializeInjectionNvtxExtension");
    if (!init || !init_extension) return 3;
    if (!init(get_table)) { /* as NVTX does */
        dlclose(library);
        return 4;
    }
    if (told_version != 3) return 5;
    if (!strcmp(what, "all")) {
        calls_of_the_core();
        calls_of_domains();
        counters(init_extension);
        payloads(init_extension);
    } else if (!strcmp(what, "fork")) {
        CALL(core, ABI_RANGE_PUSH_A, i_p, "parent");
        if (!fork()) {
            CALL(core, ABI_MARK_A, v_p, "child");
            _exit(3);
        }
        wait(NULL);
        CALL(core, ABI_RANGE_POP, i_);
    } else if (!strcmp(what, "abort")) {
        CALL(core, ABI_RANGE_PUSH_A, i_p, "open");
        CALL(core, ABI_MARK_A, v_p, "published");
        abort();
    }
    return 0;
}
