"""Kernels from texts, as files of a user's."""

from __future__ import annotations

import importlib.util
import itertools
import textwrap
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

_HEAD = "import math\nimport numpy as np\nimport tops_kit as tops\n"


@pytest.fixture
def load_text(tmp_path: Path) -> Callable[[str], ModuleType]:
    """Import a text as a module; math, np and tops are imported on its first three lines."""
    numbers = itertools.count()

    def load(text: str) -> ModuleType:
        path = tmp_path / f"kernels{next(numbers)}.py"
        path.write_text(_HEAD + textwrap.dedent(text), encoding="utf-8")
        specification = importlib.util.spec_from_file_location(path.stem, path)
        assert specification is not None and specification.loader is not None
        module = importlib.util.module_from_spec(specification)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # of what kernels refuse, Python warns
            specification.loader.exec_module(module)
        return module

    return load
