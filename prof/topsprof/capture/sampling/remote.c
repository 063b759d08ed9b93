/* Reads of another process's memory. It is neither stopped nor told: what is read may be torn, and every reader checks. */
#define _GNU_SOURCE
#include "remote.h"
#include <errno.h>
#include <string.h>
#include <sys/uio.h>

enum { BATCH = 256, TEXT_CHARACTERS = 4096 };

bool remote_read(remote *from, uint64_t address, void *to, size_t bytes)
{
    struct iovec here = {to, bytes}, there = {(void *)(uintptr_t)address, bytes};
    from->reads++;
    return process_vm_readv(from->pid, &here, 1, &there, 1, 0) == (ssize_t)bytes;
}

int remote_read_items(remote *from, const remote_item *items, int count)
{
    int done = 0;
    while (done < count) {
        struct iovec here[BATCH], there[BATCH];
        int some = count - done < BATCH ? count - done : BATCH;
        ssize_t want = 0;
        for (int k = 0; k < some; k++) {
            here[k] = (struct iovec){items[done + k].to, items[done + k].bytes};
            there[k] = (struct iovec){(void *)(uintptr_t)items[done + k].address, items[done + k].bytes};
            want += (ssize_t)items[done + k].bytes;
        }
        from->reads++;
        ssize_t got = process_vm_readv(from->pid, here, (unsigned long)some, there, (unsigned long)some, 0);
        if (got == want) {
            done += some;
            continue;
        }
        for (int k = 0; k < some && got >= (ssize_t)items[done].bytes; k++) got -= (ssize_t)items[done++].bytes;
        break;
    }
    return done;
}

static int put_utf8(char *to, uint32_t c)
{
    if (c < 0x80) {
        to[0] = (char)c;
        return 1;
    }
    if (c >= 0xD800 && c < 0xE000) c = 0xFFFD;      /* half a surrogate pair is no character */
    if (c < 0x800) {
        to[0] = (char)(0xC0 | c >> 6);
        to[1] = (char)(0x80 | (c & 0x3F));
        return 2;
    }
    if (c < 0x10000) {
        to[0] = (char)(0xE0 | c >> 12);
        to[1] = (char)(0x80 | (c >> 6 & 0x3F));
        to[2] = (char)(0x80 | (c & 0x3F));
        return 3;
    }
    if (c > 0x10FFFF) return put_utf8(to, 0xFFFD);
    to[0] = (char)(0xF0 | c >> 18);
    to[1] = (char)(0x80 | (c >> 12 & 0x3F));
    to[2] = (char)(0x80 | (c >> 6 & 0x3F));
    to[3] = (char)(0x80 | (c & 0x3F));
    return 4;
}

int remote_text(remote *from, uint64_t address, char *to, int room)
{
    const py_layout *at = &from->at;
    uint8_t head[64];
    to[0] = 0;
    if (!plausible(address) || !remote_read(from, address, head, (size_t)at->str_ascii)) return -1;
    uint64_t length = word_at(head, at->str_length);
    uint32_t state = (uint32_t)int_at(head, at->str_state);
    uint32_t kind = state >> 2 & 7;
    bool compact = state >> 5 & 1, ascii = state >> 6 & 1;
    if (!lives_at(head) || word_at(head, at->object_type) != from->str_type || !compact || (kind != 1 && kind != 2 && kind != 4)) return -1;
    if (length > 1u << 30) return -1;
    uint64_t count = length < TEXT_CHARACTERS ? length : TEXT_CHARACTERS;
    uint8_t data[TEXT_CHARACTERS * 4];
    if (count && !remote_read(from, address + (uint64_t)(ascii ? at->str_ascii : at->str_compact), data, count * kind)) return -1;
    int used = 0;
    for (uint64_t k = 0; k < count && used + 5 <= room; k++) {
        uint32_t c = kind == 1 ? data[k] : kind == 2 ? ((uint16_t *)data)[k] : ((uint32_t *)data)[k];
        if (ascii && c >= 0x80) return -1;
        used += put_utf8(to + used, c);
    }
    to[used] = 0;
    return used;
}
