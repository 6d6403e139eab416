"""Tracks the other brokers: which are registered, which are suspected, and when this broker last answered
each of them.

It outlives ZooKeeper sessions, as `ReplicaManager` does, which passes every change on to its leaderships.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import structlog

from strandline.broker.core.election.silence import Trust
from strandline.broker.core.election.suspects import Cause, Suspects
from strandline.ids import BrokerEpoch, BrokerId
from strandline.ports import Clock
from strandline.vocabulary.metadata import Registration

logger = structlog.get_logger(__name__)


class Peers:
    """The other brokers as this one knows them. `on_change` is called after each change of `live` or
    `suspects`."""

    def __init__(self, clock: Clock, on_change: Callable[[], None]) -> None:
        self.live: Mapping[BrokerId, Registration] = {}
        self.suspects = Suspects()
        self.trust = Trust()
        self.silent: frozenset[BrokerEpoch] = frozenset()
        """The lives that follow this broker and do not answer its messages. They are no suspects: only this
        broker knows of their silence, and it concerns only the partitions that this broker leads."""
        self._clock = clock
        self._on_change = on_change
        self._answered_at: dict[BrokerId, float] = {}

    @property
    def reachable(self) -> Mapping[BrokerId, Registration]:
        """The brokers that are alive and not suspected."""
        return {broker: each for broker, each in self.live.items() if each.epoch not in self.suspects}

    @property
    def suspected(self) -> frozenset[BrokerId]:
        """The brokers that are registered and suspected."""
        return frozenset(broker for broker, each in self.live.items() if each.epoch in self.suspects)

    def live_changed(self, live: Mapping[BrokerId, Registration]) -> None:
        """Sets the live brokers; the mapping must be a new object."""
        self.live = live
        lives = {registration.epoch for registration in live.values()}
        self.suspects.registered(lives)
        self.trust.registered(lives)
        self._on_change()

    def refused(self, life: BrokerEpoch) -> None:
        """Suspects a registered broker whose port refuses connections. Its partitions become vacant. It
        leaves the ISRs led here that have enough other members, so that no client waits until its session
        ends or it lags too long."""
        broker = self._registered(life)
        if broker is not None and self.suspects.refused(life, self._clock.monotonic()):
            logger.info("broker unreachable", unreachable=broker, broker_epoch=life)
            self._on_change()

    def unheard(self, life: BrokerEpoch) -> None:
        """Suspects a registered broker that enough others do not hear either. Its partitions become vacant,
        as after a refusal."""
        broker = self._registered(life)
        if broker is not None and self.suspects.silent(life, self._clock.monotonic()):
            logger.warning("broker silent", silent=broker, broker_epoch=life)
            self._on_change()

    def _registered(self, life: BrokerEpoch) -> BrokerId | None:
        """The broker that is registered in this life."""
        return next((broker for broker, each in self.live.items() if each.epoch == life), None)

    def reached(self, life: BrokerEpoch) -> None:
        """Ends the suspicion: its port answers, or it has opened another stream. A message on an older stream
        refutes a silence, but not a refusal, since a healthy process may have its port closed to this broker
        for good. As a follower such a broker stays in sync through its messages (`LeaderPartition`); as a
        leader it cannot be followed."""
        cause = self.suspects.reached(life)
        if cause is None:
            return
        if cause is Cause.SILENT:
            self.trust.wronged(life, self._clock.monotonic())
        logger.info("broker reachable again", broker_epoch=life, suspected=cause.value)
        self._on_change()

    def session_ended(self) -> None:
        """Drops the suspicions. The next session tests them again."""
        self.suspects.clear()

    def followers_silent(self, lives: frozenset[BrokerEpoch]) -> None:
        """Sets `silent`. These lives leave the ISRs led here that have enough other members."""
        if lives == self.silent:
            return
        for life in lives - self.silent:
            logger.info("a follower does not answer", broker_epoch=life)
        for life in self.silent - lives:
            logger.info("a follower is no longer awaited", broker_epoch=life)
        self.silent = lives
        self._on_change()

    # --- answers to leaders --------------------------------------------------------------------

    def answered(self, leader: BrokerId) -> None:
        """Notes that this broker received a message of a leader that it follows, and will acknowledge it."""
        self._answered_at[leader] = self._clock.monotonic()

    def answered_at(self, leader: BrokerId) -> float:
        """When it received the last one. That leader has no acknowledgement of a message that it sent
        later."""
        return self._answered_at.get(leader, float("-inf"))
