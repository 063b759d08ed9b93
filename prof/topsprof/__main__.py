"""`python -m topsprof`."""

import sys

from topsprof_start import main

if __name__ == "__main__":
    sys.exit(main())
