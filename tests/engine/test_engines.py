"""Which engine serves a launch."""

from __future__ import annotations

import gc
import warnings
import weakref

import numpy as np
import pytest

from tops_kit import extension
from tops_kit.engine import launch as module
from tops_kit.engine.c_engine import CEngine
from tops_kit.engine.launch import Engines, GlobalArray, launch
from tops_kit.errors import UserError
from tops_kit.isa.assembler import Assembler
from tops_kit.isa.dtypes import I32
from tops_kit.isa.program import Program

pytestmark = pytest.mark.smoke


def add_one() -> Program:
    asm = Assembler()
    x = asm.pointer("x", I32, atomic=True)
    asm.op("tptr", "all", x)
    asm.op("tindex", "one", "all", 0, asm.constant(0))
    asm.op("atomic_add", "old", "one", asm.constant(1))
    asm.op("printarg", "old", 0)
    asm.op("print", "was {}")
    asm.op("end")
    return asm.finish()


def test_without_c_the_oracle_serves_and_says_so_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extension, "load", lambda *_, **__: (None, "not built: no C compiler"))
    monkeypatch.setattr(module, "ENGINES", Engines())
    x = np.full(1, 5, np.int32)
    arguments = [GlobalArray.of(x, I32)]
    with pytest.warns(
        UserWarning, match=r"slowly, for want of the C engine \(not built: no C compiler\)$"
    ) as seen:
        result = launch(add_one(), arguments, grid=(1,), block=(1,))
    assert [one.filename for one in seen] == [__file__]
    assert (result.engine, result.output, x[0]) == ("oracle", ["was 5"], 6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        launch(add_one(), arguments, grid=(1,), block=(1,))
    with pytest.raises(ValueError, match="the C engine: not built"):
        launch(add_one(), arguments, grid=(1,), block=(1,), engine="c")


def test_the_oracle_on_request(c_engine: CEngine) -> None:
    x = np.full(1, 5, np.int32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for engine, before in (("oracle", 5), ("c", 6), (None, 7)):
            result = launch(add_one(), [GlobalArray.of(x, I32)], grid=(1,), block=(1,), engine=engine)  # type: ignore[arg-type]
            assert (result.engine, result.output) == (
                "oracle" if engine == "oracle" else "c",
                [f"was {before}"],
            )


def test_a_program_is_made_ready_once_and_forgotten_with_it(c_engine: CEngine) -> None:
    program = add_one()
    assert c_engine.prepared(program) is c_engine.prepared(program)
    kept = len(c_engine._prepared)
    del program
    assert len(c_engine._prepared) == kept - 1


def test_which_tiles_are_used_is_known(c_engine: CEngine) -> None:
    assert c_engine.tiles in ("generic", "avx2", "avx512")


def test_tiles_that_this_machine_does_not_have(c_engine: CEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOPSKIT_TILES", "sse9")
    with pytest.raises(UserError, match=r"^TOPSKIT_TILES is 'sse9': this machine has generic"):
        Engines().c()
    assert c_engine.module.tile_path() == c_engine.tiles
    for name in ("", c_engine.tiles):
        monkeypatch.setenv("TOPSKIT_TILES", name)
        assert Engines().c() is not None


def test_the_oracle_forgets_programs() -> None:
    engines = Engines()
    first = add_one()
    engines.oracle(first)
    gone = weakref.ref(first)
    kept = add_one()
    for _ in range(200):
        engines.oracle(add_one())
        oracle = engines.oracle(kept)  # in use: not made again
    assert engines.oracle(kept) is oracle
    del first
    gc.collect()
    assert gone() is None
