"""Where processes of ours look for modules: Python's own come first, and the user's last.

What stands on PYTHONPATH, and the working folder under `python -m`, come before Python's own library: a
json.py of the user's would stand in for Python's in our commands, too. This module imports nothing that such
a file could stand in for.
"""

# ruff: noqa: PTH100, PTH118, PTH120 - nor pathlib, for the same reason
import os
import sys

TYPE_CHECKING = False  # `typing` and `collections` can be stood in for
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


def arranged(
    path: "Sequence[str]", roots: "Iterable[str]", environ: "Mapping[str, str]" = os.environ
) -> "list[str]":
    """`path` (a sys.path) in the order in which a process of ours looks: Python's library, the folders
    `roots` that hold our packages, what is installed, and then what PYTHONPATH names.

    Other folders that Python put before its library (the working folder, a script's) are left out. A path
    without Python's library only gets the roots in front.
    """
    begin = next((index for index, entry in enumerate(path) if _is_library(entry)), 0)
    found = path[begin:]
    named = {os.path.abspath(entry) for entry in python_path(environ)}
    order = [entry for entry in found if _is_library(entry)]
    order += roots
    order += [entry for entry in found if not _is_library(entry)]
    order += [entry for entry in path[:begin] if os.path.abspath(entry) in named]
    return list(dict.fromkeys(order))


def python_path(environ: "Mapping[str, str]" = os.environ) -> "list[str]":
    """The folders that PYTHONPATH names; not the working folder, which an empty entry stands for."""
    return [entry for entry in environ.get("PYTHONPATH", "").split(os.pathsep) if entry]


def _is_library(entry: str) -> bool:
    """Whether an entry of sys.path is one of those that hold Python's own library."""
    library = os.path.dirname(os.__file__)
    folder, name = os.path.split(os.path.normpath(entry))
    archive = f"python{sys.version_info[0]}{sys.version_info[1]}"
    return (
        os.path.join(folder, name) == os.path.normpath(library)
        or name in ("lib-dynload", "DLLs")
        or (name.startswith(archive) and name.endswith(".zip"))
    )


def stand_ins() -> "dict[str, str]":
    """Modules that were loaded in place of Python's own: name -> file. Something (a sitecustomize, a .pth
    file) loaded them before anything of ours ran.
    """
    places = (
        os.path.normpath(os.path.dirname(os.__file__)) + os.sep,
        *(f"{os.sep}{folder}{os.sep}" for folder in ("lib-dynload", "DLLs")),
        ".zip" + os.sep,
    )
    found: dict[str, str] = {}
    for name in sys.stdlib_module_names & sys.modules.keys():
        file = getattr(sys.modules[name], "__file__", None)
        if not isinstance(file, str) or name == "distutils":  # setuptools stands in for that one on purpose
            continue
        if not any(place in os.path.normpath(file) for place in places):
            found[name] = file
    return found
