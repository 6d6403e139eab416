"""Decides when a member sends heartbeats, and when its application is overdue.

A member of the group sends one heartbeat after the other; the coordinator holds each for up to an interval,
so that it can answer with news at once. An application that makes no get call for `max_poll_interval_ms` is
overdue: the member leaves the group, and sends no heartbeat until the next `start`.

`Schedule` is what members have in common, `HeartbeatSchedule` that of a member whose leader assigns. That of
one whose coordinator assigns is in `assigned/schedule.py`.

Times are seconds of the monotonic clock. A driver asks `next` what to do, and reports the end of each
heartbeat by `ended`. A driver with several threads holds one lock around each call.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import count
from typing import Generic, TypeVar

from strandline.config.consumer import ConsumerSettings
from strandline.errors import NotCoordinator, StrandlineError
from strandline.vocabulary.groups import (
    ConsumerBeat,
    ConsumerHeartbeat,
    Heartbeat,
    Joined,
    LeaveGroup,
    LeavingMember,
    MemberIdGiven,
)

Answer = TypeVar("Answer")
"""What the coordinator answers to a heartbeat."""


@dataclass(frozen=True, slots=True)
class Beat:
    """Whom heartbeats are for, and its generation; or its epoch, if the coordinator assigns."""

    member: str
    generation: int


# --- what to do next ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SendHeartbeat:
    """Send the request, and call `ended` with its answer or its error."""

    beat: Beat
    address: str
    request: Heartbeat | ConsumerHeartbeat
    timeout_s: float


@dataclass(frozen=True, slots=True)
class LeaveOverdue:
    """Report that the application is overdue, then send the request, if there is one."""

    report: Overdue
    address: str | None
    request: LeaveGroup | ConsumerHeartbeat | None
    timeout_s: float


@dataclass(frozen=True, slots=True)
class Wait:
    """Ask again after this many seconds, and at once after each change. None: only after a change."""

    seconds: float | None


# --- reports to the member ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Refused:
    """The heartbeat for `beat` was refused, or not answered."""

    beat: Beat
    address: str
    error: StrandlineError


@dataclass(frozen=True, slots=True)
class News:
    """The coordinator has answered the heartbeat for `beat` with another epoch or an assignment."""

    beat: Beat
    answer: ConsumerBeat


@dataclass(frozen=True, slots=True)
class Overdue:
    """No get call for this long. The member leaves the group, unless it is a static one."""

    beat: Beat
    silent_s: float


@dataclass(frozen=True, slots=True)
class Stopped:
    """The driver failed unexpectedly. Without heartbeats the member would be removed without notice."""

    error: Exception


HeartbeatReport = Refused | News | Overdue | Stopped


class Schedule(ABC, Generic[Answer]):
    """Decides what one member sends next."""

    def __init__(self, group: str, settings: ConsumerSettings) -> None:
        self._group = group
        self._settings = settings
        self._beat: Beat | None = None
        self._address: str | None = None
        self._due_at = 0.0
        """When to send the next heartbeat."""
        self._polled_at = 0.0
        self._extended_to = 0.0
        self._sent: SendHeartbeat | None = None
        """The heartbeat in flight."""
        self.cut = False
        """True if the heartbeat in flight has to be cancelled: its end says nothing about the coordinator."""
        self.closed = False

    @abstractmethod
    def _request(self, beat: Beat, wait_ms: int) -> Heartbeat | ConsumerHeartbeat:
        """The next heartbeat, which the coordinator may hold for `wait_ms`."""

    @abstractmethod
    def _farewell(self, beat: Beat, reason: str) -> LeaveGroup | ConsumerHeartbeat | None:
        """Takes the member out of the group; None if it is to stay."""

    @abstractmethod
    def _answered(self, sent: SendHeartbeat, answer: Answer, now: float) -> News | None: ...

    @property
    @abstractmethod
    def _interval_ms(self) -> int: ...

    @property
    @abstractmethod
    def _grace_ms(self) -> float:
        """How long a heartbeat may take beyond the time that it is held."""

    @property
    def beating(self) -> bool:
        """True from a `start` until a `stop`, the close, or an overdue application."""
        return self._beat is not None

    def start(self, beat: Beat, now: float) -> None:
        """Send heartbeats for this member and generation from now on."""
        if self.closed or self._beat == beat:
            return
        if self._beat is None:
            self._polled_at = now
        self._beat = beat
        self._due_at = now

    def stop(self) -> None:
        """Send no heartbeat until the next `start`."""
        self._beat = None
        self.cut = self._sent is not None

    def close(self) -> None:
        """End: no later call starts anything."""
        self.closed = True
        self.stop()

    def aim(self, address: str, now: float) -> None:
        """Send to this coordinator."""
        if address != self._address:
            self._address = address
            self._due_at = now
            self.cut = self._sent is not None

    def extend(self, until: float) -> None:
        """The application is not overdue before this time."""
        self._extended_to = until

    def next(self, now: float, *, polled: bool) -> SendHeartbeat | LeaveOverdue | Wait:
        """What to do now. `polled`: the application made a get call since the last time, or is in one.

        Not while a heartbeat is in flight.
        """
        assert self._sent is None, self._sent
        if self._beat is None:
            return Wait(None)
        if polled:
            self._polled_at = now
        left_s = self._overdue_at - now
        if left_s <= 0:
            return self._leave(self._beat, now)
        if self._address is None:
            return Wait(left_s)
        if now < self._due_at:
            return Wait(min(left_s, self._due_at - now))
        return self._send(self._beat, self._address, now, left_s)

    @property
    def _overdue_at(self) -> float:
        return max(self._polled_at + self._settings.max_poll_interval_ms / 1000, self._extended_to)

    def _send(self, beat: Beat, address: str, now: float, left_s: float) -> SendHeartbeat:
        self._due_at = now + self._interval_ms / 1000
        wait_ms = min(self._interval_ms, int(left_s * 1000) + 1)
        timeout_s = (wait_ms + self._grace_ms) / 1000
        self._sent = SendHeartbeat(beat, address, self._request(beat, wait_ms), timeout_s)
        return self._sent

    def ended(self, answer: Answer | StrandlineError, now: float) -> Refused | News | None:
        """The heartbeat in flight has ended. Returns the report for the member, if there is one."""
        sent, cut = self._sent, self.cut
        assert sent is not None
        self._sent, self.cut = None, False
        if not isinstance(answer, StrandlineError):
            return None if cut else self._answered(sent, answer, now)
        if cut:
            return None
        if isinstance(answer, NotCoordinator) and answer.leader is not None:
            self._address = f"{answer.leader.host}:{answer.leader.port}"
        self._failed(sent, answer, now)
        return Refused(sent.beat, sent.address, answer)

    def _failed(self, sent: SendHeartbeat, error: StrandlineError, now: float) -> None:
        """The heartbeat was refused, or not answered. The next one is due when it would have been."""

    def _leave(self, beat: Beat, now: float) -> LeaveOverdue:
        settings = self._settings
        self.stop()
        reason = f"no get call within max_poll_interval_ms={settings.max_poll_interval_ms}"
        request = None if self._address is None else self._farewell(beat, reason)
        report = Overdue(beat, now - self._polled_at)
        return LeaveOverdue(report, self._address, request, settings.request_timeout_ms / 1000)


class HeartbeatSchedule(Schedule[None]):
    """Of a member whose leader assigns. It sends a heartbeat every `heartbeat_interval_ms`, and stays in the
    group as a static member if its application is overdue (KIP-345)."""

    def __init__(self, group: str, settings: ConsumerSettings) -> None:
        super().__init__(group, settings)
        self._joins = count(1)
        self._join = 0
        """The last join, until it is answered or void; 0: none."""

    def stop(self) -> None:
        """As `Schedule.stop`. The join in progress is void."""
        super().stop()
        self._join = 0

    def join_sent(self) -> int:
        """A join is sent. Returns the number for `join_answered`."""
        self._join = next(self._joins)
        return self._join

    def join_answered(self, number: int, answer: Joined | MemberIdGiven | None, now: float) -> None:
        """Start for the generation that was joined, unless the join is void by now; None: it failed."""
        if number == self._join:
            self._join = 0
            if isinstance(answer, Joined):
                self.start(Beat(answer.member, answer.generation), now)

    @property
    def _interval_ms(self) -> int:
        return self._settings.heartbeat_interval_ms

    @property
    def _grace_ms(self) -> float:
        """A heartbeat without an answer ends after half a session, so that the next one is in time."""
        return min(self._settings.request_timeout_ms, self._settings.session_timeout_ms / 2)

    def _request(self, beat: Beat, wait_ms: int) -> Heartbeat:
        instance = self._settings.group_instance_id
        return Heartbeat(self._group, beat.member, beat.generation, instance, wait_ms)

    def _farewell(self, beat: Beat, reason: str) -> LeaveGroup | None:
        if self._settings.group_instance_id is not None:
            return None
        return LeaveGroup(self._group, (LeavingMember(beat.member, None, reason),))

    def _answered(self, sent: SendHeartbeat, answer: None, now: float) -> None:
        return None
