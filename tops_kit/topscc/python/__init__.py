"""The Python surface: functions under `@tops.kernel`, read by their source and built into a kernel's tree."""
