/* Another process's memory, and where its Python keeps things. */
#ifndef TOPSPROF_REMOTE_H
#define TOPSPROF_REMOTE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* What the loop needs of a layout (layout-X.Y.toml); `objects.py` uses the others. */
#define LAYOUT_FIELDS(F) \
    F(runtime_interp_head) F(interp_next) F(interp_id) F(interp_threads_head) F(interp_collecting) F(interp_collections) F(collections_step) F(runtime_gil) F(interp_gil) \
    F(gil_holder) F(gil_locked) F(gil_cond) F(gil_size) F(thread_next) F(thread_interp) F(thread_cframe) F(cframe_frame) \
    F(thread_frame) F(thread_ident) F(thread_tid) F(thread_chunk) F(thread_top) F(chunk_previous) F(chunk_size) F(chunk_used) \
    F(chunk_data) F(frame_code) F(frame_instr) F(frame_previous) F(frame_owner) F(frame_locals) F(code_size) F(code_length) \
    F(code_flags) F(code_consts) F(code_filename) F(code_qualname) F(code_linetable) F(code_firstlineno) F(code_names) \
    F(code_kinds) F(object_type) F(var_size) F(str_length) F(str_state) F(str_ascii) F(str_compact) F(bytes_data) F(int_tag) \
    F(int_digits) F(dict_used) F(dict_keys) F(keys_log2_size) F(keys_log2_bytes) F(keys_kind) F(keys_entries) F(keys_indices) \
    F(gen_frame) F(task_coro) F(task_name) F(calls_0) F(calls_1) F(calls_2) F(calls_3)

typedef struct {
#define F(name) int64_t name;
    LAYOUT_FIELDS(F)
#undef F
} py_layout;

enum { LAYOUT_BLOCK = 512, CODE_BLOCK = 256, FRAME_BLOCK = 128 };   /* the most that a thread state's, code's or frame's fields span */

typedef struct {
    pid_t pid;
    py_layout at;
    uint64_t runtime;               /* address of _PyRuntime */
    uint64_t code_type, str_type, bytes_type, int_type;
    uint64_t reads;                 /* system calls so far */
} remote;

typedef struct {
    uint64_t address;
    void *to;
    size_t bytes;
} remote_item;

/* Whether all `bytes` could be read. */
bool remote_read(remote *from, uint64_t address, void *to, size_t bytes);

/* Reads items in order in few calls; returns how many of the first ones are whole. */
int remote_read_items(remote *from, const remote_item *items, int count);

/* A str as UTF-8 into `to` (cut at `room` - 1 bytes, always ended by 0). Returns its length, or -1: no str. */
int remote_text(remote *from, uint64_t address, char *to, int room);

static inline uint64_t word_at(const void *block, int64_t offset)
{
    uint64_t word;
    __builtin_memcpy(&word, (const char *)block + offset, 8);
    return word;
}

static inline int32_t int_at(const void *block, int64_t offset)
{
    int32_t value;
    __builtin_memcpy(&value, (const char *)block + offset, 4);
    return value;
}

/* Whether the head of an object says that it lives: a freed one keeps its fields, but for the first, which becomes a pointer or 0. */
static inline bool lives_at(const void *head)
{
    uint64_t references = word_at(head, 0);
    return references > 0 && references <= UINT32_MAX;      /* immortal ones have that most */
}

/* An address that an object can have: none of the tagged or torn words that look like one. */
static inline bool plausible(uint64_t address)
{
    return address >= 4096 && address < (1ULL << 56) && !(address & 7);
}
#endif
