"""The kernels of a user's Python file, for commands that are given its path."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType

from tops_kit.errors import UserError
from tops_kit.isa.program import SourceFile
from tops_kit.runtime.kernel import Kernel
from tops_kit.topscc.diagnostics import KernelError, Where


class FileError(UserError):
    """A file of kernels that is missing, can't be imported, or has no such kernel."""


def split_name(text: str) -> tuple[Path, str | None]:
    """`k.py:softmax` as path and kernel; None where no kernel is named."""
    path, colon, name = text.rpartition(":")
    if colon and name.isidentifier() and not Path(text).exists():
        return Path(path), name
    return Path(text), None


def kernels_of(path: Path) -> dict[str, Kernel]:
    """The kernels of a file by name, in the order of the file; importing runs it, as Python does.

    Raises FileError, KernelError (it is no Python).
    """
    module = _imported(path)
    found = {kernel.name: kernel for kernel in vars(module).values() if isinstance(kernel, Kernel)}
    if not found:
        raise FileError(f"{path}: no kernels: they are functions under @tops.kernel")
    return dict(sorted(found.items(), key=lambda item: item[1].function.__code__.co_firstlineno))


def kernel_of(path: Path, name: str | None) -> Kernel:
    """One kernel of a file; its only one when none is named. Raises FileError."""
    kernels = kernels_of(path)
    if name is None:
        if len(kernels) > 1:
            first = next(iter(kernels))
            raise FileError(f"{path} has kernels {', '.join(kernels)}: name one: {path}:{first}")
        return next(iter(kernels.values()))
    if name not in kernels:
        raise FileError(f"{path} has no kernel {name}: there are {', '.join(kernels)}")
    return kernels[name]


def _imported(path: Path) -> ModuleType:
    if not path.is_file():
        raise FileError(f"{path}: no such file" if not path.exists() else f"{path}: not a file")
    # a name of its own, so that a file called json.py stands in for nobody
    name = f"topscc_file_{path.stem}"
    specification = importlib.util.spec_from_file_location(name, path)
    if specification is None or specification.loader is None:
        raise FileError(f"{path}: not a Python file: its name ends in .py")
    module = importlib.util.module_from_spec(specification)
    folder = str(path.parent.resolve())
    # what stands beside the file can be imported by it, as when Python runs it
    sys.path.insert(0, folder)
    sys.modules[name] = module
    try:
        specification.loader.exec_module(module)
    except UserError:
        raise
    except SyntaxError as error:
        if error.lineno and error.offset and error.text:
            raise _refused(error, path) from None
        line = f":{error.lineno}" if error.lineno else ""
        raise FileError(f"{error.filename or path}{line}: {error.msg}") from None
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        raise FileError(f"{_place(error, path)}: {type(error).__name__}: {_one_line(error)}") from None
    finally:
        sys.path.remove(folder)
        sys.path.append(folder)
    return module


def _refused(error: SyntaxError, path: Path) -> KernelError:
    """What is no Python, shown as what is no kernel: with the line and the place in it."""
    line, column = error.lineno or 1, max(0, (error.offset or 1) - 1)
    end = (error.end_offset or 0) - 1
    source = SourceFile(error.filename or str(path), error.text or "", line)
    end_line = error.end_lineno or line
    if end_line == line and end <= column:
        end = column + 1
    return KernelError(error.msg, Where(source, line, column, end_line, end))


def _place(error: BaseException, path: Path) -> str:
    """Where in the user's file an error arose."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename) == path.absolute()]
    return f"{path}:{own[-1].lineno}" if own else str(path)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or "no message"
