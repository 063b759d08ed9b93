"""Exclusive SIPs: a process that reserves some has them alone, until it gives them back or ends."""

from __future__ import annotations

from dataclasses import dataclass

from tops_kit.errors import UserError
from tops_kit.gcu.state import claims, slots
from tops_kit.gcu.state import layout as at
from tops_kit.gcu.state.claims import Claim
from tops_kit.gcu.state.shared import Words


class SipsReservedError(UserError):
    """So many SIPs are not free: the message says who has them."""


@dataclass(frozen=True)
class Reservation:
    """SIPs that a process has alone: by cluster, the numbers of its SIPs."""

    by_cluster: tuple[tuple[int, tuple[int, ...]], ...]

    @property
    def clusters(self) -> int:
        """How many clusters it has SIPs in."""
        return len(self.by_cluster)

    @property
    def sips(self) -> int:
        """How many SIPs it has."""
        return sum(len(sips) for _, sips in self.by_cluster)


class Sips:
    """The SIPs of a device, or of a slice (`first`: where in the device it begins)."""

    def __init__(self, claim: Claim, first: int, clusters: int, sips_per_cluster: int) -> None:
        self.clusters = clusters
        self.sips_per_cluster = sips_per_cluster
        self.own: set[int] = set()  # numbers of SIPs that streams of this process have for themselves
        self._claim = claim
        self._first = first

    @property
    def count(self) -> int:
        """SIPs of all clusters."""
        return self.clusters * self.sips_per_cluster

    def reserve(self, clusters: int, sips: int) -> Reservation:
        """Reserve `sips` SIPs in each of `clusters` clusters for this process alone.

        SIPs that the process has reserved before stay with it. Raises ValueError for numbers that the device
        does not have, and SipsReservedError.
        """
        if not 1 <= clusters <= self.clusters or not 1 <= sips <= self.sips_per_cluster:
            raise ValueError(
                f"{clusters} clusters x {sips} SIPs: the device has {self.clusters} x {self.sips_per_cluster}"
            )
        self._claim.take()
        return self._claim.state.locked(lambda: self._reserve(clusters, sips))

    def release(self, reservation: Reservation) -> None:
        """Give back what `reserve` gave. SIPs that are not this process's any more are left alone."""
        if self._claim.held:
            self._claim.state.locked(lambda: self._release(reservation))

    def available(self) -> tuple[int, ...]:
        """For each cluster, how many SIPs this process may use: its own, and those that nobody reserved."""
        mine = self._mark if self._claim.held else -1
        owners = self._claim.state.layout.owners

        def count(words: Words) -> tuple[int, ...]:
            return tuple(
                sum(
                    words[owners + self._at(cluster, sip)] in (0, mine)
                    for sip in range(self.sips_per_cluster)
                )
                for cluster in range(self.clusters)
            )

        return self._claim.state.look(count) or (self.sips_per_cluster,) * self.clusters

    def left(self) -> tuple[int, int]:
        """Clusters, and SIPs of each one, for kernels that have none for themselves: whole clusters where
        there are any, else parts of clusters. (0, 0): nothing is left.
        """
        state = self._claim.state
        return state.look(self.left_of) or (self.clusters, self.sips_per_cluster)

    def left_of(self, words: Words) -> tuple[int, int]:
        """The same, of a state's words."""
        first, per = self._claim.state.layout.owners + self._first, self.sips_per_cluster
        owners = words[first : first + self.count].tolist()
        if not any(owners):
            return self.clusters, per
        mine = self._mark if self._claim.held else 0
        free = [owner in (0, mine) and sip not in self.own for sip, owner in enumerate(owners)]
        counts = [sum(free[k * per : (k + 1) * per]) for k in range(self.clusters)]
        whole = counts.count(per)
        if whole:
            return whole, per
        found = max((sum(other >= count for other in counts) * count, count) for count in counts)
        return (found[0] // found[1], found[1]) if found[1] else (0, 0)

    def holders(self) -> str:
        """Who has SIPs reserved, as a text."""
        return self._claim.state.look(lambda _: self._holders()) or "nobody"

    def numbers(self, reservation: Reservation) -> set[int]:
        """The SIPs of a reservation, numbered over the device."""
        return {
            cluster * self.sips_per_cluster + sip
            for cluster, chosen in reservation.by_cluster
            for sip in chosen
        }

    def _reserve(self, clusters: int, sips: int) -> Reservation:
        self._claim.check()
        found = self._free(clusters, sips)
        if found is None and claims.reap(self._claim.state):
            found = self._free(clusters, sips)
        if found is None:
            raise SipsReservedError(
                f"{self._claim.name} lacks {clusters} clusters with {sips} free SIPs each: {self._holders()}"
            )
        words, owners = self._claim.state.words, self._claim.state.layout.owners
        for cluster, chosen in found:
            for sip in chosen:
                words[owners + self._at(cluster, sip)] = self._mark
        words[at.H_NEWS] += 1
        return Reservation(tuple(found))

    def _free(self, clusters: int, sips: int) -> list[tuple[int, tuple[int, ...]]] | None:
        words, owners = self._claim.state.words, self._claim.state.layout.owners
        found = []
        for cluster in range(self.clusters):
            free = [s for s in range(self.sips_per_cluster) if not words[owners + self._at(cluster, s)]]
            if len(free) >= sips:
                found.append((cluster, tuple(free[:sips])))
        return found[:clusters] if len(found) >= clusters else None

    def _release(self, reservation: Reservation) -> None:
        words, owners = self._claim.state.words, self._claim.state.layout.owners
        for cluster, chosen in reservation.by_cluster:
            for sip in chosen:
                place = owners + self._at(cluster, sip)
                if words[place] == self._mark:
                    words[place] = 0
        words[at.H_NEWS] += 1

    def _holders(self) -> str:
        state = self._claim.state
        words, owners = state.words, state.layout.owners
        held: dict[int, int] = {}
        for sip in range(self._first, self._first + self.count):
            if words[owners + sip]:
                held[words[owners + sip]] = held.get(words[owners + sip], 0) + 1
        parts = []
        for mark, count in held.items():
            slot = state.layout.slot(mark - 1)
            parts.append(f"process {words[slot + at.S_PID]} ({slots.command(words, slot)[:40]}) has {count}")
        return ", ".join(parts) or "all are free"

    def _at(self, cluster: int, sip: int) -> int:
        return self._first + cluster * self.sips_per_cluster + sip

    @property
    def _mark(self) -> int:
        return (self._claim.slot - self._claim.state.layout.slots) // at.SLOT_WORDS + 1
