"""The heartbeats of a member: what they are for the member, whichever driver sends them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager

from strandline.config.consumer import ConsumerSettings
from strandline.consumer.core.heartbeat import Beat, HeartbeatReport, HeartbeatSchedule
from strandline.consumer.delivery import RecordDelivery
from strandline.ports import Clock
from strandline.vocabulary.groups import Joined, JoinGroup, MemberIdGiven

HEARTBEATS_END_S_MAX = 1.0
"""How long a close waits for the last heartbeat to end."""


class Heartbeats(ABC):
    """Carries out what the schedule decides. `report` may be called in another thread than the loop's.

    Every method but `join` and `close` returns at once.
    """

    def __init__(
        self,
        group: str,
        *,
        delivery: RecordDelivery,
        settings: ConsumerSettings,
        clock: Clock,
        report: Callable[[HeartbeatReport], None],
        lock: AbstractContextManager[object],
    ) -> None:
        self._group = group
        self._delivery = delivery
        self._clock = clock
        self._report = report
        self._lock = lock
        self._schedule = HeartbeatSchedule(group, settings)

    @abstractmethod
    async def join(self, address: str, request: JoinGroup, timeout_s: float) -> Joined | MemberIdGiven:
        """Join, and send heartbeats for the new generation from the moment of the answer.

        Raises what the coordinator answers, and OutcomeUnknown if it does not.
        """

    @abstractmethod
    async def close(self) -> bool:
        """End. False if the last heartbeat has not ended within HEARTBEATS_END_S_MAX."""

    @abstractmethod
    def _changed(self) -> None:
        """The schedule has changed, under the lock: ask it again, and cancel what has to be cut."""

    def start(self, member: str, generation: int) -> None:
        """Send heartbeats for this member in this generation from now on."""
        with self._lock:
            self._schedule.start(Beat(member, generation), self._clock.monotonic())
            self._changed()

    def stop(self) -> None:
        """Send no heartbeat until the next start."""
        with self._lock:
            self._schedule.stop()
            self._changed()

    def aim(self, address: str) -> None:
        """Send to the coordinator at this address."""
        with self._lock:
            self._schedule.aim(address, self._clock.monotonic())
            self._changed()

    def extend(self, seconds: float) -> None:
        """Allow the next get call to take this long from now, even beyond `max_poll_interval_ms`."""
        with self._lock:
            self._schedule.extend(self._clock.monotonic() + seconds)
