"""Decides when a member sends heartbeats, and when its application is overdue.

A member of the group sends a heartbeat every `heartbeat_interval_ms`, which the coordinator holds until a
rebalance begins. An application that makes no get call for `max_poll_interval_ms` is overdue: the member
leaves the group, unless it is a static one (KIP-345), and sends no heartbeat until the next `start`.

Times are seconds of the monotonic clock. A driver asks `next` what to do, and reports the end of each
heartbeat by `ended`. A driver with several threads holds one lock around each call.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

from strandline.config.consumer import ConsumerSettings
from strandline.errors import NotCoordinator, StrandlineError
from strandline.vocabulary.groups import Heartbeat, Joined, LeaveGroup, LeavingMember, MemberIdGiven


@dataclass(frozen=True, slots=True)
class Beat:
    """The member and its generation that heartbeats are sent for."""

    member: str
    generation: int


# --- what to do next ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SendHeartbeat:
    """Send the request, and call `ended` with its error, or with None once it is answered."""

    beat: Beat
    address: str
    request: Heartbeat
    timeout_s: float


@dataclass(frozen=True, slots=True)
class LeaveOverdue:
    """Report that the application is overdue, then send the request, if there is one."""

    report: Overdue
    address: str | None
    request: LeaveGroup | None
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
class Overdue:
    """No get call for this long. The member leaves the group, unless it is a static one."""

    beat: Beat
    silent_s: float


@dataclass(frozen=True, slots=True)
class Stopped:
    """The driver failed unexpectedly. Without heartbeats the member would be removed without notice."""

    error: Exception


HeartbeatReport = Refused | Overdue | Stopped


class HeartbeatSchedule:
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
        self._joins = count(1)
        self._join = 0
        """The last join, until it is answered or void; 0: none."""
        self.cut = False
        """True if the heartbeat in flight has to be cancelled: its end says nothing about the coordinator."""
        self.closed = False

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
        """Send no heartbeat until the next `start`. The join in progress is void."""
        self._beat, self._join = None, 0
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

    # --- joining -----------------------------------------------------------------------------

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

    # --- sending -----------------------------------------------------------------------------

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
        settings = self._settings
        self._due_at = now + settings.heartbeat_interval_ms / 1000
        wait_ms = min(settings.heartbeat_interval_ms, int(left_s * 1000) + 1)
        # A heartbeat without an answer ends after half a session, so that the next one is in time.
        grace_ms = min(settings.request_timeout_ms, settings.session_timeout_ms / 2)
        instance = settings.group_instance_id
        self._sent = SendHeartbeat(
            beat,
            address,
            Heartbeat(self._group, beat.member, beat.generation, instance, wait_ms),
            (wait_ms + grace_ms) / 1000,
        )
        return self._sent

    def ended(self, error: StrandlineError | None) -> Refused | None:
        """The heartbeat in flight has ended. Returns the report for the member, if there is one."""
        sent, cut = self._sent, self.cut
        assert sent is not None
        self._sent, self.cut = None, False
        if error is None or cut:
            return None
        if isinstance(error, NotCoordinator) and error.leader is not None:
            self._address = f"{error.leader.host}:{error.leader.port}"
        return Refused(sent.beat, sent.address, error)

    def _leave(self, beat: Beat, now: float) -> LeaveOverdue:
        settings = self._settings
        self.stop()
        request: LeaveGroup | None = None
        if self._address is not None and settings.group_instance_id is None:
            reason = f"no get call within max_poll_interval_ms={settings.max_poll_interval_ms}"
            request = LeaveGroup(self._group, (LeavingMember(beat.member, None, reason),))
        report = Overdue(beat, now - self._polled_at)
        return LeaveOverdue(report, self._address, request, settings.request_timeout_ms / 1000)
