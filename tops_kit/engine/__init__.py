"""The kernel engine: the machine that runs programs, its tiles, timing, sanitizer and oracle."""
