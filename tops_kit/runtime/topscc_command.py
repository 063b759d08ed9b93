"""The `topscc` command: compiles the kernels of a file, shows what became of them, and tries them.

topscc k.py --emit asm --arg COLS=4096
topscc k.py -arch s60 -o k.topsbin --arg COLS=4096
topscc run k.py:softmax --arg rows=4096 -arch s60,i20
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tops_kit.engine.fault import KernelFault
from tops_kit.errors import UserError
from tops_kit.gcu import Specification, part_names
from tops_kit.isa.binary import SUFFIX, load, save
from tops_kit.isa.disassemble import plain, text
from tops_kit.isa.program import Program
from tops_kit.runtime.kernel import Kernel
from tops_kit.runtime.kernel_files import kernel_of, kernels_of, split_name
from tops_kit.runtime.kernel_options import KernelOptions, read_options
from tops_kit.runtime.parts import DEFAULT, PARTS
from tops_kit.topscc.diagnostics import KernelError
from tops_kit.topscc.tree_text import tree_text

if TYPE_CHECKING:
    from tops_kit.runtime.saved_launch import SavedLaunch
    from tops_kit.runtime.trial import Trial

EXIT_DIFFERENT = 1
EXIT_USAGE = 2
EXIT_BROKEN_PIPE = 141
EXIT_INTERRUPTED = 130

_COMPILE_HELP = """\
A FILE is a Python file with functions under @tops.kernel, or a .topsbin that topscc wrote.
FILE:KERNEL names one kernel. `topscc run --help` tells how to try one.

examples:
  topscc k.py --emit asm --arg COLS=4096       the program, source lines beside instructions
  topscc k.py:softmax --emit tree --arg COLS=4 what the compiler read
  topscc k.py -o k.topsbin --arg COLS=4096     a compiled file
  topscc k.topsbin --emit json                 what it holds
"""
_RUN_HELP = """\
Arguments come from the kernel's example (a function under @KERNEL.example in the file) and --arg; arrays
that have neither are random numbers of the shape that --arg gives. What the kernel stores is compared with
its reference (@KERNEL.reference); exit code 1 when it differs. A FILE that topscc compiled (.topsbin) has no
example: all arguments are given. A launch that `topsprof run --save-launch` saved (SESSION:LAUNCH) has its
arguments; what it leaves is compared with what it left then.

examples:
  topscc run k.py:softmax --arg rows=4096 -arch s60,i20
  topscc run k.py:add --arg x=10000 --arg y=10000 --arg z=10000 --arg n=10000 --threads 12
  topscc run k.topsbin:softmax --arg x=64x4096 --arg y=64x4096 --arg rows=64
  topscc run report1.topsprof:softmax-1 --sanitize
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line (default: the process's) and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if sys.stdout is None:  # closed: what nobody reads goes nowhere
        with Path(os.devnull).open("w", encoding="utf-8") as nowhere, contextlib.redirect_stdout(nowhere):
            return main(words)
    if isinstance(sys.stdout, io.TextIOWrapper):  # what the terminal can't show is written as \\xe9
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = _run(words[1:]) if words[:1] == ["run"] else _compile(words)
        sys.stdout.flush()
        return code
    except KernelError as error:
        # a diagnostic of several lines that begins with its place, as compilers' do
        print(error, file=sys.stderr)
        return error.exit_code
    except UserError as error:
        print(f"topscc: {error}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE
    except OSError as error:  # files of ours say it themselves
        print(f"topscc: the output can't be written: {error.strerror or error}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is left of it, at the end of the process
        return EXIT_USAGE
    except MemoryError:
        print("topscc: this machine has not enough memory for that", file=sys.stderr)
        return EXIT_USAGE
    except KeyboardInterrupt:
        print("topscc: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except SystemExit as leaving:  # argparse: help and errors
        return leaving.code if isinstance(leaving.code, int) else EXIT_USAGE


def _parser(name: str, description: str, epilog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=name,
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "-arch", "--arch", default=None, metavar="PART[,PART]",
        help=f"parts: {', '.join(part_names())}, or a .toml file (default: {DEFAULT})",
    )  # fmt: skip
    parser.add_argument(
        "--arg", action="append", default=[], metavar="NAME=VALUE",
        help="a parameter's value; an array's shape: x=4096x4096, x=f16:64",
    )  # fmt: skip
    return parser


def _parts(arch: str | None) -> list[Specification]:
    names = (DEFAULT if arch is None else arch).split(",")
    return [PARTS.get(name.strip()) for name in names]


# compiling


def _compile(words: list[str]) -> int:
    parser = _parser("topscc", "Compile the kernels of a file for the GCU.", _COMPILE_HELP)
    parser.add_argument("file", metavar="FILE[:KERNEL]")
    parser.add_argument("--kernel", action="append", default=[], metavar="NAME", help="only this kernel")
    parser.add_argument("--emit", choices=("asm", "tree", "json"), help="print the program, or the tree")
    parser.add_argument("-o", dest="output", metavar="OUT", help=f"write the programs to a {SUFFIX} file")
    parser.add_argument("--version", action="version", version=f"topscc {_version()}")
    args = parser.parse_args(words)
    path, name = split_name(args.file)
    names = [*args.kernel, *([name] if name else [])]
    if path.suffix == SUFFIX:
        if args.arg or args.arch or args.output or args.emit == "tree":
            raise UserError(f"{path} is compiled: only --kernel and --emit asm or json are possible")
        programs = [p for p in load(path) if not names or p.name in names]
        if not programs:
            raise UserError(f"{path} has no kernel {', '.join(names)}")
    else:
        kernels = _chosen(path, names)
        given = read_options(args.arg)
        parts = _parts(args.arch)
        if args.emit == "tree":
            for kernel, options in _with_options(kernels, given):
                for part in parts:
                    sys.stdout.write(tree_text(kernel.on(part).tree(**options.types())) + "\n")
            return 0
        programs = [
            kernel.on(part).compile(**options.types())
            for kernel, options in _with_options(kernels, given)
            for part in parts
        ]
    if args.output is not None:
        if os.path.realpath(args.output) == os.path.realpath(path):
            raise UserError(f"-o {args.output} would overwrite the kernel's source: another name")
        save(programs, args.output)
        print(f"{args.output}: {', '.join(f'{p.name} for {p.arch}' for p in programs)}", file=sys.stderr)
    _emit(args.emit or ("summary" if args.output is None else None), programs)
    return 0


def _chosen(path: Path, names: list[str]) -> list[Kernel]:
    return [kernel_of(path, name) for name in names] if names else list(kernels_of(path).values())


def _with_options(kernels: list[Kernel], given: dict[str, str]) -> list[tuple[Kernel, KernelOptions]]:
    """Each kernel with those of the arguments that it knows; one that none knows is an error."""
    out = []
    used: set[str] = set()
    for kernel in kernels:
        known = {*(p.name for p in kernel.parameters), *kernel.examples.options()}
        used |= known & set(given)
        out.append((kernel, KernelOptions(kernel, {n: v for n, v in given.items() if n in known})))
    for name in given:
        if name not in used:
            raise UserError(f"--arg {name}: no parameter of {', '.join(kernel.name for kernel in kernels)}")
    return out


def _emit(what: str | None, programs: list[Program]) -> None:
    if what == "json":
        json.dump({"version": 1, "programs": [plain(program) for program in programs]}, sys.stdout, indent=1)
        sys.stdout.write("\n")
    elif what == "asm":
        sys.stdout.write("\n".join(text(program) for program in programs))
    elif what == "summary":
        for program in programs:
            print(
                f"{program.name} for {program.arch}: {len(program.code)} instructions, "
                f"L1 {program.l1_bytes:,} B a thread, L2 {program.l2_bytes:,} B a block"
            )


# trying


def _run(words: list[str]) -> int:
    from tops_kit.runtime.compiled_files import CompiledKernel, compiled_kernel
    from tops_kit.runtime.saved_launch import find_launch
    from tops_kit.runtime.trial import try_kernel

    parser = _parser("topscc run", "Launch a kernel, check it, and tell what it took.", _RUN_HELP)
    parser.add_argument("file", metavar="FILE[:KERNEL]", help="or SESSION:LAUNCH, a launch that was saved")
    parser.add_argument("--threads", type=_count, metavar="N", help="threads (default: all SIPs of the part)")
    parser.add_argument("--grid", type=_extents, metavar="N[xN]", help="blocks")
    parser.add_argument("--block", type=_extents, metavar="N[xN]", help="threads of a block")
    parser.add_argument("--seed", type=_whole, default=0, help="of the random numbers (default: 0)")
    parser.add_argument(
        "--lines", type=_whole, default=5, metavar="N", help="costliest lines shown (default: 5)"
    )
    parser.add_argument("--sanitize", action="store_true", help="run under the sanitizer first")
    parser.add_argument("--pipeline", action="store_true", help="show what one SIP's units did when")
    parser.add_argument("--json", action="store_true", help="everything as JSON")
    args = parser.parse_args(words)
    saved = find_launch(args.file)
    if saved is not None:
        return _run_saved(saved, args)
    path, name = split_name(args.file)
    kernel: Kernel | CompiledKernel
    if path.suffix == SUFFIX:
        kernel = compiled_kernel(path, name)
        parts = kernel.parts() if args.arch is None else _parts(args.arch)
    else:
        kernel, parts = kernel_of(path, name), _parts(args.arch)
    arguments, shape = KernelOptions(kernel, read_options(args.arg)).arguments(args.seed)
    if args.threads or args.grid or args.block:
        if args.threads and (args.grid or args.block):
            raise UserError("--threads goes without --grid and --block")
        wanted = {"threads": args.threads, "grid": args.grid, "block": args.block}
        shape = {key: value for key, value in wanted.items() if value}
    trials: list[Trial] = []
    failed: tuple[KernelFault, Specification] | None = None
    for part in parts:
        try:
            trials.append(
                try_kernel(
                    kernel, part, arguments, shape,
                    sanitize=args.sanitize, pipeline=args.pipeline, quiet=args.json,
                )
            )  # fmt: skip
        except KernelFault as fault:
            failed = fault, part
            break
    return _tell(trials, failed, args)


def _run_saved(saved: SavedLaunch, args: argparse.Namespace) -> int:
    """Try a launch that was saved."""
    from tops_kit.runtime.trial import try_saved

    if args.arg or args.arch or args.threads or args.grid or args.block or args.seed:
        raise UserError(
            f"{saved.name} is a saved launch, with its own arguments, threads and part: leave out --arg, "
            "--threads, --grid, --block, --seed and -arch"
        )
    try:
        trial = try_saved(saved, sanitize=args.sanitize, pipeline=args.pipeline, quiet=args.json)
    except KernelFault as fault:
        return _tell([], (fault, saved.part), args)
    return _tell([trial], None, args)


def _tell(
    trials: Sequence[Trial], failed: tuple[KernelFault, Specification] | None, args: argparse.Namespace
) -> int:
    from tops_kit.runtime.trial import fault_json

    if args.json:
        told = [trial.to_json() for trial in trials]
        json.dump([*told, *([fault_json(*failed)] if failed else [])], sys.stdout, indent=1)
        sys.stdout.write("\n")
    elif trials:
        print("\n\n".join(trial.text(lines=args.lines, pipeline=args.pipeline) for trial in trials))
    if failed is not None:
        raise failed[0]
    return 0 if all(trial.good for trial in trials) else EXIT_DIFFERENT


def _count(text_: str) -> int:
    if not text_.isdecimal() or not 1 <= int(text_) < 1 << 31:
        raise argparse.ArgumentTypeError(f"{text_}: write a positive number")
    return int(text_)


def _whole(text_: str) -> int:
    if not text_.isdecimal():
        raise argparse.ArgumentTypeError(f"{text_}: write a number, at least 0")
    return int(text_)


def _extents(text_: str) -> tuple[int, ...]:
    try:
        out = tuple(int(extent) for extent in text_.split("x"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text_}: write a number, or 2x3") from None
    if min(out) < 1 or len(out) > 3:
        raise argparse.ArgumentTypeError(f"{text_}: 1 to 3 positive numbers")
    return out


def _version() -> Any:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("tops-kit")
    except PackageNotFoundError:
        return "(not installed)"


if __name__ == "__main__":
    sys.exit(main())
