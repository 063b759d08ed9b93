"""Kernels are found in files, notebooks, functions and classes, however they stand there."""

from __future__ import annotations

import importlib.util
import linecache
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tops_kit as tops
from tops_kit.errors import UserError

_K = "@tops.kernel\ndef k(out: tops.ptr(tops.f32)):\n"
Load = Callable[[str], ModuleType]


def answer(kernel: Any) -> float:
    """What a kernel stores."""
    out = np.zeros(1, np.float32)
    kernel[1](out)
    return float(out[0])


@pytest.mark.parametrize(
    "text",
    [
        f"{_K}    tops.store(out[0:1], 3.0)\n",
        "if True:\n  if True:\n\n    @tops.kernel\n    def k(out: tops.ptr(tops.f32)):\n"
        "      tops.store(out[0:1], 3.0)\n",
        "class A:\n    @staticmethod\n    @tops.kernel\n    def k(out: tops.ptr(tops.f32)):\n"
        "        tops.store(out[0:1], 3.0)\nk = A.k\n",
        "def make(v):\n    @tops.kernel\n    def k(out: tops.ptr(tops.f32)):\n"
        "        tops.store(out[0:1], v)\n"
        "    return k\nk = make(3.0)\n",
        "def keep(f):\n    return f\n@keep\n@tops.kernel\n@keep\ndef k(\n    out: tops.ptr(tops.f32),\n):\n"
        "    '''\nA text\n  of lines.\n'''\n    tops.store(out[0:1], 3.0)\n# the end\n",
        "def k(out: tops.ptr(tops.f32)):\n    tops.store(\n        out[0:1],\n"
        "# a comment at the margin\n        3.0\n    )\n"
        "\n    # and one more\n\nk = tops.kernel(k)\n",
        "@tops.kernel\ndef k(out: tops.ptr(tops.f32)): tops.store(out[0:1], 3.0)\n",
        "scale = lambda v: v * 1.5\n@tops.kernel\ndef k(out: tops.ptr(tops.f32)):\n"
        "    tops.store(out[0:1], scale(2.0))\n",
        "table = {\n    'scale': lambda v: v * 1.5,\n}\nscale = table['scale']\n@tops.kernel\n"
        "def k(out: tops.ptr(tops.f32)):\n    tops.store(out[0:1], scale(2.0))\n",
        "@tops.kernel\ndef k(out: 'tops.ptr(tops.f32, ndim=1)', *, n: 'tops.constexpr' = 3.0):\n"
        "    tops.store(out[0:1], n)\n",
        "\f\n@tops.kernel\ndef k(out: tops.ptr(tops.f32)):\n\n\f\n    tops.store(out[0:1], 3.0)\n",
        "@tops.kernel\ndef k(out: tops.ptr(tops.f32)):\n\ttops.store(out[0:1], 3.0)\n",
        "@tops.kernel\ndef k(out: tops.ptr(tops.f32)):\n    v = 1.0 + \\\n2.0\n"
        "    tops.store(\nout[0:1],\nv\n)\nx = 1\n",
        "@tops.kernel\ndef k(\nout: tops.ptr(tops.f32)\n) -> (\nNone\n):\n"
        "    '''\ndef text():\n'''\n    tops.store(out[0:1], 3.0)\n",
    ],
)  # fmt: skip
def test_kernels_are_found(text: str, load_text: Load) -> None:
    assert answer(load_text(text).k) == 3.0


def test_columns_count_letters(load_text: Load) -> None:
    module = load_text("@tops.kernel\ndef k(n: tops.i32):\n    größe = n; x = größe / 2\n")
    with pytest.raises(tops.KernelError) as caught:
        module.k.tree(3)
    lines = str(caught.value).split("\n")
    assert lines[0].endswith("kernels0.py:6:20: error: / of i32")
    assert lines[2] == " " * 23 + "^" * 9


def test_two_lambdas_on_a_line_are_told_apart_by_nobody(load_text: Load) -> None:
    module = load_text(
        "f, g = lambda v: v * 1.0, lambda v: v * 2.0\n@tops.kernel\ndef k(out: tops.ptr(tops.f32)):\n"
        "    tops.store(out[0:1], f(2.0))\n"
    )
    with pytest.raises(tops.KernelError, match="several functions begin on this line"):
        module.k.tree(np.zeros(1, np.float32))


def test_a_cell_of_a_notebook() -> None:
    text = f"import tops_kit as tops\n{_K}    tops.store(out[0:1], 3.0)\n"
    name = "<cell 1>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    names: dict[str, Any] = {}
    exec(compile(text, name, "exec"), names)
    assert answer(names["k"]) == 3.0
    assert names["k"].compile(np.zeros(1, np.float32)).files[0].path == name


def test_source_that_is_nowhere() -> None:
    names: dict[str, Any] = {}
    exec("import tops_kit as tops\n@tops.kernel\ndef k(n: tops.i32):\n    pass\n", names)
    with pytest.raises(UserError, match=r"^k: no source at <string>: kernels are compiled from their source"):
        names["k"].tree(1)


def test_a_file_that_has_changed_since(tmp_path: Path) -> None:
    file = tmp_path / "changed.py"
    text = "import tops_kit as tops\n@tops.kernel\ndef k(n: tops.i32):\n    pass\n"
    file.write_text(text)
    specification = importlib.util.spec_from_file_location("changed", file)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    file.write_text("# more\n" * 20 + text)
    later = time.time() + 10
    os.utime(file, (later, later))
    assert module.k.tree(1).where.line == 3  # as it was when it was imported


HELPED = """
import tops_kit as tops
import helper_{0}

def near():
    return 1.0

@tops.kernel
def k(out: tops.ptr(tops.f32, 1)):
    tops.store(out[0:1], near() + helper_{0}.far())
"""


@pytest.mark.parametrize("edited", ["kernel", "helper"])
def test_functions_of_files_that_were_edited_while_the_program_runs(
    edited: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    helper = tmp_path / f"helper_{edited}.py"
    helper.write_text("def far():\n    return 10.0\n")
    file = tmp_path / f"kernel_{edited}.py"
    file.write_text(HELPED.format(edited))
    k = importlib.import_module(file.stem).k
    changed = file if edited == "kernel" else helper
    changed.write_text(changed.read_text().replace("1.0", "2.0").replace("10.0", "20.0"))
    later = time.time() + 10
    os.utime(changed, (later, later))
    if edited == "kernel":
        assert answer(k) == 11.0
    else:
        with pytest.raises(UserError, match="was changed after it was imported: import the file again"):
            answer(k)


@pytest.mark.parametrize("content", [b"def k(:\n  (", bytes(range(128, 256)) * 9])
def test_a_file_that_holds_no_program_any_more(content: bytes, load_text: Load) -> None:
    module = load_text("""
        @tops.kernel
        def k(out: tops.ptr(tops.f32, 1)):
            tops.store(out[0:1], 1.0)
    """)
    Path(module.__file__ or "").write_bytes(content)
    assert answer(module.k) == 1.0


def test_a_pipe_where_the_file_was_is_not_read(tmp_path: Path) -> None:
    pipe = tmp_path / "k.py"
    os.mkfifo(pipe)
    names: dict[str, Any] = {}
    text = "import tops_kit as tops\n@tops.kernel\ndef k(n: tops.i32):\n    pass\n"
    exec(compile(text, str(pipe), "exec"), names)
    with pytest.raises(UserError, match="no source at"):
        names["k"].tree(1)


def test_lines_are_those_of_editors(load_text: Load) -> None:
    module = load_text("""
        @tops.kernel
        def k(out: tops.ptr(tops.f32, 1)):
            a = 1.0  # \v \x1c \u2028 are no ends of lines
            tops.store(out[0:1], a + nothing)
    """)
    with pytest.raises(tops.KernelError, match=r"nothing is not defined\n +tops.store"):
        answer(module.k)


def test_of_a_very_long_line_a_part_is_shown(load_text: Load) -> None:
    gap = " " * 100_000
    module = load_text(f"""
        @tops.kernel
        def k(out: tops.ptr(tops.f32, 1)):
            tops.store(out[0:1], 1.0 {gap} + nothing)
    """)
    with pytest.raises(tops.KernelError, match=r"\+ nothing\)") as caught:
        answer(module.k)
    assert len(str(caught.value)) < 2000


def test_async_functions_are_refused(load_text: Load) -> None:
    with pytest.raises(UserError, match="an async function: write def"):
        load_text("@tops.kernel\nasync def k(n: tops.i32):\n    pass\n").k.tree(1)


def test_types_in_texts_see_names_of_the_module_and_of_the_body(load_text: Load) -> None:
    module = load_text("""
        def make(dtype):
            @tops.kernel
            def k(out: tops.ptr(dtype), other: "tops.ptr(dtype)"):
                tops.store(out[0:1], tops.zeros(dtype, (1,)) + 3)
            return k
        k = make(tops.i32)
    """)
    out = np.zeros(1, np.int32)
    module.k[1](out, out.copy())
    assert out[0] == 3


def test_the_language_is_loaded_when_it_is_used() -> None:
    code = (
        "import sys, tops_kit\n"
        "assert not [m for m in sys.modules if m.startswith(('numpy', 'tops_kit.'))], sys.modules\n"
        "tops_kit.f32; tops_kit.ptr; tops_kit.exp\n"
        "assert 'tops_kit.engine' not in sys.modules\n"
        "assert 'softmax' not in dir(tops_kit) and 'rowmax' in dir(tops_kit)\n"
        "from tops_kit import session, kernel\n"
    )
    outcome = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=_environment()
    )
    assert outcome.returncode == 0, outcome.stderr


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("f64", "the GCU has no 64-bit types, use f32"),
        ("softmax", "has no attribute 'softmax'"),
        ("_x", "_x"),
    ],
)
def test_names_that_are_not_there(name: str, complaint: str) -> None:
    with pytest.raises(AttributeError, match=complaint):
        getattr(tops, name)


def test_words_outside_of_kernels() -> None:
    with pytest.raises(tops.OutsideKernelError, match=r"tops\.exp works inside of kernels only"):
        tops.exp(3.0)
    with pytest.raises(UserError, match="ndim 9 is not possible"):
        tops.ptr(tops.f32, 9)
    with pytest.raises(UserError, match=r"no 64-bit types such as float64: use tops\.f32"):
        tops.ptr(np.float64)
    assert str(tops.ptr(np.float16, 2)) == "ptr(f16, 2)"
    with pytest.raises(UserError, match="constexpr is a type"):
        tops.constexpr()
