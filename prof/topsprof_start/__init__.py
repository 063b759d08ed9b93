"""Where the command `topsprof` begins, before it imports anything.

A package of its own, because the folders of PYTHONPATH come before all others until `main` has put the path
in order: a script of the user's may well be called topsprof.py.
"""

# ruff: noqa: PTH100, PTH112, PTH118, PTH120 - pathlib could be the user's, too
import os
import sys


def main() -> int:
    """Run the command line of this process and return its exit code."""
    roots, path = _roots(), sys.path[:]
    sys.path[:0] = [os.path.dirname(os.__file__), *roots]  # enough to get at tops_kit
    from tops_kit import own_path

    sys.path[:] = own_path.arranged(path, roots)
    try:
        from topsprof import cli

        return cli.main()
    except (ImportError, AttributeError, NameError, SyntaxError) as error:
        found = own_path.stand_ins()
        if not found:
            raise
        name, file = min(found.items())
        print(
            f"topsprof: '{file}' stands in for Python's own module {name} ({type(error).__name__}: {error}): "
            "rename it, or take its folder off PYTHONPATH",
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
