"""Libraries that can't be loaded are one line; faults of ours are shown as they are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from topsprof import cli as dispatcher
from topsprof import faults

from tops_kit import libraries

BROKEN: dict[str, str | bytes] = {
    "missing": "raise ModuleNotFoundError(\"No module named 'pyarrow'\", name='pyarrow')",
    "extension": "raise ImportError('libarrow.so: failed to map segment from shared object')",
    "dependency": "import no_such_module_anywhere",
    "syntax": "def (:",
    "other version": "raise ValueError('numpy.dtype size changed')",
    "memory": "raise MemoryError",
    "damaged": b"\0\0",
    "deeper": "try:\n    import numpy.nothing\nexcept ImportError as e:\n    raise ImportError('see') from e",
    "not it": "x = 1",
}


def _begin(folder: Path, module: str) -> list[str]:
    """A Python that finds what is in `folder` before anything else, and calls the `main` of `module`."""
    code = f"import sys; sys.path.insert(0, {str(folder)!r}); from {module} import main; sys.exit(main())"
    return [sys.executable, "-c", code]


@pytest.mark.parametrize("what", BROKEN)
def test_a_library_that_cannot_be_loaded_is_one_line(cli: Any, tmp_path: Path, what: str) -> None:
    (tmp_path / "broken").mkdir()
    text = BROKEN[what]
    place = tmp_path / "broken" / ("pyarrow.pyc" if isinstance(text, bytes) else "pyarrow.py")
    place.write_bytes(text if isinstance(text, bytes) else text.encode())
    cli("run", "-o", "a", "--", "true")
    cli.begin = _begin(tmp_path / "broken", "topsprof.cli")
    for words in (["info", "a.topsprof"], ["stats", "a.topsprof"], ["recover", "a.topsprof"]):
        done = cli(*words)
        assert done.returncode == 2, done.stderr
        (line,) = done.stderr.splitlines()
        assert line.startswith("topsprof: ") and "Traceback" not in line
        assert ("numpy" if what == "deeper" else "pyarrow") in line
        assert "pip install" in line or "rename it" in line or "memory" in line
    collector = subprocess.run(
        [*_begin(tmp_path / "broken", "tops_kit.collect.__main__"), str(tmp_path / "x.topsprof")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (collector.returncode, collector.stderr) == (2, "")
    assert len(collector.stdout.splitlines()) == 1
    assert not (tmp_path / "x.topsprof").exists()


LIMITED = 'ulimit -v 200000; exec "$@"'


def _limited(cli: Any, *words: str) -> subprocess.CompletedProcess[str]:
    begin, cli.begin = cli.begin, ["sh", "-c", LIMITED, "sh", *cli.begin]
    try:
        done: subprocess.CompletedProcess[str] = cli(*words)
    finally:
        cli.begin = begin
    return done


@pytest.mark.parametrize("words", [("info", "a.topsprof"), ("run", "-o", "b", "--", "true")])
def test_little_memory_is_one_line(cli: Any, words: tuple[str, ...]) -> None:
    cli("run", "-o", "a", "--", "true")
    done = _limited(cli, *words)
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    assert "can't be loaded" in line and "this process may have 195 MB" in line and "ulimit" in line
    assert not (cli.cwd / "b.topsprof").exists()


def test_little_memory_is_broken_for_the_doctor(cli: Any) -> None:
    done = _limited(cli, "doctor", "--no-trial")
    assert done.returncode == 1
    assert done.stdout.count("can't be loaded") >= 4 and "open files" in done.stdout
    assert done.stderr == ""


@pytest.mark.smoke
def test_enough_memory_tries_nothing_out() -> None:
    libraries.watch()
    assert not any(isinstance(finder, libraries._Trial) for finder in sys.meta_path)


@pytest.mark.smoke
def test_a_fault_of_ours_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    class Faulty:
        @staticmethod
        def add_arguments(_: object) -> None:
            from tops_kit import no_such_thing_of_ours  # type: ignore[attr-defined]  # noqa: F401

    monkeypatch.setattr(dispatcher, "load_command", lambda verb: Faulty)
    with pytest.raises(ImportError, match="no_such_thing_of_ours"):
        dispatcher.main(["info", "x"])


@pytest.mark.smoke
@pytest.mark.parametrize(
    "code",
    [
        "from pyarrow import no_such_name",  # our mistake: the library is sound
        "import pyarrow; pyarrow.no_such_name",
        "import pyarrow; pyarrow.array(1)",
        "import tops_kit.session.no_such_module",
        "raise ValueError('x')",
    ],
)
def test_what_is_no_librarys_fault(code: str) -> None:
    with pytest.raises(Exception) as caught:
        exec(compile(code, "<ours>", "exec"), {"__name__": "topsprof.ours"})
    assert faults.explained(caught.value) is None


@pytest.mark.smoke
def test_a_folder_that_was_left_is_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    left = ModuleType("duckdb")
    left.__path__ = ["/somewhere/duckdb"]
    monkeypatch.setitem(sys.modules, "duckdb", left)
    with pytest.raises(AttributeError) as caught:
        left.connect()  # type: ignore[operator]
    line = faults.explained(caught.value)
    assert line is not None and "'/somewhere/duckdb' stands in for the library duckdb" in line


@pytest.mark.smoke
def test_no_memory_and_no_threads_are_one_line() -> None:
    for error in (MemoryError(), RuntimeError("can't start new thread"), OSError(28, "No space", "x")):
        line = faults.explained(error)
        assert line is not None and "\n" not in line
    assert faults.explained(RuntimeError("x")) is None
