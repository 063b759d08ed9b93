"""What lowering keeps: registers of values, constants, homes of tiles, code before and in the body."""

from __future__ import annotations

import itertools
import struct

from tops_kit.topscc import tree
from tops_kit.topscc.diagnostics import Where
from tops_kit.topscc.kinds import EventKind, Kind, ScalarKind, TileKind, VectorKind
from tops_kit.topscc.lower.analysis import Analysis
from tops_kit.topscc.lower.code import Code, Instruction, Label, Operand, Register
from tops_kit.topscc.lower.homes import Home, Key, Site, bounds, must_wait, sent_out
from tops_kit.topscc.tree import Channel, Computed, Constant, Kernel, Node, Value, Variable

_CHANNELS = 255  # 255 itself is the block's context


class LoweringState:
    """The lowest layer."""

    def __init__(self, kernel: Kernel, *, two_slots: bool = True) -> None:
        self.kernel = kernel
        self.two_slots = two_slots
        self.analysis = Analysis(kernel).run()
        self.code = Code()
        self.entry: list[Instruction] = []
        self.zero = Register("r", 0, kept=True)  # always 0: the operand that is not used
        self.kept: list[Register] = [self.zero]
        self.constants: dict[bytes, tuple[Register, int | float]] = {}
        self.registers: dict[Value, Register] = {}
        self.of_variable: dict[Variable, Register] = {}
        self.homes: dict[Key, Home] = {}
        self.home_of: dict[Register, Home] = {}
        self.parts: dict[Register, tuple[Home, ...]] = {}  # views of tiles: whose memory they see
        self.hoisted: set[Register] = set()
        self.hoisted_views: dict[object, Register] = {}
        self.strings: dict[str, int] = {}
        self.first_assigned: dict[Variable, int] = {}  # position in the code
        self.scope_end: dict[Variable, Label] = {}
        self.returns: list[Label] = []
        self.end = Label()
        self.sent = sent_out(self.analysis)
        self.chains = self._chain_stores()
        self._sites: dict[Node, Site] = {}
        self.planned = self._plan_sites()
        self._kept_homes = itertools.count(len(kernel.buffers))
        self._channels = itertools.count()
        self._shared_channels: dict[Channel, int] = {}

    # registers

    def temporary(self, kind: str) -> Register:
        """A register for a value of one place."""
        return Register(kind)

    def keep(self, kind: str) -> Register:
        """A register for the whole kernel."""
        register = Register(kind, kept=True)
        self.kept.append(register)
        return register

    def constant(self, value: int | float | bool) -> Register:
        """The register that holds a number from the start."""
        number = int(value) if isinstance(value, bool | int) else float(value)
        try:
            bits = struct.pack("<i" if isinstance(number, int) else "<f", number)
        except OverflowError:
            number = float("inf") if number > 0 else float("-inf")
            bits = struct.pack("<f", number)
        if bits == b"\0\0\0\0":
            return self.zero
        found = self.constants.get(bits)
        if found is None:
            found = self.constants[bits] = (self.keep("r"), number)
        return found[0]

    def of(self, value: Value) -> Register:
        """The register of a value; computed now when it was left for later."""
        if isinstance(value, Constant):
            return self.constant(value.value)
        found = self.registers.get(value)
        if found is None:
            self.compute(self.analysis.definition[value])
            found = self.registers[value]
        return found

    def compute(self, node: tree.Computed) -> None:
        """Lower a node whose result is needed."""
        raise NotImplementedError

    def variable(self, variable: Variable) -> Register:
        """The register of a variable."""
        found = self.of_variable.get(variable)
        if found is None:
            if isinstance(variable.kind, TileKind):
                found = self.variable_home(variable).register
            else:
                found = self.keep(register_kind(variable.kind))
            self.of_variable[variable] = found
        return found

    def emit(self, name: str, *operands: Operand, where: Where, in_place: tuple[Register, ...] = ()) -> None:
        """The next instruction."""
        self.code.emit(name, *operands, where=where, in_place=in_place)

    def before_body(self, name: str, *operands: Register | int, where: Where) -> None:
        """An instruction at the entry, which runs once."""
        self.entry.append(Instruction(name, operands, where))

    def channel(self, wanted: int | Channel | None) -> int:
        """The DTE channel of a place in the source. They are dense: few collide modulo a part's channels."""
        if isinstance(wanted, int):
            return wanted
        known = self._shared_channels.get(wanted) if wanted else None
        if known is None:
            known = next(self._channels) % _CHANNELS
            if wanted:
                self._shared_channels[wanted] = known
        return known

    def string(self, text: str) -> int:
        """The index of a string."""
        return self.strings.setdefault(text, len(self.strings))

    # homes of tiles

    def variable_home(self, variable: Variable) -> Home:
        """The home of a tile variable."""
        found = self.homes.get(variable)
        if found is None:
            kind = variable.kind
            assert isinstance(kind, TileKind)
            found = self._make_home(variable, variable.name, kind, variable.where, kept=True)
            self._add_sites(found, variable)
        return found

    def value_home(self, node: tree.Computed, key: Value) -> Home:
        """The home of a tile that has no name."""
        found = self.homes.get(key)
        if found is None:
            kind = key.kind
            assert isinstance(kind, TileKind)
            found = self._make_home(key, "", kind, node.where, kept=key in self.sent)
            self._add_sites(found, key)
        return found

    def loose_home(self, kind: TileKind, where: Where) -> Home:
        """A home that no value has: for a copy."""
        return self._make_home(None, "", kind, where, kept=False)

    def constant_home(self, kind: TileKind, where: Where) -> Home:
        """A home that is filled once, at the entry."""
        return self._make_home(None, "", kind, where, kept=True)

    def _make_home(self, key: Key | None, name: str, kind: TileKind, where: Where, *, kept: bool) -> Home:
        shape = bounds(kind.shape)
        dynamic = any(not isinstance(extent, int) for extent in kind.shape)
        register = self.keep("t") if kept else self.temporary("t")
        home = Home(name, kind.dtype, shape, where, register, kept, dynamic)
        if kept:
            home.number = next(self._kept_homes)
        if key is not None:
            self.homes[key] = home
        self.home_of[register] = home
        return home

    def _plan_sites(self) -> dict[Key, list[Site]]:
        """The places where tiles go out: with two slots each where their home is made anew, in a loop."""
        out: dict[Key, list[Site]] = {}
        for key, sent in self.sent.items():
            writes = self._writes(key)
            makes = writes[0]
            streams = sum(isinstance(write, tree.Assign | Computed) for write in writes) == 1
            twice = self.two_slots and streams and bool(self.analysis.place[makes].loops)
            for node, waited in sent:
                assert isinstance(node, tree.Store | tree.Transfer)
                older = self.keep("r") if twice else None
                roots = self.analysis.roots(node.destination)
                site = Site(node, self.keep("r"), older, waited, roots, self.chains.get(node))
                out.setdefault(key, []).append(site)
                self._sites[node] = site
        return out

    def _writes(self, key: Key) -> list[Node]:
        """What makes or changes a tile."""
        if isinstance(key, Variable):
            return list(dict.fromkeys(self.analysis.changes[key]))
        return [self.analysis.definition[key]]

    def _add_sites(self, home: Home, key: Key) -> None:
        """Prepare for transfers out of the home."""
        home.writes = self._writes(key)
        home.sites = self.planned.get(key, [])
        if any(site.older is not None for site in home.sites):
            home.slots = 2
            home.slot = self.keep("r")

    def _chain_stores(self) -> dict[Node, Register]:
        """Stores at several places into the same arrays start one after the other: they may overlap there."""
        groups: list[tuple[frozenset[object], list[Node]]] = []
        for sent in self.sent.values():
            for node, waited in sent:
                if waited and isinstance(node, tree.Store):
                    roots = self.analysis.roots(node.destination)
                    members: list[Node] = [node]
                    for group in [group for group in groups if group[0] & roots]:
                        groups.remove(group)
                        roots, members = roots | group[0], members + group[1]
                    groups.append((roots, members))
        out: dict[Node, Register] = {}
        for _, members in groups:
            if len(members) > 1:
                out |= dict.fromkeys(members, self.keep("r"))
        return out

    def site(self, node: Node) -> Site | None:
        """What to keep the event of a transfer out of a tile in; None where it is awaited at once."""
        return self._sites.get(node)

    @property
    def all_sites(self) -> list[Site]:
        """All places where tiles go out without an immediate wait."""
        return list(self._sites.values())

    def before_write(self, home: Home, node: Node) -> None:
        """Before a tile is made in its home, or changed there."""
        if home.slot is not None and node is home.writes[0]:
            for site in home.sites:
                assert site.older is not None
                self.emit("wait", site.older, where=node.where)
                self.emit("imov", site.older, site.newer, where=node.where)
                self.emit("imov", site.newer, self.zero, where=node.where)
            self.emit("isub", home.slot, self.constant(1), home.slot, where=node.where)
            self.emit("tbuf", home.register, home.number, home.slot, 1, where=node.where)
            return
        for site in home.sites:
            if must_wait(self.analysis, site.node, node, home.writes):
                self.emit("wait", site.newer, where=node.where)

    def extents(self, home: Home, values: tuple[Register, ...], where: Where) -> None:
        """Set the extents of a home before what keeps them."""
        if home.dynamic:
            padded = (*values, *(self.zero,) * (3 - len(values)))
            self.emit("textent", home.register, len(values), *padded, where=where)


def register_kind(kind: Kind) -> str:
    """The kind of register that holds values of a kind."""
    if isinstance(kind, ScalarKind | EventKind):
        return "r"
    return "v" if isinstance(kind, VectorKind) else "t"
