"""Scalars and vector registers: one instruction for most operations."""

from __future__ import annotations

from tops_kit.isa.dtypes import BOOL, F32, I32
from tops_kit.isa.table import SPECIAL
from tops_kit.topscc import tree
from tops_kit.topscc.kinds import ScalarKind, VectorKind
from tops_kit.topscc.lower.code import Register
from tops_kit.topscc.lower.state import LoweringState

_INT_NAMES = {
    "add": "iadd", "sub": "isub", "mul": "imul", "floordiv": "idiv", "mod": "imod",
    "min": "imin", "max": "imax", "and": "iand", "or": "ior", "xor": "ixor", "shl": "ishl", "shr": "ishr",
    "neg": "ineg", "abs": "iabs",
    "not": "inot", "lnot": "lnot", "to i8": "narrow8", "to i16": "narrow16", "to u8": "narrowu8",
}  # fmt: skip
_ROUNDINGS = {"to f16": "roundf16", "to bf16": "roundbf16"}


class ScalarLowering(LoweringState):
    """Arithmetic in scalar and vector registers."""

    def scalar_elementwise(self, node: tree.Elementwise, d: Register) -> None:
        """An operation on scalars into `d`."""
        name, where = node.name, node.where
        operands = [self.of(operand) for operand in node.operands]
        kind = node.operands[-1].kind
        assert isinstance(kind, ScalarKind)
        if name == "select":
            self.emit("select", d, *operands, where=where)
        elif name == "cast":
            self._cast(node, kind, d, operands[0])
        elif name in _ROUNDINGS:
            self.emit(_ROUNDINGS[name], d, operands[0], where=where)
        elif kind.dtype != F32:
            self.emit(_INT_NAMES.get(name, f"i{name}"), d, *operands, where=where)
        else:
            self.emit("fma" if name == "fma" else f"f{name}", d, *operands, where=where)

    def _cast(self, node: tree.Elementwise, kind: ScalarKind, d: Register, a: Register) -> None:
        assert isinstance(node.result.kind, ScalarKind)
        wanted = node.result.kind.dtype
        if wanted == F32:
            name = "i2f"
        elif wanted == I32:
            name = "f2i" if kind.dtype == F32 else "imov"
        else:
            assert wanted == BOOL
            name = "tobool"
        self.emit(name, d, a, where=node.where)

    def vector_elementwise(self, node: tree.Elementwise, d: Register) -> None:
        """An operation on vectors into `d`; its type is that of its operands."""
        kind = node.operands[-1].kind
        assert isinstance(kind, VectorKind)
        operands = [self.of(operand) for operand in node.operands]
        self.emit(f"v{node.name}", d, *operands, kind.dtype.code, where=node.where)

    def special(self, node: tree.Special) -> None:
        """A number of the launch: read once, at the entry."""
        found = self.hoisted_views.get(node.name)
        if found is None:
            found = self.hoisted_views[node.name] = self.keep("r")
            self.before_body("special", found, SPECIAL.index(node.name), where=node.where)
        self.registers[node.result] = found

    def move(self, kind: str, d: Register, a: Register, node: tree.Node) -> None:
        """Copy a register that isn't a tile's home."""
        self.emit({"r": "imov", "v": "vmov", "t": "tcopyview"}[kind], d, a, where=node.where)
