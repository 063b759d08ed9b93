"""capture(): a recording around a block, with a collector of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tops_kit.collect.__main__", reason="capture() needs the collector")

CODE = """
    import os, subprocess, sys, topstx
    from topstx import push_range, pop_range, annotate
    @annotate()
    def work(): pass
    assert not topstx.is_recording()
    work()
    with topstx.capture(sys.argv[1]) as session:
        assert topstx.is_recording() and session.is_dir()
        push_range("block"); work(); pop_range()
        with topstx.capture() as inner: assert inner == session
        child = "import topstx; topstx.push_range('child'); topstx.pop_range()"
        subprocess.run([sys.executable, "-c", child], check=True)
    assert not topstx.is_recording() and "TOPSTX_SESSION" not in os.environ
    work()
    print(session)
"""


def run(program: Any, *args: str, code: str = CODE, **env: str) -> tuple[int, str, str]:
    environment = {key: value for key, value in program.environment(**env).items() if key != "TOPSTX_SESSION"}
    import subprocess
    import sys
    import textwrap

    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *args],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_a_block_is_recorded(program: Any, tmp_path: Path) -> None:
    from tops_kit.session import Session

    code, out, err = run(program, str(tmp_path / "mine"))
    assert code == 0, err
    assert Path(out.strip()) == tmp_path / "mine.topsprof"
    names = Session.open(tmp_path / "mine.topsprof").table("tx").column("name").to_pylist()
    assert sorted(map(str, names)) == ["block", "child", "work"]


def test_an_existing_session_is_kept(program: Any, tmp_path: Path) -> None:
    (tmp_path / "mine.topsprof").mkdir()
    code, _, err = run(program, str(tmp_path / "mine"))
    assert code == 1 and "FileExistsError" in err and "choose another name" in err


def test_disabled_yields_none(program: Any, tmp_path: Path) -> None:
    code, _, err = run(
        program,
        code="import topstx\nwith topstx.capture('x') as session: assert session is None",
        TOPSTX_DISABLE="1",
    )
    assert (code, err) == (0, "")


def test_children_that_live_on_do_not_hold_up_the_end(program: Any, tmp_path: Path) -> None:
    """A forked worker, which leaves the block itself as well, neither ends the recording nor delays it."""
    done = """
        import os, sys, topstx
        recorded, tell = os.pipe()
        stay, go = os.pipe()
        with topstx.capture(sys.argv[1]) as session:
            topstx.mark("parent")
            child = os.fork()
            if not child:
                os.close(go)
                topstx.mark("child")
                os.write(tell, b"x")
            else:
                os.close(stay)
                os.read(recorded, 1)
        if child:
            print((session / "control").exists())       # goes at the recording's end
            os.close(go)
            os.waitpid(child, 0)
        else:
            os.read(stay, 1)
    """
    code, out, err = run(program, str(tmp_path / "mine"), code=done)
    assert (code, out, err) == (0, "False\n", "")
    from tops_kit.session import Session

    names = Session.open(tmp_path / "mine.topsprof").table("tx").column("name").to_pylist()
    assert sorted(map(str, names)) == ["child", "parent"]


def test_modules_in_the_working_folder_are_not_ours(
    program: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The collector must not import what the program's folder happens to hold."""
    for name in ("numpy", "pyarrow", "queue", "tops_kit"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('shadowed')")
    monkeypatch.chdir(tmp_path)
    code, out, err = run(
        program,
        code="""
            import sys; sys.path.pop(0)
            import topstx
            with topstx.capture("mine") as session: topstx.mark("m")
        """,
    )
    assert (code, out, err) == (0, "", "") and (tmp_path / "mine.topsprof").is_dir()
