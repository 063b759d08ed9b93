"""A kernel with its threads: finds the plan for the arguments it is called with, and launches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tops_kit.deferral import enter, leave
from tops_kit.errors import UserError
from tops_kit.gcu import Specification
from tops_kit.isa.dtypes import DType
from tops_kit.isa.program import Program
from tops_kit.runtime.arguments import exact
from tops_kit.runtime.array import Array
from tops_kit.runtime.errors import LaunchError
from tops_kit.runtime.launching import launch_kernel
from tops_kit.runtime.plan import Plan
from tops_kit.runtime.process import RUNTIME
from tops_kit.runtime.quick_launches import Caller, caller_type, described
from tops_kit.runtime.result import Launch
from tops_kit.runtime.settings import Settings

if TYPE_CHECKING:
    from tops_kit.runtime.kernel import Definition
    from tops_kit.runtime.stream import Stream

_MOST_KEPT = 256  # plans of a launcher; a constexpr that changes at every launch fills no memory

# what arguments are recognised by at once; all others are looked at in full
_PLAIN = frozenset((int, float, bool, str, type(None), DType))


if TYPE_CHECKING:
    _Caller = Caller
else:
    _Caller = caller_type()  # in C where that is built


class Launcher(_Caller):
    """A kernel with its threads; called with the arguments it launches."""

    __slots__ = (
        "_by_program",
        "_constexprs",
        "_count",
        "_learned",
        "_plans",
        "block",
        "definition",
        "grid",
        "settings",
    )

    def __init__(
        self, definition: Definition, settings: Settings, grid: tuple[int, ...], block: tuple[int, ...]
    ) -> None:
        self.definition = definition
        self.settings = settings
        self.grid = grid
        self.block = block
        self._plans: dict[tuple[Any, ...], Plan] = {}  # by part, types, values of constexprs
        self._by_program: dict[Program, Plan] = {}
        self._learned: tuple[Any, ...] = ()  # what the quick way was told of last
        self._count = -1  # of arguments; not known before the source was read
        self._constexprs: tuple[int, ...] = ()
        self._choose(settings.stream, settings.part)

    def _slow(self, /, *args: Any, **keywords: Any) -> Launch:
        """Launch. On the host's arrays it waits for the end, on arrays of a device it is queued.

        Raises LaunchError (arguments), KernelError (it can't be compiled), TopsError (the device),
        KernelFault (on the host's arrays: it did what it must not), KeyboardInterrupt.
        """
        enter()
        try:
            stream = self.settings.stream or RUNTIME.local.stream
            plan, values, on_device = self.plan_for(args, keywords, stream)
            saver = RUNTIME.saver  # what is to be saved goes the long way
            if (
                on_device
                and not keywords
                and values is args
                and self._learned != (plan, *map(type, args))
                and (saver is None or not saver.may_want(plan.name))
            ):
                self._learned = (plan, *map(type, args))
                about = described(plan, args, self._constexprs)
                if about is not None:
                    self._learn(about, args)
            return launch_kernel(plan, values, stream, on_device)
        except UserError as error:
            raise error.with_traceback(None) from None  # it says the user's place; ours would hide it
        finally:
            leave()

    def prepare(self, *args: Any, **keywords: Any) -> None:
        """Compile for arguments like these, and launch nothing: then the first launch takes no longer than
        those after it. Raises LaunchError, KernelError.
        """
        try:
            self.plan_for(args, keywords, self.settings.stream or RUNTIME.local.stream)
        except UserError as error:
            raise error.with_traceback(None) from None

    def plan_for(
        self, args: tuple[Any, ...], keywords: dict[str, Any], stream: Stream | None
    ) -> tuple[Plan, tuple[Any, ...], bool]:
        """The plan for arguments, those in order, and whether arrays of a device are among them."""
        if keywords or len(args) != self._count:
            args = self._ordered(args, keywords)
        part = self.settings.part
        if part is None:
            if stream is None:
                contexts, number = RUNTIME.contexts, RUNTIME.local.device
                stream = contexts[number].default_stream if number < len(contexts) else None
            part = (
                RUNTIME.default_part()
                if stream is None
                else stream.part_now(self.definition.function.__name__)
            )
        key: list[Any] = [part]
        on_device = False
        plain = True
        for value in args:
            kind = type(value)
            if kind is Array:
                key.append(value.signature)
                on_device = True
            elif kind in _PLAIN:
                key.append(kind)
            else:
                plain = False
        if not plain:
            return self._plan(args, part), args, on_device
        for position in self._constexprs:
            key.append(exact(args[position]))
        known = tuple(key)
        plan = self._plans.get(known)
        if plan is None or not plan.holds():
            plan = self._plan(args, part)
            if len(self._plans) >= _MOST_KEPT:
                self._plans.clear()
                self._forget()
            self._plans[known] = plan
        return plan, args, on_device

    def _ordered(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Any, ...]:
        definition = self.definition
        if self._count < 0:
            parameters = definition.parameters
            self._constexprs = tuple(k for k, p in enumerate(parameters) if p.is_constexpr)
            if not any(p.keyword_only for p in parameters):
                self._count = len(parameters)
        try:
            return tuple(definition.arguments.ordered(args, keywords))
        except LaunchError as reason:
            raise definition.named(reason) from None

    def _plan(self, values: Sequence[Any], part: Specification) -> Plan:
        """The plan for arguments, compiled where it has to be."""
        definition = self.definition
        compiled = definition.compiled_for(values, part)
        program = compiled.program
        found = self._by_program.get(program)
        if found is not None and found.part is part:
            return found
        names = tuple(parameter.name for parameter in definition.parameters)
        at = {name: position for position, name in enumerate(names)}
        arguments, types = definition.arguments, compiled.types

        def pack(given: Sequence[Any]) -> list[Any]:
            try:
                return arguments.pack(given, types)[0]
            except LaunchError as reason:
                raise definition.named(reason) from None

        pack(values)  # so that what is wrong with a number is told before anything begins
        try:
            plan = Plan(
                program, part, self.settings, grid=self.grid, block=self.block, names=names,
                positions=[at[parameter.name] for parameter in program.parameters], pack=pack,
                launcher=self, holds=compiled.captures.hold,
            )  # fmt: skip
        except LaunchError as reason:
            raise RUNTIME.beside_limits(reason, part) from None
        if len(self._by_program) >= _MOST_KEPT:
            self._by_program.clear()
        self._by_program[program] = plan
        return plan
