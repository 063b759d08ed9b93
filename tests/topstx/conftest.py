"""Programs that record, in processes of their own, and what they left in their session's files."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = os.pathsep.join(str(ROOT / folder) for folder in ("tx", "prof", "."))


def _load_reader() -> ModuleType:
    spec = importlib.util.spec_from_file_location("ring_reader", Path(__file__).with_name("ring_reader.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["ring_reader"] = module
    spec.loader.exec_module(module)
    return module


READER = _load_reader()


def extension_missing() -> str | None:
    """Why the C extension can't be tested here, or None. Where CI requires it, its absence is a failure."""
    from importlib.util import find_spec

    if find_spec("topstx.recorder._crec") is None and not os.environ.get("TOPSKIT_REQUIRE_C"):
        return "the C extension is not built"
    if os.environ.get("TOPSKIT_PURE", "") not in ("", "0"):
        return "TOPSKIT_PURE is set"
    return None


class Program:
    """Runs Python code under a recording without a collector: what it publishes stays in the files."""

    def __init__(self, backend: str, folder: Path) -> None:
        self.backend = backend
        self.folder = folder
        self.reader = READER
        self.created = False

    def environment(self, **more: str) -> dict[str, str]:
        keep = {
            key: value for key, value in os.environ.items() if not key.startswith(("TOPSTX_", "TOPSKIT_"))
        }
        choice = {"TOPSKIT_REQUIRE_C": "1"} if self.backend == "c" else {"TOPSKIT_PURE": "1"}
        return {**keep, **choice, "PYTHONPATH": SOURCES, "TOPSTX_SESSION": str(self.folder), **more}

    def create(self, **options: Any) -> Path:
        self.created = True
        created: Path = READER.create_session(self.folder, **options)
        return created

    def start(
        self, code: str, *args: str, env: dict[str, str] | None = None, **more: Any
    ) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", textwrap.dedent(code), *args]
        return subprocess.Popen(
            command,
            env=self.environment(**(env or {})),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **more,
        )

    def __call__(
        self, code: str, *args: str, expect: int | None = 0, env: dict[str, str] | None = None, **options: Any
    ) -> Any:
        """Run `code`; the recording. `options` are those of the control file; `expect` is the exit code
        (None: any).
        """
        if not self.created:
            self.create(**options)
        with self.start(code, *args, env=env) as process:
            out, err = process.communicate(timeout=120)
        assert expect is None or process.returncode == expect, (process.returncode, out, err)
        self.stdout, self.stderr, self.returncode = out, err, process.returncode
        return self.read()

    def read(self) -> Any:
        return READER.read_recording(self.folder)


@pytest.fixture(params=["c", "twin"])
def backend(request: pytest.FixtureRequest) -> str:
    """Each back end in turn."""
    reason = extension_missing() if request.param == "c" else None
    if reason:
        pytest.skip(reason)
    return str(request.param)


@pytest.fixture
def program(backend: str, tmp_path: Path) -> Program:
    return Program(backend, tmp_path / "session")


@pytest.fixture
def c_program(tmp_path: Path) -> Program:
    reason = extension_missing()
    if reason:
        pytest.skip(reason)
    return Program("c", tmp_path / "session")


@pytest.fixture(scope="session")
def ring_reader() -> ModuleType:
    return READER


@pytest.fixture(scope="session")
def compile_c(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Compiles a C or C++ source against the recorder's headers; skips where there is no compiler."""
    import shutil

    include = ROOT / "tx" / "topstx" / "recorder" / "include"

    def build(source: Path | str, *flags: str, language: str = "c") -> Path:
        compiler = shutil.which("gcc" if language == "c" else "g++")
        if compiler is None or "false" in os.environ.get("CC", ""):
            pytest.skip(f"no compiler for {language}")
        folder = tmp_path_factory.mktemp("compiled")
        if isinstance(source, str):
            (folder / "program.c").write_text(source)
            source = folder / "program.c"
        target = folder / "program"
        command = [
            compiler,
            "-x",
            language,
            *flags,
            f"-I{include}",
            str(source),
            "-o",
            str(target),
            "-lpthread",
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0 and not done.stderr, done.stderr
        return target

    return build
