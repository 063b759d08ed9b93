"""The topscc command: compiling, showing, and trying kernels."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tops_kit.isa.binary import load
from tops_kit.runtime.topscc_command import main

FILE = """
import numpy as np
import tops_kit as tops

@tops.kernel
def softmax(x: tops.ptr(tops.f32, 2), y: tops.ptr(tops.f32, 2), rows: tops.i32, COLS: tops.constexpr):
    row = tops.l1(tops.f32, (1, COLS), slots=2)
    for r in tops.pipeline(tops.thread_id(), rows, tops.num_threads(), load=(row, lambda r: x[r:r+1])):
        e = tops.exp(row[r] - tops.rowmax(row[r]))
        tops.store(y[r:r+1], e / tops.rowsum(e))

@softmax.example
def _(rng, rows=40, COLS=64):
    x = rng.standard_normal((rows, COLS), dtype=np.float32)
    return dict(x=x, y=np.empty_like(x), rows=rows, COLS=COLS, threads=24)

@softmax.reference(rtol=1e-5)
def _(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)

@tops.kernel
def add(x: tops.ptr(), y: tops.ptr(), n: tops.i32, BLOCK: tops.constexpr = 64):
    for i in range(tops.thread_id() * BLOCK, n, tops.num_threads() * BLOCK):
        j = min(i + BLOCK, n)
        tops.store(y[i:j], tops.load(x[i:j]) + 1)

@tops.kernel
def wrong(x: tops.ptr(tops.f32, 1)):
    tops.store(x[0:4], tops.load(x[0:4]) + 1.0)

@wrong.example
def _(rng):
    return {"x": np.zeros(4, np.float32)}

@wrong.reference
def _(x):
    return x + np.array([1, 1, 2, 1])
"""


@pytest.fixture
def k(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "k.py").write_text(FILE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return "k.py"


def test_the_tree_is_shown(k: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([f"{k}:softmax", "--emit", "tree", "--arg", "COLS=64"]) == 0
    out = capsys.readouterr().out
    assert "kernel softmax for s60" in out
    assert "row = l1(f32, (1, 64), slots=2)" in out
    assert "e: tile f32 (1, 64) = exp(" in out
    assert "store(y[r:(r + 1), :], (e / sum(e, axis=1)))" in out


@pytest.mark.smoke
def test_the_program_is_shown_with_its_lines(k: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([k, "--kernel", "softmax", "--emit", "asm", "--arg", "COLS=64"]) == 0
    out = capsys.readouterr().out
    assert "tops.store(y[r:r+1], e / tops.rowsum(e))" in out
    assert "dma" in out


def test_programs_as_json(k: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([f"{k}:softmax", "--emit", "json", "--arg", "COLS=64", "-arch", "s60,t20"]) == 0
    programs = json.loads(capsys.readouterr().out)["programs"]
    assert [(program["name"], program["arch"]) for program in programs] == [
        ("softmax", "s60"),
        ("softmax", "t20"),
    ]


def test_a_file_of_programs(k: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([f"{k}:softmax", "-o", "out.topsbin", "--arg", "COLS=64"]) == 0
    assert "out.topsbin: softmax for s60" in capsys.readouterr().err
    (program,) = load(tmp_path / "out.topsbin")
    assert program.constexprs == {"COLS": 64}
    assert main(["out.topsbin"]) == 0
    assert "softmax for s60" in capsys.readouterr().out
    assert main(["out.topsbin:softmax", "--emit", "asm"]) == 0
    assert "tops.rowmax" in capsys.readouterr().out


def test_example_and_signature_give_what_compiling_needs(k: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([f"{k}:softmax"]) == 0
    assert main([f"{k}:add", "--arg", "x=f16:100", "--arg", "y=f16:100"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("softmax for s60: ")
    assert out[1].startswith("add for s60: ")


def test_a_kernel_is_tried_on_parts(k: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", f"{k}:softmax", "--arg", "rows=50", "-arch", "s60,i20", "--pipeline"]) == 0
    out = capsys.readouterr().out
    assert out.count("softmax: as the reference: y (3,200 elements)") == 2
    assert "modelled on s60" in out
    assert "modelled on i20" in out
    assert "bound by" in out
    assert "waiting for" in out
    assert "tops.store(y[r:r+1], e / tops.rowsum(e))" in out
    assert "SIP 0, cycles" in out


def test_a_trial_as_json(k: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", f"{k}:softmax", "--json", "--sanitize", "--threads", "12"]) == 0
    (trial,) = json.loads(capsys.readouterr().out)
    assert trial["good"] is True
    assert trial["checked"] == {"y": 40 * 64}
    assert trial["timing"]["block_threads"] == 12
    assert trial["findings"]["findings"] == []


def test_what_differs_is_shown(k: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", f"{k}:wrong", "--threads", "1"]) == 1
    assert (
        "wrong: x differs from the reference in 1 of 4 elements, most at [2]: 1.0, should be 2.0"
        in capsys.readouterr().out
    )


def test_arrays_are_made_for_kernels_without_example(k: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "run",
        f"{k}:add",
        "--arg",
        "x=1000",
        "--arg",
        "y=1000",
        "--arg",
        "n=1000",
        "--grid",
        "2",
        "--block",
        "3",
    ]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "add: not checked: the file names no reference (@add.reference)" in out
    assert "2 x 3 threads" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nope.py"], "nope.py: no such file"),
        (["k.py:nope"], "k.py has no kernel nope: there are softmax, add, wrong"),
        (["run", "k.py"], "k.py has kernels softmax, add, wrong: name one: k.py:softmax"),
        (["k.py:softmax", "--arg", "FOO=3"], "--arg FOO: no parameter of softmax"),
        (["run", "k.py:softmax", "--arg", "FOO=3"], "--arg FOO: softmax takes COLS, rows, x, y"),
        (["k.py:softmax", "--arg", "COLS"], "--arg COLS: write NAME=VALUE"),
        (["k.py:softmax", "--arg", "COLS=1", "--arg", "COLS=2"], "--arg COLS is given twice"),
        (["k.py:add"], "add: x has no shape: --arg x=ROWSxCOLS, or write @add.example in the file"),
        (["k.py:add", "--arg", "x=4y"], "--arg x=4y: an array is given by its shape"),
        (["k.py:add", "--arg", "x=f64:4"], "--arg x=f64:4: f64 is no element type"),
        (["run", "k.py:add", "--arg", "x=4", "--arg", "y=4"], "add: n has no value: --arg n=VALUE"),
        (["k.py:softmax", "-arch", "s61"], "no part 's61': one of i20, s60, t20"),
        (["k.topsbin"], "k.topsbin: no such file"),
        (["bad.topsbin"], "bad.topsbin: not a topsbin file"),
        (["raises.py"], "raises.py:2: ZeroDivisionError: division by zero"),
        (["empty.py"], "empty.py: no kernels: they are functions under @tops.kernel"),
        (
            ["run", "k.py:softmax", "--threads", "2", "--grid", "3"],
            "--threads goes without --grid and --block",
        ),
        (["k.py:softmax", "--arg", "x=4"], "softmax: x has 2 axes, got an array of 1"),
        (["k.py:softmax", "--arg", "x=f16:4x4"], "softmax: x is an array of f32, got one of f16"),
    ],
)
def test_errors_are_one_line(
    words: list[str], message: str, k: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.topsbin").write_bytes(b"nothing of the kind")
    (tmp_path / "raises.py").write_text("\n1 / 0\n")
    (tmp_path / "empty.py").write_text("\n")
    assert main(words) == 2
    error = capsys.readouterr().err
    assert error.startswith("topscc: ")
    assert message in error
    assert error.count("\n") == 1


def test_a_refusal_is_printed_as_compilers_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "k.py"
    file.write_text("import tops_kit as tops\n@tops.kernel\ndef k(n: tops.i32):\n    a = n / 2\n")
    assert main([str(file)]) == 2
    assert capsys.readouterr().err.splitlines()[:3] == [
        f"{file}:4:9: error: / of i32",
        "        a = n / 2",
        "            ^^^^^",
    ]


def test_what_is_no_python_is_printed_so_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "k.py"
    file.write_text("\na = (= 3\n")
    assert main([str(file)]) == 2
    assert capsys.readouterr().err.splitlines() == [
        f"{file}:2:6: error: invalid syntax",
        "    a = (= 3",
        "         ^",
    ]


def test_a_fault_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "k.py"
    file.write_text(
        "import tops_kit as tops\n@tops.kernel\ndef k(n: tops.i32):\n    assert n > 3, 'too few'\n"
    )
    assert main(["run", str(file), "--arg", "n=3"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("topscc: ")
    assert f"{file}:4:5: assert: too few" in error


def test_a_fault_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "k.py"
    file.write_text(
        "import tops_kit as tops\n@tops.kernel\ndef k(n: tops.i32):\n    print(n)\n"
        "    assert n > 3, 'too few'\n"
    )
    assert main(["run", str(file), "--json", "--arg", "n=3", "--threads", "1"]) == 2
    out, err = capsys.readouterr()
    (trial,) = json.loads(out)
    assert (trial["good"], trial["timing"], trial["output"]) == (False, None, ["3"])
    assert trial["fault"]["kind"] == "assert"
    assert (trial["fault"]["location"][0]["line"], trial["fault"]["location"][0]["column"]) == (5, 5)
    assert "assert: too few" in err


def test_a_reference_sees_defaults(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "k.py"
    file.write_text(
        "import numpy as np, tops_kit as tops\n@tops.kernel\n"
        "def k(x: tops.ptr(tops.f32, 1), beta: tops.f32 = 2.0):\n    tops.store(x[0:4], beta)\n"
        "@k.example\ndef _(rng): return dict(x=np.zeros(4, 'f4'), threads=1)\n"
        "@k.reference\ndef _(x, beta): return x + beta\n"
    )
    for option in ([], ["--arg", "beta=3"]):
        assert main(["run", str(file), *option]) == 0
        assert "k: as the reference: x" in capsys.readouterr().out


def test_a_compiled_file_is_run(k: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(tmp_path / "k.topsbin")
    assert main([f"{k}:softmax", "-arch", "s60,i20", "-o", file]) == 0
    given = ["--arg", "x=40x64", "--arg", "y=40x64", "--arg", "rows=40"]
    assert main(["run", file, *given, "--sanitize"]) == 0
    out = capsys.readouterr().out
    assert out.count("not checked: a compiled file has no reference") == 2
    assert "on s60" in out
    assert "on i20" in out
    assert main(["run", f"{file}:softmax", *given, "-arch", "i20", "--json"]) == 0
    assert [trial["part"] for trial in json.loads(capsys.readouterr().out)] == ["i20"]
    for words, message in [
        ([file, *given, "-arch", "t20"], "has softmax for s60, i20, not for t20"),
        ([file, *given[:4]], "softmax: rows has no value: --arg rows=VALUE"),
        ([f"{file}:add", *given], "has no kernel add: there are softmax"),
    ]:
        assert main(["run", *words]) == 2
        assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("n=0", "the example ({k}:6) raises ZeroDivisionError: "),
        ("n=abc", "the example ({k}:6) raises TypeError: unsupported operand"),
        ("n=2", "the reference ({k}:9) raises ValueError: two"),
        ("n=3", "the reference gives no numbers for x: "),
    ],
)
def test_what_example_and_reference_raise_is_one_line(
    option: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "k.py"
    file.write_text(
        "import numpy as np, tops_kit as tops\n@tops.kernel\ndef k(x: tops.ptr(tops.f32), n: tops.i32):\n"
        "    tops.store(x[0:1], 1.0)\n@k.example\n"
        "def _(rng, n=1): return dict(x=np.zeros(4, 'f4'), n=n + 0 // n)\n"
        "@k.reference\ndef _(n):\n    if n == 2: raise ValueError('two')\n    return 'three'\n"
    )
    assert main(["run", str(file), "--arg", option]) == 2
    error = capsys.readouterr().err
    assert error.startswith("topscc: ")
    assert message.format(k=file) in error
    assert error.count("\n") == 1


def test_an_option_whose_default_is_a_text_stays_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "k.py"
    file.write_text(
        "import numpy as np, tops_kit as tops\n@tops.kernel\ndef k(x: tops.ptr(tops.f32)):\n"
        "    tops.store(x[0:1], 1.0)\n@k.example\n"
        "def _(rng, how='f32', also=tops.f32, n=1):\n    raise ValueError(f'{how!r} {also} {n!r}')\n"
    )
    assert main(["run", str(file), "--arg", "how=f16", "--arg", "also=f16", "--arg", "n=3"]) == 2
    assert "ValueError: 'f16' f16 3" in capsys.readouterr().err
    assert main(["run", str(file), "--arg", "how=3"]) == 2
    assert "ValueError: '3' f32 1" in capsys.readouterr().err


@pytest.mark.parametrize("words", [[], ["--emit", "c", "k.py"], ["run"], ["run", "k.py", "--threads", "x"]])
def test_usage(words: list[str], k: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert "usage: topscc" in capsys.readouterr().err


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--help"], ["run", "--help"], ["--version"]):
        assert main(words) == 0
        assert "topscc" in capsys.readouterr().out


def test_a_file_may_be_called_as_a_module_of_python(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "json.py"
    file.write_text("import tops_kit as tops\n@tops.kernel\ndef k(n: tops.i32):\n    pass\n")
    assert main([str(file), "--emit", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["programs"][0]["name"] == "k"


def test_the_reader_may_go_away(k: str, repo_root: Path) -> None:
    import os

    paths = os.pathsep.join(str(repo_root / part) for part in ("tx", "."))
    command: Any = [sys.executable, "-m", "tops_kit.runtime.topscc_command", f"{k}:softmax", "--emit", "asm"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": paths}
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode in (0, 141)
