"""The other brokers, as this one knows them: who is registered, who is suspected, and when this one last
answered each of them.

Outlives ZooKeeper sessions, as `ReplicaManager` does, which tells its leaderships of every change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import structlog

from strandline.broker.core.election.suspects import Suspects
from strandline.ids import BrokerEpoch, BrokerId
from strandline.ports import Clock
from strandline.vocabulary.metadata import Registration

logger = structlog.get_logger(__name__)


class Peers:
    """See the module. `on_change` is called after each change of `live` or `suspects`."""

    def __init__(self, clock: Clock, on_change: Callable[[], None]) -> None:
        self.live: Mapping[BrokerId, Registration] = {}
        self.suspects = Suspects()
        self._clock = clock
        self._on_change = on_change
        self._answered_at: dict[BrokerId, float] = {}

    @property
    def reachable(self) -> Mapping[BrokerId, Registration]:
        """Who is alive and not suspected."""
        return {broker: each for broker, each in self.live.items() if each.epoch not in self.suspects}

    def live_changed(self, live: Mapping[BrokerId, Registration]) -> None:
        """Who is alive, as a new mapping."""
        self.live = live
        self.suspects.registered({registration.epoch for registration in live.values()})
        self._on_change()

    def refused(self, life: BrokerEpoch) -> None:
        """A broker's port is closed, though it is registered: it is a suspect. Its partitions are vacant,
        and it leaves the ISR of what this broker leads, where enough others are in it: nobody has to wait
        for it until its session ends or it is late."""
        for broker, registration in self.live.items():
            if registration.epoch == life and self.suspects.refused(life, self._clock.monotonic()):
                logger.info("broker unreachable", unreachable=broker, broker_epoch=life)
                self._on_change()
                return

    def heard(self, life: BrokerEpoch) -> None:
        """Its port answers, or it has opened another stream. What it says on a stream that it opened earlier
        is no such word: a process may be well, and its port closed to this broker for good. As a follower it
        is in sync by what it says there (`LeaderPartition`), as a leader nobody can follow it."""
        if self.suspects.heard(life):
            logger.info("broker reachable again", broker_epoch=life)
            self._on_change()

    def session_ended(self) -> None:
        """What was suspected is found out anew in the next session."""
        self.suspects.clear()

    # --- answers to leaders --------------------------------------------------------------------

    def answered(self, leader: BrokerId) -> None:
        """This broker took a message of a leader that it follows, and will acknowledge it."""
        self._answered_at[leader] = self._clock.monotonic()

    def answered_at(self, leader: BrokerId) -> float:
        """When it took the last one: that leader has no acknowledgement of a message that it sent later."""
        return self._answered_at.get(leader, float("-inf"))
