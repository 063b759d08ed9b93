"""`python -m topsprof`."""

import sys

from topsprof.cli import main

if __name__ == "__main__":
    sys.exit(main())
