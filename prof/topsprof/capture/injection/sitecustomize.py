"""Loaded at the start of every Python that runs under `topsprof run`, by a PYTHONPATH entry and nothing else.

It makes `topstx` importable, attaches the recorder, and then hands over to the program's own sitecustomize.
It must not show: no failure of ours reaches the program, nothing of ours stays on sys.path, and no module is
loaded that is not needed. Every Python may meet it, so it is written to run on any version.
"""

# ruff: noqa: UP004, UP024, UP031, PTH100, PTH113, PTH118, PTH120, PTH123
# (pathlib costs more than all the rest here, and Pythons of every version read this file)
import os
import sys

OLDEST_PYTHON = (3, 11)


class TopstxFinder(object):
    """Finds `topstx`, and nothing else, in our installation. Asked last: the program's own `topstx` wins."""

    def __init__(self, root, extensions):
        self.root = root
        self.extensions = extensions

    def find_spec(self, name, path=None, target=None):
        """The import system asks for `name`; None for all but topstx and its recorder extension."""
        if name == "topstx":
            from importlib.machinery import PathFinder

            return PathFinder.find_spec(name, [self.root])
        if name == "topstx.recorder._crec" and path and next(iter(path)).startswith(self.root + os.sep):
            return self._extension(name)
        return None

    def _extension(self, name):
        """The extension for this Python's ABI from the cache; where it lacks, leave word for the next run."""
        import _imp
        from importlib.machinery import ExtensionFileLoader, ModuleSpec

        suffix = _imp.extension_suffixes()[0]
        file = os.path.join(self.extensions, "_crec" + suffix)
        if os.path.isfile(file):
            spec = ModuleSpec(name, ExtensionFileLoader(name, file), origin=file)
            spec.has_location = True
            return spec
        try:
            with open(os.path.join(self.extensions, "wanted" + suffix), "w") as wanted:
                wanted.write(sys.executable)
        except (OSError, ValueError):
            pass  # no cache: the Python twin of the recorder serves, which needs none
        return None


def _record():
    """Attach the recorder to the session that the environment names."""
    session = os.environ.get("TOPSTX_SESSION")
    if not session or os.environ.get("TOPSTX_DISABLE", "0") not in ("", "0"):
        return
    if sys.version_info < OLDEST_PYTHON:
        _note(session, "Python %d.%d is too old to be recorded (3.11 is the oldest)" % sys.version_info[:2])
        return
    root = os.environ.get("TOPSTX_INJECTED_ROOT")
    if root:
        sys.meta_path.append(TopstxFinder(root, os.environ.get("TOPSTX_EXTENSIONS", "")))
    import topstx  # it attaches to TOPSTX_SESSION

    if not hasattr(topstx, "annotate"):
        place = getattr(topstx, "__file__", "a folder")
        _note(session, "not recorded: its topstx is %s, not TopsTX: rename that" % place)


def _note(session, text):
    """Leave `text` in the session for `topsprof run` to show; the program's own stderr stays its own."""
    try:
        with open(os.path.join(session, "notes"), "a") as notes:
            notes.write("process %d (%s): %s\n" % (os.getpid(), sys.executable, text.replace("\n", " ")))
    except (OSError, IOError, ValueError):
        pass  # the session is gone: nobody is left to tell


def _start():
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if entry != here]
    try:
        _record()
    except Exception as error:  # whatever it is, the program must run as if we were not here
        _note(os.environ.get("TOPSTX_SESSION", ""), "%s: %s" % (type(error).__name__, error))
    # the next sitecustomize on the path takes our place, for the program as for Python's `site`
    ours = sys.modules.pop("sitecustomize")
    try:
        import sitecustomize  # noqa: F401
    except ImportError as error:
        if getattr(error, "name", "sitecustomize") != "sitecustomize":
            raise
        sys.modules["sitecustomize"] = ours


_start()
