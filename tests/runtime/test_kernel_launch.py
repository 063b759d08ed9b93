"""Launching kernels: arguments, types, settings, what is compiled anew, and what a launch gives."""

from __future__ import annotations

import re
import signal
from typing import Any

import numpy as np
import pytest

import tops_kit as tops
from tops_kit.gcu import load
from tops_kit.runtime.kernel import Kernel

FACTOR = 2


def scaled(t: Any) -> Any:
    return t * FACTOR


@tops.kernel
def scale(x: tops.ptr(), y: tops.ptr(), factor: tops.f32 = 2.0):
    """Scales."""
    n = x.shape[0]
    for i in range(tops.thread_id() * 64, n, tops.num_threads() * 64):
        j = min(i + 64, n)
        tops.store(y[i:j], tops.load(x[i:j]) * factor)


@tops.kernel
def by_global(x: tops.ptr(tops.f32), y: tops.ptr(tops.f32)):
    tops.store(y[0:8], scaled(tops.load(x[0:8])))


@tops.kernel
def typed(
    x: tops.ptr(tops.f32, 2), out: tops.ptr(tops.f32, 1), n: tops.i32, flag: tops.bool_, small: tops.i8,
    *, MODE: tops.constexpr = "a",
):  # fmt: skip
    if MODE == "a":
        tops.store(out[0:1], n * 1.0 + small)
    elif flag:
        tops.store(out[0:1], 7.0)


@tops.kernel
def guessed(x, n, f, b):
    tops.store(x[0:1], n * f + (100.0 if b else 0.0))


@tops.kernel
def copy(x: tops.ptr(), y: tops.ptr()):
    rows, columns = x.shape
    buffer = tops.l1(x.dtype, (1, 16))
    for r in range(tops.thread_id(), rows, tops.num_threads()):
        for c in range(0, columns, 16):
            d = min(c + 16, columns)
            tops.copy(buffer[:, 0 : d - c], x[r : r + 1, c:d])
            tops.copy(y[r : r + 1, c:d], buffer[:, 0 : d - c])


@tops.kernel
def talk(x: tops.ptr(tops.f32), n: tops.i32):
    me = tops.thread_id()
    print("thread", me, "of", tops.num_threads(), n * 0.5)
    print(f"{me}: {tops.load(x[0:3])} {n:04d} {n * 0.25:.3f}", sep="")
    assert me < n, "too many threads"


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


# arguments


@pytest.mark.parametrize(
    ("arguments", "keywords", "complaint"),
    [
        ((), {}, "scale: needs an argument x"),
        ((1, 2, 3, 4), {}, "scale: takes 3 arguments (x, y, factor), 4 are given"),
        ((floats(4),), {"x": 1}, "scale: needs an argument y"),
        ((floats(4), floats(4)), {"x": 1}, "scale: x is given twice"),
        ((floats(4),), {"z": 1}, "scale: has no argument z: it takes x, y, factor"),
        ((floats(4), floats(4)), {"z": 1}, "scale: has no argument z: it takes x, y, factor"),
        (
            ([1, 2], floats(4)),
            {},
            "scale: x is an array, got a list; convert it: numpy.asarray(x, numpy.float32)",
        ),
        ((floats(4).astype("f8"), floats(4)), {}, "scale: x is float64: the GCU has no 64-bit types"),
        ((np.arange(4), floats(4)), {}, "scale: x is int64: the GCU has no 64-bit types"),
        ((np.zeros(4, "c8"), floats(4)), {}, "scale: x is complex64: the GCU has no complex numbers"),
        ((np.zeros(4, "u4"), floats(4)), {}, "scale: x is uint32: the GCU has float32"),
        ((np.zeros(4, "u2"), floats(4)), {}, "scale: x is uint16: the GCU has float32"),
        ((np.zeros(4, object), floats(4)), {}, "scale: x is an array of object"),
        ((np.zeros(4, "f4,i4"), floats(4)), {}, "scale: x is an array of"),
        ((np.zeros(4, ">f4"), floats(4)), {}, "scale: x has the byte order of another machine (>f4)"),
        ((np.zeros((1,) * 6, "f4"), floats(4)), {}, "scale: x has 6 axes: at most 5"),
        ((floats(4), floats(4), "a"), {}, "scale: factor is a number (f32), got 'a'"),
        ((floats(4), floats(4), floats(1)), {}, "scale: factor is a number (f32), got an array (1,)"),
        ((floats(4), floats(4), True), {}, "scale: factor is a number (f32), got True"),
    ],
)
def test_wrong_arguments(arguments: tuple[Any, ...], keywords: dict[str, Any], complaint: str) -> None:
    with pytest.raises(tops.LaunchError) as caught:
        scale[1](*arguments, **keywords)
    assert str(caught.value).startswith(complaint)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"x": floats(4)}, "typed: x has 2 axes, got an array of 1: (4,)"),
        ({"x": np.zeros((2, 2), "i4")}, "typed: x is an array of f32, got one of i32"),
        ({"n": 1.5}, "typed: n is an integer (i32), got 1.5"),
        ({"n": 1 << 31}, "typed: n is 2147483648, which does not fit i32"),
        ({"small": 128}, "typed: small is 128, which does not fit i8 (-128 to 127)"),
        ({"flag": 1}, "typed: flag is True or False, got 1"),
        ({"MODE": {}}, "typed: MODE is known when compiling"),
        ({"MODE": [1]}, "typed: MODE is known when compiling"),
    ],
)
def test_wrong_types(changed: dict[str, Any], complaint: str) -> None:
    arguments = {"x": floats(2, 2), "out": floats(1), "n": 1, "flag": True, "small": 1, **changed}
    with pytest.raises(tops.LaunchError, match=re.escape(complaint)):
        typed[1](**arguments)


def test_numbers_of_numpy_are_taken() -> None:
    out = floats(1)
    typed[1](floats(2, 2), out, np.int64(3), np.bool_(True), np.uint8(4))
    assert out[0] == 7
    typed[1](floats(2, 2), out, np.int16(3), False, 4, MODE="b")
    assert out[0] == 7
    typed[1](floats(2, 2), out, 3, True, -4)
    assert out[0] == -1


def test_numbers_of_16_bits_are_rounded() -> None:
    @tops.kernel
    def wide(y: tops.ptr(tops.f32), half: tops.f16, brain: tops.bf16):
        tops.store(y[0:1], tops.full(tops.f32, (1,), half))
        tops.store(y[1:2], tops.full(tops.f32, (1,), brain))

    host, device = np.zeros(2, np.float32), tops.array(np.zeros(2, np.float32))
    for half, brain in ((0.1, 0.1), (65519.0, 1.0), (np.float32(-1e-8), -np.inf)):
        for y in (host, device):
            wide[1](y, half, brain)
            got = np.asarray(y)
            assert got[0] == np.float16(half)
            assert got[1] == {0.1: 0.10009765625}.get(brain, brain)


def test_parameters_without_types_take_what_comes() -> None:
    x = floats(1)
    guessed[1](x, 3, 2.0, True)
    assert x[0] == 106
    guessed[1](x, 3.5, 2.0, False)
    assert x[0] == 7


def test_strides_are_followed() -> None:
    x = floats(40, 30)
    for view in (x, x.T, x[::2, ::3], x[::-1], x[:, ::-1], np.broadcast_to(x[:1], (5, 30)), x[:0], x[:, :0]):
        y = np.full(view.shape, 9, np.float32)
        copy[3](view, y)
        assert np.array_equal(view, y)
        target = np.zeros((2 * view.shape[0], view.shape[1] + 3), np.float32)[::2, 1:-2]
        copy[3](view, target)
        assert np.array_equal(view, target)


def test_read_only_arrays_are_only_read() -> None:
    x, y = floats(100), np.zeros(100, np.float32)
    x.flags.writeable = False
    scale[2](x, y)
    assert np.array_equal(y, x * 2)
    with pytest.raises(
        tops.LaunchError, match="scale: argument y is stored to by the kernel, and is read-only"
    ):
        scale[2](y, x)


def test_arrays_of_no_axes_count_as_one_element() -> None:
    x, y = np.array(3.0, np.float32), np.array(0.0, np.float32)
    scale[1](x, y)
    assert y == 6


def test_types_of_elements(needs_c: None) -> None:
    for dtype in (np.float32, np.float16, np.int32, np.int16, np.int8, np.uint8, np.bool_):
        x = (floats(7, 20) * 3).astype(dtype)
        y = np.zeros_like(x)
        copy[2](x, y)
        assert np.array_equal(x, y)


def test_bfloat16_as_bits() -> None:
    @tops.kernel
    def twice(x: tops.ptr(tops.bf16), y: tops.ptr(tops.bf16)):
        tops.store(y[0:4], tops.load(x[0:4]) * 2.0)

    x = np.array([1.0, -2.5, 3.0, 1e30], np.float32)
    bits = (x.view(np.uint32) >> 16).astype(np.uint16)
    y = np.zeros(4, np.uint16)
    twice[1](bits, y)
    wide = (bits.astype(np.uint32) << 16).view(np.float32) * 2
    assert np.array_equal((y.astype(np.uint32) << 16).view(np.float32), wide)


def test_bfloat16_of_ml_dtypes() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = floats(7, 20).astype(ml_dtypes.bfloat16)
    y = np.zeros_like(x)
    copy[2](x, y)
    assert np.array_equal(x.view(np.uint16), y.view(np.uint16))


def test_torch_tensors_are_used_in_place() -> None:
    torch = pytest.importorskip("torch")
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int8, torch.bool):
        x = torch.randn(6, 20).mul(3).to(dtype)
        y = torch.zeros(20, 6, dtype=dtype).T
        launch = copy[2](x, y)
        assert torch.equal(x, y)
        assert launch["y"] is y
    with pytest.raises(
        tops.LaunchError, match=re.escape("copy: x is torch.int64: the GCU has no 64-bit types")
    ):
        copy[1](torch.arange(4)[None], y)
    with pytest.raises(tops.LaunchError, match="x lies on meta"):
        copy[1](torch.zeros(2, 2, device="meta"), torch.zeros(2, 2))
    with pytest.raises(tops.LaunchError, match=r"x is torch\.sparse_coo"):
        copy[1](torch.zeros(2, 2).to_sparse(), torch.zeros(2, 2))


# threads, parts, settings


@pytest.mark.parametrize("threads", [0, -1, "a", 1.5, (), (1, 2, 3), ((1, 2, 3, 4), 1), (1, 0), True, [2, 3]])
def test_wrong_numbers_of_threads(threads: Any) -> None:
    with pytest.raises(tops.LaunchError, match=r"write scale\[threads\], or scale\[grid, block\]"):
        scale[threads]


@pytest.mark.parametrize(
    ("threads", "grid", "block"),
    [
        (1, (1,), (1,)),
        (24, (2,), (12,)),
        (26, (13,), (2,)),
        (13, (13,), (1,)),
        (36, (3,), (12,)),
        (7, (1,), (7,)),
    ],
)
def test_threads_are_split_over_clusters(threads: int, grid: tuple[int, ...], block: tuple[int, ...]) -> None:
    assert scale.shape(threads) == (grid, block)


def test_grids_of_several_axes() -> None:
    @tops.kernel
    def where(out: tops.ptr(tops.i32)):
        me = tops.thread_id()
        number = tops.block_id(0) + 10 * tops.block_id(1) + 100 * tops.local_id(0) + 1000 * tops.local_id(1)
        tops.store(out[me : me + 1], number)

    out = np.zeros(2 * 3 * 2 * 2, np.int32)
    where[(2, 3), (2, 2)](out)
    expected = [
        bx + 10 * by + 100 * x + 1000 * y
        for by in range(3)
        for bx in range(2)
        for y in range(2)
        for x in range(2)
    ]
    assert out.tolist() == expected


def test_a_kernel_is_no_function() -> None:
    with pytest.raises(tops.LaunchError, match=r"say how many threads run it: scale\[24\]"):
        scale(floats(4), floats(4))
    assert scale.__doc__ == "Scales."
    assert repr(scale.on("i20")) == "<kernel scale for i20>"
    assert isinstance(scale, Kernel)
    assert tops.kernel(scale) is scale


def test_settings(needs_c: None) -> None:
    x, y = floats(100), np.zeros(100, np.float32)
    with pytest.raises(tops.LaunchError, match="no mode 'slow': one of fast"):
        scale.options(mode="slow")
    with pytest.raises(tops.LaunchError, match="no option speed"):
        scale.options(speed=3)
    fast = scale.options(mode="fast")[2](x, y)
    with pytest.raises(tops.LaunchError, match="this launch was not timed"):
        _ = fast.cycles
    timed = scale[2](x, y)
    assert timed.cycles > 0
    assert timed.ns == load("s60").nanoseconds(timed.cycles)
    assert "scale" in timed.report.text()
    assert scale.on("t20")[2](x, y).part.name == "t20"
    piped = scale.options(pipeline=True)[2](x, y)
    assert piped.report.pipeline is not None


def test_an_endless_kernel_is_stopped() -> None:
    @tops.kernel
    def endless(x: tops.ptr(tops.f32)):
        while True:
            pass

    with pytest.raises(tops.KernelFault, match="timeout") as caught:
        endless.options(budget_s=0.05)[1](floats(1))
    assert caught.value.kind.name == "timeout"


# what a launch gives


def test_a_launch_is_its_array() -> None:
    x, y = floats(100), np.zeros(100, np.float32)
    launch = scale[2](x, y, factor=3.0)
    assert np.array_equal(np.asarray(launch), x * 3)
    assert launch["y"] is y
    assert launch.stored == ("y",)
    with pytest.raises(tops.LaunchError, match="has no array 'z': x, y"):
        launch["z"]
    assert repr(launch).startswith("<Launch of scale on s60: 1 x 2 threads")


def test_a_report_of_nothing_used_ends_well(needs_c: None) -> None:
    @tops.kernel
    def idle(n: tops.i32) -> None:  # type: ignore[valid-type]
        pass

    assert idle[1](1).report.text().split("\n")[2] == "bound by launch and tail (overhead)"


def test_a_launch_of_bfloat16_is_an_array_of_numbers() -> None:
    torch = pytest.importorskip("torch")
    x = torch.tensor([[1.5, -2.0]], dtype=torch.bfloat16)
    launch = copy[1](x, torch.zeros_like(x))
    assert np.array_equal(np.asarray(launch).astype(np.float32), [[1.5, -2.0]])
    assert np.asarray(launch, np.float32).dtype == np.float32


def test_a_launch_of_several_arrays_is_none_of_them() -> None:
    @tops.kernel
    def both(x: tops.ptr(tops.f32), y: tops.ptr(tops.f32)):
        tops.store(x[0:1], 1.0)
        tops.store(y[0:1], 2.0)

    @tops.kernel
    def neither(x: tops.ptr(tops.f32)):
        pass

    launch = both[1](floats(1), floats(1))
    with pytest.raises(tops.LaunchError, match=re.escape("both stores to x, y: take one: launch['x']")):
        np.asarray(launch)
    with pytest.raises(tops.LaunchError, match="neither stores nothing"):
        np.asarray(neither[1](floats(1)))


def test_prints_come_out(capsys: pytest.CaptureFixture[str]) -> None:
    x = np.array([1, 2.5, -3], np.float32)
    launch = talk[2](x, 5)
    lines = [
        "thread 0 of 2 2.5", "0: [ 1. ,  2.5, -3. ] 0005 1.250",
        "thread 1 of 2 2.5", "1: [ 1. ,  2.5, -3. ] 0005 1.250",
    ]  # fmt: skip
    assert capsys.readouterr().out.splitlines() == lines
    assert launch.output == lines
    talk.options(quiet=True)[1](x, 5)
    assert capsys.readouterr().out == ""


def test_prints_beyond_the_limit_are_counted(needs_c: None, capsys: pytest.CaptureFixture[str]) -> None:
    @tops.kernel
    def many(n: tops.i32):
        for i in range(n):
            print("a line of some length, so that few of them are needed", i, i, i, i, i, i, i, i)

    launch = many.options(quiet=True)[1](30_000)
    assert 0 < len(launch.output) < 30_000
    dropped = 30_000 - len(launch.output)
    assert capsys.readouterr().err == f"many: {dropped} printed lines were dropped: a thread has 1 MB\n"


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs timers that send signals")
def test_prints_outlive_an_interrupt(needs_c: None, capsys: pytest.CaptureFixture[str]) -> None:
    @tops.kernel
    def endless(n: tops.i32):
        print("begun")
        while n > 0:
            pass

    endless.compile(1)
    # the launch keeps the GIL: only the system's timer can interrupt it
    before = signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
    # whoever started the tests in the background may have it ignored
    interrupt = signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.15)
    try:
        with pytest.raises(KeyboardInterrupt):
            endless[1](1)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        signal.signal(signal.SIGINT, interrupt)
    assert capsys.readouterr().out == "begun\n"


def test_a_fault_names_the_line_and_keeps_the_prints(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(tops.KernelFault) as caught:
        talk[1](floats(3), 0)
    fault = caught.value
    line = talk.function.__code__.co_firstlineno + 5
    assert fault.location[0].line == line
    assert fault.kind.name == "assert"
    assert "too many threads" in fault.message
    assert f"test_kernel_launch.py:{line}:" in fault.message
    assert capsys.readouterr().out.startswith("thread 0 of 1")


# what is compiled anew


def _compiled(kernel: Kernel) -> int:
    return len(kernel._definition.compiled)


def test_a_kernel_is_compiled_once_for_its_types() -> None:
    @tops.kernel
    def one(x: tops.ptr(), N: tops.constexpr = 4):
        tops.store(x[0:4], tops.load(x[0:4]) + N * 1)

    x = np.zeros(8, np.float32)
    first = one.compile(x)
    assert one.compile(x, 4) is first
    assert one.compile(x[::2], N=4) is first
    others = {
        id(program)
        for program in (
            one.compile(x, 8), one.compile(x.astype("i4")), one.compile(x, 4.0), one.compile(x, True),
            one.on("i20").compile(x),
        )
    }  # fmt: skip
    assert len(others) == 5
    assert id(first) not in others
    assert one.source_hash == one.on("i20").source_hash


@pytest.mark.smoke
def test_a_changed_global_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = floats(8), np.zeros(8, np.float32)
    by_global[1](x, y)
    assert np.array_equal(y, x * 2)
    program = by_global.compile(x, y)
    assert by_global.compile(x, y) is program
    monkeypatch.setitem(globals(), "FACTOR", 5)
    by_global[1](x, y)
    assert np.array_equal(y, x * 5)
    monkeypatch.setitem(globals(), "scaled", lambda t: t * 7)
    by_global[1](x, y)
    assert np.array_equal(y, x * 7)


def test_a_changed_closure_is_noticed() -> None:
    factor = 2.0

    @tops.kernel
    def closed(x: tops.ptr(tops.f32), y: tops.ptr(tops.f32)):
        tops.store(y[0:8], tops.load(x[0:8]) * factor)

    x, y = floats(8), np.zeros(8, np.float32)
    closed[1](x, y)
    assert np.array_equal(y, x * 2)
    factor = 3.0
    closed[1](x, y)
    assert np.array_equal(y, x * 3)


def test_zeros_of_either_sign_are_told_apart() -> None:
    zero = 0.0

    @tops.kernel
    def given(y: tops.ptr(tops.f32), ZERO: tops.constexpr):
        tops.store(y[0:1], tops.full(tops.f32, (1,), ZERO))

    @tops.kernel
    def closed(y: tops.ptr(tops.f32)):
        tops.store(y[0:1], tops.full(tops.f32, (1,), zero))

    @tops.kernel
    def one_of(y: tops.ptr(tops.f32), ZEROS: tops.constexpr):
        tops.store(y[0:1], tops.full(tops.f32, (1,), ZEROS[0]))

    device, host = tops.array(np.ones(1, np.float32)), np.ones(1, np.float32)
    for zero in (0.0, -0.0, 0.0):
        tried: list[tuple[Kernel, tuple[Any, ...]]] = [(given, (zero,)), (given, (np.float32(zero),))]
        for kernel, more in (*tried, (closed, ()), (one_of, ((zero,),))):
            kernel[1](host, *more)
            kernel[1](device, *more)
            for y in (host, np.asarray(device)):
                assert np.signbit(y[0]) == np.signbit(zero), (kernel.name, zero)


def test_a_constant_that_is_no_number_is_compiled_once() -> None:
    @tops.kernel
    def fill(y: tops.ptr(tops.f32), VALUE: tops.constexpr):
        tops.store(y[0:1], tops.full(tops.f32, (1,), VALUE))

    y = np.zeros(1, np.float32)
    for _ in range(3):
        fill[1](y, float("nan"))
    assert np.isnan(y[0])
    assert _compiled(fill) == 1


def test_memory_of_compiled_kernels_is_bounded() -> None:
    @tops.kernel
    def many(x: tops.ptr(tops.f32), N: tops.constexpr):
        pass

    for n in range(300):
        many.compile(floats(1), n)
    assert _compiled(many) <= 256


def test_memory_of_grids_is_bounded() -> None:
    @tops.kernel
    def nothing(x: tops.ptr(tops.f32)):
        pass

    x = floats(1)
    for n in range(1, 300):
        nothing[(n,), (1,)](x)
    assert len(nothing._launchers) <= 64
    launcher = nothing[(299,), (1,)]
    assert nothing[(299,), (1,)] is launcher


def test_prepare_compiles_and_launches_nothing() -> None:
    @tops.kernel
    def fill(y: tops.ptr(tops.f32), VALUE: tops.constexpr):
        tops.store(y[0:1], tops.full(tops.f32, (1,), VALUE))

    y = floats(1)
    before = float(y[0])
    fill[1].prepare(y, 7.0)
    assert (y[0], _compiled(fill)) == (before, 1)
    fill[1](y, VALUE=7.0)
    assert (y[0], _compiled(fill)) == (7.0, 1)
    with pytest.raises(tops.LaunchError, match="fill"):
        fill[1].prepare(y)
