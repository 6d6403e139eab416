"""The member's heart: a thread that is heard of by the coordinator whatever the application does.

A handler may block the event loop for as long as it likes; the thread has a connection of its own, goes on
with heartbeats, and posts what they are refused with to the loop. It also watches that the application
comes back for more within `max_poll_interval_ms`: else it takes the member out of the group itself, since
the loop may be just what is stuck.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from strandline.adapters.rpc.blocking import BlockingCall, BlockingTransport
from strandline.client.wire.groups import HEARTBEAT, JOIN_GROUP, LEAVE_GROUP
from strandline.config import ConsumerSettings
from strandline.consumer.delivery import HandOut
from strandline.errors import NotCoordinator, StrandlineError
from strandline.ports import Clock
from strandline.vocabulary.groups import (
    Heartbeat,
    Joined,
    JoinGroup,
    LeaveGroup,
    LeavingMember,
    MemberIdGiven,
)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Beat:
    """Whom the heartbeats are for."""

    member: str
    generation: int


@dataclass(frozen=True, slots=True)
class Refused:
    """A heartbeat as `beat` was refused, or not answered."""

    beat: Beat
    address: str
    error: StrandlineError


@dataclass(frozen=True, slots=True)
class Overdue:
    """No get call for this long: the member has left the group, unless it is a static one."""

    beat: Beat
    silent_s: float


@dataclass(frozen=True, slots=True)
class Stopped:
    """The thread failed in a way that nobody expected: a member without it would be expelled silently."""

    error: Exception


HeartNews = Refused | Overdue | Stopped

Post = Callable[[HeartNews], None]
"""Called in the thread; hands over to the loop."""


class Heart:
    """`run` is the thread. The other methods are for the loop, and never wait."""

    def __init__(
        self, group: str, *, handout: HandOut, settings: ConsumerSettings, clock: Clock, post: Post
    ) -> None:
        self._group = group
        self._handout = handout
        self._settings = settings
        self._clock = clock
        self._post = post
        self._transport = BlockingTransport()
        self._changed = threading.Condition()
        self._beat: Beat | None = None
        self._address: str | None = None
        self._closing = False
        self._call: BlockingCall[None] | None = None
        self._was_cut = False
        """True once `_call` was cut short, so that its end says nothing of the coordinator."""
        self._joining: BlockingCall[Joined | MemberIdGiven] | None = None
        """The last join, until it is answered or the heart is stopped."""
        self._due_at = 0.0
        """When the next heartbeat is to be sent."""
        self._polled_at = 0.0
        self._extended_to = 0.0
        self._thread: threading.Thread | None = None

    async def join(self, address: str, request: JoinGroup, timeout_s: float) -> Joined | MemberIdGiven:
        """Join, and beat in the new generation from the moment of the answer, though the loop may learn of
        it later. Raises what the coordinator answers, and OutcomeUnknown."""
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[None] = loop.create_future()
        call = self._transport.begin(address, JOIN_GROUP, request, timeout_s=timeout_s)
        with self._changed:
            self._joining = call

        def done() -> None:
            with self._changed:
                if self._joining is call:
                    self._joining = None
                    self._take_up(call)
            self._handout.interrupt()
            with contextlib.suppress(RuntimeError):  # the loop has ended before the answer came
                loop.call_soon_threadsafe(wake)

        def wake() -> None:
            if not answered.done():
                answered.set_result(None)

        call.on_done(done)
        try:
            await answered
        except asyncio.CancelledError:
            call.cancel()
            raise
        return call.result()

    def _take_up(self, call: BlockingCall[Joined | MemberIdGiven]) -> None:
        try:
            answer = call.result()
        except StrandlineError:
            return  # whoever awaits it says so
        if isinstance(answer, Joined):
            self.start(answer.member, answer.generation)

    def start(self, member: str, generation: int) -> None:
        """Beat as this member in this generation from now on."""
        beat = Beat(member, generation)
        with self._changed:
            if self._closing or self._beat == beat:
                return
            if self._beat is None:
                self._polled_at = self._clock.monotonic()
            self._beat = beat
            self._due_at = 0.0
            self._changed.notify()
            if self._thread is None:
                self._thread = threading.Thread(target=self.run, name=f"heart of {self._group}", daemon=True)
                self._thread.start()

    def stop(self) -> None:
        """Beat no more until the next start."""
        with self._changed:
            self._beat = self._joining = None
            self._cut()

    def aim(self, address: str) -> None:
        """The coordinator is there."""
        with self._changed:
            if address != self._address:
                self._address = address
                self._due_at = 0.0
                self._cut()

    def extend(self, seconds: float) -> None:
        """Do not miss a get call for so long from now, if that is longer than `max_poll_interval_ms`."""
        self._extended_to = self._clock.monotonic() + seconds

    def close(self) -> threading.Thread | None:
        """The end. The thread that is left to be joined, if one ran."""
        with self._changed:
            self._closing = True
            self._beat = self._joining = None
            self._cut()
        if self._thread is None:
            self._transport.close()
        return self._thread

    def _cut(self) -> None:
        if self._call is not None:
            self._was_cut = True
            self._call.cancel()
        self._changed.notify()

    # --- in the thread -----------------------------------------------------------------------

    def run(self) -> None:
        try:
            while (todo := self._next()) is not None:
                if isinstance(todo, Overdue):
                    self._give_up(todo)
                else:
                    self._send(*todo)
        except Exception as error:
            self._post(Stopped(error))
        finally:
            self._transport.close()

    def _next(self) -> tuple[Beat, str, int] | Overdue | None:
        """Wait until a heartbeat is due: as whom, to whom, and for how long it may be held; or until the
        application is late. None: the end."""
        with self._changed:
            while not self._closing:
                now = self._clock.monotonic()
                if self._beat is None:
                    self._changed.wait()
                    continue
                left_s = self._poll_left_s(now)
                if left_s <= 0:
                    overdue = Overdue(self._beat, now - self._polled_at)
                    self._beat = self._joining = None
                    return overdue
                if self._address is not None and now >= self._due_at:
                    self._due_at = now + self._settings.heartbeat_interval_ms / 1000
                    wait_ms = min(self._settings.heartbeat_interval_ms, int(left_s * 1000) + 1)
                    return self._beat, self._address, wait_ms
                self._changed.wait(left_s if self._address is None else min(left_s, self._due_at - now))
            return None

    def _poll_left_s(self, now: float) -> float:
        handout = self._handout
        if handout.polled or handout.asking:
            handout.polled = False
            self._polled_at = now
        limit_at = self._polled_at + self._settings.max_poll_interval_ms / 1000
        return max(limit_at, self._extended_to) - now

    def _give_up(self, overdue: Overdue) -> None:
        """The application does not come back: tell the loop first, then the coordinator."""
        self._post(overdue)
        address = self._address
        if address is None or self._settings.group_instance_id is not None:
            return
        reason = f"no get call within max_poll_interval_ms={self._settings.max_poll_interval_ms}"
        leave = LeaveGroup(self._group, (LeavingMember(overdue.beat.member, None, reason),))
        limit_s = self._settings.request_timeout_ms / 1000
        try:
            _ = self._transport.begin(address, LEAVE_GROUP, leave, timeout_s=limit_s).result()
        except StrandlineError as error:
            logger.info("group %s: the coordinator does not know that a member left: %s", self._group, error)

    def _send(self, beat: Beat, address: str, wait_ms: int) -> None:
        settings = self._settings
        request = Heartbeat(self._group, beat.member, beat.generation, settings.group_instance_id, wait_ms)
        # Unanswered for half a session it is given up, so that the next one comes in time.
        limit_s = wait_ms / 1000 + min(settings.request_timeout_ms, settings.session_timeout_ms / 2) / 1000
        call = self._transport.begin(address, HEARTBEAT, request, timeout_s=limit_s)
        with self._changed:
            self._call, self._was_cut = call, self._beat is None or self._closing
        if self._was_cut:
            call.cancel()
        try:
            call.result()
        except StrandlineError as error:
            with self._changed:
                cut = self._was_cut
                if isinstance(error, NotCoordinator) and error.leader is not None and not cut:
                    self._address = f"{error.leader.host}:{error.leader.port}"
            if not cut:
                self._post(Refused(beat, address, error))
        finally:
            # Who only computes lets the loop have a turn as often as this, for commits and the like.
            self._handout.interrupt()
            with self._changed:
                self._call = None
