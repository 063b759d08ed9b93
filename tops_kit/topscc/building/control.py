"""Branches, loops, inlined functions, and what is known of variables where paths meet."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from tops_kit.topscc import tree
from tops_kit.topscc.building.state import BOOL_KIND, I32_KIND, Counting, Frame, Holding, State
from tops_kit.topscc.building.values import Operand
from tops_kit.topscc.building.variables import VariableBuilder
from tops_kit.topscc.diagnostics import Where
from tops_kit.topscc.kinds import ScalarKind, TileKind, ViewKind
from tops_kit.topscc.tree import Block, Constant, Value, Variable

_LOOPS = ("loop", "range")


class ControlBuilder(VariableBuilder):
    """Control."""

    # branches

    def begin_if(self, condition: Operand, where: Where) -> None:
        """`if condition:`; what a condition known when compiling rules out is checked, but left out."""
        truth = self._typed(self.truth(condition, where), where)
        frame = Frame("if", where, dict(self._state), self._dead, condition=truth)
        self._frames.append(frame)
        self._open_block()
        self._learn(truth, holds=True)
        if isinstance(truth, Constant) and not truth.value:
            self._dead = True

    def begin_else(self, where: Where) -> None:
        """`else:` of the innermost open if."""
        frame = self._innermost("if", where)
        frame.kind = "else"
        frame.facts = self._facts[-1]
        frame.first = self._close_block()
        frame.aside = None if self._dead else self._state
        condition = frame.condition
        assert condition is not None
        self._state, self._dead = dict(frame.before), frame.dead_before
        if isinstance(condition, Constant) and condition.value:
            self._dead = True
        self._open_block()
        self._learn(condition, holds=False)

    def end_if(self, where: Where) -> None:
        """The end of the innermost open if."""
        if self._frames and self._frames[-1].kind == "if":
            self.begin_else(where)
        frame = self._innermost("else", where)
        self._frames.pop()
        facts = [self._facts[-1]]
        otherwise = self._close_block()
        then, condition = frame.first, frame.condition
        states: list[State] = []
        if frame.aside is not None:
            states, facts = [frame.aside], [frame.facts, *facts]
        if not self._dead:
            states.append(self._state)
        self._dead = frame.dead_before
        assert condition is not None
        if isinstance(condition, Constant):
            # straight-line: what remains of the branch stands in the block itself
            for node in then if condition.value else otherwise:
                self._emit(node)
        elif then or otherwise:
            self._emit(tree.If(frame.where, condition, then, otherwise))
        self._join(frame, states, facts[: len(states)])
        if len(states) == 1:  # what follows runs behind one of the two only
            self._learn(condition, holds=frame.aside is not None)

    def _innermost(self, kind: str, where: Where) -> Frame:
        if not self._frames or self._frames[-1].kind != kind:
            found = self._frames[-1].kind if self._frames else "nothing"
            raise RuntimeError(f"{where}: {kind} expected to be open, {found} is")
        return self._frames[-1]

    # loops

    def begin_loop(self, where: Where, *, assigns: Collection[Variable] | None = None) -> None:
        """A loop: what follows, up to `loop_condition`, computes the condition anew before each round.

        `assigns`: the variables declared before that the loop assigns anywhere (also through inlined
        functions). None: unknown, then all that exist are taken to change, and less is known of slices and
        shapes inside. Assigning another one in the loop is an internal error.
        """
        self._enter_loop("loop", where, assigns)
        self._open_block()

    def _enter_loop(self, kind: str, where: Where, assigns: Collection[Variable] | None) -> Frame:
        frame = Frame(kind, where, dict(self._state), self._dead)
        frame.assigns = None if assigns is None else frozenset(assigns)
        frame.first_variable = next(self._variable_numbers)
        self._frames.append(frame)
        self._forget_assigned(frame)
        return frame

    def _forget_assigned(self, frame: Frame) -> None:
        """What the loop may have assigned in another round can hold anything of its kind."""
        for variable in list(self._state):
            if variable.number < frame.first_variable and (
                frame.assigns is None or variable in frame.assigns
            ):
                self._state[variable] = self._forget(variable)

    def loop_condition(self, condition: Operand, where: Where) -> None:
        """The loop's body follows; True makes it endless."""
        frame = self._innermost("loop", where)
        truth = self._typed(self.truth(condition, where), where)
        frame.condition = truth
        frame.first = self._close_block()
        frame.aside = dict(self._state)
        self._open_block()

    def begin_step(self, where: Where) -> None:
        """What follows runs after each round, also after `continue`. Optional."""
        frame = self._innermost("loop", where)
        frame.body = self._close_block()
        states = [*frame.continues, *([] if self._dead else [self._state])]
        self._join(frame, states)
        if states:
            self._forget_assigned(frame)
        self._open_block()

    def end_loop(self, where: Where) -> None:
        """The end of the innermost open loop."""
        frame = self._innermost("loop", where)
        if frame.body is None:
            self.begin_step(where)
        self._frames.pop()
        step = self._close_block()
        condition = frame.condition
        assert condition is not None and frame.body is not None and frame.aside is not None
        self._dead = frame.dead_before
        self._emit(tree.Loop(frame.where, frame.first, condition, frame.body, step))
        states = list(frame.breaks)
        if not (isinstance(condition, Constant) and condition.value):
            states.append(frame.aside)
        self._leave_loop(frame, states)

    def _leave_loop(self, frame: Frame, states: list[State]) -> None:
        self._join(frame, states)
        if states:
            self._forget_assigned(frame)

    def begin_range(
        self,
        target: str | Variable,
        start: Operand,
        stop: Operand,
        step: Operand,
        where: Where,
        *,
        assigns: Collection[Variable] | None = None,
    ) -> Variable:
        """`for target in range(start, stop, step):`, its body follows; gives the loop variable.

        `target` names a new variable, or is one that exists (i32). The bounds are evaluated once. It has no
        value after the loop: assign what is needed there to another variable, e.g. before `break`. A step
        that isn't a number must be positive, which the kernel asserts. `assigns` as in `begin_loop`; if the
        body assigns the loop variable itself, it must be among them (the rounds don't change by that, as in
        Python).
        """
        first, last, stride = (
            self._integer(operand, where, f"the {what} of a range")
            for operand, what in ((start, "start"), (stop, "stop"), (step, "step"))
        )
        number = self._constant_int(stride)
        if number == 0:
            raise self._error("a range with step 0", where, "steps are at least 1, or at most -1")
        bounds = [self._constant_int(operand) for operand in (first, last)]
        if number is not None and None not in bounds:
            rounds = range(bounds[0] or 0, bounds[1] or 0, number)
            if rounds and not -(1 << 31) <= rounds[-1] + number < 1 << 31:
                raise self._error(
                    "the variable of this range leaves 32 bits at its end", where, "end it a step earlier"
                )
        if number is None and not self._positive(stride):
            above = self.compare("gt", stride, 0, where)
            self._emit(tree.Assert(where, self._typed(above, where), "the step of a range must be positive"))
        if isinstance(target, Variable):
            if target.kind != I32_KIND:
                raise self._error(
                    f"{target.name} is {target.kind} and can't count",
                    where,
                    "use another name for the loop variable",
                )
            self._check_loops(target)
            variable = target
        else:
            variable = Variable(next(self._variable_numbers), target, I32_KIND, where)
        itself = assigns is None or variable in assigns
        counter = Variable(next(self._variable_numbers), "", I32_KIND, where) if itself else variable
        frame = self._enter_loop("range", where, None if assigns is None else {*assigns, variable})
        down = number is not None and number < 0
        frame.counting = Counting(counter, variable, first, last, stride, down)
        self._state[counter] = Holding(next(self._versions), I32_KIND)
        self._open_block()
        if counter is not variable:
            self._state[variable] = Holding(next(self._versions), I32_KIND)
            self._set(variable, self.read(counter, where), where, first=isinstance(target, str))
        return variable

    def _positive(self, value: Value) -> bool:
        """Whether a step can't be 0 or less: a count of threads or blocks, times positive numbers."""
        node = self._definitions.get(self._known.get(value, value))
        if isinstance(node, tree.Special):
            return node.name.startswith(("num_", "block_size", "block_dim", "grid_dim"))
        if isinstance(node, tree.Elementwise) and node.name == "mul":
            return all(self._positive(x) or (self._constant_int(x) or 0) > 0 for x in node.operands)
        return False

    def end_range(self, where: Where) -> None:
        """The end of the innermost open range loop."""
        frame = self._innermost("range", where)
        self._frames.pop()
        body = self._close_block()
        counting = frame.counting
        assert counting is not None
        self._dead = frame.dead_before
        self._emit(
            tree.Range(
                frame.where,
                counting.counter,
                counting.start,
                counting.stop,
                counting.step,
                counting.down,
                body,
            )
        )
        self._leave_loop(frame, [frame.before, *frame.breaks])
        self._state.pop(counting.variable, None)
        self._state.pop(counting.counter, None)

    def break_(self, where: Where) -> None:
        """Leave the innermost loop."""
        frame = self._loop("break", where)
        if not self._dead:
            frame.breaks.append(dict(self._state))
        self._emit(tree.Break(where))
        self._dead = True

    def continue_(self, where: Where) -> None:
        """To the next round of the innermost loop."""
        frame = self._loop("continue", where)
        if not self._dead:
            frame.continues.append(dict(self._state))
        self._emit(tree.Continue(where))
        self._dead = True

    def _loop(self, what: str, where: Where) -> Frame:
        for frame in reversed(self._frames):
            if frame.kind in _LOOPS:
                return frame
            if frame.kind == "inline":
                break
        raise self._error(f"{what} outside of a loop", where, "put it in a for or while, or write return")

    # functions

    def return_(self, where: Where) -> None:
        """End the innermost inlined function, or the kernel. Returned values go through variables."""
        for frame in reversed(self._frames):
            if frame.kind == "inline":
                if not self._dead:
                    frame.returns.append(dict(self._state))
                break
        self._emit(tree.Return(where))
        self._dead = True

    def begin_inline(self, function: str, where: Where) -> None:
        """The body of a called function follows; `return_` in it goes to its end."""
        frame = Frame("inline", where, dict(self._state), self._dead, function=function)
        self._frames.append(frame)
        self._open_block()

    def end_inline(self, where: Where) -> None:
        """The end of the innermost inlined function; its variables live until here in a debugger."""
        frame = self._innermost("inline", where)
        self._frames.pop()
        shared = self._computed[-1]
        body = self._close_block()
        fell_through = not self._dead
        self._dead = frame.dead_before
        self._emit(tree.Inline(frame.where, frame.function, body))
        if not frame.returns:
            # all of the body ran: what it computed is there
            self._computed[-1] |= shared
        self._dead = not fell_through
        self._join(frame, [*frame.returns, *([self._state] if fell_through else [])])

    # expressions with control in them

    def logical(self, name: str, a: Operand, b: Callable[[], Operand], where: Where) -> Operand:
        """`a and b`, `a or b` of scalars, as a bool; `b` builds the right side, which runs only if needed."""
        left = self.truth(a, where)
        if not isinstance(left, Value) or isinstance(left, Constant):
            decided = bool(left.value if isinstance(left, Constant) else left)
            return self.truth(b(), where) if decided == (name == "and") else decided
        before = dict(self._state)
        dead = self._dead
        self._open_block()
        right = self._typed(self.truth(b(), where), where)
        block = self._close_block()
        self._dead = dead
        self._state = self._merge([before, self._state])
        return self._give(tree.Logical(where, self._new(BOOL_KIND), name, left, block, right))

    def conditional(
        self, condition: Operand, then: Callable[[], Operand], otherwise: Callable[[], Operand], where: Where
    ) -> Operand:
        """`then if condition else otherwise`; only the side that is chosen runs."""
        truth = self.truth(condition, where)
        if not isinstance(truth, Value) or isinstance(truth, Constant):
            chosen = truth.value if isinstance(truth, Constant) else truth
            return then() if chosen else otherwise()
        blocks: list[Block] = []
        sides: list[Value] = []
        bounds: list[int | None] = []
        before, after, dead = dict(self._state), [], self._dead
        for side in (then, otherwise):
            self._state = dict(before)
            self._open_block()
            self._learn(truth, holds=side is then)
            sides.append(self._typed(self._usable_side(side()), where))
            bounds.append(self._greatest(sides[-1]) if sides[-1].kind == I32_KIND else None)
            after.append(self._state)
            blocks.append(self._close_block())
            self._dead = dead
        self._state = self._merge(after)
        variable = self._choice(sides, where)
        for number, side_value in enumerate(sides):
            # the conversion, if any, belongs to its own side
            self._open_block()
            value = self._for(variable, side_value, where)
            self._emit(tree.Assign(where, variable, value, number == 0))
            blocks[number] = (*blocks[number], *self._close_block())
        self._emit(tree.If(where, truth, blocks[0], blocks[1]))
        self._state[variable] = self._forget(variable)
        if variable.kind == I32_KIND:
            self._keep_bound(self._state[variable], bounds)
        return self.read(variable, where)

    def _usable_side(self, side: Operand) -> Operand:
        return side

    def _choice(self, sides: Sequence[Value], where: Where) -> Variable:
        """A hidden variable that can hold either side."""
        a, b = (side.kind for side in sides)
        kind = a
        if isinstance(a, ScalarKind) and isinstance(b, ScalarKind):
            kind = ScalarKind(self._scalar_type(sides, where))
        elif (
            isinstance(a, TileKind | ViewKind)
            and isinstance(b, TileKind | ViewKind)
            and type(a) is not type(b)
        ):
            kind = TileKind(a.dtype, a.shape)
        return Variable(next(self._variable_numbers), "", kind, where)

    def assert_(self, condition: Operand, message: str, where: Where) -> None:
        """A fault with `message` unless the condition holds; one known to fail is a KernelError."""
        truth = self.truth(condition, where)
        if not isinstance(truth, Value) or isinstance(truth, Constant):
            holds = truth.value if isinstance(truth, Constant) else truth
            if not holds and not self._dead:
                raise self._error(message or "this assertion never holds", where)
            return
        self._emit(tree.Assert(where, truth, message))
        self._learn(truth, holds=True)
