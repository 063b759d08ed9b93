"""Random kernels, valid by construction: control of every kind around scalars, tiles, views and buffers."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from tests.topscc.sketch import Sketch, part
from tops_kit.isa.dtypes import F32, I32
from tops_kit.topscc.kinds import TileKind, ViewKind
from tops_kit.topscc.tree import Value, Variable

SHAPES = ((4, 8), (1, 8), (4, 1), (8, 4))
ROWS, COLUMNS = 4, 8
OUTPUTS = 24  # tiles of (4, 8) in the output array


class Generator:
    """Makes one kernel of parameters x (f32, 8 x 8: read), y (f32, OUTPUTS x 4 x 8: written), n (i32)."""

    def __init__(self, seed: int, size: int = 30) -> None:
        self.random = random.Random(seed)
        self.k = Sketch(f"random_{seed}")
        self.left = size
        self.x = self.k.pointer("x", F32, 2, shape=(8, 8))
        self.y = self.k.pointer("y", F32, 3, shape=(OUTPUTS, ROWS, COLUMNS))
        self.n = self.k.scalar("n", I32)
        self.row = self.k.buffer("rows", "L1", F32, (ROWS, COLUMNS), slots=2)
        self.wide = self.k.buffer("wide", "L1", F32, (8, 8))
        self.scalars: list[Variable] = [self.n]
        self.fixed: set[Variable] = {self.n}  # not assigned
        self.tiles: list[Variable] = []
        self.views: list[Variable] = []
        self.tails: list[Variable] = []  # tiles of as many rows as `rows_left` says, 1 to 4
        self.allowed: list[set[Variable] | None] = []  # what open loops were begun to assign
        self.loops = 0
        self.inside = 0
        self.nodes = 0  # what the statement may still have of expressions

    def kernel(self) -> Sketch:
        """The whole kernel; in the end all variables that have a value are stored."""
        k = self.k
        self.rows_left = k.declare("rows_left", k.binary("min", k.binary("max", k.read(self.n), 1), ROWS))
        self.fixed.add(self.rows_left)
        self.block(self.left)
        if self.k.builder.reachable:
            self.finish()
        return self.k

    def finish(self) -> None:
        k = self.k
        for place, variable in enumerate(self.present(self.tiles)[:8]):
            self.store_at(OUTPUTS - 1 - place, k.read(variable))
        for variable in self.present(self.tails)[:4]:
            k.store(
                k.index(self.y, [8 + self.random.randrange(4), part(0, k.read(self.rows_left))]),
                k.read(variable),
            )
        zero = k.full(F32, (ROWS, COLUMNS), 0.0)
        for place, variable in enumerate(self.present(self.scalars)[:8]):
            value = k.cast(k.read(variable), F32)
            self.store_at(OUTPUTS - 9 - place, k.binary("add", zero, value))

    def store_at(self, place: Any, tile: Value) -> None:
        k = self.k
        target = k.index(self.y, [place])
        kind = tile.kind
        assert isinstance(kind, TileKind | ViewKind)
        if kind.shape == (8, 4):
            tile = k.transpose(tile)
        elif kind.shape != (ROWS, COLUMNS):
            target = k.index(target, [part(0, extent) for extent in kind.shape])
        k.store(target, tile)

    # choosing

    def present(self, variables: list[Variable]) -> list[Variable]:
        return [v for v in variables if self.k.builder.has_value(v)]

    def assignable(self, variables: list[Variable]) -> list[Variable]:
        return [
            v
            for v in variables
            if v not in self.fixed and all(allowed is None or v in allowed for allowed in self.allowed)
        ]

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    # expressions

    def integer(self, depth: int = 0) -> Any:
        """An i32 that stays small."""
        k, r = self.k, self.random
        self.nodes -= 1
        choice = r.randrange(8 if depth < 2 and self.nodes > 0 else 3)
        variables = self.present(self.scalars)
        if choice <= 1 and variables:
            return k.read(r.choice(variables))
        if choice == 2:
            return r.randrange(-3, 9)
        if choice == 3:
            return k.binary(
                r.choice(("add", "sub", "min", "max")), self.integer(depth + 1), self.integer(depth + 1)
            )
        if choice == 4:
            product = k.binary("mul", self.integer(depth + 1), self.integer(depth + 1))
            return k.binary("mod", product, r.choice((5, 7, 100)))
        if choice == 5:
            return k.select(self.truth(depth + 1), self.integer(depth + 1), self.integer(depth + 1))
        if choice == 6 and self.inside < 3:
            return self.chosen(lambda: self.integer(depth + 1))
        return k.binary("floordiv", self.integer(depth + 1), r.choice((2, 3)))

    def chosen(self, make: Callable[[], Any]) -> Any:
        """One side of `a if c else b`."""
        self.inside += 1
        out = self.k.conditional(self.truth(2), make, make)
        self.inside -= 1
        return out

    def index(self, extent: int) -> Any:
        """An index that lies inside."""
        if self.chance(0.3):
            return self.random.randrange(extent)
        return self.k.binary("mod", self.integer(1), extent)

    def truth(self, depth: int = 0) -> Any:
        k, r = self.k, self.random
        self.nodes -= 1
        choice = r.randrange(5 if depth < 2 and self.nodes > 0 else 2)
        if choice == 2 and self.inside < 3:
            self.inside += 1
            out = k.logical(r.choice(("and", "or")), self.truth(depth + 1), lambda: self.truth(depth + 1))
            self.inside -= 1
            return out
        if choice == 3:
            return k.unary("not", self.truth(depth + 1))
        return k.compare(
            r.choice(("lt", "le", "gt", "ge", "eq", "ne")), self.integer(depth + 1), self.integer(depth + 1)
        )

    def tile(self, shape: tuple[int, int], depth: int = 0) -> Value:
        """An f32 tile (or view of L1) of whole numbers."""
        k, r = self.k, self.random
        self.nodes -= 1
        choice = r.randrange(12 if depth < 3 and self.nodes > 0 else 4)
        known = [v for v in self.present(self.tiles) if v.kind.shape == shape]
        if choice <= 1 and known:
            return self.of(k.read(r.choice(known)))
        if choice == 2:
            start = self.index(8 - shape[0] + 1)
            return self.of(
                k.load(k.index(self.x, [part(start, k.binary("add", start, shape[0])), part(0, shape[1])]))
            )
        if choice == 3 or depth > 3 or self.nodes <= 0:
            return self.of(self.view(shape))
        if choice == 4:
            return self.of(k.full(F32, shape, float(r.randrange(-4, 5))))
        if choice == 5:
            axis = 0 if shape[0] == 1 else 1 if shape[1] == 1 else None
            if shape == (8, 4):
                return self.of(k.copy_tile(k.transpose(self.tile((4, 8), depth + 1))))
            if axis is None:
                return self.clamp(
                    k.matmul(self.tile((shape[0], 1), depth + 1), self.tile((1, 8), depth + 1)), shape
                )
            inner = (4, 8)
            return self.clamp(
                k.reduce(r.choice(("sum", "max", "min")), self.tile(inner, depth + 1), axis), shape
            )
        if choice == 6:
            return self.of(k.select(k.compare("lt", self.tile(shape, depth + 1), self.tile(shape, depth + 1)),
                            self.tile(shape, depth + 1), float(r.randrange(3))))  # fmt: skip
        if choice == 7:
            return self.of(k.unary(r.choice(("neg", "abs")), self.tile(shape, depth + 1)))
        if choice == 8:
            return self.clamp(
                k.binary(r.choice(("add", "sub", "mul")), self.integer(1), self.tile(shape, depth + 1)), shape
            )
        if choice == 9 and self.inside < 3 and depth < 2:
            return self.chosen(lambda: k.copy_tile(self.tile(shape, depth + 1)))
        other = self.random.choice(
            [s for s in SHAPES if all(b in (1, a) for a, b in zip(shape, s, strict=True))]
        )
        a, b = self.tile(shape, depth + 1), self.tile(other, depth + 1)
        if self.chance(0.5):
            a, b = b, a
        name = r.choice(("add", "sub", "mul", "min", "max"))
        return self.clamp(k.binary(name, a, b), shape) if name == "mul" else self.of(k.binary(name, a, b))

    def tail(self, depth: int = 0) -> Value:
        """A tile of `rows_left` rows and 8 columns."""
        k, r = self.k, self.random
        self.nodes -= 1
        choice = r.randrange(7 if depth < 3 and self.nodes > 0 else 2)
        known = self.present(self.tails)
        rows = k.binary("min", k.read(self.rows_left), ROWS)
        if choice == 0 and known:
            return self.of(k.read(r.choice(known)))
        if choice <= 1:
            return self.of(k.load(k.index(self.x, [part(0, rows)])))
        if choice == 2:
            return self.of(k.full(F32, (rows, COLUMNS), float(r.randrange(-4, 5))))
        if choice == 3:
            return self.of(k.index(k.slot(self.row, self.index(2)), [part(0, rows)]))
        if choice == 4:
            return self.of(k.unary(r.choice(("neg", "abs")), self.tail(depth + 1)))
        other = self.tile((1, COLUMNS), 2) if choice == 5 else self.tail(depth + 1)
        a, b = self.tail(depth + 1), other
        if self.chance(0.5):
            a, b = b, a
        return self.clamp(k.binary(r.choice(("add", "sub", "mul", "min", "max")), a, b), (0, 0))

    def of(self, value: Any) -> Value:
        assert isinstance(value, Value)
        return value

    def clamp(self, tile: Any, shape: tuple[int, int]) -> Value:
        """Whole numbers that stay small, so that sums are exact."""
        return self.of(self.k.binary("max", self.k.binary("min", tile, 50.0), -50.0))

    def view(self, shape: tuple[int, int]) -> Value:
        """Part of a buffer in L1."""
        k = self.k
        views = [v for v in self.present(self.views) if v.kind.shape == shape]
        if views and self.chance(0.4):
            return self.of(k.read(self.random.choice(views)))
        if shape == (ROWS, COLUMNS) and self.chance(0.6):
            return self.of(k.slot(self.row, self.index(2)))
        if shape == (8, 4) and self.chance(0.4):
            return self.of(k.index(k.slot(self.wide, 0), [part(0, 8), part(0, 8, 2)]))
        start = self.index(8 - shape[0] + 1)
        left = self.index(8 - shape[1] + 1)
        whole = k.slot(self.wide, 0)
        items = [part(start, k.binary("add", start, shape[0])), part(left, k.binary("add", left, shape[1]))]
        return self.of(k.index(whole, items))

    # statements

    def block(self, size: int) -> None:
        """Some statements."""
        for _ in range(size):
            if self.left <= 0 or not self.k.builder.reachable:
                return
            self.left -= 1
            self.statement()

    def statement(self) -> None:
        r = self.random
        kinds = [
            self.declare_scalar,
            self.assign_scalar,
            self.declare_tile,
            self.assign_tile,
            self.assign_tile,
            self.write,
            self.store,
            self.mma,
            self.declare_view,
            self.set_element,
            self.swap,
            self.declare_tail,
            self.assign_tail,
        ]
        if self.inside < 4:
            kinds += [self.branch, self.range, self.loop, self.inline]
        self.nodes = 12
        if self.loops and self.chance(0.5):
            kinds += [self.leave]
        r.choice(kinds)()

    def declare_scalar(self) -> None:
        self.scalars.append(self.k.declare(f"s{len(self.scalars)}", self.k.cast(self.integer(), I32)))

    def assign_scalar(self) -> None:
        variables = self.assignable(self.scalars)
        if variables:
            self.k.assign(self.random.choice(variables), self.k.binary("mod", self.integer(), 1000))

    def declare_tile(self) -> None:
        shape = self.random.choice(SHAPES)
        tile = self.tile(shape)
        if isinstance(tile.kind, ViewKind):
            tile = self.k.copy_tile(tile)
        self.tiles.append(self.k.declare(f"t{len(self.tiles)}", tile))

    def declare_tail(self) -> None:
        tile = self.tail()
        if isinstance(tile.kind, ViewKind):
            tile = self.k.copy_tile(tile)
        self.tails.append(self.k.declare(f"r{len(self.tails)}", tile))

    def assign_tail(self) -> None:
        variables = self.assignable(self.tails)
        if variables:
            self.k.assign(self.random.choice(variables), self.clamp(self.tail(), (0, 0)))

    def assign_tile(self) -> None:
        variables = self.assignable(self.tiles)
        if variables:
            variable = self.random.choice(variables)
            self.k.assign(variable, self.clamp(self.tile(variable.kind.shape), variable.kind.shape))

    def swap(self) -> None:
        """a, b = b, f(a, b): both sides are evaluated first."""
        k = self.k
        tiles = [v for v in self.assignable(self.tiles) if k.builder.has_value(v) and v.kind.shape == (4, 8)]
        if len(tiles) < 2:
            numbers = [v for v in self.assignable(self.scalars) if k.builder.has_value(v)]
            if len(numbers) >= 2:
                a, b = self.random.sample(numbers, 2)
                first, second = k.read(b), k.binary("mod", k.binary("add", k.read(a), k.read(b)), 1000)
                k.assign(a, first)
                k.assign(b, second)
            return
        a, b = self.random.sample(tiles, 2)
        first, second = k.read(b), self.clamp(k.binary("sub", k.read(a), k.read(b)), (4, 8))
        k.assign(a, first)
        k.assign(b, second)

    def declare_view(self) -> None:
        shape = self.random.choice(SHAPES)
        self.views.append(self.k.declare(f"v{len(self.views)}", self.view(shape)))

    def write(self) -> None:
        shape = self.random.choice(SHAPES)
        if self.chance(0.5):
            view = self.view(shape)
            value: Any = float(self.random.randrange(5)) if self.chance(0.2) else self.tile(shape)
        else:
            value = self.tile(shape)
            view = self.view(shape)
        self.k.write(view, value)

    def set_element(self) -> None:
        view = self.view((ROWS, COLUMNS))
        self.k.set_element(view, [self.index(ROWS), self.index(COLUMNS)], self.k.cast(self.integer(), F32))
        if self.chance(0.5):
            value = self.k.element(self.view((ROWS, COLUMNS)), [self.index(ROWS), 1])
            self.scalars.append(self.k.declare(f"s{len(self.scalars)}", self.k.cast(value, I32)))

    def store(self) -> None:
        self.store_at(self.index(8), self.tile(self.random.choice(SHAPES)))

    def mma(self) -> None:
        k = self.k
        targets = [
            v for v in self.assignable(self.tiles) if k.builder.has_value(v) and v.kind.shape == (4, 8)
        ]
        if targets:
            target = self.random.choice(targets)
            k.mma(target, self.tile((4, 1), 2), self.tile((1, 8), 2))
            k.assign(target, self.clamp(k.read(target), (4, 8)))

    def branch(self) -> None:
        k = self.k
        self.inside += 1
        k.begin_if(self.truth())
        self.block(self.random.randrange(1, 5))
        if self.chance(0.6):
            k.begin_else()
            self.block(self.random.randrange(1, 5))
        k.end_if()
        self.inside -= 1

    def allow(self) -> set[Variable] | None:
        if self.chance(0.3):
            return None
        every = self.assignable([*self.scalars, *self.tiles, *self.tails])
        return set(self.random.sample(every, min(len(every), self.random.randrange(4))))

    def range(self) -> None:
        k, r = self.k, self.random
        allowed = self.allow()
        self.inside += 1
        if self.chance(0.3):
            start, stop, step = 4, self.integer(2), -1 - r.randrange(2)
        else:
            start, stop, step = self.integer(2), self.integer(2), 1 + r.randrange(3)
        stop = k.binary("min", k.binary("max", stop, -2), 8)
        start = k.binary("max", start, -3)
        counter = k.begin_range(f"i{self.left}", start, stop, step, assigns=allowed)
        self.open(allowed, [counter])
        k.end_range()
        self.inside -= 1

    def loop(self) -> None:
        k, r = self.k, self.random
        rounds = k.declare(f"w{self.left}", 0)
        allowed = self.allow()
        if allowed is not None:
            allowed.add(rounds)
        self.fixed.add(rounds)
        self.inside += 1
        limit = r.randrange(1, 5)
        k.begin_loop(assigns=allowed)
        condition = k.compare("lt", k.read(rounds), limit)
        if self.chance(0.3):
            condition = k.logical("and", condition, lambda: self.truth(1))
        if self.chance(0.2):
            k.loop_condition(True)
            k.begin_if(k.compare("ge", k.read(rounds), limit))
            k.break_()
            k.end_if()
        else:
            k.loop_condition(condition)
        if self.chance(0.5):
            self.open(allowed, [rounds])
            k.begin_step()
            k.assign(rounds, k.binary("add", k.read(rounds), 1))
        else:
            k.assign(rounds, k.binary("add", k.read(rounds), 1))
            self.open(allowed, [rounds])
        k.end_loop()
        self.inside -= 1

    def open(self, allowed: set[Variable] | None, counters: list[Variable]) -> None:
        """The body of a loop."""
        self.allowed.append(allowed)
        self.scalars += counters
        self.fixed |= set(counters)
        self.loops += 1
        known = (len(self.scalars), len(self.tiles), len(self.views), len(self.tails))
        self.block(self.random.randrange(1, 7))
        # what a body declares belongs to it: a loop's `assigns` does not name it
        del self.scalars[known[0] :], self.tiles[known[1] :], self.views[known[2] :], self.tails[known[3] :]
        self.loops -= 1
        self.allowed.pop()

    def inline(self) -> None:
        k = self.k
        self.inside += 1
        loops, self.loops = self.loops, 0
        k.begin_inline("helper")
        self.block(self.random.randrange(1, 4))
        if self.chance(0.6) and k.builder.reachable:
            k.begin_if(self.truth())
            k.return_()
            k.end_if()
            self.block(self.random.randrange(1, 3))
        k.end_inline()
        self.loops = loops
        self.inside -= 1

    def leave(self) -> None:
        k = self.k
        k.begin_if(self.truth())
        if self.chance(0.5):
            k.break_()
        else:
            k.continue_()
        k.end_if()
