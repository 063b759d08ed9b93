"""The collector process: `python -m tops_kit.collect FOLDER`, see `process`."""

from __future__ import annotations

import os
import sys

from tops_kit import libraries
from tops_kit.errors import UserError


def main() -> int:
    """Collect; 2 when a library can't be loaded, which whoever waits for `ready` is told in one line."""
    libraries.watch()
    try:
        from tops_kit.collect.process import main as collect
    except UserError as error:
        print(error, flush=True)
        return error.exit_code
    except Exception as error:
        line = libraries.problem(error)
        if line is None:
            raise
        print(line, flush=True)
        return 2
    return collect()


if __name__ == "__main__":
    exit_code = main()
    sys.stdout.flush()
    # All is written: taking numpy, pyarrow and the journal's mappings down would only keep someone waiting.
    os._exit(exit_code)
