"""What the sanitizer found in a launch, as objects, as text with source lines, and as JSON.

result = launch(program, arguments, grid=(1,), block=(12,), mode="sanitized")
print(result.faults)  # the report; `if result.faults:` asks whether there is anything in it
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

from tops_kit.engine.fault import Place

JSON_VERSION = 1

# what one run can't show; the same for every launch
SCOPE = (
    "only what ran with these arguments was checked",
    "the contents of arrays count as initialised",
    "other streams and the host are not watched",
)

_PAST = {"read": "read", "write": "wrote", "atomic": "changed"}


@dataclass(frozen=True)
class Access:
    """One access: where in the source (innermost first, then the calls it was inlined at), by whom, and how.

    `what` is "read", "write", "atomic" or "" (a fault that is no access). `transfer`: the DTE did it; then
    `awaited` says whether it was complete when something else came. `sip` is the thread's number in its
    block: the SIP within the cluster.
    """

    location: tuple[Place, ...]
    thread: int
    block: int
    sip: int
    what: str = ""
    transfer: bool = False
    awaited: bool = True

    @property
    def where(self) -> str:
        """`path:line:column`, or "" where the program doesn't say."""
        return str(self.location[0]) if self.location else ""


@dataclass(frozen=True)
class Memory:
    """The memory concerned: a buffer's slot in L1 or L2, or an array in L3.

    `first` and `last` are indices of elements, both inclusive and () where unknown. `offset_bytes` is where
    `first` lies in the slot, or counted from the array's first element; `address` is that of L3 in the host.
    """

    space: str
    name: str
    slot: int | None = None
    first: tuple[int, ...] = ()
    last: tuple[int, ...] = ()
    offset_bytes: int | None = None
    size_bytes: int = 0
    address: int | None = None
    slots: int = 1

    def __str__(self) -> str:
        slot = f" (slot {self.slot})" if self.slot is not None and self.slots > 1 else ""
        if not self.first:
            return self.name + slot
        first = f"{self.name}[{', '.join(map(str, self.first))}]"
        if self.first == self.last:
            return first + slot
        return f"{first} to {self.name}[{', '.join(map(str, self.last))}]{slot}"


@dataclass(frozen=True)
class Finding:
    """A mistake: `kind` as in isa/faults.py, `message` one line, the access, what it clashes with.

    `count`: how many cases of it were seen (the same kind at the same instructions); the first one is told.
    `ends` says that it ended its thread. `detail` holds the numbers of such a fault.
    """

    kind: str
    message: str
    access: Access
    memory: Memory | None
    second: Access | None
    count: int
    ends: bool
    detail: dict[str, object]

    @property
    def line(self) -> int:
        """The line in the source, 0 where the program doesn't say."""
        return self.access.location[0].line if self.access.location else 0

    def __str__(self) -> str:
        first, *other = self.short().split("\n")
        out = [first, *_excerpt(self.access), *other]
        if other and self.second is not None:
            out += _excerpt(self.second)
        return "\n".join(out)

    def short(self) -> str:
        """A line that says what and where; another one where it clashes with an access elsewhere."""
        out = f"{self.access.where or 'the kernel'}: {self.kind}: {self.message}{_times(self.count)}"
        if self.second is not None and self.second.location != self.access.location:
            out += f"\n  {self.second.where}: {_told(self.second)}"
        return out

    def to_json(self) -> dict[str, Any]:
        """As JSON has it: see docs of `Report.to_json`."""
        return {
            "kind": self.kind,
            "message": self.message,
            "count": self.count,
            "ends_thread": self.ends,
            "access": _access_json(self.access),
            "second": None if self.second is None else _access_json(self.second),
            "memory": None if self.memory is None else _memory_json(self.memory),
            "detail": {name: _plain(value) for name, value in self.detail.items()},
        }


@dataclass(frozen=True)
class Report(Sequence[Finding]):
    """The findings of a launch, in the order in which they were made; `limits`: what could not be checked.

    A report without findings says that the kernel is right only as far as `limits` and SCOPE go: `clean` is
    true where neither findings nor limits are. Of modes other than "sanitized" it is empty and not `checked`.
    """

    kernel: str = ""
    findings: tuple[Finding, ...] = ()
    limits: tuple[str, ...] = ()
    checked: bool = False

    @property
    def clean(self) -> bool:
        """Whether everything was checked and nothing found."""
        return self.checked and not self.findings and not self.limits

    @overload
    def __getitem__(self, index: int) -> Finding: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Finding, ...]: ...
    def __getitem__(self, index: int | slice) -> Finding | tuple[Finding, ...]:
        """Findings by number."""
        return self.findings[index]

    def __len__(self) -> int:
        return len(self.findings)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __str__(self) -> str:
        """The text form: every finding with its source lines, then the limits, then a line that sums up."""
        return "\n".join([*(str(finding) for finding in self.findings), *self._end()])

    def short(self, most: int = 10) -> str:
        """The text form without source lines, of `most` findings: what a launch shows by itself."""
        parts = [finding.short() for finding in self.findings[:most]]
        left = len(self.findings) - most
        if left > 0:
            parts.append(f"and {left} more: print(launch.faults)")
        return "\n".join([*parts, *self._end()])

    def _end(self) -> list[str]:
        count = len(self.findings)
        found = {0: "nothing found", 1: "1 mistake found"}.get(count, f"{count} mistakes found")
        if not self.checked:
            found = "not checked"
        return [
            *(f"not checked: {limit}" for limit in self.limits),
            f"sanitizer: {self.kernel or 'kernel'}: {found}",
        ]

    def to_json(self) -> dict[str, Any]:
        """A stable form: version, kernel, checked, findings, limits, scope.

        A finding has kind, message, count, ends_thread, access, second, memory, detail. An access has
        `location` (file, line, column from 1, end_column, text; innermost first), thread, block, sip, what,
        transfer, awaited; memory has space, name, slot, first, last, offset_bytes, size_bytes.
        """
        return {
            "version": JSON_VERSION,
            "kernel": self.kernel,
            "checked": self.checked,
            "findings": [finding.to_json() for finding in self.findings],
            "limits": list(self.limits),
            "scope": list(SCOPE),
        }

    def json(self) -> str:
        """`to_json` as text."""
        return json.dumps(self.to_json(), indent=2)


def unchecked(kernel: str) -> Report:
    """The report of a sanitized launch on the oracle, which has no sanitizer."""
    why = "everything but the faults that end a thread: the sanitizer needs the C engine"
    return Report(kernel, limits=(why,))


def told_who(access: Access) -> str:
    """`thread 3`, with its block unless there is only the first."""
    block = f" of block {access.block}" if access.block else ""
    return f"thread {access.thread}{block}"


def _told(access: Access) -> str:
    what = f"{_PAST.get(access.what, 'was')} it here"
    if not access.transfer:
        return f"{told_who(access)} {what}"
    return f"{told_who(access)}'s transfer {what}{'' if access.awaited else ', and was not awaited'}"


def _times(count: int) -> str:
    return f" ({count} times)" if count > 1 else ""


def _excerpt(access: Access) -> list[str]:
    if not access.location:
        return []
    out = []
    place = access.location[0]
    if place.text:
        width = max(1, place.end_column - place.column)
        out += [f"    {place.text}", f"    {' ' * place.column}{'^' * width}"]
    return out + [f"  inlined at {outer}" for outer in access.location[1:]]


def location_json(location: Sequence[Place]) -> list[dict[str, Any]]:
    """Places, innermost first, as JSON has them."""
    return [
        {
            "file": place.path,
            "line": place.line,
            "column": place.column + 1,
            "end_column": place.end_column + 1,
            "text": place.text,
        }
        for place in location
    ]


def _access_json(access: Access) -> dict[str, Any]:
    return {
        "location": location_json(access.location),
        "thread": access.thread,
        "block": access.block,
        "sip": access.sip,
        "what": access.what,
        "transfer": access.transfer,
        "awaited": access.awaited,
    }


def _memory_json(memory: Memory) -> dict[str, Any]:
    return {
        "space": memory.space,
        "name": memory.name,
        "slot": memory.slot,
        "first": list(memory.first),
        "last": list(memory.last),
        "offset_bytes": memory.offset_bytes,
        "size_bytes": memory.size_bytes,
    }


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value
