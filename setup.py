"""What pyproject.toml can't state of the build: the engine's C is generated, and compiled on all cores."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError
from setuptools.modified import newer_group

ENGINE = "tops_kit.engine._engine"
FOLDER = Path("tops_kit") / "engine"


class BuildExtensions(build_ext):
    """build_ext that generates sources. Where that fails the extension is left out, as without a compiler."""

    def build_extension(self, ext: Extension) -> None:
        """Compile and link one extension."""
        if ext.name == ENGINE:
            generate()
            ext.depends = sorted(str(path) for kind in ("*.h", "*.inc") for path in FOLDER.rglob(kind))
            made_of = [*ext.sources, *ext.depends]
            if self.force or newer_group(made_of, self.get_ext_fullpath(ext.name), "newer"):
                with ThreadPoolExecutor(os.cpu_count()) as pool:
                    objects = list(pool.map(lambda source: self._compile(ext, source), ext.sources))
                ext.extra_objects = [path for some in objects for path in some]
                ext.sources, ext.depends = [], made_of
        super().build_extension(ext)

    def _compile(self, ext: Extension, source: str) -> list[str]:
        arguments = {"extra_postargs": ext.extra_compile_args, "include_dirs": ext.include_dirs}
        return self.compiler.compile([source], output_dir=self.build_temp, debug=self.debug, **arguments)


def generate() -> None:
    """Write the generated sources, in a process of its own: the package is not installed yet."""
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    command = [sys.executable, "-m", "tops_kit.engine.generate", str(FOLDER / "generated")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CompileError(f"the engine's sources could not be generated: {done.stderr.strip()}")


setup(cmdclass={"build_ext": BuildExtensions})
