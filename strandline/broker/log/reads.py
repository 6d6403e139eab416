"""Reads committed records for clients, and waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from sys import maxsize
from typing import Final, Protocol

from strandline.broker.core.record_steps import Step
from strandline.broker.log.leader_epochs import LeaderEpochs
from strandline.broker.log.long_poll import LongPoll
from strandline.broker.log.standing import Standing
from strandline.broker.replicas.leadership import Leadership
from strandline.broker.replicas.local_replica import OnChange
from strandline.broker.replicas.manager import ReplicaManager
from strandline.broker.replicas.replica import Replica
from strandline.config.limits import RECORDS_BYTES_MAX
from strandline.config.services.broker import BrokerSettings
from strandline.errors import OffsetNotAvailable, OffsetOutOfRange, StrandlineError
from strandline.ids import NO_BROKER, NO_TOPIC_ID, TopicPartition
from strandline.ports import Caller, Clock
from strandline.records.header import iterate
from strandline.security.access import Access
from strandline.security.rights import READ_TOPIC
from strandline.tasks import Slices
from strandline.vocabulary.log import AbortedFrom, Fetched, FetchPartition, topic_of

POLLED_MAX: Final = 64
"""Positions of a poll without a task: all are looked at in one turn of the loop."""


def answer_bytes(bytes_max: int, bound: int = RECORDS_BYTES_MAX) -> int:
    """Bytes of records that one answer to this fetch may carry; more if its first batch is larger.

    `bound`: the listener's own, which no client exceeds.
    """
    return min(max(bytes_max, 1), bound)


class Watched(Protocol):
    """Positions at which a fetch waits."""

    @property
    def due(self) -> Sequence[FetchPartition]:
        """Those that there is a reason to look at."""
        ...

    @property
    def closed(self) -> bool:
        """True once these are of no use: no fetch waits at them any longer."""
        ...

    async def settle(self, slices: Slices) -> None:
        """May find that some of these have nothing new."""
        ...

    def listen(self, listener: OnChange) -> None:
        """Calls the listener when anything may have changed at one of the positions."""
        ...

    def unlisten(self, listener: OnChange) -> None: ...


class _Fixed:
    """Positions that are due for the whole time."""

    closed = False

    def __init__(self, manager: ReplicaManager, partitions: Sequence[FetchPartition]) -> None:
        self._manager = manager
        self.due = partitions
        self._replicas: list[Replica] = []

    async def settle(self, slices: Slices) -> None:
        return

    def listen(self, listener: OnChange) -> None:
        for wanted in self.due:
            try:
                replica = self._manager.named(*wanted.name)
            except StrandlineError:
                continue  # `read` answers with the error
            replica.listen(listener)
            self._replicas.append(replica)

    def unlisten(self, listener: OnChange) -> None:
        for replica in self._replicas:
            replica.unlisten(listener)


class Reads:
    """The reads of all clients of one broker. All methods may run concurrently."""

    def __init__(
        self,
        manager: ReplicaManager,
        replica: Callable[[TopicPartition], Replica],
        epochs: LeaderEpochs,
        standing: Standing,
        settings: BrokerSettings,
        clock: Clock,
        access: Access,
    ) -> None:
        """`replica`, and what others of these are: see `Handlers`."""
        self._manager = manager
        self._replica = replica
        self._epochs = epochs
        self._standing = standing
        self._settings = settings
        self._clock = clock
        self._access = access

    def fixed(self, partitions: Sequence[FetchPartition]) -> Watched:
        """The same positions for the whole time, for `poll` and `fetchable`."""
        return _Fixed(self._manager, partitions)

    def poll(
        self,
        watched: Watched,
        caller: Caller,
        *,
        wait_ms: int,
        ended: Callable[[bool], None],
    ) -> LongPoll | None:
        """Long poll for a single record at few positions, without a task. None: there is nothing to wait for,
        or no time. `ended` is called once, later, unless the poll is cancelled; with True if something is
        committed at one of the positions, one of them is wrong, or may not be read: a right may end
        meanwhile. So it is with more than `POLLED_MAX` positions that are due, and once nothing waits at
        them: a task looks at them then."""
        wait_s = min(wait_ms, self._settings.fetch_wait_ms_max) / 1000
        if wait_s <= 0 or not self._may_read(caller, watched.due) or self._arrived(watched):
            return None

        def decide(arrived: bool) -> None:
            due = watched.due
            ended(arrived or len(due) > POLLED_MAX or not self._may_read(caller, due))

        return LongPoll(watched, lambda: self._arrived(watched), wait_s, decide)

    def _arrived(self, watched: Watched) -> bool:
        due = watched.due
        return watched.closed or len(due) > POLLED_MAX or any(self._any_at(wanted) != 0 for wanted in due)

    def with_nothing_new(self, partitions: Iterable[FetchPartition]) -> list[Fetched] | None:
        """As `read` answers for positions at which nothing is; None if it has to find out first whether a
        position is outside the log."""
        found = [self._read_one(wanted, 0, first=False) for wanted in partitions]
        return None if any(map(_is_outside, found)) else found

    async def without_records(self, partitions: Sequence[FetchPartition], caller: Caller) -> list[Fetched]:
        """As `read` answers if no room is left."""
        split = self._access.split(caller, READ_TOPIC, partitions, topic_of)
        slices, found = Slices(self._clock), list[Fetched]()
        for wanted in split.allowed:
            if slices.used_up:
                await slices.next()
            found.append(self._read_one(wanted, 0, first=False))
        return split.whole(await self._confirmed(found), _refused)

    async def fetchable(
        self,
        watched: Watched,
        caller: Caller,
        *,
        wait_ms: int,
        bytes_min: int,
        bytes_max: int,
        bound: int = RECORDS_BYTES_MAX,
    ) -> None:
        """Long poll: returns once enough is committed at these positions, one of them is wrong, or the time
        is over; at once if one of them may not be read. Keeps nothing that it reads meanwhile. `bytes_max`,
        `bound`: as `answer_bytes` says.
        """
        deadline = self._clock.monotonic() + min(max(wait_ms, 0), self._settings.fetch_wait_ms_max) / 1000
        bytes_max = answer_bytes(bytes_max, bound)
        bytes_min = min(bytes_min, bytes_max)
        if bytes_min <= 0:
            return
        changed = asyncio.Event()
        watched.listen(changed.set)
        try:
            while True:
                changed.clear()
                await watched.settle(Slices(self._clock))
                if watched.closed or not self._may_read(caller, watched.due):
                    return
                enough = await self._is_enough(watched.due, bytes_min, bytes_max)
                left = deadline - self._clock.monotonic()
                if enough or left <= 0:
                    return
                try:
                    async with asyncio.timeout(left):
                        await changed.wait()
                except TimeoutError:
                    return
        finally:
            watched.unlisten(changed.set)

    async def _is_enough(self, partitions: Sequence[FetchPartition], bytes_min: int, bytes_max: int) -> bool:
        """True if this many bytes are committed, or a position is wrong."""
        slices, size = Slices(self._clock), 0
        for wanted in partitions:
            if slices.used_up:
                await slices.next()
            found = self._bytes_at(wanted, bytes_max - size) if bytes_min > 1 else self._any_at(wanted)
            if found is None or (size := size + found) >= bytes_min:
                return True
        return False

    def _any_at(self, wanted: FetchPartition) -> int | None:
        """1 if something is committed at the position, 0 if nothing is, None if the position is wrong."""
        try:
            replica = self._manager.named(*wanted.name)
            self._check(replica, wanted)
            _served_by(replica, wanted)
            diverges = self._epochs.diverging(replica, wanted) is not None
            return None if diverges else int(replica.has(wanted.offset, stable=wanted.stable))
        except StrandlineError:
            return None

    def look(self, wanted: FetchPartition) -> tuple[Fetched, bool]:
        """A position as `read` answers it if no room is left, and whether anything is committed there."""
        fetched = self._read_one(wanted, 0, first=False)
        return fetched, fetched.error is None and self._any_at(wanted) != 0

    def _check(self, replica: Replica, wanted: FetchPartition) -> None:
        self._epochs.check_topic(replica, wanted.topic_id)
        self._epochs.check(replica, wanted.leader_epoch)

    def _bytes_at(self, wanted: FetchPartition, room: int) -> int | None:
        """The bytes that a read at the position would return, None if the position is wrong."""
        fetched = self._read_one(wanted, room, first=True)
        return len(fetched.records) if fetched.error is None and fetched.diverging is None else None

    async def read(
        self,
        partitions: Sequence[FetchPartition],
        bytes_max: int,
        caller: Caller,
        *,
        bound: int = RECORDS_BYTES_MAX,
    ) -> list[Fetched]:
        """Reads the committed records at these positions. Every partition gets an answer; one for which no
        room is left gets its offsets without records, and is for the client to ask for first next time.
        `bytes_max`, `bound`: as `answer_bytes` says. The right is asked for anew: it may end while a fetch
        waits for records.
        """
        split = self._access.split(caller, READ_TOPIC, partitions, topic_of)
        slices, room, size = Slices(self._clock), answer_bytes(bytes_max, bound), 0
        found: list[Fetched] = []
        for wanted in split.allowed:
            if slices.used_up:
                await slices.next()
            fetched = self._read_one(wanted, room - size, first=not size)
            found.append(fetched)
            size += len(fetched.records)
            self._note_read(wanted, fetched)
        return split.whole(await self._confirmed(found), _refused)

    def _may_read(self, caller: Caller, partitions: Iterable[FetchPartition]) -> bool:
        """Whether the caller may read all of these. It is no refusal: `read` says that."""
        if not self._access.enforced:
            return True
        topics = dict.fromkeys(map(topic_of, partitions))
        return all(self._access.allowed(caller, READ_TOPIC, topic) for topic in topics)

    async def _confirmed(self, found: list[Fetched]) -> list[Fetched]:
        """The answers, but for positions that only a leader which was replaced calls outside or diverging
        (E1)."""
        if outside := [each.name for each in found if _is_outside(each)]:
            replaced = await self._standing.replaced(outside)
            found = [Fetched(at.name, replaced[at.name]) if at.name in replaced else at for at in found]
        return found

    def _note_read(self, wanted: FetchPartition, fetched: Fetched) -> None:
        try:
            replica = self._manager.named(*wanted.name)
        except StrandlineError:
            counts, trace = self._manager.counts.others, None
        else:
            counts, trace = replica.counts, replica.trace
        counts.fetch_requests += 1
        counts.fetch_failures += fetched.error is not None
        counts.bytes_out += len(fetched.records)
        if trace is not None and fetched.records:
            *_, last = iterate(fetched.records)
            trace.passed(Step.FETCHED, wanted.offset, last.last_offset + 1)

    def _read_one(self, wanted: FetchPartition, room: int, *, first: bool) -> Fetched:
        """The answer of one partition. The `first` records may exceed the room, by the rest of one batch."""
        try:
            replica = self._replica(wanted.name)
        except StrandlineError as error:
            return Fetched(wanted.name, error)
        try:
            self._check(replica, wanted)
            leadership = _served_by(replica, wanted)
            diverging = self._epochs.diverging(replica, wanted)
            records, end = b"", wanted.offset
            if diverging is None and replica.has(end, stable=wanted.stable) and (first or room > 0):
                bytes_max = max(1, min(wanted.bytes_max, room))
                records, end = replica.read_range(
                    end, bytes_max, batch_bytes_max=maxsize if first else room, stable=wanted.stable
                )
        except StrandlineError as error:
            return Fetched(wanted.name, self._manager.with_hint(error, replica))
        core, watermark = None if leadership is None else leadership.core, replica.high_watermark
        knows = core is None or core.knows_watermark
        stands = core is not None and not knows and not core.enough_in_sync
        return Fetched(
            wanted.name,
            high_watermark=watermark if knows else -1,
            log_start_offset=replica.log.log_start_offset,
            leader_epoch=replica.leader_epoch,
            records=records,
            standing_watermark=watermark if stands else -1,
            topic_id=NO_TOPIC_ID if wanted.topic_id else replica.key.topic_id,
            diverging=diverging,
            stable_offset=replica.stable_offset if knows or stands else -1,
            aborted=_aborted(replica, wanted.offset, end) if wanted.stable else None,
        )


def _aborted(replica: Replica, start: int, end: int) -> list[AbortedFrom]:
    found = replica.log.producers.transactions.aborted(start, end)
    return [AbortedFrom(each.producer_id, each.first_offset) for each in found]


def _served_by(replica: Replica, wanted: FetchPartition) -> Leadership | None:
    """The leadership by which a position is read; None if a follower serves it. What is below the HW that a
    follower knows is committed, and stays (H1, H7).

    Raises NotLeaderOrFollower, and OffsetNotAvailable if the follower has not come as far: only the leader
    knows whether the position is outside the log.
    """
    follows = replica.leadership is None and replica.leader != NO_BROKER and replica.whole
    if not (wanted.from_follower and follows):
        return replica.led()
    end = replica.log.log_end_offset
    if wanted.offset > end:
        raise OffsetNotAvailable(f"{replica.name} ends at {end} on this follower: ask the leader")
    return None


def _is_outside(fetched: Fetched) -> bool:
    return fetched.diverging is not None or isinstance(fetched.error, OffsetOutOfRange)


def _refused(asked: FetchPartition, error: StrandlineError) -> Fetched:
    return Fetched(asked.name, error)
