"""The GCU's instructions and programs: the table that states each instruction, the format of programs."""
