"""Transfers, and when they are waited for."""

from __future__ import annotations

from tops_kit.topscc import tree
from tops_kit.topscc.diagnostics import Where
from tops_kit.topscc.kinds import TileKind, ViewKind
from tops_kit.topscc.lower.code import Pending, Register
from tops_kit.topscc.lower.homes import Home
from tops_kit.topscc.lower.tiles import TileLowering
from tops_kit.topscc.tree import Node, Value


class TransferLowering(TileLowering):
    """Transfers."""

    def load_into(self, node: tree.Load, home: Home) -> None:
        """A load into a home; its wait stands before the next instruction that touches memory (not loads)."""
        where = node.where
        source = self.of(node.source)
        pad = None if node.pad is None else self.of(node.pad)
        if home.dynamic:
            self.extents(home, self._extents_of(node.source, source, where), where)
        event = self.temporary("r")
        operands = (event, home.register, source) + (() if pad is None else (pad,))
        channel = self.channel(None)
        if home.slots == 1 and node.result in self.analysis.users and self._from_arrays(node.source):
            name = "dma" if pad is None else "dmapad"
            self.code.emit_load(name, *operands, self.zero, channel, where=where)
        else:
            self.emit("dma" if pad is None else "dmapad", *operands, self.zero, channel, where=where)
        self.code.pending.append(Pending(event, home.register, where))

    def _from_arrays(self, source: Value) -> bool:
        """Whether a source lies in L3: no load that is under way can be writing it."""
        return isinstance(source.kind, ViewKind) and source.kind.space == "L3"

    def _extents_of(self, value: Value, register: Register, where: Where) -> tuple[Register, ...]:
        kind = value.kind
        assert isinstance(kind, TileKind | ViewKind)
        out = []
        for axis, extent in enumerate(kind.shape):
            if isinstance(extent, int):
                out.append(self.constant(extent))
            else:
                out.append(self.temporary("r"))
                self.emit("tdim", out[-1], register, axis, where=where)
        return tuple(out)

    def transfer(self, node: tree.Transfer, d: Register) -> None:
        """A copy whose event goes into `d`."""
        destination, source = self.of(node.destination), self.of(node.source)
        after = self.zero if node.after is None else self.of(node.after)
        channel = self.channel(node.channel)
        self.settle_stores(node, node.where, self.analysis.roots(node.destination))
        if node.pad is not None:
            pad = self.of(node.pad)
            self.emit("dmapad", d, destination, source, pad, after, channel, where=node.where)
        else:
            name = "dmaclip" if node.clip else "dma"
            self.emit(name, d, destination, source, after, channel, where=node.where)
        if node.waits:
            self.emit("wait", d, where=node.where)
        site = self.site(node)
        if site is not None:
            self.emit("imov", site.newer, d, where=node.where)

    def memset(self, node: tree.Memset, d: Register) -> None:
        """A fill whose event goes into `d`."""
        destination, value = self.of(node.destination), self.of(node.value)
        after = self.zero if node.after is None else self.of(node.after)
        self.settle_stores(node, node.where, self.analysis.roots(node.destination))
        self.emit("dmaset", d, destination, value, after, self.channel(node.channel), where=node.where)
        if node.waits:
            self.emit("wait", d, where=node.where)

    def store(self, node: tree.Store) -> None:
        """A copy that is awaited now, or when its tile is made again and at the end."""
        destination, source = self.of(node.destination), self.of(node.source)
        site = self.site(node)
        name = "dmaclip" if node.clip else "dma"
        channel = self.channel(None)
        if site is None:
            self.settle_stores(node, node.where, self.analysis.roots(node.destination))
            event = self.temporary("r")
            self.emit(name, event, destination, source, self.zero, channel, where=node.where)
            self.emit("wait", event, where=node.where)
            return
        self.emit(name, site.newer, destination, source, site.chain or self.zero, channel, where=node.where)
        if site.chain is not None:
            self.emit("imov", site.chain, site.newer, where=node.where)

    def settle_stores(self, node: Node | None, where: Where, roots: frozenset[object] | None = None) -> None:
        """Wait for the stores that the compiler let run, before a node that may follow them.

        `node` None: at the end of the kernel. `roots`: only those that go to these arrays.
        """
        for site in self.all_sites:
            if roots is not None and not site.roots & roots:
                continue
            if not site.waited or (node is not None and not self.analysis.may_follow(site.node, node)):
                continue
            if site.older is not None:
                self.emit("wait", site.older, where=site.node.where if node is None else where)
            self.emit("wait", site.newer, where=site.node.where if node is None else where)
