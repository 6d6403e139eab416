"""The heartbeats of a member: what they are for the member, whichever driver sends them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final, TypeVar

from strandline.adapters.codecs.consumer_groups import CONSUMER_HEARTBEAT
from strandline.adapters.codecs.groups import HEARTBEAT, LEAVE_GROUP
from strandline.consumer.core.heartbeat import HeartbeatReport, Schedule
from strandline.consumer.delivery import RecordDelivery
from strandline.ports import Clock, Method, Request, Response
from strandline.vocabulary.groups import ConsumerHeartbeat, Heartbeat, LeaveGroup

Result = TypeVar("Result")

METHODS: Final[dict[type, Method[Any, Any]]] = {
    Heartbeat: HEARTBEAT,
    ConsumerHeartbeat: CONSUMER_HEARTBEAT,
    LeaveGroup: LEAVE_GROUP,
}
"""The call of each request that a schedule asks for."""

Then = Callable[[Response | None, float], None]
"""Changes a schedule by the answer of a call, or by None if it has failed, at this time."""

HEARTBEATS_END_S_MAX = 1.0
"""How long a close waits for the last heartbeat to end."""


class Heartbeats(ABC):
    """Carries out what the schedule decides. `report` may be called in another thread than the loop's.

    Every method but `ask` and `close` returns at once.
    """

    def __init__(
        self,
        group: str,
        *,
        schedule: Schedule[Any],
        delivery: RecordDelivery,
        clock: Clock,
        report: Callable[[HeartbeatReport], None],
        lock: AbstractContextManager[object],
    ) -> None:
        self._group = group
        self._schedule = schedule
        self._delivery = delivery
        self._clock = clock
        self._report = report
        self._lock = lock

    @abstractmethod
    async def ask(
        self,
        address: str,
        method: Method[Request, Response],
        request: Request,
        timeout_s: float,
        then: Then[Response],
    ) -> Response:
        """Call the coordinator. `then` changes the schedule at the moment of the answer, even while the loop
        is blocked.

        Raises what the coordinator answers, and OutcomeUnknown if it does not.
        """

    @abstractmethod
    async def close(self) -> bool:
        """End. False if the last heartbeat has not ended within HEARTBEATS_END_S_MAX."""

    @abstractmethod
    def _changed(self) -> None:
        """The schedule has changed, under the lock: ask it again, and cancel what has to be cut."""

    def change(self, what: Callable[[float], Result]) -> Result:
        """Change the schedule by a function that takes the time. Returns what that returns."""
        with self._lock:
            result = what(self._clock.monotonic())
            self._changed()
        return result

    def stop(self) -> None:
        """Send no heartbeat until the next start."""
        self.change(lambda _: self._schedule.stop())

    def aim(self, address: str) -> None:
        """Send to the coordinator at this address."""
        self.change(lambda now: self._schedule.aim(address, now))

    def extend(self, seconds: float) -> None:
        """Allow the next get call to take this long from now, even beyond `max_poll_interval_ms`."""
        with self._lock:
            self._schedule.extend(self._clock.monotonic() + seconds)
