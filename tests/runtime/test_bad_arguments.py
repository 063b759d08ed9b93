"""What can't be launched with is refused in one line, before anything runs."""

from __future__ import annotations

import copy
import io
import math
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tops_kit as tops
from tops_kit.errors import UserError
from tops_kit.isa.binary import save


@tops.kernel
def add(x: tops.ptr(tops.f32, 1), y: tops.ptr(tops.f32, 1)) -> None:  # type: ignore[valid-type]
    tops.store(y[0:4], tops.load(x[0:4]) + 1.0)


@tops.kernel
def scale(y: tops.ptr(tops.f32, 1), a: tops.f32, h: tops.f16 = 0.0) -> None:  # type: ignore[valid-type]
    tops.store(y[0:1], a + h)


@tops.kernel
def says(n: tops.i32) -> None:  # type: ignore[valid-type]
    print("grüße \ud800", n)


def floats(n: int = 4) -> Any:
    return np.arange(n, dtype=np.float32)


@pytest.mark.parametrize(
    "threads", [2**31, 2**70, (2**40, 1), ((2**12, 2**12, 2), 1), np.array([2, 3]), "3", np.True_, object()]
)
def test_threads_that_are_not_possible(threads: Any) -> None:
    with pytest.raises(tops.LaunchError) as caught:
        add[threads](floats(), floats())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "settings",
    [
        {"mode": np.zeros(2)}, {"host_threads": 0}, {"host_threads": 10**12}, {"host_threads": "2"},
        {"host_threads": 1.5}, {"budget_s": "1"}, {"budget_s": None}, {"budget_s": -1},
        {"budget_s": math.nan}, {"engine": "x"}, {"engine": np.zeros(2)}, {"pipeline": "yes"},
        {"defer": np.zeros(2)}, {"quiet": None},
    ],
)  # fmt: skip
def test_options_that_are_not_possible(settings: dict[str, Any]) -> None:
    with pytest.raises(tops.LaunchError, match=next(iter(settings))):
        add.options(**settings)


@pytest.mark.parametrize(
    "settings", [{"defer": True}, {"defer": True, "mode": "fast"}, {"pipeline": True, "mode": "sanitized"}]
)
def test_options_that_the_mode_makes_nothing_of(settings: dict[str, Any], tmp_path: Path) -> None:
    y = floats()
    save([scale.compile(y, 1.0)], tmp_path / "k.topsbin")
    for kernel in (scale, tops.Module.load(tmp_path / "k.topsbin").function("scale")):
        with pytest.raises(tops.LaunchError, match=f"{next(iter(settings))}=True"):
            kernel.options(**settings)[1]


@pytest.mark.parametrize(
    ("values", "complaint"),
    [((1e39, 0.0), "a is 1e.39, which does not fit f32"), (("a", 0.0), "is a number"), ((0, 1e5), "f16")],
)
def test_numbers_for_compiled_files(values: tuple[Any, ...], complaint: str, tmp_path: Path) -> None:
    y = floats()
    save([scale.compile(y, 1.0)], tmp_path / "k.topsbin")
    function = tops.Module.load(tmp_path / "k.topsbin").function("scale")
    with pytest.raises(tops.LaunchError, match=f"scale: .*{complaint}"):
        function[1](y, *values)


def test_numbers_of_bf16_are_not_rounded_to_infinity() -> None:
    @tops.kernel
    def fill(y: tops.ptr(tops.f32), v: tops.bf16) -> None:  # type: ignore[valid-type]
        tops.store(y[0:1], v)

    y = floats()
    fill[1](y, 3.38e38)
    for value in (3.4e38, -3.4e38):
        with pytest.raises(tops.LaunchError, match="which does not fit bf16"):
            fill[1](y, value)


@pytest.mark.parametrize("part", [None, 3, b"s60", "", "a" * 5000, "\0", "\0.toml"])
def test_parts_that_are_not_possible(part: Any) -> None:
    with pytest.raises(UserError):
        add.on(part)


@pytest.mark.parametrize(
    ("value", "half"), [(10**400, 0.0), (1e300, 0.0), (-1e39, 0.0), (10**39, 0.0), (0.0, 1e5)]
)
def test_numbers_beyond_their_type(value: Any, half: float) -> None:
    scale[1](floats(), 0.0, 0.0)
    with pytest.raises(tops.LaunchError, match="which does not fit f"):
        scale[1](floats(), value, half)


@pytest.mark.parametrize(
    "value", [math.inf, -math.inf, math.nan, 3.4028235e38, np.float64(2), np.int64(3), 7]
)
def test_numbers_within(value: Any) -> None:
    y = floats()
    scale[1](y, value)
    np.testing.assert_equal(y[0], np.float32(value))


def test_masks_and_subclasses() -> None:
    with pytest.raises(tops.LaunchError, match="x is a masked array"):
        add[1](np.ma.masked_array(floats(), mask=[True] * 4), floats())

    class Lying(np.ndarray[Any, Any]):
        @property
        def shape(self) -> Any:  # type: ignore[override]
            return (10**6,)

    with pytest.raises(tops.KernelFault, match="outside of its extent 2"):
        add[1](floats(2).view(Lying), floats())


@pytest.mark.parametrize(
    ("encoding", "shown"), [("ascii", "gr\\xfc\\xdfe \\ud800 3\n"), ("utf-8", "grüße \\ud800 3\n")]
)
def test_text_that_the_terminal_cannot_show(
    encoding: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = io.TextIOWrapper(io.BytesIO(), encoding, newline="\n")
    monkeypatch.setattr(sys, "stdout", terminal)
    assert says[1](3).output == ["grüße \ud800 3"]
    terminal.flush()
    assert terminal.buffer.getvalue().decode(encoding) == shown  # type: ignore[attr-defined]


def test_no_terminal_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert len(says[1](3).output) == 1


def test_kernels_in_other_processes() -> None:
    copied = pickle.loads(pickle.dumps(add.on("i20")))
    y = floats()
    copied[1](floats(), y)
    assert y.tolist() == [1, 2, 3, 4]
    assert copied.part.hash == add.on("i20").part.hash
    assert copy.deepcopy(add).name == "add"


def test_tensors() -> None:
    torch = pytest.importorskip("torch")
    x, y = torch.arange(4.0), torch.zeros(4)
    negated = torch.complex(x, x).conj().imag
    for tensor in (negated, torch.zeros(4, device="meta"), x.to_sparse(), torch.eye(4).to_sparse_csr()):
        with pytest.raises(tops.LaunchError, match=r"^add: x "):
            add[1](tensor, y)
    add[1](negated.resolve_neg(), y)
    assert y.tolist() == [1, 0, -1, -2]


def test_tensors_whose_memory_is_not_there() -> None:
    torch = pytest.importorskip("torch")
    x = torch.zeros(4)
    x.untyped_storage().resize_(8)
    with pytest.raises(tops.LaunchError, match="x needs 16 bytes, its storage has 8"):
        add[1](x, torch.zeros(4))
    with pytest.raises(tops.LaunchError, match="x is a tensor without memory"):
        torch.vmap(lambda x: add[1](x, torch.zeros(4)))(torch.zeros(2, 4))
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        fake = torch.zeros(4)
    with pytest.raises(tops.LaunchError, match="x is a FakeTensor"):
        add[1](fake, torch.zeros(4))


def test_gradients_know_of_what_a_kernel_stores() -> None:
    torch = pytest.importorskip("torch")
    weight = torch.nn.Parameter(torch.ones(4))
    saved = torch.zeros(4)
    product = (weight * saved).sum()
    add[1](torch.zeros(4), saved)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()
    with torch.inference_mode():
        y = torch.zeros(4)
        add[1](torch.zeros(4), y)
    assert y.tolist() == [1, 1, 1, 1]


def test_a_part_with_a_name_of_several_lines(tmp_path: Path) -> None:
    file = tmp_path / "p.toml"
    file.write_text('[part]\nname = "a\\nb"\nbase = "s60"\n')
    with pytest.raises(UserError, match=r"p\.toml:2: name has to be a text"):
        add.on(file)
