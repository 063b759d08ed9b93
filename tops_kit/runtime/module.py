"""Modules: kernels from compiled files, and from source text that a program makes while it runs."""

from __future__ import annotations

import itertools
import linecache
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any

from tops_kit.errors import UserError
from tops_kit.gcu import Specification
from tops_kit.isa.binary import load
from tops_kit.isa.errors import BinaryError
from tops_kit.isa.program import Program
from tops_kit.runtime.arguments import number_of
from tops_kit.runtime.array import Array
from tops_kit.runtime.arrays import array_type, as_global, is_array
from tops_kit.runtime.codes import Code
from tops_kit.runtime.errors import LaunchError, TopsError, fail, is_path, shown
from tops_kit.runtime.hooks import api
from tops_kit.runtime.kernel import Kernel
from tops_kit.runtime.launch_shape import shape_of_threads
from tops_kit.runtime.launching import launch_kernel
from tops_kit.runtime.parts import PARTS
from tops_kit.runtime.plan import Plan
from tops_kit.runtime.process import RUNTIME
from tops_kit.runtime.result import Launch
from tops_kit.runtime.settings import Settings, check_options, check_together

if TYPE_CHECKING:
    from tops_kit.runtime.stream import Stream

_numbers = itertools.count(1)  # of source texts, for their names


class Module:
    """Kernels by name, from `Module.load("k.topsbin")` or `Module.from_source(text)`."""

    def __init__(self, name: str, functions: dict[str, Function | Kernel]) -> None:
        self.name = name
        self.unloaded = False
        self._functions = functions

    @staticmethod
    def load(path: str | Path) -> Module:
        """The kernels of a file that topscc wrote. Raises TopsError: it is missing, or no such file."""
        return _load(path)

    @staticmethod
    def from_source(text: str, **names: Any) -> Module:
        """The kernels of a Python text, which is run as a module; it sees `tops`, and `names`.

        They are compiled at their first launch, with constexprs as its arguments say. Raises TopsError.
        """
        return _compile(text, names)

    @property
    def functions(self) -> tuple[str, ...]:
        """The names of its kernels."""
        return tuple(self._functions)

    def function(self, name: str) -> Function | Kernel:
        """A kernel by name. Raises TopsError."""
        return _get_function(self, name)

    def _find(self, name: str) -> Function | Kernel:
        self.check()
        found = self._functions.get(name) if isinstance(name, str) else None
        if found is None:
            known = ", ".join(self._functions) or "none"
            fail(Code.topsErrorNotFound, f"module {self.name} has no kernel {shown(name)}: {known}")
        return found

    def check(self) -> None:
        """Raises TopsError where it was unloaded."""
        if self.unloaded:
            fail(Code.topsErrorInvalidHandle, f"module {self.name} was unloaded")

    @api("topsModuleUnload")
    def unload(self) -> None:
        """Give it back; functions of it can't be launched any more."""
        self.check()
        self.unloaded = True

    def __repr__(self) -> str:
        return f"<Module {self.name}: {', '.join(self._functions) or 'no kernels'}>"


class Function:
    """A compiled kernel of a module: `function[threads](...)` or `function[grid, block](...)`, as a Kernel.

    Its constexprs were given when it was compiled; the arguments are its other parameters.
    """

    def __init__(
        self, module: Module, programs: Mapping[str, Program], settings: Settings | None = None
    ) -> None:
        self.module = module
        self.programs = programs  # by the part that each was compiled for
        self._settings = settings or Settings()

    @property
    def program(self) -> Program:
        """What was compiled for its part; where there is none, for another."""
        return self.programs.get(self.part.name) or next(iter(self.programs.values()))

    @property
    def part(self) -> Specification:
        """The part that it runs on: that of `on`, else of the thread's device."""
        return self._settings.part or RUNTIME.default_part()

    def on(self, part: str | Path | Specification) -> Function:
        """The function on another part: see Kernel.on. Raises LaunchError."""
        return Function(self.module, self.programs, replace(self._settings, part=PARTS.chosen(part)))

    @property
    def name(self) -> str:
        """The kernel's name."""
        return next(iter(self.programs.values())).name

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of its arguments."""
        return tuple(parameter.name for parameter in self.program.parameters)

    def options(self, **settings: Any) -> Function:
        """The function with other settings; see Kernel.options. Raises LaunchError."""
        check_options(self.name, settings)
        return Function(self.module, self.programs, replace(self._settings, **settings))

    def __getitem__(self, threads: Any) -> FunctionLauncher:
        """With its threads. Raises LaunchError."""
        check_together(self.name, self._settings)
        grid, block = shape_of_threads(self.name, threads, self.part)
        return FunctionLauncher(self, self._settings, grid, block)

    def __repr__(self) -> str:
        return f"<Function {self.name} for {', '.join(self.programs)}>"


class FunctionLauncher:
    """A function with its threads; called with its arguments."""

    def __init__(
        self, function: Function, settings: Settings, grid: tuple[int, ...], block: tuple[int, ...]
    ) -> None:
        self.function = function
        self.settings = settings
        self.grid = grid
        self.block = block
        self._plans: dict[Specification, Plan] = {}

    def __call__(self, /, *args: Any, **keywords: Any) -> Launch:
        """Launch, as a Launcher does. Raises LaunchError, TopsError, KernelFault."""
        try:
            stream = self.settings.stream or RUNTIME.local.stream
            plan, values, on_device = self.plan_for(args, keywords, stream)
            return launch_kernel(plan, values, stream, on_device, of_module=True)
        except UserError as error:
            raise error.with_traceback(None) from None

    def plan_for(
        self, args: tuple[Any, ...], keywords: dict[str, Any], stream: Stream | None
    ) -> tuple[Plan, tuple[Any, ...], bool]:
        """The plan for arguments, those in order, and whether arrays of a device are among them."""
        function = self.function
        function.module.check()
        names = function.parameters
        values = _ordered(function.name, names, args, keywords)
        context = stream.context if stream is not None else RUNTIME.current()
        part = self.settings.part
        archs = []
        if part is None:
            part = (stream or context.default_stream).part_now(function.name)
            archs = [] if context.device is None else [context.device.part]  # a slice has another name
        archs.append(part.name)
        plan = self._plans.get(part)
        if plan is None:
            found = [function.programs[arch] for arch in archs if arch in function.programs]
            if not found:
                fail(
                    Code.topsErrorNoBinaryForGpu,
                    f"{function.name} was compiled for {', '.join(function.programs)}, not for {archs[0]}",
                )
            try:
                plan = self._plans[part] = Plan(
                    found[0], part, self.settings, grid=self.grid, block=self.block,
                    positions=range(len(names)), names=names, launcher=self, pack=self._pack, holds=_always,
                )  # fmt: skip
            except LaunchError as reason:
                raise RUNTIME.beside_limits(reason, part) from None
        self._pack(values)
        return plan, values, any(type(value) is Array for value in values)

    def _pack(self, values: Sequence[Any]) -> list[Any]:
        out: list[Any] = []
        name = self.function.name
        for parameter, value in zip(self.function.program.parameters, values, strict=True):
            if parameter.kind != "pointer":
                try:
                    out.append(number_of(parameter.name, parameter.dtype, value))
                except LaunchError as reason:
                    raise LaunchError(f"{name}: {reason}") from None
                continue
            if not is_array(value):
                raise LaunchError(f"{name}: {parameter.name} is an array, got {type(value).__name__}")
            dtype, ndim = array_type(value, parameter.name, parameter.dtype)
            if dtype != parameter.dtype or ndim != parameter.ndim:
                raise LaunchError(
                    f"{name}: {parameter.name} is {parameter.dtype} with {parameter.ndim} axes, "
                    f"got {dtype} with {ndim}"
                )
            out.append(as_global(value, parameter.name, dtype))
        return out


def _always() -> bool:
    """Compiled programs don't change."""
    return True


def _ordered(
    name: str, names: tuple[str, ...], args: tuple[Any, ...], keywords: dict[str, Any]
) -> tuple[Any, ...]:
    """Arguments in the order of the parameters. Raises LaunchError."""
    values = dict(zip(names, args, strict=False))
    for key, value in keywords.items():
        if key not in names or key in values:
            raise LaunchError(f"{name}: {key} is {'given twice' if key in values else 'no argument'}")
        values[key] = value
    if len(args) > len(names) or len(values) < len(names):
        missing = [key for key in names if key not in values]
        what = f"needs an argument {missing[0]}" if missing else f"{len(args)} are given"
        raise LaunchError(f"{name}: takes {len(names)} arguments ({', '.join(names)}): {what}")
    return tuple(values[key] for key in names)


@api("topsModuleLoad")
def _load(path: str | Path) -> Module:
    if not is_path(path):
        fail(Code.topsErrorInvalidValue, f"a module is loaded from a path, not {shown(path)}")
    try:
        programs = load(path)
    except BinaryError as error:
        missing = not Path(path).is_file()
        code = Code.topsErrorFileNotFound if missing else Code.topsErrorInvalidImage
        raise TopsError(code, str(error).replace("\n", "\\n")) from None
    module = Module(str(path), {})
    by_name: dict[str, dict[str, Program]] = {}
    for program in programs:
        by_name.setdefault(program.name, {})[program.arch] = program
    module._functions.update({name: Function(module, some) for name, some in by_name.items()})
    return module


@api("topsRuntimeCompile")
def _compile(text: str, names: dict[str, Any]) -> Module:
    import tops_kit

    if not isinstance(text, str):
        fail(Code.topsErrorInvalidValue, f"source is a text, not {type(text).__name__}")
    name = f"<tops source {next(_numbers)}>"
    try:
        code: CodeType = compile(text, name, "exec")
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        where = f", line {line}" if line else ""
        raise TopsError(Code.topsErrorInvalidImage, f"{name}{where}: {error.args[0]}") from None
    # where compiling and tracebacks find the lines
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    scope: dict[str, Any] = {"__name__": name, "tops": tops_kit, **names}
    try:
        exec(code, scope)
    except UserError:
        raise
    except Exception as error:
        raise TopsError(Code.topsErrorInvalidImage, f"{name}: {type(error).__name__}: {error}") from error
    kernels = {kernel.name: kernel for kernel in scope.values() if isinstance(kernel, Kernel)}
    module = Module(name, dict(kernels))
    weakref.finalize(module, linecache.cache.pop, name, None)
    return module


@api("topsModuleGetFunction")
def _get_function(module: Module, name: str) -> Function | Kernel:
    return module._find(name)
