"""Answers the requests of clients from the replicas of this broker, in the broker's own types."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from sys import maxsize

from strandline.adapters.system.crash_points import defect_point
from strandline.broker.core.record_steps import Step
from strandline.broker.core.replication.produce_ticket import OnProduced
from strandline.broker.log.deletion import RecordDeletion
from strandline.broker.log.leader_epochs import LeaderEpochs
from strandline.broker.log.long_poll import LongPoll
from strandline.broker.log.producer_ids import ProducerIds
from strandline.broker.log.replica_progress import ReplicasDescription
from strandline.broker.log.standing import Standing
from strandline.broker.log.time_lookup import TimeLookup
from strandline.broker.metadata.cluster_view import ClusterView
from strandline.broker.replicas.manager import ReplicaManager
from strandline.broker.replicas.replica import Replica
from strandline.config.limits import RECORDS_BYTES_MAX
from strandline.config.services.broker import BrokerSettings
from strandline.errors import (
    InvalidRequest,
    InvalidRequiredAcks,
    InvalidTopic,
    LeaderHint,
    NotLeaderOrFollower,
    OffsetNotAvailable,
    OffsetOutOfRange,
    StrandlineError,
    UnknownTopicOrPartition,
)
from strandline.ids import ACKS_ALL, INTERNAL_PREFIX, NO_EPOCH, NO_TOPIC_ID, TopicId, TopicPartition
from strandline.ports import Clock
from strandline.records.header import iterate
from strandline.security.principal import Principal
from strandline.tasks import Slices, in_slices
from strandline.vocabulary.log import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    DeletedRecords,
    DescribedReplicas,
    EpochQuery,
    Fetched,
    FetchPartition,
    ListedEpochEnd,
    ListedOffset,
    MetadataAnswer,
    MetadataQuery,
    OffsetQuery,
    ProduceEntry,
    ProducerIdentity,
    ReplicasQuery,
)
from strandline.vocabulary.topics import check_topic_name


def answer_bytes(bytes_max: int, bound: int = RECORDS_BYTES_MAX) -> int:
    """Bytes of records that one answer to this fetch may carry; more if its first batch is larger.

    `bound`: the listener's own, which no client exceeds.
    """
    return min(max(bytes_max, 1), bound)


class Handlers:
    """Handles client requests. All methods may run concurrently."""

    def __init__(
        self,
        manager: ReplicaManager,
        view: ClusterView,
        settings: BrokerSettings,
        clock: Clock,
        holds_lease: Callable[[], bool],
        producer_ids: ProducerIds,
    ) -> None:
        self._manager = manager
        self._view = view
        self._settings = settings
        self._clock = clock
        self._holds_lease = holds_lease
        self._producer_ids = producer_ids
        self.standing = Standing(manager, holds_lease)
        self._epochs = LeaderEpochs(manager, self.replica)
        self._times = TimeLookup(manager.host)
        self._deletion = RecordDeletion(manager, self.replica, clock)
        self._described = ReplicasDescription(manager, self.replica)

    # --- produce -----------------------------------------------------------------------------

    def produce(
        self,
        entry: ProduceEntry,
        done: OnProduced,
        *,
        sure: bool = True,
        by: Principal | None = None,
    ) -> None:
        """Appends one batch. `done` is called exactly once, with the outcome.

        `sure`: False for a partition that `Standing.unsure` returned. `by`: the caller, to whom the batch's
        producer id has to belong; None: callers are not distinguished.
        """
        topic = entry.name.topic
        if topic.startswith(INTERNAL_PREFIX) and not entry.internal:
            done(InvalidTopic(f"topic {topic!r} is the system's own: it is read by all, and written by none"))
            return
        try:
            replica = self.replica(entry.name)
        except StrandlineError as error:
            self._manager.counts.others.produce_failures += 1
            done(error)
            return
        try:
            self._append(replica, entry, done, sure=sure, by=by)
        except StrandlineError as error:
            replica.counts.produce_failures += 1
            done(self._manager.with_hint(error, replica))

    def replica(self, name: TopicPartition) -> Replica:
        """The replica of a partition. Raises UnknownTopicOrPartition, and NotLeaderOrFollower for a closed
        one, and for a partition that other brokers have: the client has to look for its leader."""
        try:
            return self._manager.named(*name)
        except UnknownTopicOrPartition as error:
            if self._view.has(name):
                raise NotLeaderOrFollower(error.message) from None
            raise

    def _append(
        self,
        replica: Replica,
        entry: ProduceEntry,
        done: OnProduced,
        *,
        sure: bool,
        by: Principal | None,
    ) -> None:
        acks, expected_offset = entry.acks, entry.expected_offset
        if acks not in (ACKS_ALL, 0, 1):
            raise InvalidRequiredAcks(f"acks = {acks}: use all (-1), 1 or 0")
        if expected_offset is not None and expected_offset < 0:
            raise InvalidRequest(f"expected_offset = {expected_offset}: no log ends below 0")
        self._epochs.check_topic(replica, entry.topic_id)
        leadership = replica.led()
        defect_point("produce.append")
        if acks != ACKS_ALL and not self._holds_lease():
            # Another broker may lead already; only acks=all would find out (CORRECTNESS E1).
            raise NotLeaderOrFollower(f"cut off from ZooKeeper: only acks=all is safe for {replica.name} now")
        if acks != ACKS_ALL and not sure:
            raise NotLeaderOrFollower(
                f"neither the in-sync replicas of {replica.name} nor ZooKeeper confirm that this broker leads"
            )
        timeout_ms = min(max(entry.timeout_ms, 1), self._settings.produce_timeout_ms_max)
        leadership.produce(
            entry.records,
            acks=acks,
            timeout_ms=timeout_ms,
            done=done,
            expected_offset=expected_offset,
            by=by,
            any_first_sequence=entry.any_first_sequence,
        )

    def leader_hint(self, name: TopicPartition) -> LeaderHint | None:
        """The leader of a partition that has a replica here, if it is another broker and alive."""
        try:
            return self._manager.hint(self._manager.named(*name))
        except StrandlineError:
            return None

    def topic_id(self, name: TopicPartition) -> TopicId:
        """The id of the topic whose log of this name is open here; NO_TOPIC_ID if there is none."""
        try:
            return self._manager.named(*name).key.topic_id
        except StrandlineError:
            return NO_TOPIC_ID

    # --- fetch -------------------------------------------------------------------------------

    def poll(
        self, partitions: Sequence[FetchPartition], *, wait_ms: int, ended: Callable[[bool], None]
    ) -> LongPoll | None:
        """Long poll for a single record at few positions, without a task. None: there is nothing to wait for,
        or no time. `ended` is called once, later, unless the poll is cancelled; with True if something is
        committed at one of the positions, or one of them is wrong."""
        wait_s = min(wait_ms, self._settings.fetch_wait_ms_max) / 1000
        if wait_s <= 0 or self._arrived(partitions):
            return None
        replicas = [self._manager.named(*wanted.name) for wanted in partitions]
        return LongPoll(replicas, partial(self._arrived, partitions), wait_s, ended)

    def _arrived(self, partitions: Iterable[FetchPartition]) -> bool:
        return any([self._any_at(wanted) != 0 for wanted in partitions])

    def with_nothing_new(self, partitions: Iterable[FetchPartition]) -> list[Fetched] | None:
        """As `read` answers for positions at which nothing is; None if it has to find out first whether a
        position is outside the log."""
        found = self._offsets_at(partitions)
        return None if any(map(_is_outside, found)) else found

    async def without_records(self, partitions: Iterable[FetchPartition]) -> list[Fetched]:
        """As `read` answers if no room is left."""
        return await self._confirmed(self._offsets_at(partitions))

    def _offsets_at(self, partitions: Iterable[FetchPartition]) -> list[Fetched]:
        return [self._read_one(wanted, 0, first=False) for wanted in partitions]

    async def fetchable(
        self,
        partitions: Sequence[FetchPartition],
        *,
        wait_ms: int,
        bytes_min: int,
        bytes_max: int,
        bound: int = RECORDS_BYTES_MAX,
    ) -> None:
        """Long poll: returns once enough is committed at these positions, one of them is wrong, or the time
        is over. Keeps nothing that it reads meanwhile. `bytes_max`, `bound`: as `answer_bytes` says.
        """
        deadline = self._clock.monotonic() + min(max(wait_ms, 0), self._settings.fetch_wait_ms_max) / 1000
        bytes_max = answer_bytes(bytes_max, bound)
        bytes_min = min(bytes_min, bytes_max)
        if bytes_min <= 0:
            return
        changed = asyncio.Event()
        watched = self._listen(partitions, changed.set)
        try:
            while True:
                changed.clear()
                enough = await self._is_enough(partitions, bytes_min, bytes_max)
                left = deadline - self._clock.monotonic()
                if enough or left <= 0:
                    return
                try:
                    async with asyncio.timeout(left):
                        await changed.wait()
                except TimeoutError:
                    return
        finally:
            for replica in watched:
                replica.unlisten(changed.set)

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
            replica.led()
            diverges = self._epochs.diverging(replica, wanted) is not None
            return None if diverges else int(replica.has_committed(wanted.offset))
        except StrandlineError:
            return None

    def _check(self, replica: Replica, wanted: FetchPartition) -> None:
        self._epochs.check_topic(replica, wanted.topic_id)
        self._epochs.check(replica, wanted.leader_epoch)

    def _bytes_at(self, wanted: FetchPartition, room: int) -> int | None:
        """The bytes that a read at the position would return, None if the position is wrong."""
        fetched = self._read_one(wanted, room, first=True)
        return len(fetched.records) if fetched.error is None and fetched.diverging is None else None

    async def read(
        self, partitions: Sequence[FetchPartition], bytes_max: int, *, bound: int = RECORDS_BYTES_MAX
    ) -> list[Fetched]:
        """Reads the committed records at these positions. Every partition gets an answer; one for which no
        room is left gets its offsets without records, and is for the client to ask for first next time.
        `bytes_max`, `bound`: as `answer_bytes` says.
        """
        slices, room, size = Slices(self._clock), answer_bytes(bytes_max, bound), 0
        found: list[Fetched] = []
        for wanted in partitions:
            if slices.used_up:
                await slices.next()
            fetched = self._read_one(wanted, room - size, first=not size)
            found.append(fetched)
            size += len(fetched.records)
            self._note_read(wanted, fetched)
        return await self._confirmed(found)

    async def _confirmed(self, found: list[Fetched]) -> list[Fetched]:
        """The answers, but for positions that only a leader which was replaced calls outside or diverging
        (E1)."""
        if outside := [each.name for each in found if _is_outside(each)]:
            replaced = await self.standing.replaced(outside)
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

    def _listen(self, partitions: Sequence[FetchPartition], listener: Callable[[], None]) -> list[Replica]:
        watched: list[Replica] = []
        for wanted in partitions:
            try:
                replica = self._manager.named(*wanted.name)
            except StrandlineError:
                continue  # `read` answers with the error
            replica.listen(listener)
            watched.append(replica)
        return watched

    def _read_one(self, wanted: FetchPartition, room: int, *, first: bool) -> Fetched:
        """The answer of one partition. The `first` records may exceed the room, by the rest of one batch."""
        try:
            replica = self.replica(wanted.name)
        except StrandlineError as error:
            return Fetched(wanted.name, error)
        try:
            self._check(replica, wanted)
            leadership = replica.led()
            diverging = self._epochs.diverging(replica, wanted)
            records = b""
            if diverging is None and replica.has_committed(wanted.offset) and (first or room > 0):
                bytes_max = max(1, min(wanted.bytes_max, room))
                records = replica.read_committed(
                    wanted.offset, bytes_max, batch_bytes_max=maxsize if first else room
                )
        except StrandlineError as error:
            return Fetched(wanted.name, self._manager.with_hint(error, replica))
        core, watermark = leadership.core, replica.high_watermark
        return Fetched(
            wanted.name,
            high_watermark=watermark if core.knows_watermark else -1,
            log_start_offset=replica.log.log_start_offset,
            leader_epoch=replica.leader_epoch,
            records=records,
            standing_watermark=-1 if core.knows_watermark or core.enough_in_sync else watermark,
            topic_id=NO_TOPIC_ID if wanted.topic_id else replica.key.topic_id,
            diverging=diverging,
        )

    # --- offsets -----------------------------------------------------------------------------

    async def list_offsets(
        self, wanted: Sequence[OffsetQuery], known_epochs: Mapping[TopicPartition, int] | None = None
    ) -> list[ListedOffset]:
        """Looks up each partition and time: -1 means latest (the HW), -2 earliest, -3 the record of the
        latest time, any other time the first committed record of that time or later. `known_epochs`: the
        leader epochs that the client knows."""
        deadline = self._clock.monotonic() + self._settings.list_offsets_ms_max / 1000
        slices = Slices(self._clock)
        known: dict[OffsetQuery, ListedOffset] = {}
        for query in wanted:
            if slices.used_up:
                await slices.next()
            if query not in known:
                epoch = (known_epochs or {}).get(query.name, NO_EPOCH)
                known[query] = await self._list_one(query, epoch, deadline)
        return [known[each] for each in wanted]

    async def _list_one(self, query: OffsetQuery, known_epoch: int, deadline: float) -> ListedOffset:
        name = query.name
        try:
            replica = self.replica(name)
        except StrandlineError as error:
            return ListedOffset(name, error)
        try:
            self._epochs.check_topic(replica, query.topic_id)
            self._epochs.check(replica, known_epoch)
            return await self._list(replica, query.timestamp_ms, deadline)
        except StrandlineError as error:
            return ListedOffset(name, self._manager.with_hint(error, replica))

    async def _list(self, replica: Replica, timestamp_ms: int, deadline: float) -> ListedOffset:
        """Looks up one offset. Records below this leader's HW are committed, even while it does not know the
        cluster's HW (H1). So it can answer with the start of the log, or with a record found below its HW.
        LATEST, and a time without such a record, need the cluster's HW: an answer smaller than the
        predecessor's would be wrong."""
        leadership = replica.led()
        log, watermark = replica.log, replica.high_watermark
        known = leadership.core.knows_watermark
        offset, timestamp = -1, -1
        if timestamp_ms == LATEST:
            offset = int(watermark) if known else -1
        elif timestamp_ms == EARLIEST:
            offset = log.log_start_offset
        elif timestamp_ms == MAX_TIMESTAMP:
            found = await self._times.first_not_older(replica, None, watermark, deadline)
            if found is None and known and watermark == log.log_end_offset > log.log_start_offset:
                raise InvalidRequest(f"{replica.name}: records were removed, and with them the latest time")
            if found is None and log.log_end_offset > watermark:
                raise OffsetNotAvailable(f"{replica.name}: no record of the latest time is committed yet")
            offset, timestamp = found or (-1, -1)
        elif timestamp_ms < 0:
            raise InvalidRequest(
                f"timestamp {timestamp_ms}: use -1 (latest), -2 (earliest), -3 (of the latest time) or "
                "milliseconds"
            )
        else:
            found = await self._times.first_not_older(replica, timestamp_ms, watermark, deadline)
            offset, timestamp = found or (-1, -1)
        if offset < 0 and not known:
            raise OffsetNotAvailable(
                f"{replica.name}: the new leader knows that offsets below {watermark} are committed, and "
                f"not yet whether {watermark}..{leadership.core.epoch_start} are"
            )
        return ListedOffset(
            replica.name,
            None,
            offset,
            timestamp,
            replica.leader_epoch,
            int(watermark) if known else -1,
            log.log_start_offset,
            log.log_end_offset,
            replica.key.topic_id,
        )

    async def epoch_ends(self, wanted: Sequence[EpochQuery]) -> list[ListedEpochEnd]:
        """Where each of these epochs ended, as Kafka's OffsetForLeaderEpoch: see `LeaderEpochs.end_of`."""
        slices = Slices(self._clock)
        found: list[ListedEpochEnd] = []
        for query in wanted:
            if slices.used_up:
                await slices.next()
            found.append(self._epochs.end_of(query))
        replaced = await self.standing.replaced([each.name for each in found if each.error is None])
        return [
            ListedEpochEnd(each.name, replaced[each.name]) if each.name in replaced else each
            for each in found
        ]

    async def describe_replicas(self, wanted: Sequence[ReplicasQuery]) -> list[DescribedReplicas]:
        """How far the replicas of these partitions are, as far as this broker leads them."""
        return await in_slices(lambda each: self._described.of(each.name), wanted, self._clock)

    async def delete_records(self, name: TopicPartition, offset: int, *, timeout_ms: int) -> DeletedRecords:
        """Deletes the records below an offset (-1: all that are committed), exactly: see `RecordDeletion`."""
        timeout_ms = min(max(timeout_ms, 1), self._settings.produce_timeout_ms_max)
        return await self._deletion.delete(name, offset, timeout_ms / 1000)

    # --- the cluster -------------------------------------------------------------------------

    async def metadata(self, query: MetadataQuery) -> MetadataAnswer:
        """The cluster as this broker knows it. Raises LeaderNotAvailable."""
        if query.waits:
            await self._view.wait_for_leaders(query.waits, query.max_wait_ms / 1000)
        cluster, unknown = await self._view.describe(
            query.topics or (), omit_topics=query.topics is None, current_sizes=query.current_sizes
        )
        if not query.include_config:
            cluster = replace(cluster, topics=tuple(replace(each, config={}) for each in cluster.topics))
        return MetadataAnswer(cluster, {name: _no_topic(name) for name in unknown})

    async def partition_counts(self, topics: Sequence[str]) -> dict[str, int]:
        """Partition counts by topic, for topics that exist. Raises LeaderNotAvailable."""
        return await self._view.partition_counts(topics)

    async def new_identity(self) -> ProducerIdentity:
        """Returns an identity that no other producer of this cluster has. Raises LeaderNotAvailable."""
        return ProducerIdentity(await self._producer_ids.new(), 0)


def _is_outside(fetched: Fetched) -> bool:
    return fetched.diverging is not None or isinstance(fetched.error, OffsetOutOfRange)


def _no_topic(name: str) -> StrandlineError:
    try:
        check_topic_name(name)
    except InvalidTopic as error:
        return error
    return UnknownTopicOrPartition(f"topic {name!r} does not exist")
