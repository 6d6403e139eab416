"""ZooKeeper, as far as one partition needs it: live brokers, the `isr` znode, the global epoch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from strandline.ids import NO_BROKER, BrokerEpoch, BrokerId, LeaderEpoch
from strandline.vocabulary.metadata import NEVER_LED, Endpoint, PartitionState, Registration
from tests.simulation.rules import Rule
from tests.simulation.truth import Truth


@dataclass(slots=True)
class Write:
    """A compare-and-set of `isr`, from the moment it was sent until its reply is received or lost."""

    broker: BrokerId
    session: BrokerEpoch
    state: PartitionState
    version: int
    reply: Callable[[int | None], None]
    """Called with the new version, or with None if the outcome is a refusal or unknown."""
    arrived: bool = False
    version_written: int | None = None


class ModelZooKeeper:
    """One copy of the truth. Sessions are the broker epochs of registrations that still stand."""

    def __init__(self, truth: Truth, broken: Rule | None) -> None:
        self.state: PartitionState = NEVER_LED
        self.version = 0
        self.live: dict[BrokerId, Registration] = {}
        self.writes: list[Write] = []
        self._truth = truth
        self._broken = broken
        self._epoch = 0
        self._czxid = 100

    def register(self, broker: BrokerId) -> BrokerEpoch:
        """Another life; an earlier registration of this id is gone."""
        self._czxid += 1
        epoch = BrokerEpoch(self._czxid)
        self.live = {**self.live, broker: Registration(Endpoint(int(broker), "model", 1), epoch)}
        return epoch

    def expire(self, broker: BrokerId) -> None:
        self.live = {b: r for b, r in self.live.items() if b != broker}

    def leave(self, broker: BrokerId) -> None:
        """The registration says from now on that its broker is shutting down (I7)."""
        was = self.live[broker]
        self.live = {**self.live, broker: Registration(was.endpoint, was.epoch, shutting_down=True)}

    def has_session(self, broker: BrokerId, life: BrokerEpoch) -> bool:
        registration = self.live.get(broker)
        return registration is not None and registration.epoch == life

    def next_epoch(self) -> LeaderEpoch:
        """The version that an unconditional write of `/epoch` returns: no other broker gets it."""
        self._epoch += 1
        return LeaderEpoch(self._epoch)

    def arrive(self, write: Write) -> None:
        """A write reaches the server, in the order that the network chose."""
        write.arrived = True
        if not self.has_session(write.broker, write.session):
            return
        if write.version != self.version and self._broken is not Rule.COMPARE_AND_SET:
            return
        before, self.state = self.state, write.state
        self.version += 1
        write.version_written = self.version
        claimed = write.state.leader != NO_BROKER and write.state.leader_epoch != before.leader_epoch
        self._truth.isr_written(write.state, claimed=claimed)
