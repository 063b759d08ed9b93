"""What lies on PYTHONPATH or in the working folder is the recorded program's, and breaks nothing of ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import topsprof_start

import tops_kit
from tops_kit import own_path, own_process

NAMES = ("argparse", "json", "subprocess", "socket", "tempfile", "numpy", "pyarrow", "tops_kit")
AT_START = ("re", "typing", "pathlib")  # an editable install loads them as Python starts, before us
COMMAND = "import sys; sys.path.pop(0); from topsprof_start import main; sys.exit(main())"
TOPSCC = COMMAND.replace("main", "topscc")
EFSMI = COMMAND.replace("main", "efsmi")
"""What the installed script does; `-c` puts the working folder on the path, a script does not."""
SAYS = "import json, os, sys; print(json.FOREIGN, os.environ['PYTHONPATH'].split(os.pathsep)[1:])"


def _shadows(folder: Path, *names: str) -> None:
    for name in names:
        (folder / f"{name}.py").write_text("raise SystemExit('the user\\'s own')\n")


@pytest.mark.parametrize("how", ["PYTHONPATH", "folder"])
def test_broken_modules_of_the_users_break_no_command(cli: Any, tmp_path: Path, how: str) -> None:
    place = tmp_path / "lib" if how == "PYTHONPATH" else cli.cwd
    place.mkdir(exist_ok=True)
    cli("run", "-o", "a", "--", "true")
    _shadows(place, *NAMES)
    if how == "PYTHONPATH":
        _shadows(place, "topsprof", "topstx")
        cli.environ["PYTHONPATH"] = str(place)
        cli.begin = [sys.executable, "-c", COMMAND]
    else:
        _shadows(place, *AT_START)
    for words in (["sessions"], ["info", "a.topsprof"], ["run", "-o", "b", "--", "true"], ["--help"]):
        done = cli(*words)
        assert done.returncode == 0, done.stderr
        assert "own" not in done.stderr
    assert "complete" in cli("info", "b.topsprof").stdout


KERNEL = """
import json

import numpy as np

import helper
import tops_kit as tops


@tops.kernel
def double(x: tops.ptr(tops.f32, 1)):
    tops.store(x[0:4], tops.load(x[0:4]) * helper.FACTOR)


@double.example
def _(rng):
    assert json.dumps([]) == "[]"
    return {"x": np.ones(4, np.float32)}
"""


@pytest.mark.parametrize("how", ["PYTHONPATH", "folder"])
def test_they_break_no_compiler(cli: Any, tmp_path: Path, how: str) -> None:
    place = tmp_path / "lib" if how == "PYTHONPATH" else cli.cwd
    place.mkdir(exist_ok=True)
    _shadows(place, *NAMES, "topsprof", "random", "ast", "dataclasses")
    cli.environ["PYTHONPATH"] = str(place) if how == "PYTHONPATH" else ""
    kernels = tmp_path / "kernels"
    kernels.mkdir()
    (kernels / "k.py").write_text(KERNEL)
    (place / "helper.py").write_text("FACTOR = 2.0\n")  # it is found there: what is no one else's name
    cli.environ["PYTHONPATH"] += os.pathsep + str(place)
    cli.begin = [sys.executable, "-c", TOPSCC]
    for words in (["--help"], [str(kernels / "k.py"), "--emit", "asm"], ["run", str(kernels / "k.py")]):
        done = cli(*words)
        assert done.returncode == 0, done.stderr
        assert "own" not in done.stderr
    cli.begin = [sys.executable, "-c", EFSMI]
    assert cli("--help").returncode == 0


def test_a_compiler_that_began_with_them_says_so(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "argparse.py").write_text("FOREIGN = 7\n")
    cli.environ["PYTHONPATH"] = str(tmp_path)
    cli.begin = [sys.executable, "-c", f"import argparse; {TOPSCC}"]
    done = cli("--help")
    assert done.returncode == 2
    assert done.stderr.startswith(f"topscc: '{tmp_path / 'argparse.py'}' stands in for")


def test_the_program_sees_its_own_path(cli: Any, tmp_path: Path) -> None:
    library = tmp_path / "lib"
    library.mkdir()
    (library / "json.py").write_text("FOREIGN = 7\n")
    cli.environ["PYTHONPATH"] = os.pathsep.join([str(library), "/nowhere"])
    done = cli("run", "-o", "a", "--", sys.executable, "-c", SAYS)
    assert done.stdout == f"7 {[str(library), '/nowhere']}\n", done.stderr


def test_the_doctor_names_them_and_works(cli: Any, tmp_path: Path) -> None:
    library = tmp_path / "lib"
    (library / "pyarrow").mkdir(parents=True)
    (library / "pyarrow" / "__init__.py").touch()
    (library / "numpy").mkdir()  # no package
    _shadows(library, "json", "mine")
    cli.environ["PYTHONPATH"] = os.pathsep.join([str(library), str(tmp_path / "missing")])
    done = cli("doctor", "--json", env={"PATH": "/bin"})
    assert done.returncode == 0, done.stdout
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert {name for name in checks if name.startswith("module ")} == {"module json", "module pyarrow"}
    assert str(library / "json.py") in checks["module json"]["value"]
    assert checks["recording"]["state"] == "ok"


def test_what_was_loaded_before_us_is_named(cli: Any, tmp_path: Path) -> None:
    library = tmp_path / "lib"
    library.mkdir()
    (library / "json.py").write_text("FOREIGN = 7\n")
    cli.environ["PYTHONPATH"] = str(library)
    cli.begin = [sys.executable, "-c", f"import json; {COMMAND}"]  # as a sitecustomize may do
    done = cli("run", "-o", "a", "--", "true")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert f"'{library / 'json.py'}' stands in for Python's own module json" in line and "PYTHONPATH" in line


def test_a_fault_of_ours_is_shown(cli: Any) -> None:
    cli.begin = [
        sys.executable,
        "-c",
        f"import topsprof.cli; topsprof.cli.main = lambda: topsprof.cli.no_such; {COMMAND}",
    ]
    done = cli("sessions")
    assert done.returncode == 1 and "no_such" in done.stderr and "Traceback" in done.stderr


def test_a_topstx_that_is_not_ours_is_told(cli: Any, tmp_path: Path) -> None:
    library = tmp_path / "lib"
    library.mkdir()
    (library / "topstx.py").write_text("x = 1\n")
    cli.environ["PYTHONPATH"] = str(library)
    done = cli("run", "--strict", "-o", "a", "--", sys.executable, "-c", "import topstx; print(topstx.x)")
    assert (done.returncode, done.stdout) == (99, "1\n")
    assert f"its topstx is {library / 'topstx.py'}, not TopsTX" in done.stderr
    assert "not TopsTX" in cli("info", "a.topsprof").stdout


@pytest.mark.smoke
def test_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    library = str(Path(os.__file__).parent)
    archive = str(Path(library).parent / f"python{sys.version_info[0]}{sys.version_info[1]}.zip")
    users, other = str(Path("/users").absolute()), str(Path("/other").absolute())
    path = ["", users, archive, library, f"{library}/lib-dynload", "/site", "/ours"]
    environ = {"PYTHONPATH": os.pathsep.join(["", users, other])}
    expected = [archive, library, f"{library}/lib-dynload", "/ours", "/site", users]
    assert own_path.arranged(path, ["/ours"], environ) == expected
    assert own_path.arranged(expected, ["/ours"], environ) == expected
    assert own_path.arranged(["/frozen"], ["/ours"], {}) == ["/ours", "/frozen"]
    assert own_path.python_path({"PYTHONPATH": os.pathsep}) == own_path.python_path({}) == []


@pytest.mark.smoke
def test_pythons_own_modules_stand_in_for_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import argparse
    import sqlite3  # noqa: F401 - has a part in an extension

    assert own_path.stand_ins() == {}
    monkeypatch.setattr(argparse, "__file__", str(tmp_path / "argparse.py"))
    assert own_path.stand_ins() == {"argparse": str(tmp_path / "argparse.py")}


@pytest.mark.smoke
def test_our_packages_are_found_where_this_one_is() -> None:
    found = set()
    for root in topsprof_start._roots():
        found |= {name for name in ("tops_kit", "topstx", "topsprof") if (Path(root) / name).is_dir()}
    assert found == {"tops_kit", "topstx", "topsprof"}


def test_a_process_of_ours_has_the_users_variables_again(tmp_path: Path) -> None:
    _shadows(tmp_path, "json", "runpy", "tops_kit")
    (tmp_path / "found_only_there.py").write_text("")
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(
        "import json, os, sys, tops_kit, found_only_there\n"
        "print(os.environ['PYTHONPATH'], [key for key in os.environ if key.startswith('TOPSKIT_')])\n"
        "print(tops_kit.__file__, sys.argv[1:], __name__)\n"
    )
    base = {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        own_process.module_command("package", "1", "2"),
        env=own_process.environment(str(package / "__init__.py"), base=base),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == f"{tmp_path} []"
    assert second == f"{Path(str(tops_kit.__file__)).absolute()} ['1', '2'] __main__"
