"""The leader's end of a replication stream: decides which records one follower gets, and when.

A message goes out as soon as there is data and the window is open. While the window is closed, all new data
waits for the next message: records of all partitions, and watermarks.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from sys import maxsize
from typing import Final

import structlog

from strandline.broker.core.record_steps import Step
from strandline.broker.core.replication.lags import kept_from
from strandline.broker.replicas.leadership import Leadership
from strandline.broker.replicas.replica import Replica
from strandline.broker.replication.throttle import CopyThrottle, Grant
from strandline.broker.replication.window import PushWindow
from strandline.config.limits import REPLICAS_PER_BROKER_MAX
from strandline.config.services.broker import BrokerSettings
from strandline.errors import (
    FencedLeaderEpoch,
    InvalidRequest,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    StorageBusy,
    StorageFailed,
    StrandlineError,
    UnknownLeaderEpoch,
)
from strandline.ids import BrokerId, Offset, PartitionKey
from strandline.ports import Clock
from strandline.vocabulary.replication import Hello, LeaderMessage, Push, Subscribe

logger = structlog.get_logger(__name__)

NEVER_HELD: Final = float("-inf")


class _Subscription:
    """The flow of one partition in one epoch to one follower. Fulfils `confirmation.FollowerFlow`."""

    __slots__ = (
        "_opened_at",
        "_stream",
        "asked",
        "grant",
        "held",
        "id",
        "leadership",
        "queued",
        "replica",
        "sent_offset",
        "sent_watermark",
        "stale",
    )  # fmt: skip

    def __init__(
        self, stream: FollowerStream, sub_id: int, leadership: Leadership, sent_offset: int, now: float
    ) -> None:
        self._stream = stream
        self._opened_at = now
        self.id = sub_id
        self.leadership = leadership
        self.replica = leadership.replica
        self.sent_offset = sent_offset
        self.sent_watermark = -1
        self.queued = False
        self.stale = False
        self.grant: Grant | None = None
        """The allowance for the next records, if they are throttled."""
        self.held: asyncio.TimerHandle | None = None
        """Ends the wait until the grant begins."""
        self.asked: asyncio.Future[bool] | None = None
        """A question for the next message: does the follower still follow?"""

    @property
    def broker(self) -> BrokerId:
        return self._stream.hello.broker_id

    @property
    def over(self) -> bool:
        """True if the leadership ended, or the follower was assigned again since: it has to subscribe again
        (I2)."""
        hello, core = self._stream.hello, self.leadership.core
        return self.leadership.ended() or core.outdated(hello.broker_id, hello.broker_epoch, self.id)

    @property
    def followed_at(self) -> float:
        """See `FollowerFlow`. A follower that stops following says so before its next acknowledgement."""
        at = self._stream.window.acknowledged_at
        return at if at >= self._opened_at else float("-inf")

    def wake(self) -> None:
        """Notes that there may be something to send: records, a watermark, or the end."""
        if self.queued or (self.held is not None and self._stream.has_to_wait(self)):
            return
        if self.sent_offset < self.replica.log.log_end_offset or self.over:
            self._stream.queue(self)
        elif self.sent_watermark < self.replica.high_watermark:
            self._stream.queue_watermark(self)

    def confirmed(self) -> asyncio.Future[bool]:
        """See `FollowerFlow`. All callers before the next message share its answer."""
        if self.asked is None:
            self.asked = asyncio.get_running_loop().create_future()
            self._stream.queue(self)
        return self.asked


@dataclass(frozen=True, slots=True)
class _Question:
    """A question, answered by the acknowledgement of its message or of a later one."""

    sequence: int
    subscription: _Subscription
    answer: asyncio.Future[bool]


class FollowerStream:
    """One stream to one follower."""

    def __init__(
        self,
        hello: Hello,
        find: Callable[[PartitionKey, str], Replica],
        throttle: CopyThrottle,
        settings: BrokerSettings,
        clock: Clock,
    ) -> None:
        self.hello = hello
        self.find = find
        self.throttle = throttle
        self._clock = clock
        self._settings = settings
        self._subscriptions: dict[int, _Subscription] = {}
        self._ready: deque[_Subscription] = deque()
        self._stale: list[_Subscription] = []  # only their watermark is new
        self._stale_timer: asyncio.TimerHandle | None = None
        self._endings: list[Push] = []
        self._unanswered: deque[_Question] = deque()
        self.window = PushWindow(settings.push_window, clock.monotonic())
        self._beat_due = False
        self._copies_from = NEVER_HELD
        """When copies may be sent again, as the follower says."""
        self._wake = asyncio.Event()

    # --- messages from the follower ----------------------------------------------------------

    def heard(self) -> None:
        """Notes that the follower is there."""
        self.window.heard_at = self._clock.monotonic()

    def acknowledge(self, sequence: int) -> None:
        """Opens the window. Raises InvalidRequest for a message that was never sent."""
        self.window.acknowledge(sequence, self._clock.monotonic())
        if self.window.is_open and (self._ready or self._endings):
            self._wake.set()
        while self._unanswered and self._unanswered[0].sequence <= sequence:
            question = self._unanswered.popleft()
            question.answer.set_result(question.subscription.id in self._subscriptions)

    def hold_copies(self, for_ms: int) -> None:
        """The follower takes no copies for this time: those of all its leaders are more than its bound."""
        if for_ms:
            self._copies_from = self._clock.monotonic() + for_ms / 1000
        elif self._copies_from != NEVER_HELD:
            self._copies_from = NEVER_HELD
            for subscription in self.held:
                self._release(subscription)

    def subscribe(self, request: Subscribe) -> None:
        """Starts a flow, or answers with an error. Raises InvalidRequest above the limit of replicas per
        broker."""
        if max(len(self._subscriptions), len(self._endings)) >= REPLICAS_PER_BROKER_MAX:
            raise InvalidRequest(
                f"broker {self.hello.broker_id} follows {len(self._subscriptions)} partitions on one stream, "
                f"and has {len(self._endings)} refusals to read; {REPLICAS_PER_BROKER_MAX} each are allowed",
                limit=REPLICAS_PER_BROKER_MAX,
            )
        try:
            opened = self._open(request)
        except StrandlineError as error:
            opened = Push(request.subscription_id, error=error)
        if isinstance(opened, Push):
            self._endings.append(opened)
            self._wake.set()
            return
        self._subscriptions[opened.id] = opened
        leadership = opened.leadership
        leadership.followers[opened] = None
        opened.replica.listen(opened.wake)
        leadership.fetched(
            self.hello.broker_id, self.hello.broker_epoch, request.fetch_offset, subscription=opened.id
        )
        self.queue(opened)
        leadership.turn()

    def _open(self, request: Subscribe) -> _Subscription | Push:
        if request.subscription_id in self._subscriptions:
            raise InvalidRequest(f"subscription {request.subscription_id} is open already")
        replica = self.find(request.key, request.topic)
        if request.leader_epoch > replica.leader_epoch:
            raise UnknownLeaderEpoch(
                f"{replica.name}: epoch {request.leader_epoch} is not known here, {replica.leader_epoch} is"
            )
        if request.leader_epoch < replica.leader_epoch:
            raise FencedLeaderEpoch(
                f"{replica.name}: epoch {request.leader_epoch} is over, {replica.leader_epoch} is current"
            )
        leadership = replica.led()
        log = replica.log
        if log.failed is not None:
            raise StorageFailed(f"{replica.name}: {log.failed}")
        begin = log.copy_start_offset
        within_a_batch = (
            request.last_fetched_epoch < 0 and begin < request.fetch_offset <= log.log_start_offset
        )
        if request.fetch_offset < begin or within_a_batch:
            raise OffsetOutOfRange(
                f"a copy of {replica.name} begins at {begin}, {request.fetch_offset} was asked", limit=begin
            )
        if request.last_fetched_epoch < 0:  # an empty log has no epoch to compare (T9)
            diverging = (-1, -1) if request.fetch_offset != begin else None
        else:
            epoch, end = log.end_offset_for(request.last_fetched_epoch)
            diverging = (
                (epoch, end) if epoch != request.last_fetched_epoch or end < request.fetch_offset else None
            )
        if diverging is not None:
            return Push(request.subscription_id, log_start_offset=log.log_start_offset, diverging=diverging)
        now = self._clock.monotonic()
        return _Subscription(self, request.subscription_id, leadership, request.fetch_offset, now)

    def progress(self, positions: Sequence[tuple[int, int]]) -> None:
        """Takes (subscription id, LEO) of the follower's logs; unknown ids belong to ended flows."""
        turned: list[Leadership] = []
        for sub_id, log_end_offset in positions:
            subscription = self._subscriptions.get(sub_id)
            if subscription is None or subscription.leadership.ended():
                continue
            if log_end_offset > subscription.sent_offset:
                raise InvalidRequest(
                    f"{subscription.replica.name}: follower {self.hello.broker_id} claims {log_end_offset}, "
                    f"{subscription.sent_offset} was sent"
                )
            subscription.leadership.fetched(
                self.hello.broker_id, self.hello.broker_epoch, log_end_offset, subscription=sub_id
            )
            turned.append(subscription.leadership)
        for leadership in turned:
            leadership.turn()

    def unsubscribe(self, sub_id: int) -> None:
        subscription = self._subscriptions.pop(sub_id, None)
        if subscription is not None:
            self._stop(subscription)

    def close(self) -> None:
        """Ends all flows, since the stream is gone. No leadership waits for their positions."""
        if self._stale_timer is not None:
            self._stale_timer.cancel()
        for subscription in self._subscriptions.values():
            self._stop(subscription)
        self._subscriptions.clear()
        for question in self._unanswered:
            question.answer.set_result(False)
        self._unanswered.clear()

    def _stop(self, subscription: _Subscription) -> None:
        self._let_go(subscription)
        if subscription.asked is not None:
            subscription.asked.set_result(False)
            subscription.asked = None
        subscription.leadership.followers.pop(subscription, None)
        subscription.leadership.copies.end(self.hello.broker_id)
        subscription.replica.unlisten(subscription.wake)
        subscription.leadership.stopped_fetching(
            self.hello.broker_id, self.hello.broker_epoch, subscription=subscription.id
        )

    # --- messages to the follower ------------------------------------------------------------

    def queue(self, subscription: _Subscription) -> None:
        if not subscription.queued:
            subscription.queued = True
            self._ready.append(subscription)
            self._wake.set()

    def queue_watermark(self, subscription: _Subscription) -> None:
        """Queues a watermark. It is not urgent: it waits a moment for records to travel with."""
        if subscription.stale:
            return
        subscription.stale = True
        self._stale.append(subscription)
        if self._stale_timer is None:
            delay = self._settings.watermark_push_delay_ms / 1000
            self._stale_timer = asyncio.get_running_loop().call_later(delay, self._queue_stale)

    def _queue_stale(self) -> None:
        self._stale_timer = None
        stale, self._stale = self._stale, []
        for subscription in stale:
            subscription.stale = False
            if subscription.sent_watermark < subscription.replica.high_watermark:
                self.queue(subscription)

    def beat(self, now: float) -> None:
        """Lets the follower hear that this leader is there, if it has heard nothing else for a while."""
        if self.window.wants_beat(now):
            self._beat_due = True
            self._wake.set()

    async def next_message(self) -> LeaderMessage:
        """Returns the next message as (sequence, pushes), once there is one and the window is open."""
        while True:
            if self.window.is_open:
                if self._beat_due:
                    self._beat_due, self.window.has_beaten = False, True
                    return self.window.sent(self._clock.monotonic()), []
                pushes = self._collect()
                if pushes:
                    return self.window.sent(self._clock.monotonic()), pushes
            self._wake.clear()
            await self._wake.wait()

    def _collect(self) -> list[Push]:
        pushes, self._endings = self._endings, []
        budget = self._settings.push_bytes_max
        while self._ready and budget > 0:
            subscription = self._ready[0]
            if subscription.id not in self._subscriptions:
                self._ready.popleft()
                continue
            room, copying = self._room(subscription, budget)
            if room == 0:  # throttled: those behind it can be sent
                self._ready.popleft()
                subscription.queued = False
                continue
            first = budget == self._settings.push_bytes_max
            push = self._push(subscription, budget, room, first=first, copying=copying)
            if push is None:
                break  # its next batch does not fit this message
            self._ready.popleft()
            subscription.queued = False
            pushes.append(push)
            budget -= len(push.records)
            if subscription.asked is not None:
                self._unanswered.append(
                    _Question(self.window.next_sequence, subscription, subscription.asked)
                )
                subscription.asked = None
            if push.error is not None:
                self.unsubscribe(subscription.id)
            elif subscription.sent_offset < subscription.replica.log.log_end_offset:
                self.queue(subscription)
        return pushes

    # --- throttling --------------------------------------------------------------------------

    @property
    def held(self) -> list[_Subscription]:
        """The flows that wait for their grants to begin."""
        return [each for each in self._subscriptions.values() if each.held is not None]

    def has_to_wait(self, subscription: _Subscription) -> bool:
        """False once this flow needs no throttling: it is in sync, or its bound has changed."""
        grant, leadership = subscription.grant, subscription.leadership
        if subscription.over:
            return False
        if grant is None and subscription.held is not None:  # for the follower's own bound
            return self.throttle.adds(leadership, self.hello.broker_id)
        stands = grant is None or self._stands(grant, subscription)
        return stands and self.throttle.concerns(leadership, self.hello.broker_id)

    def _room(self, subscription: _Subscription, budget: int) -> tuple[int, bool]:
        """(the bytes of its records that may be sent now, whether they are a copy: a reassignment adds the
        follower, and the end is far). If 0 may be sent, a timer queues the flow again."""
        follower = self.hello.broker_id
        if subscription.grant is not None and not self._stands(subscription.grant, subscription):
            self._let_go(subscription)  # the next records use the new bound
        replica, now = subscription.replica, self._clock.monotonic()
        adds = self.throttle.adds(subscription.leadership, follower)
        bounded = self.throttle.is_bounded(replica, follower)
        may_wait = (
            (adds or bounded)
            and self.has_to_wait(subscription)
            and self.throttle.is_far(replica, subscription.sent_offset)
        )
        copying = adds and may_wait
        if copying and now < self._copies_from:
            self.throttle.holds += subscription.held is None
            self._hold(subscription, self._copies_from - now)
            return 0, copying
        if not (bounded and may_wait):
            self._let_go(subscription)
            return budget, copying
        if subscription.grant is None:
            subscription.grant = self.throttle.grant(replica, follower, self._settings.push_bytes_max)
        if now < subscription.grant.due:
            self._hold(subscription, subscription.grant.due - now)
            return 0, copying
        return min(budget, subscription.grant.size), copying

    def _hold(self, subscription: _Subscription, wait_s: float) -> None:
        if subscription.held is None:
            loop = asyncio.get_running_loop()
            subscription.held = loop.call_later(wait_s, self._release, subscription)

    def _stands(self, grant: Grant, subscription: _Subscription) -> bool:
        return self.throttle.stands(grant, subscription.replica, self.hello.broker_id)

    def _release(self, subscription: _Subscription) -> None:
        """The wait is over: what it waited for is looked at again."""
        if subscription.held is not None:
            subscription.held.cancel()
            subscription.held = None
        self.queue(subscription)

    @staticmethod
    def _let_go(subscription: _Subscription, sent: int = 0) -> None:
        """Ends the wait and the grant, of which this was sent."""
        if subscription.held is not None:
            subscription.held.cancel()
            subscription.held = None
        if subscription.grant is not None:
            subscription.grant.used(sent)
            subscription.grant = None

    def _note_copy(self, subscription: _Subscription, size: int, *, refills: bool) -> None:
        """Notes what was sent to a replica that is being filled: for its rate."""
        replica, copies, follower = subscription.replica, subscription.leadership.copies, self.hello.broker_id
        adds = self.throttle.adds(subscription.leadership, follower)
        if adds:
            replica.counts.reassignment_bytes_out += size
        if not (adds or refills):
            copies.end(follower)
            return
        end = subscription.sent_offset
        copies.sent(follower, size, end, replica.log.bytes_near(end), self._clock.monotonic())

    def _push(
        self, subscription: _Subscription, budget: int, room: int, *, first: bool, copying: bool
    ) -> Push | None:
        replica, log = subscription.replica, subscription.replica.log
        if subscription.over:
            reason = f"this broker no longer leads {replica.name}, or leads it with other replicas"
            return Push(subscription.id, error=NotLeaderOrFollower(reason))
        records = b""
        try:
            behind = subscription.sent_offset < log.log_start_offset
            if behind and subscription.sent_offset < (begin := log.copy_start_offset):
                raise OffsetOutOfRange(f"a copy of {replica.name} begins at {begin}", limit=begin)
            if subscription.sent_offset < log.log_end_offset:
                records, next_offset = log.read_range(
                    subscription.sent_offset,
                    room,
                    below=log.log_end_offset,
                    batch_bytes_max=maxsize if first else budget,
                    copy=True,
                )
                if not records:
                    return None
                if replica.trace is not None:
                    to = self.hello.broker_id
                    replica.trace.passed(Step.SENT, subscription.sent_offset, next_offset, follower=to)
                refills = subscription.sent_offset < replica.high_watermark  # no member of the ISR is there
                subscription.sent_offset = next_offset
                replica.counts.replication_bytes_out += len(records)
                self._note_copy(subscription, len(records), refills=refills)
                self._let_go(subscription, len(records))
        except (OffsetOutOfRange, StorageFailed, StorageBusy) as error:
            return Push(subscription.id, error=error)
        known = subscription.leadership.core.knows_watermark
        subscription.sent_watermark = replica.high_watermark
        return Push(
            subscription.id,
            high_watermark=replica.high_watermark if known else -1,
            log_start_offset=log.log_start_offset,
            records=records,
            copy=copying and bool(records),
            kept_from=self._kept_from(subscription.leadership),
        )

    @staticmethod
    def _kept_from(leadership: Leadership) -> Offset:
        if not leadership.replica.config.compacts:
            return Offset(0)  # nothing asks for it
        return kept_from(leadership.core)
