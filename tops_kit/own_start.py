"""Begins a Python process of ours: `python -P own_start.py MODULE ARGUMENTS` (own_process says why so).

Not a module to import: it runs before sys.path is in order.
"""

# ruff: noqa: PTH100, PTH120 - nothing but what Python has loaded by itself yet
import os
import sys

_BY_NAME = "TOPSKIT_OWN_PATH"
_USERS = "TOPSKIT_USERS_PYTHONPATH"


def _begin(module: str) -> None:
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    roots = [here, *filter(None, os.environ.pop(_BY_NAME, "").split(os.pathsep))]
    users = os.environ.pop(_USERS, None)
    if users is not None:
        os.environ["PYTHONPATH"] = users
    path = sys.path[:]
    sys.path[:0] = [os.path.dirname(os.__file__), here]  # enough to get at tops_kit
    from tops_kit import own_path

    # Python was started without the user's PYTHONPATH; what is found nowhere else may still be there.
    sys.path[:] = [*own_path.arranged(path, roots), *own_path.python_path()]
    import runpy

    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    del sys.argv[0]
    _begin(sys.argv[0])
