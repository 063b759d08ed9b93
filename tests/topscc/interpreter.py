"""Runs a kernel's tree directly, in numpy: what lowering must agree with.

It knows no registers, homes, waits or slots: values are arrays and numbers, variables a dict. One thread.
Only what `generator` makes is here. Sums and products must be exact in f32 (whole numbers that stay small),
since numpy adds in another order than the machine.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tops_kit.topscc import tree
from tops_kit.topscc.kinds import ScalarKind, TileKind
from tops_kit.topscc.tree import Block, Constant, Kernel, Value, Variable

_BINARY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "floordiv": np.floor_divide,
    "mod": np.mod,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
}


class _Break(Exception):
    pass


class _Continue(Exception):
    pass


class _Return(Exception):
    pass


class Interpreter:
    """One run of a kernel on arrays and numbers, in the order of its parameters."""

    def __init__(self, kernel: Kernel, *arguments: Any) -> None:
        self.kernel = kernel
        self.values: dict[Value, Any] = {}
        self.variables: dict[Variable, Any] = {}
        self.buffers = {b: np.zeros((b.slots, *b.shape), b.dtype.numpy) for b in kernel.buffers}
        self.output: list[str] = []
        for parameter, argument in zip(kernel.parameters, arguments, strict=True):
            if isinstance(parameter.holds, Value):
                self.values[parameter.holds] = argument
            else:
                self.variables[parameter.holds] = np.int32(argument)

    def run(self) -> None:
        """All of it."""
        try:
            self.block(self.kernel.body)
        except _Return:
            pass

    def of(self, value: Value) -> Any:
        if isinstance(value, Constant):
            assert isinstance(value.kind, ScalarKind)
            return np.dtype(value.kind.dtype.numpy).type(value.value)
        return self.values[value]

    def block(self, block: Block) -> None:
        for node in block:
            self.node(node)

    def node(self, node: tree.Node) -> None:
        if isinstance(node, tree.Computed):
            self.values[node.result] = self.result(node)
            return
        match node:
            case tree.Assign():
                self.variables[node.variable] = self.held(node.variable, self.of(node.value))
            case tree.If():
                self.block(node.then if self.of(node.condition) else node.otherwise)
            case tree.Loop():
                self.loop(node)
            case tree.Range():
                self.range(node)
            case tree.Inline():
                try:
                    self.block(node.body)
                except _Return:
                    pass
            case tree.Break():
                raise _Break
            case tree.Continue():
                raise _Continue
            case tree.Return():
                raise _Return
            case tree.Write():
                self.of(node.view)[...] = np.copy(self.of(node.value))
            case tree.SetElement():
                self.of(node.base)[tuple(int(self.of(i)) for i in node.indices)] = self.of(node.value)
            case tree.Mma():
                product = self.of(node.a) @ self.of(node.b)
                if isinstance(node.target, Variable):
                    self.variables[node.target] = self.variables[node.target] + product
                else:
                    self.of(node.target)[...] += product
            case tree.Store():
                self.of(node.destination)[...] = np.copy(self.of(node.source))
            case tree.Wait() | tree.WaitAll() | tree.Barrier():
                pass
            case _:
                raise NotImplementedError(type(node).__name__)

    def held(self, variable: Variable, value: Any) -> Any:
        """Tiles are values: a copy, which nothing changes later."""
        return np.copy(value) if isinstance(variable.kind, TileKind) else value

    def loop(self, node: tree.Loop) -> None:
        while True:
            self.block(node.head)
            if not self.of(node.condition):
                return
            try:
                self.block(node.body)
            except _Continue:
                pass
            except _Break:
                return
            self.block(node.step)

    def range(self, node: tree.Range) -> None:
        counts = range(*(int(self.of(v)) for v in (node.start, node.stop, node.step)))
        for count in counts:
            self.variables[node.counter] = np.int32(count)
            try:
                self.block(node.body)
            except _Continue:
                pass
            except _Break:
                return

    def result(self, node: tree.Computed) -> Any:
        match node:
            case tree.Elementwise():
                with np.errstate(all="ignore"):
                    return self.elementwise(node)
            case tree.Read():
                return self.variables[node.variable]
            case tree.Slot():
                return self.buffers[node.buffer][int(self.of(node.slot))]
            case tree.Index():
                items = tuple(self.item(item) for item in node.items)
                return self.of(node.base)[items]
            case tree.Permute():
                return np.transpose(self.of(node.base), node.order)
            case tree.ExtentOf():
                return np.int32(self.of(node.base).shape[node.axis])
            case tree.Element():
                return self.of(node.base)[tuple(int(self.of(i)) for i in node.indices)]
            case tree.Load() | tree.CopyTile():
                source = node.source if isinstance(node, tree.Load) else node.a
                return np.copy(self.of(source))
            case tree.Full():
                assert isinstance(node.result.kind, TileKind)
                shape = tuple(int(self.of(extent)) for extent in node.extents)
                return np.full(shape, self.of(node.value), node.result.kind.dtype.numpy)
            case tree.Reduce():
                function = {"sum": np.sum, "max": np.max, "min": np.min}[node.name]
                return function(self.of(node.a), axis=node.axis, keepdims=True)
            case tree.Matmul():
                return self.of(node.a) @ self.of(node.b)
            case tree.Logical():
                left = bool(self.of(node.a))
                if left == (node.name == "or"):
                    return left
                self.block(node.block)
                return bool(self.of(node.b))
            case tree.Transfer():
                self.of(node.destination)[...] = np.copy(self.of(node.source))
                return None
        raise NotImplementedError(type(node).__name__)

    def item(self, item: tree.Fix | tree.Part | None) -> Any:
        if item is None:
            return slice(None)
        if isinstance(item, tree.Fix):
            return int(self.of(item.index))
        ends = (item.start, item.stop, item.step)
        return slice(*(None if end is None else int(self.of(end)) for end in ends))

    def elementwise(self, node: tree.Elementwise) -> Any:
        operands = [self.of(operand) for operand in node.operands]
        kind = node.result.kind
        assert isinstance(kind, ScalarKind | TileKind)
        dtype = np.dtype(kind.dtype.numpy)
        if node.name in _BINARY:
            # a scalar takes the tile's type, as the machine does it
            tiles = [x for x in operands if isinstance(x, np.ndarray) and x.ndim]
            inside = tiles[0].dtype if tiles else operands[0].dtype
            left, right = (np.asarray(x, inside) for x in operands)
            out = _BINARY[node.name](left, right)
            return out.astype(dtype) if isinstance(kind, TileKind) else dtype.type(out)
        if node.name == "select":
            out = np.where(operands[0], operands[1], operands[2])
        elif node.name == "fma":
            out = operands[0] * operands[1] + operands[2]
        elif node.name == "cast":
            out = np.asarray(operands[0])
        elif node.name == "lnot":
            return not operands[0]
        else:
            out = {"neg": np.negative, "abs": np.abs}[node.name](operands[0])
        return out.astype(dtype) if isinstance(kind, TileKind) else dtype.type(out)
