"""The knowledge of an observer that sees everything, and the claims that must hold at every step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from strandline.ids import NO_BROKER, BrokerEpoch, BrokerId, LeaderEpoch
from strandline.vocabulary.metadata import PartitionState
from tests.simulation.memory_log import MemoryLog, Record


class Violation(AssertionError):
    """A claim about the log does not hold; the message says which."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """One produce request."""

    offset: int
    record: Record


@dataclass(frozen=True, slots=True)
class Holder:
    """A disk that some broker could lead from, and the lives whose promises it still keeps."""

    broker: BrokerId
    log: MemoryLog
    lives: frozenset[BrokerEpoch]


class Truth:
    """Every committed and acknowledged record, over all leaders, zombies included."""

    def __init__(self, min_insync: int, holders: Callable[[], Iterable[Holder]]) -> None:
        self.committed: list[Record] = []
        self.acknowledged: set[Ticket] = set()
        self._min_insync = min_insync
        self._holders = holders
        self._record: PartitionState | None = None
        self._epochs_claimed: set[LeaderEpoch] = set()
        self._led: set[LeaderEpoch] = set()
        self._ever_held: defaultdict[tuple[int, Record], set[BrokerId]] = defaultdict(set)
        self._shown: dict[LeaderEpoch, tuple[int, int]] = {}

    @property
    def elections(self) -> int:
        """Leaderships that were exercised."""
        return len(self._led)

    # --- what happens ------------------------------------------------------------------------

    def appended(self, broker: BrokerId, offset: int, records: Iterable[Record]) -> None:
        for at, record in enumerate(records, offset):
            self._ever_held[at, record].add(broker)

    def committed_up_to(self, end: int, log: MemoryLog) -> None:
        """A leader moved its HW: records below it are committed, under every later leader."""
        known = len(self.committed)
        common = min(known, end)
        if log.records[:common] != self.committed[:common]:
            raise Violation(f"H3: HW {end} commits another past: {log.records[:end]} != {self.committed}")
        if end <= known:
            return
        for offset in range(known, end):
            held = self._ever_held[offset, log.records[offset]]
            if len(held) < self._min_insync:
                raise Violation(f"H5: offset {offset} committed, only {sorted(held)} ever had it")
        self.committed += log.records[known:end]
        self.check_members()

    def acknowledge(self, ticket: Ticket, *, leads: bool) -> None:
        if not leads:
            raise Violation(f"H6: {ticket} is acknowledged after its leadership ended")
        if ticket in self.acknowledged:
            raise Violation(f"H6: {ticket} is acknowledged twice")
        if ticket.offset >= len(self.committed) or self.committed[ticket.offset] != ticket.record:
            raise Violation(f"H6: {ticket} is acknowledged, committed is {self.committed}")
        self.acknowledged.add(ticket)

    def elected(self, broker: BrokerId, epoch: LeaderEpoch, log: MemoryLog) -> None:
        if epoch in self._led:
            raise Violation(f"E7: epoch {epoch} is led twice, now by {broker}")
        self._led.add(epoch)
        # A process that learns so late of its election that it already has a successor is no leader of
        # record.
        if self._record is not None and self._record.leader_epoch == epoch:
            self._holds(broker, log)

    def shown(self, epoch: LeaderEpoch, high_watermark: int) -> None:
        """A leader reports its HW to a client: later epochs never report less than earlier ones (H1)."""
        low, high = self._shown.get(epoch, (high_watermark, high_watermark))
        if high_watermark < high:
            raise Violation(f"H1: epoch {epoch} shows HW {high_watermark} after {high}")
        for other, (other_low, other_high) in self._shown.items():
            before = other_high if other < epoch else high_watermark
            after = high_watermark if other < epoch else other_low
            if other != epoch and before > after:
                raise Violation(f"H1: epochs {other} and {epoch} show HW {before}, then {after}")
        self._shown[epoch] = (low, high_watermark)

    def exposed(self, broker: BrokerId, log: MemoryLog, high_watermark: int) -> None:
        """A replica takes a HW: what lies below counts as committed there."""
        if log.records[:high_watermark] != self.committed[:high_watermark]:
            raise Violation(f"T10: {broker} at HW {high_watermark} shows what is not committed")

    def isr_written(self, state: PartitionState, *, claimed: bool) -> None:
        if not state.isr or (state.leader != NO_BROKER and state.leader not in state):
            raise Violation(f"I8: {state} lacks its leader")
        if claimed:
            if state.leader_epoch in self._epochs_claimed:
                raise Violation(f"E5: epoch {state.leader_epoch} is claimed twice")
            self._epochs_claimed.add(state.leader_epoch)
        self._record = state
        self.check_members()

    # --- what must hold ----------------------------------------------------------------------

    def check_members(self) -> None:
        """Every replica that may be elected has every committed record."""
        if self._record is None:
            return
        members = {member.broker: member.broker_epoch for member in self._record.isr}
        for holder in self._holders():
            if members.get(holder.broker) in holder.lives:
                self._holds(holder.broker, holder.log)

    def _holds(self, broker: BrokerId, log: MemoryLog) -> None:
        if log.records[: len(self.committed)] != self.committed:
            raise Violation(
                f"E2: {broker} may lead by {self._record}, has {log.records}, committed is {self.committed}"
            )
