"""What goes wrong on a device: at which call it is told, with what, and what works after it."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tops_kit as tops

from .programs import floats, picky, run_program, scale, spin


@pytest.fixture(autouse=True)
def _begin_anew() -> Any:
    yield
    tops.device_reset()


def test_a_kernel_fails_at_a_later_call_with_the_launchs_lines() -> None:
    x, y = tops.zeros(64), tops.array(floats(64))
    launch = picky[1](x, 3)
    assert repr(launch) == "<Launch of picky on s60, failed>"
    with pytest.raises(tops.TopsError) as caught:
        tops.synchronize()
    error = caught.value
    assert (error.code, error.name) == (710, "topsErrorAssert")
    line = test_a_kernel_fails_at_a_later_call_with_the_launchs_lines.__code__.co_firstlineno + 2
    assert error.launched_at[0].endswith(f"test_errors.py:{line} in {error.launched_at[0].split(' in ')[1]}")
    assert isinstance(error.fault, tops.KernelFault)
    assert "too few" in str(error)
    assert "\n" not in str(error)
    again = pickle.loads(pickle.dumps(error))
    assert (again.code, again.launched_at, str(again)) == (error.code, error.launched_at, str(error))
    # for good, at every call of this device
    for use in (
        lambda: scale[2](y, y), lambda: y.numpy(), lambda: tops.malloc(4), tops.Stream, tops.synchronize,
        lambda: launch.cycles, launch.wait, lambda: scale[2](floats(64), floats(64)),
    ):  # fmt: skip
        with pytest.raises(tops.TopsError, match="topsErrorAssert"):
            use()
    assert tops.last_error() == 710
    tops.device_reset()
    assert tops.last_error() == 0
    with pytest.raises(tops.TopsError, match=r"0x[0-9a-f]+ was reset: allocate it again"):
        y.numpy()
    z = tops.zeros(64)
    scale[2](tops.array(floats(64)), z)
    assert np.allclose(z.numpy(), floats(64) * 2)


def test_nothing_runs_behind_a_kernel_that_failed(needs_c: None, model_clock: None) -> None:
    x, y = tops.array(floats(64)), tops.zeros(64)
    out = tops.host_malloc(64, np.float32)
    stream = tops.Stream()
    stream.synchronize()
    with stream:
        spin[1](tops.zeros(64), 200_000)
        picky[1](x, 3)
        later = scale[2](x, y)
        tops.memcpy_async(out, x)
        tops.launch_host_func(out.fill, 5)
    with pytest.raises(tops.TopsError, match="topsErrorAssert"):
        stream.synchronize()
    assert not out.any()
    tops.host_free(out)
    with pytest.raises(tops.LaunchError, match="did not run"):
        _ = later.result


def test_endless_kernels_time_out() -> None:
    @tops.kernel
    def endless(x: tops.ptr(tops.f32)):
        while True:
            pass

    endless.options(budget_s=0.05)[1](tops.zeros(4))
    with pytest.raises(tops.TopsError, match=r"topsErrorLaunchTimeOut \(702\)"):
        tops.synchronize()


def test_accesses_outside_are_illegal_addresses() -> None:
    @tops.kernel
    def outside(x: tops.ptr(tops.f32), n: tops.i32):
        tops.store(x[n : n + 4], tops.load(x[0:4]))

    outside[1](tops.zeros(8), 6)
    with pytest.raises(tops.TopsError, match=r"topsErrorIllegalAddress \(700\): kernel outside, launched at"):
        tops.synchronize()


def test_arrays_of_host_and_device_do_not_mix() -> None:
    with pytest.raises(tops.LaunchError, match=r"scale: y lies on the host \(ndarray\).* tops\.asarray\(y\)"):
        scale[2](tops.zeros(64), floats(64))
    with pytest.raises(
        tops.TopsError, match=r"topsErrorNoBinaryForGpu \(209\): kernel scale is compiled for t20"
    ):
        scale.on("t20")[2](tops.zeros(64), tops.zeros(64))


def test_on_the_hosts_arrays_kernels_fail_at_once() -> None:
    with pytest.raises(tops.KernelFault, match="too few"):
        picky[1](floats(64), 3)
    picky[1](floats(64), 6)
    tops.synchronize()


def test_launches_of_other_parts_on_the_hosts_arrays() -> None:
    x, y = floats(64), np.zeros(64, np.float32)
    assert scale.on("t20")[2](x, y).part.name == "t20"
    assert np.allclose(y, x * 2)


def test_numbers_and_names_of_errors() -> None:
    assert tops.error_name(700) == "topsErrorIllegalAddress"
    assert tops.error_string(2) == "the device has not that much memory left"
    assert tops.error_name(12345) == "topsErrorUnknown"
    assert tops.error_name(0) == "topsSuccess"
    assert issubclass(tops.LaunchError, tops.TopsError)
    with pytest.raises(tops.LaunchError) as caught:
        scale[2](1, 2)
    assert (caught.value.code, caught.value.name) == (1, "topsErrorInvalidValue")


def test_devices_that_are_not_there() -> None:
    for use in (lambda: tops.set_device(7), lambda: tops.Stream(device=-1), lambda: tops.Device(1.0)):
        with pytest.raises(
            tops.TopsError, match=r"topsErrorInvalidDevice \(101\): there is no device .* sees 0"
        ):
            use()


def test_a_program_without_devices(tmp_path: Any) -> None:
    outcome = run_program(
        """
        print(tops.device_count())
        x = np.ones(64, "f4")
        scale[2](x, x)
        print(x.sum())
        try:
            tops.zeros(3)
        except tops.TopsError as error:
            print(error)
        """,
        tmp_path,
        TOPS_VISIBLE_DEVICES="",
    )
    assert outcome.stdout.splitlines() == [
        "0", "128.0",
        "topsErrorNoDevice (100): this program sees no device: see TOPS_DEVICES and TOPS_VISIBLE_DEVICES",
    ]  # fmt: skip


def test_blocking_launches_fail_where_they_are(tmp_path: Any) -> None:
    outcome = run_program(
        """
        @tops.kernel
        def wrong(x: tops.ptr(tops.f32)):
            assert x.shape[0] > 100, "small"
        try:
            wrong[1](tops.zeros(4))
        except tops.TopsError as error:
            print(error.name)
        """,
        tmp_path,
        TOPS_LAUNCH_BLOCKING="1",
    )
    assert outcome.stdout == "topsErrorAssert\n"


def test_an_error_that_nobody_waited_for_is_told_at_the_end(tmp_path: Path) -> None:
    failing = """
    x = tops.zeros(64)
    scale[1](x, tops.zeros(32))
    """
    quiet = {"PYTHONWARNINGS": "ignore::UserWarning"}  # without the C engine one says so
    done = run_program(failing, tmp_path, **quiet)
    (line,) = done.stderr.splitlines()
    assert line.startswith(
        "tops_kit: device 0 failed, and the program ended without waiting for it: topsError"
    )
    assert "kernel scale, launched at" in line
    caught = """
    try:
        tops.synchronize()
    except tops.TopsError:
        pass
    """
    assert run_program(failing + caught, tmp_path, **quiet).stderr == ""
