"""The machine in Python: slow, short, and made from the same table; what the C machine is compared with.

It runs every program that the C machine runs, with the same results, faults, prints and counts, and serves
where the C engine isn't built.
"""

from tops_kit.engine.oracle.interpreter import Oracle
from tops_kit.engine.oracle.outcome import Fault, Outcome

__all__ = ["Fault", "Oracle", "Outcome"]
