"""Where everything stands in a device's state file: the one definition, in 64-bit words.

A header, a word for each SIP (who has reserved it), a calendar for each share of the device, then one slot
for each user: a process has one for every device object that it uses. What a slot holds is written by its
process alone; all else under the lock.
"""

from __future__ import annotations

from dataclasses import dataclass

MAGIC = int.from_bytes(b"TOPSDEV\0", "little")
VERSION = 2

WORD_BYTES = 8
HEADER_WORDS = 128
SLOTS = 256
SLOT_WORDS = 256
MOST_SLICES = 4

# header
H_MAGIC = 0
H_VERSION = 1
H_WORDS = 2  # of the whole file
H_BOOT = 3  # of the machine: after a restart nothing here is true any more
H_SPEC = 4  # the part's hash
H_CREATED = 5  # time.time_ns()
H_DIRTY = 6  # somebody is changing totals: still set after his death
H_RESETS = 7  # a process that sees another number than at its claim has lost the device
H_HIGH = 8  # slots below this may be in use
H_SLICES = 9  # 0: the device is one piece
H_DRS = 10  # slicing is allowed
H_POWER_MODE = 11
H_ECC = 12  # 1: on
H_ECC_CORRECTED = 13  # since the last reset
H_ECC_UNCORRECTED = 14
H_ECC_CORRECTED_EVER = 15
H_ECC_UNCORRECTED_EVER = 16
H_RECLAIMED = 17  # processes that died without giving back what they had
H_KERNELS = 18  # what processes that have ended did
H_BUSY = 19
H_UP = 20
H_DOWN = 21
H_HEAT = 22  # float: see models.py
H_HEAT_AT = 23  # time.monotonic_ns()
H_NEWS = 24  # grows when processes have to look again: a reset, SIPs that are reserved or free again
H_USED = 32  # bytes in use, by share: the whole device, slice 0, ...
H_SHARERS = 40  # processes that use the device's time (S_TIMED), by share

# a share's calendar: what was promised to whom, in the device's time
C_COUNT = 0
C_FLOOR = 1  # from here on everything is known
C_ENTRIES = 8
ENTRIES = 255
ENTRY_WORDS = 8
CALENDAR_WORDS = C_ENTRIES + ENTRIES * ENTRY_WORDS

# slot
S_SERIAL = 0  # 0: free; else a random number that says whose it is
S_PID = 1
S_START = 2
S_NAMESPACE = 3  # of pids
S_USER = 4
S_SHARE = 5  # 0: the whole device; n + 1: slice n
S_USED = 6  # bytes
S_PEAK = 7  # bytes
S_BLOCKS = 8
S_NOW = 9  # session ns, as last told
S_WALL = 10  # time.monotonic_ns() then
S_FROZEN = 11  # its session time stands still
S_KERNELS = 12
S_BUSY = 13  # SIP x ns
S_UP = 14  # bytes device to host
S_DOWN = 15  # bytes host to device
S_HEAT = 16  # float
S_HEAT_AT = 17  # session ns
S_SINCE = 18  # time.time_ns() of the claim
S_ACTIVE = 19  # ns in which any kernel ran
S_ENDED = 20  # session ns of the latest end of a kernel
S_COMMAND = 24
S_TIMED = 56  # the pid, of a process that uses the device's time; else 0
S_UNTIL = 57  # its session ns: so long it uses the device without a place in the calendar
S_BASE = 58  # of its session time: processes of one recording have the same; 0: the process's own
S_OFFSET = 59  # what the device's time is ahead of its session time
S_AHEAD = 60  # what its session time is ahead of the times in a recording's tables
S_READY = 61  # in the device's time: it asks for no place before
COMMAND_BYTES = 256
S_BUCKETS = 64

# a slot's buckets: what was done in each of the last spans of its session time
BUCKETS = 32
BUCKET_WORDS = 5
BUCKET_SHIFT = 26  # 2^26 ns: 67 ms
B_SPAN, B_BUSY, B_ACTIVE, B_UP, B_DOWN = range(5)


@dataclass(frozen=True)
class Layout:
    """The places in the file of a device with so many SIPs."""

    sips: int

    @property
    def owners(self) -> int:
        """The first word of who has reserved which SIP: slot + 1, or 0."""
        return HEADER_WORDS

    @property
    def calendars(self) -> int:
        """The first word of the first calendar."""
        return HEADER_WORDS + -(-self.sips // 64) * 64

    @property
    def slots(self) -> int:
        """The first word of the first slot."""
        return self.calendars + (MOST_SLICES + 1) * CALENDAR_WORDS

    def calendar(self, share: int) -> int:
        """The first word of a share's calendar."""
        return self.calendars + share * CALENDAR_WORDS

    @property
    def words(self) -> int:
        """Words of the whole file."""
        return self.slots + SLOTS * SLOT_WORDS

    @property
    def size_bytes(self) -> int:
        """Bytes of the whole file."""
        return self.words * WORD_BYTES

    def slot(self, index: int) -> int:
        """The first word of a slot."""
        return self.slots + index * SLOT_WORDS
