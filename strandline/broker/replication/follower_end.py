"""The follower's end of replication: one stream to each leader broker carries all partitions that it leads.

A push is applied only if its subscription is still in force, so records of another epoch, or of a partition
that has another leader by now, are never appended (CORRECTNESS T6). A diverging log is truncated first; the
HW is taken only from a subscription that the leader accepted (T10).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import structlog

from strandline.broker.core.record_steps import Step
from strandline.broker.events.replica_events import EventRecorder
from strandline.broker.membership.pulse import ANSWER_S
from strandline.broker.replicas.replica import Replica
from strandline.broker.replication.incoming import IncomingCopies
from strandline.broker.replication.truncation import Divergence, Truncator
from strandline.config.services.broker import BrokerSettings
from strandline.errors import (
    CorruptMessage,
    OffsetOutOfRange,
    StorageBusy,
    StorageFailed,
    StrandlineError,
    UnknownLeaderEpoch,
)
from strandline.host import Host
from strandline.ids import BrokerId, Offset, PartitionKey
from strandline.tasks import pipelined, until_failure
from strandline.vocabulary.metadata import Endpoint
from strandline.vocabulary.replication import Hello, LeaderMessage, Push, Subscribe

logger = structlog.get_logger(__name__)

SYNCS_IN_FLIGHT_MAX: Final = 4
"""Logs of one message that are synced at once: its other logs wait, and so do the next messages. A process
has few threads, and its own leaderships need some."""


class StreamBroken(Exception):
    """The stream to the leader ended: it was refused, reset or closed."""

    def __init__(self, message: str, *, answered: bool = False) -> None:
        """`answered`: it did not open, because the leader refused it."""
        super().__init__(message)
        self.answered = answered


class ReplicaStream(Protocol):
    """One open ReplicaFetch stream, as the follower sees it. Both calls raise StreamBroken."""

    @property
    def owes_beats(self) -> bool:
        """True if the leader sends beats on it, as every version does that can open it."""
        ...

    async def send(
        self,
        *,
        hello: Hello | None,
        subscribe: Sequence[Subscribe],
        progress: Sequence[tuple[int, int]],
        unsubscribe: Sequence[int],
        acknowledged: int,
        hold_copies_ms: int,
    ) -> None: ...

    async def receive(self) -> LeaderMessage:
        """(sequence, pushes) of the next message."""
        ...

    async def close(self) -> None: ...


@dataclass(slots=True)
class _Following:
    """A subscription from the follower's side."""

    id: int
    replica: Replica
    epoch: int


class LeaderStream:
    """Follows everything that one broker leads. `run` owns the stream; the rest never awaits."""

    def __init__(
        self,
        leader: BrokerId,
        hello: Hello,
        *,
        open_stream: Callable[[Endpoint], Awaitable[ReplicaStream]],
        endpoint: Callable[[BrokerId], Endpoint | None],
        on_lost: Callable[[BrokerId], None],
        on_answered: Callable[[BrokerId], None],
        on_refused: Callable[[Replica, StrandlineError], None],
        copies: IncomingCopies,
        settings: BrokerSettings,
        host: Host,
        recorder: EventRecorder,
    ) -> None:
        self.leader = leader
        self._copies = copies
        self._truncator = Truncator(hello.broker_id, recorder, host.clock)
        self._hello = hello
        self._open_stream = open_stream
        self._endpoint = endpoint
        self._on_lost = on_lost
        self._on_answered = on_answered
        self._on_refused = on_refused
        self._settings = settings
        self._clock = host.clock
        self._threads = host.threads
        self._wanted: dict[PartitionKey, Replica] = {}
        self._by_key: dict[PartitionKey, _Following] = {}
        self._by_id: dict[int, _Following] = {}
        self._next_id = 1
        self._subscribe: list[Subscribe] = []
        self._unsubscribe: list[int] = []
        self._progress: dict[int, int] = {}
        self._acknowledged = 0
        self._acknowledged_sent = 0
        self._sent_at = float("-inf")
        self._beat_due = False
        self._heard_at: float | None = None
        """When the last message of this life of the leader was handled; None before its first beat, and once
        the stream has ended and nothing is followed. A stream that breaks is no message: a broken connection
        is part of a silence."""
        self._calling_since: float | None = None
        """Since when a stream is being opened; or since when one is open on which beats are owed, and nothing
        has come. A new life of the leader begins it anew."""
        self._life = 0
        """Lives of the leader that this broker has heard of."""
        self._handling = False
        self._connected = False
        self._answered = True
        """False while the leader has not sent anything since the last stream broke."""
        self._wake = asyncio.Event()

    # --- what to follow ----------------------------------------------------------------------

    def follow(self, replica: Replica) -> None:
        """Fetch this partition in the epoch that the replica knows now."""
        self._drop(replica.key)
        self._wanted[replica.key] = replica
        if self._connected:
            self._start(replica)
        self._wake.set()

    def follow_again(self, replica: Replica) -> None:
        """Ask once more, after a moment, unless it is being fetched in this epoch or moves on meanwhile."""
        epoch = replica.leader_epoch

        def ask() -> None:
            wanted = self._wanted.get(replica.key) is replica and replica.leader_epoch == epoch
            following = self._by_key.get(replica.key)
            if wanted and (following is None or following.epoch != epoch) and self._connected:
                self.follow(replica)

        asyncio.get_running_loop().call_later(self._settings.fetcher_retry_ms / 1000, ask)

    def unfollow(self, key: PartitionKey) -> None:
        self._wanted.pop(key, None)
        self._drop(key)
        self._wake.set()

    def _drop(self, key: PartitionKey) -> None:
        following = self._by_key.pop(key, None)
        if following is not None:
            del self._by_id[following.id]
            self._progress.pop(following.id, None)
            self._unsubscribe.append(following.id)

    def _start(self, replica: Replica) -> None:
        log = replica.log
        if log.needs_flush(self._clock.monotonic()):
            try:
                log.flush()  # the first offset asked for is reported too: see `_sync`
            except StorageFailed:
                return  # the log's fence has reported it
            except StorageBusy:
                self.follow_again(replica)
                return
        replica.kept_from = Offset(0)
        following = _Following(self._next_id, replica, replica.leader_epoch)
        self._next_id += 1
        self._by_key[replica.key] = following
        self._by_id[following.id] = following
        self._subscribe.append(
            Subscribe(
                following.id,
                replica.name.topic,
                replica.key,
                following.epoch,
                log.log_end_offset,
                log.last_epoch,
            )
        )

    def new_life(self) -> None:
        """Notes that the leader has another life, which may be of a version without beats. A call that
        waits counts anew: it may have reached this life."""
        self._life += 1
        self._heard_at, self._handling = None, False
        if self._calling_since is not None:
            self._calling_since = self._clock.monotonic()

    @property
    def follows(self) -> bool:
        """True if there is a partition to follow."""
        return bool(self._wanted)

    @property
    def broker(self) -> BrokerId:
        return self.leader

    @property
    def heard_at(self) -> float | None:
        """See `Link`. While a message is being handled, the next ones may wait behind it unread."""
        return self._clock.monotonic() if self._handling else self._heard_at

    @property
    def calling_since(self) -> float | None:
        """See `Link`."""
        return self._calling_since

    def beat(self, now: float) -> None:
        """Lets the leader hear that this follower is there, if it has sent nothing for a while."""
        if self._connected and now - self._sent_at >= ANSWER_S:
            self._beat_due = True
            self._wake.set()

    # --- the stream --------------------------------------------------------------------------

    async def run(self) -> None:
        """Keep a stream to the leader while that broker is registered. Runs until cancelled."""
        while True:
            while not self._wanted:
                self._heard_at = self._calling_since = None  # that no stream is there says nothing
                self._wake.clear()
                await self._wake.wait()
            endpoint = self._endpoint(self.leader)
            if endpoint is not None:
                if self._calling_since is None:
                    self._calling_since = self._clock.monotonic()
                try:
                    await self._exchange(await self._open_stream(endpoint))
                except StreamBroken as broken:
                    if broken.answered:
                        self._calling_since = None
                    if self._answered:  # log once per outage, not once per attempt
                        logger.info("replication stream ended", leader=self.leader, reason=str(broken))
                    self._answered = False
                    self._on_lost(self.leader)
            self._wake.clear()
            try:
                async with asyncio.timeout(self._settings.fetcher_retry_ms / 1000):
                    await self._wake.wait()
            except TimeoutError:
                pass

    async def _exchange(self, stream: ReplicaStream) -> None:
        self._reset()
        self._connected = True
        self._calling_since = self._clock.monotonic() if stream.owes_beats else None
        try:
            for replica in self._wanted.values():
                self._start(replica)
            await self._send(stream, self._hello)
            raise await until_failure(StreamBroken, self._receive_all(stream), self._send_all(stream))
        finally:
            self._connected = self._handling = False
            await stream.close()

    def _reset(self) -> None:
        self._by_key.clear()
        self._by_id.clear()
        self._subscribe.clear()
        self._unsubscribe.clear()
        self._progress.clear()
        self._acknowledged = self._acknowledged_sent = 0

    async def _send_all(self, stream: ReplicaStream) -> None:
        while True:
            while (
                self._subscribe
                or self._unsubscribe
                or self._progress
                or self._acknowledged_sent < self._acknowledged
                or self._beat_due
            ):
                await self._send(stream, None)
            self._wake.clear()
            await self._wake.wait()

    async def _send(self, stream: ReplicaStream, hello: Hello | None) -> None:
        """Sends one message with everything that is due. Later data goes into the next message."""
        subscribe, self._subscribe = self._subscribe, []
        unsubscribe, self._unsubscribe = self._unsubscribe, []
        progress, self._progress = self._progress, {}
        self._acknowledged_sent = self._acknowledged
        self._beat_due = False
        self._sent_at = self._clock.monotonic()
        await stream.send(
            hello=hello,
            subscribe=subscribe,
            progress=tuple(progress.items()),
            unsubscribe=unsubscribe,
            acknowledged=self._acknowledged_sent,
            hold_copies_ms=self._copies.hold_ms,
        )

    async def _receive_all(self, stream: ReplicaStream) -> None:
        while True:
            sequence, pushes = await stream.receive()
            self._answered = True
            self._on_answered(self.leader)
            keeps_beats = self._heard_at is not None or not pushes or stream.owes_beats
            self._calling_since = None
            self._handling, life = keeps_beats, self._life
            unsynced: list[_Following] = []
            diverged: list[tuple[Replica, Push]] = []
            for push in pushes:
                following = self._by_id.get(push.subscription_id)
                if following is not None and following.replica.leader_epoch == following.epoch:
                    self._apply(following, push, unsynced, diverged)
            self._diverged(diverged)
            if unsynced:
                await pipelined(self._sync, unsynced, in_flight_max=SYNCS_IN_FLIGHT_MAX)
            self._acknowledged = sequence
            self._handling = False
            if keeps_beats and life == self._life:
                self._heard_at = self._clock.monotonic()
            self._wake.set()

    # --- what arrives ------------------------------------------------------------------------

    def _apply(
        self,
        following: _Following,
        push: Push,
        unsynced: list[_Following],
        diverged: list[tuple[Replica, Push]],
    ) -> None:
        replica = following.replica
        try:
            if push.error is not None:
                self._refused(following, push.error)
            elif push.diverging is not None:
                self._drop(replica.key)  # no later push of this subscription fits the log
                diverged.append((replica, push))
            else:
                self._append(following, push, unsynced)
        except StorageFailed:
            self.unfollow(replica.key)  # the log's fence has reported it
        except StorageBusy as error:
            logger.warning("records not taken", partition=str(replica.name), reason=error.message)
            self._drop(replica.key)
            self.follow_again(replica)
        except CorruptMessage as error:  # what came over the wire, not what is in the leader's log
            logger.error("corrupt records from the leader", partition=str(replica.name), reason=error.message)
            self._drop(replica.key)
            self.follow_again(replica)

    def _append(self, following: _Following, push: Push, unsynced: list[_Following]) -> None:
        replica, log = following.replica, following.replica.log
        if push.records:
            end = log.log_end_offset
            log.appending.as_follower(push.records)
            now = replica.traffic_at = self._clock.monotonic()
            if replica.trace is not None:
                replica.trace.passed(Step.STORED, end, log.log_end_offset)
            replica.counts.replication_bytes_in += len(push.records)
            if push.copy:
                self._copies.received(len(push.records))
            if log.needs_flush(now):
                unsynced.append(following)
            else:
                self._progress[following.id] = log.log_end_offset
        replica.kept_from = Offset(push.kept_from)
        if push.high_watermark >= 0:
            replica.leader_watermark = Offset(push.high_watermark)
            replica.raise_watermark(replica.leader_watermark)
        if push.log_start_offset > log.log_start_offset:
            log.cutting.advance_start(min(push.log_start_offset, log.log_end_offset))
            replica.raise_watermark(Offset(log.log_start_offset))  # only what is committed is deleted (H9)
            replica.announce()  # fetch sessions tell their clients

    async def _sync(self, following: _Following) -> None:
        """Syncs the log for `flush.messages`: a position is reported only once it is on the disk."""
        log = following.replica.log
        end = log.log_end_offset
        try:
            await self._threads.run(log.flush)
        except StorageFailed:
            self.unfollow(following.replica.key)  # the log's fence has reported it
            return
        except StorageBusy:
            if self._by_id.get(following.id) is following:
                self._drop(following.replica.key)
                self.follow_again(following.replica)
            return
        if self._by_id.get(following.id) is following:
            self._progress[following.id] = end

    def _diverged(self, diverged: Sequence[tuple[Replica, Push]]) -> None:
        """Truncates these logs; then subscribes to them again."""
        divergences = []
        for replica, push in diverged:
            assert push.diverging is not None
            divergences.append(Divergence(replica, *push.diverging, push.log_start_offset))
        for replica, error in self._truncator.cut(divergences):
            if error is None:
                self.follow(replica)
            else:
                logger.error("a replica failed", partition=str(replica.name), reason=error.message)
                self.unfollow(replica.key)

    def _refused(self, following: _Following, error: StrandlineError) -> None:
        replica = following.replica
        if isinstance(error, OffsetOutOfRange) and error.limit is not None:
            self._truncator.restart_at(replica, Offset(error.limit))
            self.follow(replica)
            return
        self._drop(replica.key)
        if isinstance(error, UnknownLeaderEpoch):  # the leader has not heard of its election yet
            self.follow_again(replica)
        else:
            self._on_refused(replica, error)
