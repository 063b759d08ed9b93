"""The timing report of a launch: where its cycles went, by SIP, unit, cause and line, and what bounds it.

timing = launch_timing(program, spec, result.times, result.counts, block_threads=12)
print(timing.text())
"""

from tops_kit.engine.report.launch_timing import LaunchTiming, launch_timing
from tops_kit.engine.report.lines import LineTiming
from tops_kit.engine.report.pipeline import Pipeline
from tops_kit.engine.report.roofline import Roofline

__all__ = ["LaunchTiming", "LineTiming", "Pipeline", "Roofline", "launch_timing"]
