/* nvtx_abi.h - the binary interface between NVTX version 3 and a tool, as far as we use it.
 *
 * NVTX lives as inline code in the programs that use it. Its first call loads the library that NVTX_INJECTION64_PATH names and
 * calls InitializeInjectionNvtx2 with a function that hands out tables. Through one of them the tool reaches the
 * program's function pointers and stores its own. These declarations are ours; the numbers and the order of fields are
 * NVTX's, which its binary compatibility fixes. They are proven against its headers by a test, where those are installed.
 */
#ifndef TOPSTX_NVTX_ABI_H
#define TOPSTX_NVTX_ABI_H
#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

typedef void (*abi_function)(void);

/* ---- tables of the core ---- */
enum { ABI_TABLE_CALLBACKS = 1, ABI_TABLE_VERSION = 3 };
enum { ABI_MODULE_CORE = 1, ABI_MODULE_CORE2 = 5 };

typedef const void *(*abi_get_table)(uint32_t table);
typedef struct abi_callbacks {
    size_t struct_size;
    /* *slots becomes an array of `*count` pointers to function pointers; entry 0 is unused */
    int (*get_module)(int module, abi_function ***slots, unsigned int *count);
} abi_callbacks;
typedef struct abi_version {
    size_t struct_size;
    uint32_t version;
    uint32_t reserved;
    void (*set_tool_version)(uint32_t version);
} abi_version;

enum { /* ABI_MODULE_CORE */
    ABI_MARK_EX = 1,
    ABI_MARK_A = 2,
    ABI_MARK_W = 3,
    ABI_RANGE_START_EX = 4,
    ABI_RANGE_START_A = 5,
    ABI_RANGE_START_W = 6,
    ABI_RANGE_END = 7,
    ABI_RANGE_PUSH_EX = 8,
    ABI_RANGE_PUSH_A = 9,
    ABI_RANGE_PUSH_W = 10,
    ABI_RANGE_POP = 11,
    ABI_NAME_CATEGORY_A = 12,
    ABI_NAME_CATEGORY_W = 13,
    ABI_NAME_THREAD_A = 14,
    ABI_NAME_THREAD_W = 15
};
enum { /* ABI_MODULE_CORE2 */
    ABI_DOMAIN_MARK_EX = 1,
    ABI_DOMAIN_RANGE_START_EX = 2,
    ABI_DOMAIN_RANGE_END = 3,
    ABI_DOMAIN_RANGE_PUSH_EX = 4,
    ABI_DOMAIN_RANGE_POP = 5,
    ABI_DOMAIN_NAME_CATEGORY_A = 8,
    ABI_DOMAIN_NAME_CATEGORY_W = 9,
    ABI_DOMAIN_REGISTER_STRING_A = 10,
    ABI_DOMAIN_REGISTER_STRING_W = 11,
    ABI_DOMAIN_CREATE_A = 12,
    ABI_DOMAIN_CREATE_W = 13,
    ABI_DOMAIN_DESTROY = 14
};

/* ---- attributes of an event ---- */
enum { ABI_COLOR_ARGB = 1 };
enum { ABI_MESSAGE_ASCII = 1, ABI_MESSAGE_UNICODE = 2, ABI_MESSAGE_REGISTERED = 3 };
enum {
    ABI_PAYLOAD_UINT64 = 1,
    ABI_PAYLOAD_INT64 = 2,
    ABI_PAYLOAD_DOUBLE = 3,
    ABI_PAYLOAD_UINT32 = 4,
    ABI_PAYLOAD_INT32 = 5,
    ABI_PAYLOAD_FLOAT = 6
};
#define ABI_PAYLOAD_EXTENDED ((int32_t)0xDFBD0009) /* payload.u64 points to abi_binary[reserved] */

typedef struct abi_event {
    uint16_t version;
    uint16_t size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type;
    int32_t reserved;
    union {
        uint64_t u64;
        int64_t i64;
        double f64;
        uint32_t u32;
        int32_t i32;
        float f32;
    } payload;
    int32_t message_type;
    union {
        const char *ascii;
        const wchar_t *unicode;
        const void *registered; /* what the tool returned when the string was registered */
    } message;
} abi_event;

typedef struct abi_binary {
    uint64_t schema;
    size_t size; /* SIZE_MAX: the schema says */
    const void *data;
} abi_binary;

/* ---- extensions ---- */
enum { ABI_EXTENSION_PAYLOAD = 2, ABI_EXTENSION_COUNTERS = 4 };
enum {
    ABI_SCHEMA_REGISTER = 0,
    ABI_MARK_PAYLOAD = 2,
    ABI_RANGE_PUSH_PAYLOAD = 3,
    ABI_RANGE_POP_PAYLOAD = 4,
    ABI_RANGE_START_PAYLOAD = 5,
    ABI_RANGE_END_PAYLOAD = 6,
    ABI_DOMAIN_IS_ENABLED = 7
};
enum {
    ABI_COUNTER_REGISTER = 0,
    ABI_COUNTER_SAMPLE_INT64 = 1,
    ABI_COUNTER_SAMPLE_FLOAT64 = 2,
    ABI_COUNTER_SAMPLE = 3
};
enum { ABI_SEMANTIC_COUNTER = 5 };

typedef struct abi_segment {
    size_t id;
    size_t count;
    intptr_t *slots;
} abi_segment;
typedef struct abi_extension {
    uint16_t nvtx_version;
    uint16_t struct_size;
    uint16_t module;
    uint16_t compatibility;
    size_t segment_count;
    abi_segment *segments;
    intptr_t (*get_export)(uint32_t function);
    const void *info;
} abi_extension;

typedef struct abi_schema {
    uint64_t fields; /* ABI_SCHEMA_HAS_*: which of the others are set */
    const char *name;
    uint64_t type;
    uint64_t flags;
    const void *entries;
    size_t entry_count;
    size_t static_size;
    size_t alignment;
    uint64_t id;
    const void *extension;
} abi_schema;
enum { ABI_SCHEMA_HAS_NAME = 1 << 1, ABI_SCHEMA_HAS_ID = 1 << 8 };
#define ABI_SCHEMA_FIRST_DYNAMIC ((uint64_t)1 << 32)

typedef struct abi_semantic {
    uint32_t struct_size;
    uint16_t id;
    uint16_t version;
    const struct abi_semantic *next;
} abi_semantic;
typedef struct abi_counter_semantic { /* its first fields */
    abi_semantic header;
    uint64_t flags;
    const char *unit;
} abi_counter_semantic;
typedef struct abi_counter {
    size_t struct_size;
    uint64_t schema; /* ABI_ENTRY_* for a single number */
    const char *name;
    const char *description;
    uint64_t scope;
    const abi_semantic *semantics;
    uint64_t id; /* 0: the tool chooses */
} abi_counter;
#define ABI_COUNTER_FIRST_DYNAMIC ((uint64_t)1 << 32)

enum { /* schemas that are one number */
    ABI_ENTRY_INT = 5,
    ABI_ENTRY_UINT = 6,
    ABI_ENTRY_LONGLONG = 9,
    ABI_ENTRY_ULONGLONG = 10,
    ABI_ENTRY_INT8 = 11,
    ABI_ENTRY_UINT8 = 12,
    ABI_ENTRY_INT16 = 13,
    ABI_ENTRY_UINT16 = 14,
    ABI_ENTRY_INT32 = 15,
    ABI_ENTRY_UINT32 = 16,
    ABI_ENTRY_INT64 = 17,
    ABI_ENTRY_UINT64 = 18,
    ABI_ENTRY_FLOAT = 19,
    ABI_ENTRY_DOUBLE = 20,
    ABI_ENTRY_FLOAT32 = 43,
    ABI_ENTRY_FLOAT64 = 44
};

_Static_assert(sizeof(abi_event) == 48, "event attributes");
_Static_assert(offsetof(abi_event, payload) == 24, "payload");
_Static_assert(offsetof(abi_event, message) == 40, "message");
_Static_assert(offsetof(abi_schema, id) == 64, "schema attributes");
_Static_assert(sizeof(abi_counter) == 56, "counter attributes");
#endif
