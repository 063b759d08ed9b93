"""How a program becomes a recorded one: by its environment alone, on any Python, without showing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from topsprof.capture import extensions, inject, record
from topsprof.capture.program import Program
from topsprof.capture.unrecorded import Reason

REPORT = """
import sys, topstx
topstx.mark("here")
print(topstx.backend(), topstx.__file__)
"""


def _other_pythons() -> list[str]:
    """Pythons of other supported versions, on PATH or beside the one that runs the tests."""
    found = []
    for minor in (11, 12, 13):
        if minor == sys.version_info.minor:
            continue
        installed = Path(os.path.realpath(sys.executable)).parent.parent.parent.glob(
            f"3.{minor}.*/bin/python3"
        )
        candidates = [*map(str, installed), shutil.which(f"python3.{minor}")]
        for candidate in filter(None, candidates):
            if subprocess.run([candidate, "-c", ""], capture_output=True, check=False).returncode == 0:
                found.append(candidate)
                break
    return found


@pytest.fixture(scope="module", params=(0, 1))
def other_python(request: pytest.FixtureRequest) -> str:
    found = _other_pythons()
    if request.param >= len(found):
        pytest.skip("no Python of another supported version here")
    return found[request.param]


@pytest.fixture
def bare_topstx(tmp_path: Path, cli: Any) -> dict[str, str]:
    """Makes `cli` an installation that has no extension but for our own Python; the environment of an empty
    cache.
    """
    own = "_crec" + extensions.own_suffix()

    def skipped(folder: str, names: list[str]) -> list[str]:
        return [name for name in names if name == "__pycache__" or (name.endswith(".so") and name != own)]

    shutil.copytree(extensions.topstx_root() / "topstx", tmp_path / "bare" / "topstx", ignore=skipped)
    cache = tmp_path / "fresh"
    cache.mkdir()
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path / 'bare')!r}); from topsprof.cli import main; main()"
    )
    cli.begin = [sys.executable, "-c", code]
    return {"XDG_CACHE_HOME": str(cache)}


@pytest.mark.smoke
def test_the_environment(tmp_path: Path) -> None:
    environ = inject.environment(tmp_path, {"PYTHONPATH": "/a:/b", "HOME": str(tmp_path)})
    assert environ["PYTHONPATH"] == f"{inject.INJECTION}:/a:/b"
    assert environ["TOPSTX_SESSION"] == str(tmp_path)
    again = inject.environment(tmp_path, environ)
    assert again["PYTHONPATH"] == environ["PYTHONPATH"]
    assert inject.environment(tmp_path, {"HOME": "/"})["PYTHONPATH"] == str(inject.INJECTION)
    mine = inject.environment(tmp_path, {"HOME": "/", "NVTX_INJECTION64_PATH": "/mine.so"})
    assert mine["NVTX_INJECTION64_PATH"] == "/mine.so"


def test_the_programs_own_sitecustomize_runs(cli: Any, here: Any) -> None:
    (cli.cwd / "site").mkdir()
    (cli.cwd / "site" / "sitecustomize.py").write_text(
        "MINE = 1\nimport builtins\nbuiltins.mine_ran = True\n"
    )
    code = "import sitecustomize; print(sitecustomize.MINE, mine_ran)"
    assert here().run(sys.executable, "-c", code, env={"PYTHONPATH": str(cli.cwd / "site")}) == "1 True\n"


def test_a_failing_sitecustomize_fails_as_ever(cli: Any, here: Any) -> None:
    (cli.cwd / "site").mkdir()
    (cli.cwd / "site" / "sitecustomize.py").write_text("import no_such_module_at_all\n")
    environ = {"PYTHONPATH": str(cli.cwd / "site")}
    direct = subprocess.run(
        [sys.executable, "-c", "print('ran')"],
        env=cli.environ | environ,
        capture_output=True,
        text=True,
        check=True,
    )
    recording = here()
    output = recording.run(sys.executable, "-c", "import topstx; topstx.mark('x'); print('ran')", env=environ)
    assert output.startswith(direct.stdout)
    assert "no_such_module_at_all" in direct.stderr and "no_such_module_at_all" in output
    assert recording.names() == ["x"]


def test_nothing_of_ours_is_on_the_programs_path(cli: Any, here: Any) -> None:
    code = "import sys; print(*sys.path, sep='\\n')"
    direct = subprocess.run(
        [sys.executable, "-c", code], env=cli.environ, cwd=cli.cwd, capture_output=True, text=True, check=True
    )
    assert here().run(sys.executable, "-c", code) == direct.stdout


def test_children_of_children_are_recorded(cli: Any, here: Any) -> None:
    child = "import topstx; topstx.mark('child')"
    program = cli.script(
        "import subprocess, sys, os, topstx\n"
        "topstx.mark('parent')\n"
        f"subprocess.run(['sh', '-c', '\"$0\" -c \"$1\"; exit 0', sys.executable, {child!r}], check=True)\n"
        "pid = os.fork()\n"
        "if pid == 0:\n    topstx.mark('fork'); os._exit(7)\n"
        "os.waitpid(pid, 0)\n"
    )
    recording = here()
    recording.run(sys.executable, program)
    assert recording.names() == ["child", "fork", "parent"]
    rows = cli.table("a.topsprof", "process")
    assert len(rows) == 3


def test_a_python_of_another_version(cli: Any, here: Any, other_python: str) -> None:
    program = cli.script(REPORT + "try:\n    import tops_kit; print('leaked')\nexcept ImportError: pass\n")
    recording = here()
    backend, place = recording.run(other_python, program).split()
    assert place.startswith(str(extensions.topstx_root()))
    assert backend in ("c", "twin")
    assert recording.names() == ["here"]


def test_another_version_without_a_compiler_uses_the_twin(
    cli: Any, other_python: str, bare_topstx: dict[str, str]
) -> None:
    environ = bare_topstx | {"CC": "/bin/false"}
    done = cli("run", "-o", "a", "--", other_python, cli.script(REPORT), env=environ)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[0] == "twin"
    assert "slower Python recorder" in done.stderr
    assert cli.names("a.topsprof") == ["here"]


def test_a_deeper_python_is_served_by_the_next_run(cli: Any, bare_topstx: dict[str, str]) -> None:
    found = _other_pythons()
    if not found:
        pytest.skip("no Python of another supported version here")
    other_python = found[0]
    compiler = os.environ.get("CC") or "gcc"
    if os.environ.get("TOPSKIT_PURE", "0") != "0" or not shutil.which(compiler) or compiler == "/bin/false":
        pytest.skip("needs a C compiler")
    command = ["sh", "-c", f"'{other_python}' '{cli.script(REPORT)}'; true"]
    first = cli("run", "-o", "a", "--", *command, env=bare_topstx)
    second = cli("run", "-o", "b", "--", *command, env=bare_topstx)
    assert first.stdout.split()[0] == "twin"
    assert "built the recorder" in second.stderr
    assert second.stdout.split()[0] == "c"
    assert cli.names("a.topsprof") == cli.names("b.topsprof") == ["here"]


def test_what_was_not_recorded_is_in_the_ledger(here: Any) -> None:
    active = here()
    active.run(sys.executable, "-c", "import topstx; topstx.mark('x')")
    assert active.names() == ["x"]
    active.recording.unrecorded = {7: Reason("isolated_python", "python -I")}
    said: list[str] = []
    outcome = record.conclude(Program("sh", ("sh",)), active.recording, 0, 1, said.append)
    assert not outcome.complete
    assert "process:7: unsupported 1 (isolated python): python -I" in said[0]


def test_a_topstx_of_the_programs_own_is_used(cli: Any, here: Any) -> None:
    package = cli.cwd / "lib" / "topstx"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("MINE = True\n")
    code = "import topstx; print(topstx.MINE)"
    shell = f"PYTHONPATH=\"$PYTHONPATH:lib\" '{sys.executable}' -c '{code}'"
    assert here().run("sh", "-c", shell) == "True\n"


def test_old_pythons_run_unharmed(cli: Any, here: Any) -> None:
    found = [shutil.which(f"python{version}") for version in ("2.7", "3.6", "3.8", "3.9", "3.10")]
    beside = Path(os.path.realpath(sys.executable)).parent.parent.parent
    found += [
        str(path) for version in ("2.7", "3.8", "3.10") for path in beside.glob(f"{version}.*/bin/python")
    ]
    usable = (
        python
        for python in filter(None, found)
        if subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0
    )
    if not (python := next(usable, None)):
        pytest.skip("no old Python here")
    done = cli("run", "--", python, "-c", "print('ran')")
    assert (done.returncode, done.stdout) == (0, "ran\n")
    assert "too old to be recorded" in done.stderr
    if another := next(usable, None):
        assert here().run(another, "-c", "print('ran')") == "ran\n"


def test_a_session_that_is_gone_disturbs_nobody(cli: Any) -> None:
    environ = inject.environment(cli.cwd / "gone.topsprof", cli.environ)
    done = subprocess.run(
        [sys.executable, "-c", "import topstx; topstx.mark('x'); print('ran')"],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "ran\n", "")
