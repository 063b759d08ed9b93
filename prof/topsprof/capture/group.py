"""Tells a signal that was sent to our whole process group from one that was sent to us alone.

The program is in our group. What is sent to the group (by a terminal, by `timeout`, by a test harness)
reaches it without us, and must not reach it twice; what is sent to us alone has to be passed on. The kernel
doesn't say which it was, so a witness stands in the group: a child that blocks these signals, and whose
pending ones can be read.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection
from pathlib import Path

_SECOND_LOOK_S = 0.002


class GroupWitness:
    """A silent member of our process group. It ends with us, whatever happens to us."""

    def __init__(self, signals: Collection[signal.Signals]) -> None:
        """Places the witness. The caller has blocked `signals`: one of them could end the witness at once."""
        self._signals = signals
        self._leash: int | None = None
        self._pid = 0
        self._carried: set[int] = set()
        self._place()

    @property
    def pid(self) -> int:
        """Process id of the present witness (changes when it has seen a signal)."""
        return self._pid

    def saw(self, number: int) -> bool:
        """Whether the signal `number`, which we just received, was sent to the whole group."""
        carried = number in self._carried
        self._carried.discard(number)
        pending = self._pending()
        if not pending & _bit(number) and not carried:
            # members are served one after another: it may be a moment behind us
            time.sleep(_SECOND_LOOK_S)
            pending = self._pending()
        if pending & _bit(number):
            self._replace(number)
            return True
        return carried

    def _replace(self, number: int) -> None:
        """A pending signal can't be taken back, so the next one of its kind needs a new witness.

        What else reached the group before the new one stood is pending in the old one alone: carried over.
        """
        pid, leash = self._pid, self._leash
        self._place()
        present, present_leash = self._pid, self._leash
        self._pid, self._leash = pid, leash
        pending = self._pending()
        self._carried |= {other for other in self._signals if pending & _bit(other)} - {number}
        self.dismiss()
        self._pid, self._leash = present, present_leash

    def dismiss(self) -> None:
        """End the witness."""
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            self._pid = 0
        if self._leash is not None:
            os.close(self._leash)
            self._leash = None

    def _place(self) -> None:
        end, leash = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                signal.pthread_sigmask(signal.SIG_BLOCK, self._signals)
                os.close(leash)
                os.read(end, 1)  # until our death closes the other end
            finally:
                os._exit(0)
        os.close(end)
        self._pid, self._leash = pid, leash

    def _pending(self) -> int:
        try:
            for line in Path(f"/proc/{self._pid}/status").read_text().splitlines():
                if line.startswith("ShdPnd:"):
                    return int(line.split()[1], 16)
        except OSError:
            pass  # no /proc, or the witness was killed: then every signal counts as ours alone
        return 0


def _bit(number: int) -> int:
    return 1 << (number - 1)
