"""`python -m tops_kit.efsmi`."""

import sys

from tops_kit.efsmi.command import main

sys.exit(main())
