"""What the import benchmark runs in a process of its own: `python -m benchmarks.import_child HOW FILE...`
reads the files once
to warm the caches, then prints one JSON object: file -> seconds.

HOW is topsprof (import into a session), hta (HolisticTraceAnalysis's parser) or orjson (`orjson.loads` of
the bytes).
"""

from __future__ import annotations

import gzip
import json
import logging
import sys
import tempfile
import time
from pathlib import Path


def topsprof(path: Path) -> None:
    from topsprof.importers.job import JobOptions, import_files

    with tempfile.TemporaryDirectory() as folder:
        import_files([path], Path(folder) / "x.topsprof", JobOptions())


def hta(path: Path) -> None:
    from hta.common.trace_parser import parse_trace_dataframe
    from hta.configs.parser_config import ParserConfig

    parse_trace_dataframe(str(path), ParserConfig.get_default_cfg())


def orjson(path: Path) -> None:
    from orjson import loads

    loads(gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes())


def main(how: str, files: list[str]) -> None:
    logging.disable(logging.CRITICAL)
    read = {"topsprof": topsprof, "hta": hta, "orjson": orjson}[how]
    read(min(map(Path, files), key=lambda path: path.stat().st_size))  # imports
    found = {}
    for file in files:
        begin = time.perf_counter()
        read(Path(file))
        found[file] = time.perf_counter() - begin
    print("BENCH " + json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
