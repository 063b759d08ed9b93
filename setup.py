"""What pyproject.toml can't state of the build: the engine's C is made from the instruction table."""

import os
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError

ENGINE = "tops_kit.engine._engine"
FOLDER = Path("tops_kit") / "engine"


class BuildExtensions(build_ext):
    """build_ext that generates sources. Where that fails the extension is left out, as without a compiler."""

    def build_extension(self, ext: Extension) -> None:
        """Compile one extension."""
        if ext.name == ENGINE:
            generate()
            ext.depends = sorted(str(path) for kind in ("*.h", "*.inc") for path in FOLDER.rglob(kind))
        super().build_extension(ext)


def generate() -> None:
    """Write the generated sources, in a process of its own: the package is not installed yet."""
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    command = [sys.executable, "-m", "tops_kit.engine.generate", str(FOLDER / "generated")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CompileError(f"the engine's sources could not be generated: {done.stderr.strip()}")


setup(cmdclass={"build_ext": BuildExtensions})
