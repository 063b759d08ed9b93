"""The `efsmi` command: what the simulated devices do, who uses them, and their settings."""
