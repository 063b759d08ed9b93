"""Where the commands begin (`topsprof`, `topscc`, `efsmi`), before they import anything.

A package of its own, because the folders of PYTHONPATH come before all others until the path is in order: a
script of the user's may well be called topsprof.py.
"""

# ruff: noqa: PTH100, PTH112, PTH118, PTH120 - pathlib could be the user's, too
import os
import sys


def main() -> int:
    """Run this process's command line as `topsprof`'s and return its exit code."""
    return _run("topsprof", "topsprof.cli")


def topscc() -> int:
    """The same as `topscc`'s."""
    return _run("topscc", "tops_kit.runtime.topscc_command")


def efsmi() -> int:
    """The same as `efsmi`'s."""
    return _run("efsmi", "tops_kit.efsmi.command")


def _run(command: str, module: str) -> int:
    roots, path = _roots(), sys.path[:]
    sys.path[:0] = [os.path.dirname(os.__file__), *roots]  # enough to get at tops_kit
    from tops_kit import own_path

    sys.path[:] = own_path.arranged(path, roots)
    try:
        from importlib import import_module

        code: int = import_module(module).main()
        return code
    except (ImportError, AttributeError, NameError, SyntaxError) as error:
        found = own_path.stand_ins()
        if not found:
            raise
        name, file = min(found.items())
        print(
            f"{command}: '{file}' stands in for Python's own module {name} "
            f"({type(error).__name__}: {error}): rename it, or take its folder off PYTHONPATH",
            file=sys.stderr,
        )
        return 2


def _roots() -> list[str]:
    """The folders of our packages: the one of this package, where it is installed; those of a checkout."""
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    above = os.path.dirname(here)
    if os.path.isdir(os.path.join(here, "tops_kit")):
        return [here]
    return [above, os.path.join(above, "tx"), here]
