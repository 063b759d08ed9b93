/* crec_memory.h - allocations of Python, sampled by their bytes (part of _crec.c). See topstx/recorder/memory.py, which begins and ends it.
 *
 * Functions of ours stand before Python's allocators. Each thread counts down bytes; where they run out, the allocation is a sample, and the
 * next distance is drawn from an exponential distribution: then each byte has the same chance, and a block of s bytes is sampled with
 * 1 - exp(-s / rate), by which its bytes are divided. What else an allocation costs is a subtraction, and a release a look into a table of
 * bytes that tells whether the block may be a sample.
 *
 * A sample runs within the allocator of a program that may be at any place: it calls nothing of Python that allocates, takes one lock that is
 * never held while anything is waited for, never waits for room in the ring, and keeps errno.
 */

enum { MEMORY_RAW, MEMORY_MEM, MEMORY_OBJECT, MEMORY_NUMPY, MEMORY_DOMAINS }; /* as in rows.MEMORY_DOMAINS */
enum { MEMORY_ALLOC = 1, MEMORY_FREE = 2 };                                   /* as in rows.MEMORY_OPERATIONS */

#define MEMORY_KIND_EVENT 48u
#define MEMORY_KIND_STACK 28u
#define MEMORY_FRAMES 64u                /* innermost ones of a stack that are kept */
#define MEMORY_STACKS_FIRST (1u << 30)   /* numbers below are those of the runtime's stacks */
#define MEMORY_STACKS_MAX (1u << 20)
#define MEMORY_BLOCKS_MAX (1u << 22)
#define MEMORY_UNTOLD_MAX 256u           /* releases that found no room in a ring and are written later */
#define MEMORY_NESTED_BYTES 448u         /* larger objects (with what Python's debug allocator adds) come from the raw allocator */
#define MEMORY_CODES_MAX (1u << 18)
#define NUMPY_DEFAULT_HANDLER 306        /* PyDataMem_DefaultHandler in numpy's C interface, since 1.22 */

typedef struct {
    int64_t left;    /* bytes until the next sample */
    uint64_t random; /* state */
    uint8_t seeded;
    uint8_t nested; /* in an allocator that may use another one */
    uint8_t busy;   /* at our tables, whose lock it has */
    uint8_t forked; /* it has the lock because it forks */
} memory_thread;
static __thread memory_thread memory_mine __attribute__((tls_model("initial-exec")));

typedef struct {
    uintptr_t address; /* 0: free */
    uint64_t size;
    double weight; /* bytes that it stands for */
    uint64_t serial;
    uint32_t stack;
    uint32_t domain;
} memory_block;

typedef struct { /* which addresses may be samples: counts by hash, 255 for good */
    uint32_t shift;
    uint8_t counts[];
} memory_filter;

typedef struct { /* a code object, or one that was at that address before */
    PyCodeObject *code;
    uint32_t print; /* of its texts: an address comes again */
    uint32_t number;
    uint32_t name, file;
} memory_code;

typedef struct { /* a frame with its callers */
    uint32_t parent, code, at;
    uint32_t stack; /* 0: free */
} memory_node;

typedef struct {
    PyCodeObject *code;
    int at;
} memory_place;

typedef struct __attribute__((packed)) { /* as in rows.py */
    uint64_t serial, size;
    int64_t heap;
    double weight;
    uint32_t stack;
    uint8_t operation, domain;
} memory_body;

typedef struct {
    memory_block block;
    uint64_t tick;
} memory_untold;

typedef struct { /* PyDataMem_Handler of numpy, version 1 */
    char name[127];
    uint8_t version;
    void *ctx;
    void *(*malloc)(void *, size_t);
    void *(*calloc)(void *, size_t, size_t);
    void *(*realloc)(void *, void *, size_t);
    void (*free)(void *, void *, size_t);
} numpy_handler;

static memory_filter memory_nothing = {.shift = 63, .counts = {0, 0}}; /* until there is a first sample */
static struct {
    pthread_mutex_t lock;
    PyMemAllocatorEx below[MEMORY_NUMPY]; /* what we stand before */
    numpy_handler numpy_below, *numpy;
    memory_filter *filter;
    uint64_t rate, seed, threads, serial;
    uint32_t on, installed, name_epoch;
    double heap; /* estimated bytes in use */
    memory_block *blocks;
    uint32_t block_count, block_capacity;
    memory_code *codes;
    uint32_t code_count, code_capacity, code_number;
    memory_node *nodes;
    uint32_t node_count, node_capacity;
    memory_untold untold[MEMORY_UNTOLD_MAX];
    uint32_t untold_count;
    uint64_t lost; /* samples and releases that were not recorded for other reasons than a full ring */
    memory_place frames[MEMORY_FRAMES];
    char text[TOPSTXI_NAME_BYTES_MAX];
} memory = {.lock = PTHREAD_MUTEX_INITIALIZER, .filter = &memory_nothing};

/* ---- numbers -------------------------------------------------------------------------------------------------------------- */

static uint64_t memory_random(memory_thread *t) { /* splitmix64 */
    uint64_t z = (t->random += 0x9E3779B97F4A7C15ull);
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ z >> 27) * 0x94D049BB133111EBull;
    return z ^ z >> 31;
}

/* The logarithm of a number in (0, 1); a library of mathematics is not linked for it. */
static double memory_log(double number) {
    static const double ln2 = 0.693147180559945309417, half_root = 0.707106781186547524401;
    uint64_t bits;
    int exponent;
    double z, square, sum = 0;
    memcpy(&bits, &number, 8);
    exponent = (int)(bits >> 52 & 0x7FF) - 1022;
    bits = (bits & 0x000FFFFFFFFFFFFFull) | 0x3FE0000000000000ull; /* 0.5 to 1 */
    memcpy(&number, &bits, 8);
    if (number < half_root) {
        number *= 2;
        exponent--;
    }
    z = (number - 1) / (number + 1);
    square = z * z;
    for (int k = 21; k > 0; k -= 2) sum = sum * square + 1.0 / k;
    return 2 * z * sum + exponent * ln2;
}

/* 1 - exp(-x) for x >= 0 */
static double memory_chance(double x) {
    double sum = 0, none;
    int halved = 0;
    if (x > 40) return 1;
    for (; x > 0.5; x /= 2) halved++;
    for (int k = 16; k > 0; k--) sum = x / k * (1 - sum); /* x - x^2/2! + x^3/3! - ... */
    if (!halved) return sum;
    for (none = 1 - sum; halved; halved--) none *= none;
    return 1 - none;
}

/* Bytes to the next sample: all of them equally likely to be it. */
static int64_t memory_distance(memory_thread *t) {
    double distance;
    if (memory.rate <= 1) return 0;
    distance = -memory_log((double)((memory_random(t) >> 11) * 2 + 1) * 0x1p-54) * (double)memory.rate;
    return distance < 0x1p62 ? (int64_t)distance : INT64_MAX / 2;
}

/* ---- samples that live ---------------------------------------------------------------------------------------------------- */

static inline uint64_t memory_hash(uintptr_t address) { return (uint64_t)(address >> 4) * 0x9E3779B97F4A7C15ull; }

/* Whether an address may be a sample's. */
static inline int memory_may_know(const void *address) {
    const memory_filter *f = __atomic_load_n(&memory.filter, __ATOMIC_ACQUIRE);
    return f->counts[memory_hash((uintptr_t)address) >> f->shift];
}

static void memory_filter_add(memory_filter *f, uintptr_t address, int step) {
    uint8_t *count = &f->counts[memory_hash(address) >> f->shift];
    uint8_t value = *count;
    if (value != 255) __atomic_store_n(count, (uint8_t)(value + step), __ATOMIC_RELAXED);
}

static inline uint32_t memory_slot(uintptr_t address) { return (uint32_t)(memory_hash(address) >> 32) & (memory.block_capacity - 1); }

/* The place of an address, or the free one where it would be. There is a table. */
static uint32_t memory_find(uintptr_t address) {
    uint32_t at = memory_slot(address);
    while (memory.blocks[at].address && memory.blocks[at].address != address) at = (at + 1) & (memory.block_capacity - 1);
    return at;
}

/* Room for one more. The old filter stays, as a thread may be looking into it; all of them are no larger than the newest. */
static int memory_reserve(void) {
    uint32_t capacity = memory.block_capacity ? memory.block_capacity * 2 : 1024, old_capacity = memory.block_capacity;
    memory_block *old = memory.blocks, *blocks;
    if (memory.block_count * 2 >= old_capacity) {
        if (memory.block_count >= MEMORY_BLOCKS_MAX || !(blocks = (memory_block *)calloc(capacity, sizeof *blocks))) return 0;
        memory.blocks = blocks;
        memory.block_capacity = capacity;
        for (uint32_t i = 0; i < old_capacity; i++)
            if (old[i].address) blocks[memory_find(old[i].address)] = old[i];
        free(old);
    }
    /* 8 KB stay in the nearest cache; later 16 bytes for each sample, so that few others are looked up */
    if (memory.filter == &memory_nothing || (memory.block_count >= 1u << (60 - memory.filter->shift) && memory.filter->shift > 44)) {
        uint32_t shift = memory.filter == &memory_nothing ? 51 : memory.filter->shift - 3;
        memory_filter *filter = (memory_filter *)calloc(1, sizeof *filter + ((size_t)1 << (64 - shift)));
        if (!filter) return memory.filter != &memory_nothing;
        filter->shift = shift;
        for (uint32_t i = 0; i < memory.block_capacity; i++)
            if (memory.blocks[i].address) memory_filter_add(filter, memory.blocks[i].address, 1);
        __atomic_store_n(&memory.filter, filter, __ATOMIC_RELEASE);
    }
    return 1;
}

/* Take the block at a place out of the table. */
static memory_block memory_take(uint32_t at) {
    const memory_block taken = memory.blocks[at];
    const uint32_t mask = memory.block_capacity - 1;
    uint32_t hole = at, next = at;
    memory_filter_add(memory.filter, taken.address, -1);
    for (;;) {
        next = (next + 1) & mask;
        if (!memory.blocks[next].address) break;
        if (((next - memory_slot(memory.blocks[next].address)) & mask) >= ((next - hole) & mask)) {
            memory.blocks[hole] = memory.blocks[next];
            hole = next;
        }
    }
    memory.blocks[hole].address = 0;
    memory.block_count--;
    return taken;
}

/* ---- stacks --------------------------------------------------------------------------------------------------------------- */

#if PY_VERSION_HEX >= 0x030E0000
#define MEMORY_SUPPORTED 0
#else
#define MEMORY_SUPPORTED 1
#if PY_VERSION_HEX >= 0x030C0000
typedef struct memory_frame { /* _PyInterpreterFrame of CPython 3.12 and 3.13 */
    PyObject *code;
    struct memory_frame *previous;
    PyObject *function, *globals, *builtins, *locals, *frame_object;
    const char *at; /* the instruction */
    int stack_top;
    uint16_t return_offset;
    char owner;
} memory_frame;
#else
typedef struct memory_frame { /* of CPython 3.11 */
    PyObject *function, *globals, *builtins, *locals;
    PyObject *code;
    PyObject *frame_object;
    struct memory_frame *previous;
    const char *at; /* the instruction */
    int stack_top;
    char is_entry;
    char owner;
} memory_frame;
#endif
enum { FRAME_OF_GENERATOR = 1, FRAME_OF_C = 3 };

static const memory_frame *memory_innermost(PyThreadState *t) {
#if PY_VERSION_HEX >= 0x030D0000
    return (const memory_frame *)t->current_frame;
#else
    return t->cframe ? (const memory_frame *)t->cframe->current_frame : NULL;
#endif
}

/* The calling thread's state if it has the GIL, else NULL. */
static PyThreadState *memory_thread_state(uint32_t domain) {
    PyThreadState *t = this_thread();
#if PY_VERSION_HEX < 0x030C0000
    /* of whoever has the GIL: which those are who may use the other domains */
    if (domain != MEMORY_MEM && domain != MEMORY_OBJECT && t != PyGILState_GetThisThreadState()) return NULL;
#else
    (void)domain;
#endif
    return t;
}

/* UTF-8 of a text into memory.text, without its help: that might allocate. Lone surrogates as Python escapes them. */
static uint32_t memory_utf8(PyObject *text) {
    static const char hex[] = "0123456789abcdef";
    const Py_ssize_t length = text && PyUnicode_Check(text) ? PyUnicode_GET_LENGTH(text) : 0;
    uint8_t *to = (uint8_t *)memory.text, *const end = to + sizeof memory.text - 6;
    for (Py_ssize_t i = 0; i < length && to < end; i++) {
        const Py_UCS4 c = PyUnicode_READ(PyUnicode_KIND(text), PyUnicode_DATA(text), i);
        if (c < 0x80) {
            *to++ = (uint8_t)c;
        } else if (c < 0x800) {
            *to++ = (uint8_t)(0xC0 | c >> 6);
            *to++ = (uint8_t)(0x80 | (c & 63));
        } else if (c >= 0xD800 && c < 0xE000) {
            *to++ = '\\';
            *to++ = 'u';
            for (int shift = 12; shift >= 0; shift -= 4) *to++ = (uint8_t)hex[c >> shift & 15];
        } else if (c < 0x10000) {
            *to++ = (uint8_t)(0xE0 | c >> 12);
            *to++ = (uint8_t)(0x80 | (c >> 6 & 63));
            *to++ = (uint8_t)(0x80 | (c & 63));
        } else {
            *to++ = (uint8_t)(0xF0 | c >> 18);
            *to++ = (uint8_t)(0x80 | (c >> 12 & 63));
            *to++ = (uint8_t)(0x80 | (c >> 6 & 63));
            *to++ = (uint8_t)(0x80 | (c & 63));
        }
    }
    return (uint32_t)(to - (uint8_t *)memory.text);
}

static uint32_t memory_text_print(PyObject *text, uint32_t seed) {
    if (!text || !PyUnicode_Check(text)) return seed;
    return topstxi_hash(seed, (const char *)PyUnicode_DATA(text), (uint32_t)(PyUnicode_GET_LENGTH(text) * PyUnicode_KIND(text)) & 0xFFFFu);
}

/* What is known of a code object. NULL: no memory. */
static const memory_code *memory_code_of(PyCodeObject *code) {
    const uint32_t print = memory_text_print(code->co_filename, memory_text_print(code->co_qualname, (uint32_t)code->co_firstlineno));
    memory_code *c;
    uint32_t at;
    if (memory.code_count * 2 >= memory.code_capacity) {
        uint32_t capacity = memory.code_capacity ? memory.code_capacity * 2 : 1024, old_capacity = memory.code_capacity;
        memory_code *old = memory.codes, *codes;
        if (memory.code_count >= MEMORY_CODES_MAX) { /* a program that makes code without end: begin anew */
            memset(old, 0, old_capacity * sizeof *old);
            memory.code_count = 0;
        } else {
            codes = (memory_code *)calloc(capacity, sizeof *codes);
            if (!codes) return NULL;
            memory.codes = codes;
            memory.code_capacity = capacity;
            for (uint32_t i = 0; i < old_capacity; i++) {
                if (!old[i].code) continue;
                at = (uint32_t)(memory_hash((uintptr_t)old[i].code) >> 32) & (capacity - 1);
                while (codes[at].code) at = (at + 1) & (capacity - 1);
                codes[at] = old[i];
            }
            free(old);
        }
    }
    at = (uint32_t)(memory_hash((uintptr_t)code) >> 32) & (memory.code_capacity - 1);
    while (memory.codes[at].code && memory.codes[at].code != code) at = (at + 1) & (memory.code_capacity - 1);
    c = &memory.codes[at];
    if (TOPSTXI_LIKELY(c->code != NULL) && TOPSTXI_LIKELY(c->print == print)) return c;
    if (!c->code) memory.code_count++;
    c->code = code;
    c->print = print;
    c->number = ++memory.code_number;
    c->name = topstxi_intern(TOPSTX_ENTRY_NAME, memory.text, memory_utf8(code->co_qualname));
    c->file = topstxi_intern(TOPSTX_ENTRY_NAME, memory.text, memory_utf8(code->co_filename));
    return c;
}

static uint32_t memory_node_slot(uint32_t parent, uint32_t code, uint32_t at) {
    uint64_t hash = ((uint64_t)parent << 32 | code) * 0xFF51AFD7ED558CCDull;
    hash = (hash ^ hash >> 32 ^ at) * 0xC4CEB9FE1A85EC53ull;
    return (uint32_t)(hash >> 32) & (memory.node_capacity - 1);
}

static memory_node *memory_node_of(uint32_t parent, uint32_t code, uint32_t at) {
    uint32_t slot = memory_node_slot(parent, code, at);
    memory_node *n;
    while ((n = &memory.nodes[slot])->stack && (n->parent != parent || n->code != code || n->at != at))
        slot = (slot + 1) & (memory.node_capacity - 1);
    return n;
}

/* The number of a frame that `parent` called; a new one is told. Its parent's where that is not possible. */
static uint32_t memory_frame_number(topstxi_ring *r, uint32_t parent, PyCodeObject *code, int at) {
    const memory_code *c = code ? memory_code_of(code) : NULL;
    const uint32_t number = c ? c->number : 0;
    uint32_t body[4];
    memory_node *n;
    if (code && !c) return parent;
    if (memory.node_count * 2 >= memory.node_capacity) {
        uint32_t old_capacity = memory.node_capacity;
        memory_node *old = memory.nodes, *nodes = NULL;
        if (memory.node_count < MEMORY_STACKS_MAX) nodes = (memory_node *)calloc(old_capacity ? old_capacity * 2 : 4096, sizeof *nodes);
        if (!nodes) {
            memory.lost += !old_capacity;
            if (memory.node_count + 1 >= memory.node_capacity) return parent;
        } else {
            memory.nodes = nodes;
            memory.node_capacity = old_capacity ? old_capacity * 2 : 4096;
            for (uint32_t i = 0; i < old_capacity; i++)
                if (old[i].stack) *memory_node_of(old[i].parent, old[i].code, old[i].at) = old[i];
            free(old);
        }
    }
    n = memory_node_of(parent, number, (uint32_t)at);
    if (TOPSTXI_LIKELY(n->stack)) return n->stack;
    if (memory.node_count >= MEMORY_STACKS_MAX) return parent;
    body[0] = MEMORY_STACKS_FIRST + memory.node_count + 1;
    body[1] = parent;
    body[2] = c ? c->file : 0;
    body[3] = code ? (uint32_t)PyCode_Addr2Line(code, at) : 0;
    if ((int32_t)body[3] < 0) body[3] = 0;
    if (!topstxi_row(r, MEMORY_KIND_STACK, 0, 0, c ? c->name : topstxi_name_id("[more frames]"), 0, body, sizeof body)) return parent;
    n->parent = parent;
    n->code = number;
    n->at = (uint32_t)at;
    n->stack = body[0];
    memory.node_count++;
    return n->stack;
}

/* The number of the thread's stack; 0: it runs no Python. */
static uint32_t memory_stack(topstxi_ring *r, PyThreadState *t) {
    const memory_frame *f;
    uint32_t count = 0, number = 0;
    ptrdiff_t at;
    for (f = memory_innermost(t); f && count < MEMORY_FRAMES; f = f->previous) {
        PyCodeObject *code = (PyCodeObject *)f->code;
        if (f->owner == FRAME_OF_C || !code || !PyCode_Check((PyObject *)code)) continue;
        at = f->at - (const char *)code->co_code_adaptive;
        if (f->owner != FRAME_OF_GENERATOR && at < 2 * (ptrdiff_t)code->_co_firsttraceable) continue; /* it only begins */
        memory.frames[count].code = code;
        memory.frames[count++].at = (int)at;
    }
    if (f) number = memory_frame_number(r, 0, NULL, 0);
    while (count--) number = memory_frame_number(r, number, memory.frames[count].code, memory.frames[count].at);
    return number;
}
#endif

/* ---- records -------------------------------------------------------------------------------------------------------------- */

/* 0: it is lost, and counted. */
static int memory_tell(topstxi_ring *r, uint32_t operation, const memory_block *b, uint64_t tick) {
    const memory_body body = {b->serial, b->size, (int64_t)memory.heap, b->weight, b->stack, (uint8_t)operation, (uint8_t)b->domain};
    return topstxi_row(r, MEMORY_KIND_EVENT | TOPSTX_ROW_LATE, tick, tick, topstxi_name_id(operation == MEMORY_ALLOC ? "alloc" : "free"), 0,
                       &body, sizeof body);
}

static void memory_tell_rest(topstxi_ring *r) {
    while (memory.untold_count) {
        const memory_untold *u = &memory.untold[memory.untold_count - 1];
        if (r->head + 4 > r->limit && !topstxi_room(r, 4)) return;
        if (!memory_tell(r, MEMORY_FREE, &u->block, u->tick)) return;
        memory.untold_count--;
    }
}

static void memory_released(const memory_block *b) {
    const uint64_t tick = topstxi_now();
    topstxi_ring *r = topstxi_ring_mine();
    memory.heap -= b->weight;
    if (!memory.block_count) memory.heap = 0; /* what rounding left */
    if (r && memory_tell(r, MEMORY_FREE, b, tick)) return;
    if (memory.untold_count == MEMORY_UNTOLD_MAX) {
        memory.lost++;
        return;
    }
    memory.untold[memory.untold_count].block = *b;
    memory.untold[memory.untold_count++].tick = tick;
}

/* Forget everything: another session, or a process that was forked off. */
static void memory_forget(void) {
    if (memory.blocks) memset(memory.blocks, 0, memory.block_capacity * sizeof *memory.blocks);
    if (memory.codes) memset(memory.codes, 0, memory.code_capacity * sizeof *memory.codes);
    if (memory.nodes) memset(memory.nodes, 0, memory.node_capacity * sizeof *memory.nodes);
    if (memory.filter != &memory_nothing) memset(memory.filter->counts, 0, (size_t)1 << (64 - memory.filter->shift));
    memory.block_count = memory.code_count = memory.node_count = memory.untold_count = 0;
    memory.heap = 0;
    memory.name_epoch = topstxi_state.name_epoch;
}

/* Begin a part that may touch the tables. 0: this thread is in one. */
static int memory_enter(memory_thread *t) {
    if (t->busy) return 0;
    t->busy = 1;
    topstxi_hurry = 1;
    pthread_mutex_lock(&memory.lock);
    if (TOPSTXI_UNLIKELY(memory.name_epoch != topstxi_state.name_epoch)) memory_forget();
    return 1;
}

static void memory_leave(memory_thread *t) {
    pthread_mutex_unlock(&memory.lock);
    topstxi_hurry = 0;
    t->busy = 0;
}

static void memory_record(memory_thread *t, uint32_t domain, const void *address, size_t size) {
    memory_block b = {.address = (uintptr_t)address, .size = size, .domain = domain, .weight = (double)size};
    uint32_t at;
    topstxi_ring *r;
    if (!memory_enter(t)) return;
    if (!memory.on || topstxi_recording() != TOPSTX_RECORDING_ON || !topstxi_row_wanted(MEMORY_KIND_EVENT)) goto done;
    if (!(r = topstxi_ring_mine()) || !memory_reserve()) {
        memory.lost++;
        goto done;
    }
    if (memory.untold_count) memory_tell_rest(r);
    at = memory_find(b.address);
    if (memory.blocks[at].address) { /* it was released where we could not see it */
        memory_block old = memory_take(at);
        memory_released(&old);
        at = memory_find(b.address);
    }
#if MEMORY_SUPPORTED
    PyThreadState *state = memory_thread_state(domain);
    if (state) {
        follow_context(r);
        b.stack = memory_stack(r, state);
    }
#endif
    if (memory.rate > 1) b.weight /= memory_chance((double)size / (double)memory.rate);
    b.serial = ++memory.serial;
    memory.heap += b.weight;
    if (memory_tell(r, MEMORY_ALLOC, &b, topstxi_now())) {
        memory.blocks[at] = b;
        memory.block_count++;
        memory_filter_add(memory.filter, b.address, 1);
    } else {
        memory.heap -= b.weight;
    }
done:
    memory_leave(t);
}

/* The bytes have run out: is it a sample, or does the thread only begin? */
static __attribute__((noinline)) void memory_sample(uint32_t domain, const void *address, size_t size) {
    memory_thread *t = &memory_mine;
    const int error = errno;
    if (!t->seeded) {
        const int64_t owed = t->left;
        t->seeded = 1;
        t->random = memory.seed + 0xD1342543DE82EF95ull * __atomic_fetch_add(&memory.threads, 1, __ATOMIC_RELAXED);
        t->left = memory_distance(t) + owed;
        if (t->left >= 0) return;
    }
    t->left = __atomic_load_n(&memory.on, __ATOMIC_RELAXED) ? memory_distance(t) : INT64_MAX / 2;
    if (address) memory_record(t, domain, address, size ? size : 1);
    errno = error;
}

/* A block that may be a sample goes. Returns whether it is one; then *taken is what is known of it. */
static __attribute__((noinline)) int memory_look(const void *address, memory_block *taken) {
    memory_thread *t = &memory_mine;
    const int error = errno;
    int found = 0;
    if (!memory_enter(t)) return 0;
    if (memory.block_count) {
        const uint32_t at = memory_find((uintptr_t)address);
        if (memory.blocks[at].address) {
            *taken = memory_take(at);
            found = 1;
        }
    }
    memory_leave(t);
    errno = error;
    return found;
}

static __attribute__((noinline)) void memory_gone(const memory_block *taken) {
    memory_thread *t = &memory_mine;
    const int error = errno;
    if (memory_enter(t)) {
        if (memory.on) memory_released(taken);
        memory_leave(t);
    }
    errno = error;
}

/* It stays after all: its allocator had no memory for a larger one. */
static __attribute__((noinline)) void memory_stays(const memory_block *taken) {
    memory_thread *t = &memory_mine;
    if (!memory_enter(t)) return;
    if (memory_reserve()) {
        const uint32_t at = memory_find(taken->address);
        if (!memory.blocks[at].address) {
            memory.block_count++;
            memory_filter_add(memory.filter, taken->address, 1);
            memory.blocks[at] = *taken;
        }
    }
    memory_leave(t);
}

static __attribute__((noinline)) void memory_release(const void *address) {
    memory_block taken;
    if (memory_look(address, &taken)) memory_gone(&taken);
}

/* ---- allocators ----------------------------------------------------------------------------------------------------------- */

/* Whether an allocation is a sample. */
static inline int memory_due(memory_thread *t, size_t size) {
    t->left -= size > PY_SSIZE_T_MAX ? 0 : (int64_t)(size + !size);
    return TOPSTXI_UNLIKELY(t->left < 0);
}

#define ALWAYS static inline __attribute__((always_inline))
#define BELOW (&memory.below[domain])

/* Objects of more than 512 bytes come from the raw allocator, through ours before it: they are counted once. */
ALWAYS int memory_nests(uint32_t domain) { return domain == MEMORY_MEM || domain == MEMORY_OBJECT; }

ALWAYS void *memory_malloc(uint32_t domain, size_t size) {
    memory_thread *t = &memory_mine;
    void *p;
    if (domain == MEMORY_RAW && t->nested) return BELOW->malloc(BELOW->ctx, size);
    if (!memory_nests(domain) || TOPSTXI_LIKELY(size <= MEMORY_NESTED_BYTES)) {
        if (TOPSTXI_LIKELY(!memory_due(t, size))) return BELOW->malloc(BELOW->ctx, size);
        p = BELOW->malloc(BELOW->ctx, size);
    } else {
        const uint8_t nested = t->nested;
        t->nested = 1;
        p = BELOW->malloc(BELOW->ctx, size);
        t->nested = nested;
        if (TOPSTXI_LIKELY(!memory_due(t, size))) return p;
    }
    memory_sample(domain, p, size);
    return p;
}

ALWAYS void *memory_calloc(uint32_t domain, size_t count, size_t each) {
    memory_thread *t = &memory_mine;
    const size_t size = each && count > PY_SSIZE_T_MAX / each ? 0 : count * each;
    const uint8_t nested = t->nested;
    void *p;
    if (domain == MEMORY_RAW && nested) return BELOW->calloc(BELOW->ctx, count, each);
    t->nested = memory_nests(domain);
    p = BELOW->calloc(BELOW->ctx, count, each);
    t->nested = nested;
    if (memory_due(t, size)) memory_sample(domain, p, size);
    return p;
}

/* What is left to do of a reallocation: one is a release and an allocation. */
static __attribute__((noinline)) void memory_moved(const memory_block *taken, const void *p) {
    if (p) memory_gone(taken);
    else memory_stays(taken);
}

ALWAYS void *memory_realloc(uint32_t domain, void *old, size_t size) {
    memory_thread *t = &memory_mine;
    const uint8_t nested = t->nested;
    memory_block taken;
    int known;
    void *p;
    if (domain == MEMORY_RAW && nested) return BELOW->realloc(BELOW->ctx, old, size);
    known = old && memory_may_know(old) && memory_look(old, &taken); /* before, as its address is anybody's after */
    t->nested = memory_nests(domain);
    p = BELOW->realloc(BELOW->ctx, old, size);
    t->nested = nested;
    if (TOPSTXI_UNLIKELY(known)) memory_moved(&taken, p);
    if (memory_due(t, size)) memory_sample(domain, p, size);
    return p;
}

ALWAYS void memory_free(uint32_t domain, void *p) {
    if (TOPSTXI_UNLIKELY(memory_may_know(p))) memory_release(p);
    BELOW->free(BELOW->ctx, p);
}

#define MEMORY_ALLOCATOR(domain, word)                                                                                   \
    static void *malloc_##word(void *ctx, size_t size) { return (void)ctx, memory_malloc(domain, size); }                \
    static void *calloc_##word(void *ctx, size_t n, size_t each) { return (void)ctx, memory_calloc(domain, n, each); }   \
    static void *realloc_##word(void *ctx, void *p, size_t size) { return (void)ctx, memory_realloc(domain, p, size); } \
    static void free_##word(void *ctx, void *p) { (void)ctx, memory_free(domain, p); }
MEMORY_ALLOCATOR(MEMORY_RAW, raw)
MEMORY_ALLOCATOR(MEMORY_MEM, mem)
MEMORY_ALLOCATOR(MEMORY_OBJECT, object)

static const struct {
    PyMemAllocatorDomain domain;
    PyMemAllocatorEx functions;
} memory_domains[MEMORY_NUMPY] = {
    {PYMEM_DOMAIN_RAW, {NULL, malloc_raw, calloc_raw, realloc_raw, free_raw}},
    {PYMEM_DOMAIN_MEM, {NULL, malloc_mem, calloc_mem, realloc_mem, free_mem}},
    {PYMEM_DOMAIN_OBJ, {NULL, malloc_object, calloc_object, realloc_object, free_object}},
};

/* ---- arrays of numpy: its default handler gets our functions. Some versions of it take the memory from the raw allocator. --------- */

static void *malloc_numpy(void *ctx, size_t size) {
    memory_thread *t = &memory_mine;
    void *p;
    t->nested = 1;
    p = memory.numpy_below.malloc(ctx, size);
    t->nested = 0;
    if (memory_due(t, size)) memory_sample(MEMORY_NUMPY, p, size);
    return p;
}

static void *calloc_numpy(void *ctx, size_t count, size_t each) {
    memory_thread *t = &memory_mine;
    void *p;
    t->nested = 1;
    p = memory.numpy_below.calloc(ctx, count, each);
    t->nested = 0;
    if (memory_due(t, each && count > PY_SSIZE_T_MAX / each ? 0 : count * each)) memory_sample(MEMORY_NUMPY, p, count * each);
    return p;
}

static void *realloc_numpy(void *ctx, void *old, size_t size) {
    memory_thread *t = &memory_mine;
    memory_block taken;
    const int known = old && memory_may_know(old) && memory_look(old, &taken);
    void *p;
    t->nested = 1;
    p = memory.numpy_below.realloc(ctx, old, size);
    t->nested = 0;
    if (TOPSTXI_UNLIKELY(known)) memory_moved(&taken, p);
    if (memory_due(t, size)) memory_sample(MEMORY_NUMPY, p, size);
    return p;
}

static void free_numpy(void *ctx, void *p, size_t size) {
    if (TOPSTXI_UNLIKELY(memory_may_know(p))) memory_release(p);
    memory.numpy_below.free(ctx, p, size);
}

/* The default handler of numpy's module in C, whose interface is a table of pointers. NULL: it has none that we know, or an exception. */
static numpy_handler *default_handler_of(PyObject *module) {
    PyObject *api = PyObject_HasAttrString(module, "get_handler_version") ? PyObject_GetAttrString(module, "_ARRAY_API") : NULL;
    void **table = api ? (void **)PyCapsule_GetPointer(api, NULL) : NULL;
    PyObject **capsule = table ? (PyObject **)table[NUMPY_DEFAULT_HANDLER] : NULL;
    numpy_handler *handler = capsule && *capsule ? (numpy_handler *)PyCapsule_GetPointer(*capsule, "mem_handler") : NULL;
    Py_XDECREF(api);
    return handler && handler->version == 1 && !strcmp(handler->name, "default_allocator") ? handler : NULL;
}

/* trace_numpy(module, /): whether allocations of arrays are seen from now on */
static PyObject *trace_numpy(PyObject *self, PyObject *module) {
    numpy_handler *handler = default_handler_of(module);
    (void)self;
    if (PyErr_Occurred()) return NULL;
    if (!handler || (memory.numpy && memory.numpy != handler)) Py_RETURN_FALSE;
    if (memory.numpy) Py_RETURN_TRUE;
    memory.numpy = handler;
    memory.numpy_below = *handler;
    __atomic_store_n(&handler->free, free_numpy, __ATOMIC_RELEASE); /* each of them serves blocks of both */
    __atomic_store_n(&handler->realloc, realloc_numpy, __ATOMIC_RELEASE);
    __atomic_store_n(&handler->calloc, calloc_numpy, __ATOMIC_RELEASE);
    __atomic_store_n(&handler->malloc, malloc_numpy, __ATOMIC_RELEASE);
    Py_RETURN_TRUE;
}

/* ---- begin and end -------------------------------------------------------------------------------------------------------- */

static void memory_before_fork(void) {
    memory_thread *t = &memory_mine;
    if (t->busy) return; /* a signal's handler forks within a sample: this thread has the lock */
    pthread_mutex_lock(&memory.lock);
    t->busy = t->forked = 1;
}

static void memory_after_fork_parent(void) {
    memory_thread *t = &memory_mine;
    if (!t->forked) return;
    t->busy = t->forked = 0;
    pthread_mutex_unlock(&memory.lock);
}

static void memory_after_fork_child(void) { /* what was allocated before is the parent's */
    memory_thread *t = &memory_mine;
    if (!t->forked) return;
    pthread_mutex_init(&memory.lock, NULL);
    memory_forget();
    t->busy = t->forked = 0;
    t->random ^= 0x9FB21C651E98DF25ull * (uint64_t)getpid(); /* else all children would take the same samples */
    if (memory.on) t->left = memory_distance(t);
}

/* trace_memory(rate, seed, /) */
static PyObject *trace_memory(PyObject *self, PyObject *args) {
    unsigned long long rate, seed;
    (void)self;
    if (!PyArg_ParseTuple(args, "KK:trace_memory", &rate, &seed)) return NULL;
#if !MEMORY_SUPPORTED
    return PyErr_Format(PyExc_RuntimeError, "memory of Python %d.%d can't be sampled by this version", PY_MAJOR_VERSION, PY_MINOR_VERSION);
#else
    if (!memory.installed && pthread_atfork(memory_before_fork, memory_after_fork_parent, memory_after_fork_child))
        return PyErr_NoMemory();
    pthread_mutex_lock(&memory.lock);
    memory.rate = rate ? rate : 1;
    memory.seed = seed;
    memory.threads = memory.serial = 0;
    memory_forget();
    __atomic_store_n(&memory.on, 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&memory.lock);
    memory_mine.left = 0;
    memory_mine.seeded = 0;
    for (int domain = 0; !memory.installed && domain < MEMORY_NUMPY; domain++) {
        PyMemAllocatorEx functions = memory_domains[domain].functions;
        PyMem_GetAllocator(memory_domains[domain].domain, &memory.below[domain]);
        functions.ctx = memory.below[domain].ctx; /* so that any thread that reads half of the change has what it needs */
        PyMem_SetAllocator(memory_domains[domain].domain, &functions);
    }
    memory.installed = 1;
    Py_RETURN_NONE;
#endif
}

/* Whether allocations of a domain still come by, if through functions of others. */
static int memory_passed_by(int domain) {
    memory_thread *t = &memory_mine;
    const int64_t left = t->left;
    void *p;
    switch (domain) {
    case MEMORY_RAW:
        PyMem_RawFree(p = PyMem_RawMalloc(1));
        break;
    case MEMORY_MEM:
        PyMem_Free(p = PyMem_Malloc(1));
        break;
    default:
        PyObject_Free(p = PyObject_Malloc(1));
    }
    return !p || t->left != left;
}

/* untrace_memory() -> (allocators that lost us to another tool, records lost for want of memory or a ring) */
static PyObject *untrace_memory(PyObject *self, PyObject *unused) {
    memory_thread *t = &memory_mine;
    uint64_t lost = 0;
    int displaced = 0;
    (void)self;
    (void)unused;
    if (memory.on && memory_enter(t)) {
        topstxi_ring *r = memory.untold_count ? topstxi_ring_mine() : NULL;
        if (r) memory_tell_rest(r);
        __atomic_store_n(&memory.on, 0, __ATOMIC_RELAXED);
        lost = memory.lost + memory.untold_count;
        memory.lost = memory.untold_count = 0;
        memory_leave(t);
        for (int domain = 0; domain < MEMORY_NUMPY; domain++) displaced += !memory_passed_by(domain);
    }
    return Py_BuildValue("iK", displaced, (unsigned long long)lost);
}
