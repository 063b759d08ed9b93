/* topstx_capsule.h - the recorder of a Python process, for other C extensions in it.
 *
 *     const topstx_capsule *rows = PyCapsule_Import(TOPSTX_CAPSULE, 0);   (NULL: the twin records, call its Python functions)
 *     if (rows && rows->version >= 1 && rows->wanted(kind)) rows->row(kind, begin, end, rows->name(text, bytes), correlation, body, bytes);
 *
 * All functions need the GIL, and may let go of it while they wait for room in a full ring. Kinds and bodies: topstx/recorder/rows.py.
 * Versions only append functions.
 */
#ifndef TOPSTX_CAPSULE_H
#define TOPSTX_CAPSULE_H
#include <stddef.h>
#include <stdint.h>

#define TOPSTX_CAPSULE "topstx.recorder._crec.rows"
#define TOPSTX_CAPSULE_VERSION 3u

typedef struct topstx_capsule {
    uint32_t version; /* TOPSTX_CAPSULE_VERSION of who made it */
    uint32_t bytes;   /* of this struct there */
    /* 1 while rows of this kind are recorded: the session is on, and the kind not switched off. */
    int (*wanted)(uint32_t kind);
    /* The id of a name (UTF-8). Good until the session ends, also in fork children. */
    uint32_t (*name)(const char *text, size_t bytes);
    /* Write a row; begin and end are session ns. 1: it is in the ring; 0: not wanted, or dropped and counted. */
    int (*row)(uint32_t kind, int64_t begin_ns, int64_t end_ns, uint32_t name, uint32_t correlation, const void *body, uint32_t bytes);
    /* Serial of this process in the session; 0: no session. */
    uint64_t (*process_serial)(void);
    /* Since version 2. 1 while the session's recording is on (in version 2 also while it is armed). */
    int (*recording)(void);
    /* SharedTimeBase: its type, and its methods of the same names without a call of Python. -1 with an exception. */
    const void *base_type;
    int64_t (*now_ns)(void *base);
    int (*begin_cut)(void *base);
    int (*end_cut)(void *base);
} topstx_capsule;
#endif /* TOPSTX_CAPSULE_H */
