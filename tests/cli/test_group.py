"""The witness that tells a signal to the group from one to us alone."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="process groups need POSIX")

# In a process of its own group: signals go to the group, some while the witness is being replaced.
BURST = """
import os, signal, sys
from topsprof.capture.group import GroupWitness
os.setpgid(0, 0)
numbers = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
witness = GroupWitness(numbers)
answers = []
place = witness._place
def placing():
    os.killpg(0, signal.SIGHUP)   # before the new witness stands
    place()
    os.killpg(0, signal.SIGUSR1)  # after
    witness._place = place
witness._place = placing
os.killpg(0, signal.SIGTERM)
for number in numbers:
    assert signal.sigtimedwait([number], 10) is not None
    answers.append(witness.saw(number))
os.kill(os.getpid(), signal.SIGUSR1)
signal.sigtimedwait([signal.SIGUSR1], 10)
answers.append(witness.saw(signal.SIGUSR1))
witness.dismiss()
print(answers)
"""


def test_signals_during_a_replacement_are_the_groups() -> None:
    outcome = subprocess.run([sys.executable, "-c", BURST], capture_output=True, text=True, check=False)
    assert outcome.stdout.strip() == "[True, True, True, False]", outcome.stderr
