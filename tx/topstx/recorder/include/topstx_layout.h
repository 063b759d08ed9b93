/* topstx_layout.h - the layout of everything a recorded program shares with its collector.
 *
 * One definition for all writers (the C extension, topstx.h in C/C++ programs, the Python twin) and all readers
 * (the collector, `topsprof recover`). Python reads the same facts from topstx/recorder/layout.py; a test compares both.
 *
 * A session folder being recorded holds
 *     control                      one topstx_control: switches written by tools, heartbeat of the collector
 *     cuts                         topstx_cuts_header, then entries: where session time leaves the raw clock
 *     rings/<process>-<ring>.ring  topstx_ring_header, open-range table, records      (one producer thread at a time)
 *     names/<process>.names        topstx_names_header, then entries                  (one per process incarnation)
 * <process> is the process serial as 16 hex digits (random, nonzero, new after fork and exec), <ring> counts from 1 in it, decimal.
 *
 * All integers are little-endian and naturally aligned. Rules of publication:
 *   names   an entry is written completely, then `committed_bytes` is stored with release order; only then may a record use its id
 *   records slots are written completely, then `head` is stored with release order; the consumer frees slots by `tail`
 * Every file is allocated (posix_fallocate) before it is mapped, so a full disk is an error code and never a SIGBUS.
 */
#ifndef TOPSTX_LAYOUT_H
#define TOPSTX_LAYOUT_H
#include <stdint.h>

#define TOPSTX_LAYOUT_VERSION 1u
#define TOPSTX_PAGE 4096u

/* ---- control ------------------------------------------------------------------------------------------------------ */
#define TOPSTX_CONTROL_MAGIC "TOPSCTL1"
enum {                              /* topstx_control.recording */
    TOPSTX_RECORDING_OFF = 0,       /* every call is a no-op */
    TOPSTX_RECORDING_ON = 1,
    TOPSTX_RECORDING_ARMED = 2      /* off until a range equal to capture_name@capture_domain begins */
};
enum { TOPSTX_POLICY_BLOCK = 0, TOPSTX_POLICY_DROP = 1 };
enum {                              /* topstx_control.capture_end: what the end of the captured range does */
    TOPSTX_CAPTURE_END_NONE = 0,    /* recording stays on (topstx_profiler_stop: off, and start may switch it on again) */
    TOPSTX_CAPTURE_END_STOP = 1,    /* recording goes off for good */
    TOPSTX_CAPTURE_END_STOP_SHUTDOWN = 2, /* off, and `shutdown_request` is set for the tool that runs the session */
    TOPSTX_CAPTURE_END_REPEAT = 3   /* armed again (after topstx_profiler_stop: off until the next start), until capture_repeats ranges were captured (0: without end) */
};
typedef struct topstx_control {     /* 4096 bytes, mapped shared by every process of the recording */
    char magic[8];
    uint32_t layout_version;
    uint32_t policy;                /* TOPSTX_POLICY_* */
    uint32_t recording;             /* TOPSTX_RECORDING_*; atomic; the one switch that the hot path reads */
    uint32_t clock;                 /* TOPSTX_CLOCK_* that writers of this session use */
    uint32_t ring_initial_bytes;    /* size of a thread's first ring file, 65536 */
    uint32_t ring_max_records;      /* a ring grows up to this many slots, 262144 */
    uint64_t process_max_bytes;     /* all ring files of one process together, 268435456 */
    uint64_t heartbeat_ns;          /* CLOCK_MONOTONIC of the collector's last round; atomic; 0 before the first */
    uint64_t collector_pid;
    uint32_t capture_end;           /* TOPSTX_CAPTURE_END_* */
    uint32_t capture_repeats;
    uint32_t capture_count;         /* ranges captured so far; atomic */
    uint32_t shutdown_request;      /* atomic */
    char capture_name[512];         /* UTF-8, NUL-terminated; empty: no capture range */
    char capture_domain[256];       /* empty: the default domain */
    char domain_include[1024];      /* NUL-separated names, ended by an empty one; empty: all */
    char domain_exclude[1024];
    uint32_t lost_processes;        /* processes that could not make their files (rights, disk, limits): nobody knows what they would have recorded; atomic */
    uint32_t capture_skip;          /* so many ranges equal to capture_name@capture_domain pass by, armed, before one is captured; atomic, counted down */
    uint64_t rows_off;              /* bit k: rows of kind k (16 and up) are not wanted; of RANGE, MARK, COUNTER: the collector leaves them out */
    uint32_t backtrace;             /* frames of a call's stack that the runtime records, 0: none */
    uint32_t metrics;               /* TOPSTX_METRICS_*, bits: counters of launches that the runtime records */
    char kernel_include[512];       /* UTF-8, NUL-terminated regular expression: only kernels whose name it finds; empty: all */
    char kernel_exclude[512];       /* the same: not these */
} topstx_control;
enum { TOPSTX_ROW_LATE = 128 };     /* with a kind for topstx_row: of something that began while recording was on, so it is written though it is off by now */
enum { TOPSTX_METRICS_ROOFLINE = 1, TOPSTX_METRICS_MEMORY = 2, TOPSTX_METRICS_STALLS = 4, TOPSTX_METRICS_LINES = 8 };

/* ---- rings -------------------------------------------------------------------------------------------------------- */
#define TOPSTX_RING_MAGIC "TOPSRNG1"
enum { TOPSTX_CLOCK_MONOTONIC = 0, TOPSTX_CLOCK_TSC = 1 };  /* unit of ticks: ns of CLOCK_MONOTONIC, or rdtsc */
enum {                              /* topstx_ring_header.state */
    TOPSTX_RING_BUILDING = 0,       /* not yet valid: ignore (its predecessor still counts) */
    TOPSTX_RING_LIVE = 1,           /* a thread writes it */
    TOPSTX_RING_SUPERSEDED = 2,     /* its producer moved to a larger successor, with its open ranges: drain and delete */
    TOPSTX_RING_IDLE = 3,           /* its thread ended; may be taken by another thread of the same process */
    TOPSTX_RING_RETIRED = 4         /* its process ended in order: drain and delete */
};
typedef struct topstx_ring_header { /* the first page of a ring file */
    char magic[8];
    uint32_t layout_version;
    uint32_t clock;                 /* TOPSTX_CLOCK_* */
    uint64_t process_serial;
    uint64_t ring_serial;
    uint64_t predecessor;           /* ring_serial that this one continues, 0: none */
    uint32_t pid;
    uint32_t shared;                /* 1: the process's ring for start/end ranges (many threads, under a lock) */
    uint64_t open_offset;           /* bytes from the file's begin to the open table */
    uint64_t open_capacity;         /* topstx_open slots */
    uint64_t record_offset;         /* bytes from the file's begin to the records */
    uint64_t record_capacity;       /* slots, a power of two */
    uint64_t file_bytes;
    uint8_t pad0[40];
    /* written by the producer (offset 128) */
    uint64_t head;                  /* slots ever written; atomic, release */
    uint64_t dropped;               /* records not written because the ring was full; atomic, relaxed */
    uint64_t blocked_ns;            /* time spent waiting for room */
    uint64_t unbalanced;            /* pops and ends without a begin */
    uint64_t last_tick;             /* time of the newest begin or end, best effort (may lag) */
    uint32_t state;                 /* TOPSTX_RING_*; atomic */
    uint32_t tid;                   /* kernel thread id of the current producer */
    uint8_t pad1[80];
    /* written by the consumer (offset 256) */
    uint64_t tail;                  /* slots ever consumed; atomic, release */
    uint8_t pad2[56];
} topstx_ring_header;

typedef struct topstx_open {        /* a range that has begun and not ended; free when begin_tick == 0 */
    uint64_t begin_tick;            /* stored last at begin (release); cleared once the range's record is published, so a kill
                                       between both leaves the range twice: a reader drops an open range whose begin_tick
                                       and name are those of a record of the same ring */
    uint64_t context;               /* writer-private: tells asyncio tasks apart */
    uint32_t name;
    uint32_t attr;
    uint32_t tid;                   /* the thread that began it */
    uint32_t task;
    uint16_t depth;
    uint8_t kind;
    uint8_t flags;
    uint32_t next_free;             /* writer-private free list and chain */
    uint32_t previous;
    uint32_t following;
    uint8_t payload[16];            /* {u8 tag or 0, u8 bytes, up to 14 bytes}: the payload's begin, so that it survives a kill */
} topstx_open;

enum {                              /* topstx_record.kind */
    TOPSTX_KIND_NONE = 0,
    TOPSTX_KIND_RANGE = 1,          /* a finished range */
    TOPSTX_KIND_MARK = 2,           /* end_tick == begin_tick */
    TOPSTX_KIND_COUNTER = 3,        /* end_tick holds the bits of a double; name is a COUNTER entry */
    TOPSTX_KIND_THREAD = 4,         /* from here on the ring belongs to thread `task` (a kernel thread id) */
    TOPSTX_KIND_THREAD_END = 5,
    TOPSTX_KIND_OVERHEAD = 6,       /* time the recorder itself cost, e.g. waiting for room; name says what */
    TOPSTX_KIND_MORE = 7,           /* bytes that belong to the record before: see topstx_more */
    TOPSTX_KIND_CALL = 8,           /* a call of a function of the language, or a part of it from a resumption to a yield: `name` is the
                                       function's, `attr` a CODE entry, `flags` TOPSTX_CALL_* and ERROR (an exception left it); `task` is 0,
                                       or tells generators and coroutines apart: the same in all parts of one */
    TOPSTX_KIND_CALLS_SKIPPED = 9,  /* `task` calls of a function (`name`, `attr` as above) that were not recorded, from begin to end */
    TOPSTX_KIND_TABLE_FIRST = 16,   /* 16..47: rows of other tables (runtime API, kernels, ...), body in MORE slots; see rows.py. Their begin and
                                       end are session ns (see cuts); `task` is a correlation id, `attr` the name of the innermost open range */
    TOPSTX_KIND_TICKS_FIRST = 48    /* 48..63: the same, but begin and end are ticks, like those of ranges */
};
enum {                              /* topstx_record.flags */
    TOPSTX_FLAG_ERROR = 1,          /* the range was left by an exception */
    TOPSTX_FLAG_UNFINISHED = 2,     /* set by readers only: the range never ended */
    TOPSTX_FLAG_MORE = 4,           /* MORE slots follow */
    TOPSTX_FLAG_START_END = 8,      /* start_range/end_range; MORE carries the ending thread's id when it differs */
    TOPSTX_FLAG_TRUNCATED = 16,     /* the payload was longer than TOPSTX_PAYLOAD_MAX and was cut */
    TOPSTX_FLAG_CAPTURE = 32,       /* writer-private: this range switched recording on */
    TOPSTX_FLAG_PUSHED = 64,        /* writer-private, in topstx_open only: opened by push, so a pop may close it */
    TOPSTX_FLAG_HIDDEN = 128        /* the same: a push that is not recorded; its slot has no begin_tick */
};
enum {                              /* topstx_record.flags of TOPSTX_KIND_CALL */
    TOPSTX_CALL_RESUMED = 8,        /* no new call: a generator or coroutine went on */
    TOPSTX_CALL_YIELDED = 16,       /* it may go on later */
    TOPSTX_CALL_C = 32              /* a function in C */
};
typedef struct topstx_record {      /* one slot, 32 bytes */
    uint64_t begin_tick;
    uint64_t end_tick;
    uint32_t name;                  /* id of a NAME (or COUNTER) entry */
    uint32_t task;                  /* 0: the thread itself; else tells asyncio tasks of one thread apart */
    uint32_t attr;                  /* id of an ATTR entry; 0: default domain, no category, no colour */
    uint16_t depth;                 /* ranges of the same thread and task that were open at its begin */
    uint8_t kind;
    uint8_t flags;
} topstx_record;

typedef struct topstx_more {        /* a slot that continues the record before it */
    uint8_t data[30];               /* the concatenation over slots is a sequence of {u8 tag, u16 length, bytes} */
    uint8_t kind;                   /* TOPSTX_KIND_MORE, at the same offset as in topstx_record */
    uint8_t used;                   /* bytes of data in use | 0x80 when a further MORE slot follows */
} topstx_more;
enum {                              /* tags in MORE data */
    TOPSTX_MORE_INT = 1,            /* 8 bytes, int64 */
    TOPSTX_MORE_FLOAT = 2,          /* 8 bytes, double */
    TOPSTX_MORE_STR = 3,            /* UTF-8 */
    TOPSTX_MORE_BYTES = 4,
    TOPSTX_MORE_JSON = 5,           /* UTF-8 JSON text: a dict payload */
    TOPSTX_MORE_END_TID = 6,        /* 4 bytes: thread that ended a start/end range */
    TOPSTX_MORE_ERROR = 7,          /* UTF-8: type name of the exception that left the range */
    TOPSTX_MORE_BODY = 8            /* body of a table row */
};
#define TOPSTX_PAYLOAD_MAX 16384u

/* ---- cuts --------------------------------------------------------------------------------------------------------- *
 * Session time against raw time (ns of CLOCK_MONOTONIC). An entry says that from begin_raw to end_raw session time went from
 * session_begin to session_end: a cut (the simulator worked: equal) or a jump (a wait that took no time: raw equal). Between entries both
 * clocks run alike (virtual), or session time stands still (model, where the entries of each process are a table of their own that begins at
 * 0). Before the first entry they are equal (model: 0).
 *
 * Who writes holds a record lock (fcntl, of the open file) on the byte TOPSTX_CUTS_LOCK_BYTE, in virtual mode from the begin of a cut to
 * its end: the kernel releases that of a process that was killed. `sequence` is odd while fields below it change; a reader tries again
 * when it was odd or has changed. Each process that uses the file holds a shared lock on TOPSTX_CUTS_PRESENCE_BYTE. The first one takes
 * no lock as long as `processes` is 1: it makes `sequence` odd and then looks at `processes`; who comes adds itself there (under the lock)
 * and then waits until no change and no cut is open.
 */
#define TOPSTX_CUTS_MAGIC "TOPSCUT1"
enum { TOPSTX_CUTS_VIRTUAL = 0, TOPSTX_CUTS_MODEL = 1 };
#define TOPSTX_CUTS_LOCK_BYTE 1099511627776u
#define TOPSTX_CUTS_PRESENCE_BYTE 1099511627777u
#define TOPSTX_CUTS_WINDOW 4096u    /* entries by which the file grows; windows are whole pages */
#define TOPSTX_CUTS_PIDS 64u
typedef struct topstx_cuts_header { /* the first page of `cuts` */
    char magic[8];
    uint32_t layout_version;
    uint32_t mode;                  /* TOPSTX_CUTS_* */
    uint64_t sequence;
    uint64_t open_begin;            /* raw begin of the cut that some process is in, 0: none */
    int64_t open_session;           /* session time at which it began */
    int64_t frozen;                 /* session time during it */
    int64_t shift;                  /* virtual: session time less raw time, outside of cuts */
    uint64_t entries;               /* complete ones */
    uint64_t open_process;          /* process serial of who is in the cut */
    uint64_t processes;             /* that ever used the file */
    uint64_t simulator_ns;          /* raw time in cuts */
    uint64_t jumped_ns;             /* session time of jumps, of all processes */
    uint64_t hidden_ns;             /* processor time that other threads and processes used within cuts */
    uint64_t lost_entries;          /* for which there was no room on the disk: times after them are off */
    uint32_t order_measured;        /* 1: model mode, and several threads of a process moved the clock */
    uint32_t pad0;
    uint32_t pids[TOPSTX_CUTS_PIDS]; /* of processes that use the file; 0: free */
} topstx_cuts_header;
typedef struct topstx_cut {
    int64_t begin_raw;
    int64_t end_raw;
    int64_t session_begin;
    int64_t session_end;
    uint64_t process_serial;        /* model: whose; virtual: 0 */
} topstx_cut;

/* ---- names -------------------------------------------------------------------------------------------------------- */
#define TOPSTX_NAMES_MAGIC "TOPSNAM1"
#define TOPSTX_NAME_TOO_MANY 1u     /* entry 1 of every file: stands for names past TOPSTX_NAMES_MAX */
#define TOPSTX_NAMES_MAX 1000000u
enum { TOPSTX_BACKEND_C = 1, TOPSTX_BACKEND_TWIN = 2, TOPSTX_BACKEND_HEADER = 3 };
typedef struct topstx_names_header { /* the first page of a names file; entries follow at offset 4096 */
    char magic[8];
    uint32_t layout_version;
    uint32_t backend;               /* TOPSTX_BACKEND_* */
    uint64_t process_serial;
    uint64_t parent_serial;         /* fork: the serial of the parent; else 0 */
    uint32_t parent_count;          /* fork: ids below this are the parent's (whose file stays); else 0 */
    uint32_t pid;
    uint32_t parent_pid;
    uint32_t clock;
    uint64_t start_tick;
    uint64_t start_monotonic_ns;
    uint64_t start_realtime_ns;
    uint64_t proc_start;            /* field 22 of /proc/self/stat: with pid it names the process for the kernel */
    uint64_t committed_bytes;       /* bytes of entries after the header; atomic, release */
    uint32_t next_id;               /* id that the next entry gets; ids run on from max(parent_count, 1) */
    uint32_t exit_known;            /* 1: exit_status is valid (the process ended by exit()); 2: it replaced itself by exec */
    int32_t exit_status;
    uint32_t too_many;              /* names refused past TOPSTX_NAMES_MAX */
    uint64_t end_tick;
    uint64_t lost_threads;          /* threads that got no ring (no memory, no disk, too many) */
    uint64_t lost_records;          /* records of such threads */
    uint64_t lost_names;            /* entries that could not be written (disk full); their records carry TOPSTX_NAME_TOO_MANY */
    uint64_t bad_samples;           /* values of counters that are no number */
    uint64_t bad_ends;              /* ends by an id that was never given, of which no ring tells (see its `unbalanced`) */
    uint64_t cut_names;             /* entries whose text was longer than the limit */
} topstx_names_header;

enum {                              /* kinds of entries; each takes the next id */
    TOPSTX_ENTRY_NAME = 1,          /* text */
    TOPSTX_ENTRY_DOMAIN = 2,        /* text */
    TOPSTX_ENTRY_CATEGORY = 3,      /* u32 domain entry (0: default), u32 number, text */
    TOPSTX_ENTRY_ATTR = 4,          /* u32 domain entry, u32 category entry, u32 colour 0xAARRGGBB (0: none) */
    TOPSTX_ENTRY_THREAD = 5,        /* u32 tid, text: name of a thread */
    TOPSTX_ENTRY_COUNTER = 6,       /* u32 domain entry, u32 length of the name, name, unit */
    TOPSTX_ENTRY_PROCESS = 7,       /* key NUL value: argv (JSON list), executable, cwd, python, backend_reason, ... */
    TOPSTX_ENTRY_CODE = 8           /* u32 line, u32 length of the file's name, file, module: where a function is defined */
};
typedef struct topstx_entry {
    uint32_t bytes;                 /* of the whole entry, header included, a multiple of 8 */
    uint16_t kind;
    uint16_t reserved;
    uint32_t id;
    uint32_t body_bytes;            /* the body follows directly */
} topstx_entry;

#if defined(__cplusplus)
#define TOPSTX_ASSERT(x) static_assert(x, #x)
#else
#define TOPSTX_ASSERT(x) _Static_assert(x, #x)
#endif
TOPSTX_ASSERT(sizeof(topstx_record) == 32);
TOPSTX_ASSERT(sizeof(topstx_more) == 32);
TOPSTX_ASSERT(sizeof(topstx_open) == 64);
TOPSTX_ASSERT(sizeof(topstx_ring_header) == 320);
TOPSTX_ASSERT(sizeof(topstx_control) <= TOPSTX_PAGE);
TOPSTX_ASSERT(sizeof(topstx_names_header) <= TOPSTX_PAGE);
TOPSTX_ASSERT(sizeof(topstx_cuts_header) <= TOPSTX_PAGE);
TOPSTX_ASSERT(sizeof(topstx_cut) * TOPSTX_CUTS_WINDOW % TOPSTX_PAGE == 0);
TOPSTX_ASSERT(__builtin_offsetof(topstx_record, kind) == __builtin_offsetof(topstx_more, kind));
TOPSTX_ASSERT(__builtin_offsetof(topstx_ring_header, head) == 128);
TOPSTX_ASSERT(__builtin_offsetof(topstx_ring_header, tail) == 256);
#endif /* TOPSTX_LAYOUT_H */
