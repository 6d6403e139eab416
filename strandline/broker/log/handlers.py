"""Answers the requests of clients from the replicas of this broker, in the broker's own types.

Each entry of a request needs its own right, which is asked for where its partition is looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from strandline.adapters.system.crash_points import defect_point
from strandline.broker.core.replication.produce_ticket import OnProduced
from strandline.broker.log.deletion import RecordDeletion
from strandline.broker.log.leader_epochs import LeaderEpochs
from strandline.broker.log.producer_ids import ProducerIds
from strandline.broker.log.reads import Reads
from strandline.broker.log.recompression import Recompression
from strandline.broker.log.replica_progress import ReplicasDescription
from strandline.broker.log.standing import Standing
from strandline.broker.log.time_lookup import TimeLookup
from strandline.broker.metadata.cluster_view import ClusterView
from strandline.broker.replicas.leadership import Leadership
from strandline.broker.replicas.manager import ReplicaManager
from strandline.broker.replicas.replica import Replica
from strandline.config.services.broker import BrokerSettings
from strandline.errors import (
    InvalidRequest,
    InvalidRequiredAcks,
    InvalidTopic,
    LeaderHint,
    NotLeaderOrFollower,
    OffsetNotAvailable,
    StrandlineError,
    UnknownTopicOrPartition,
)
from strandline.ids import (
    ACKS_ALL,
    INTERNAL_PREFIX,
    NO_EPOCH,
    NO_TOPIC_ID,
    BrokerId,
    PartitionId,
    PartitionKey,
    TopicId,
    TopicPartition,
)
from strandline.ports import Caller, Clock
from strandline.security.access import Access
from strandline.security.audit.entry import may_have_changed
from strandline.security.principal import Principal
from strandline.security.rights import DELETE_TOPIC, DESCRIBE_TOPIC, DESCRIBE_TOPIC_CONFIGS
from strandline.security.topic_changes import write_refusal
from strandline.serving.unfinished import unfinished_noted
from strandline.tasks import Slices, in_slices
from strandline.vocabulary.log import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    DeletedRecords,
    DescribedReplicas,
    EpochQuery,
    ListedEpochEnd,
    ListedOffset,
    MetadataAnswer,
    MetadataQuery,
    OffsetQuery,
    ProduceEntry,
    ProducerIdentity,
    ReplicasQuery,
    Transactional,
    topic_of,
)
from strandline.vocabulary.metadata import TopicMetadata
from strandline.vocabulary.topics import check_topic_name


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
        access: Access,
    ) -> None:
        self._manager = manager
        self._view = view
        self._settings = settings
        self._clock = clock
        self._holds_lease = holds_lease
        self._producer_ids = producer_ids
        self.standing = Standing(manager, holds_lease)
        self.recompression = Recompression(manager, self.write_refusal)
        self._epochs = LeaderEpochs(manager, self.replica)
        self._times = TimeLookup(manager.host)
        self._deletion = RecordDeletion(manager, self.replica, clock)
        self._described = ReplicasDescription(manager, self.replica)
        self.access = access
        """Decides what callers may do."""
        self.reads = Reads(manager, self.replica, self._epochs, self.standing, settings, clock, access)

    # --- produce -----------------------------------------------------------------------------

    def produce(
        self,
        entry: ProduceEntry,
        done: OnProduced,
        caller: Caller,
        *,
        sure: bool = True,
        transaction: Transactional | None = None,
    ) -> None:
        """Appends one batch, whose producer id has to belong to the caller. `done` is called exactly once,
        with the outcome. One that `recompression` wants has been there before.

        `sure`: False for a partition that `Standing.unsure` returned. `transaction`: the right to begin the
        producer's transaction in this partition.
        """
        topic = entry.name.topic
        if self.access.enforced and (refusal := self.write_refusal(topic, caller)) is not None:
            done(refusal)
            return
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
            by = self.access.owner(caller)
            self._append(replica, entry, done, sure=sure, by=by, transaction=transaction)
        except StrandlineError as error:
            replica.counts.produce_failures += 1
            replica.traffic_at = self._clock.monotonic()
            done(self._manager.with_hint(error, replica))

    def write_refusal(self, topic: str, caller: Caller) -> StrandlineError | None:
        """Why the caller may not write to the topic; None if it may."""
        return write_refusal(self.access, caller, topic)

    def may_be_in_transaction(self, topic: str, caller: Caller) -> bool:
        """Whether a transaction of the caller may have partitions of the topic. A coordinator hears of no
        others: it would write markers there."""
        return not topic.startswith(INTERNAL_PREFIX) and self.write_refusal(topic, caller) is None

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
        transaction: Transactional | None,
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
            transaction=transaction,
        )

    def leader_hint(self, name: TopicPartition) -> LeaderHint | None:
        """The leader of a partition that has a replica here, if it is another broker and alive."""
        try:
            return self._manager.hint(self._manager.named(*name))
        except StrandlineError:
            return None

    def in_sync(self, name: TopicPartition) -> Sequence[BrokerId]:
        """The ISR of a partition that this broker leads; empty for another one."""
        try:
            leadership = self._manager.named(*name).leadership
        except StrandlineError:
            return ()
        return () if leadership is None else leadership.core.state.isr_ids

    def topic_id(self, name: TopicPartition) -> TopicId:
        """The id of the topic whose log of this name is open here; NO_TOPIC_ID if there is none."""
        try:
            return self._manager.named(*name).key.topic_id
        except StrandlineError:
            return NO_TOPIC_ID

    def name_of(self, topic_id: TopicId, partitions: Iterable[int]) -> str | None:
        """The name of the topic with this id, of which these partitions are asked for; None if no replica
        here is of this topic, and none was read of late."""
        for partition in partitions:
            key = PartitionKey(topic_id, PartitionId(partition))
            replica = self._manager.get(key) or self._manager.closed(key)
            if replica is not None:
                return replica.name.topic
        return self._view.name_of(topic_id)

    # --- offsets -----------------------------------------------------------------------------

    async def list_offsets(
        self,
        wanted: Sequence[OffsetQuery],
        caller: Caller,
        known_epochs: Mapping[TopicPartition, int] | None = None,
        *,
        from_follower: bool = False,
    ) -> list[ListedOffset]:
        """Looks up each partition and time: -1 means latest (the HW), -2 earliest, -3 the record of the
        latest time, any other time the first committed record of that time or later. `known_epochs`: the
        leader epochs that the client knows. `from_follower`: a follower may answer, as far as it knows."""
        deadline = self._clock.monotonic() + self._settings.list_offsets_ms_max / 1000
        slices = Slices(self._clock)
        known: dict[OffsetQuery, ListedOffset] = {}
        split = self.access.split(caller, DESCRIBE_TOPIC, wanted, topic_of)
        for query in split.allowed:
            if slices.used_up:
                await slices.next()
            if query not in known:
                epoch = (known_epochs or {}).get(query.name, NO_EPOCH)
                known[query] = await self._list_one(query, epoch, deadline, from_follower=from_follower)
        found = [known[each] for each in split.allowed]
        return split.whole(found, lambda asked, error: ListedOffset(asked.name, error))

    async def _list_one(
        self, query: OffsetQuery, known_epoch: int, deadline: float, *, from_follower: bool
    ) -> ListedOffset:
        name = query.name
        try:
            replica = self.replica(name)
        except StrandlineError as error:
            return ListedOffset(name, error)
        try:
            self._epochs.check_topic(replica, query.topic_id)
            self._epochs.check(replica, known_epoch)
            leadership = replica.leadership if from_follower else replica.led()
            return await self._list(replica, leadership, query, deadline)
        except StrandlineError as error:
            return ListedOffset(name, self._manager.with_hint(error, replica))

    async def _list(
        self, replica: Replica, leadership: Leadership | None, query: OffsetQuery, deadline: float
    ) -> ListedOffset:
        """Looks up one offset. Records below this leader's HW are committed, even while it does not know the
        cluster's HW (H1). So it can answer with the start of the log, or with a record found below its HW.
        LATEST, and a time without such a record, need the cluster's HW: an answer smaller than the
        predecessor's would be wrong."""
        log, watermark, timestamp_ms = replica.log, replica.high_watermark, query.timestamp_ms
        known = leadership is None or leadership.core.knows_watermark
        end = replica.readable_end(stable=query.stable)
        offset, timestamp = -1, -1
        if timestamp_ms == LATEST:
            offset = int(end) if known else -1
        elif timestamp_ms == EARLIEST:
            offset = log.log_start_offset
        elif timestamp_ms == MAX_TIMESTAMP:
            found = await self._times.first_not_older(replica, None, end, deadline)
            if found is None and known and end == log.log_end_offset > log.log_start_offset:
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
            found = await self._times.first_not_older(replica, timestamp_ms, end, deadline)
            offset, timestamp = found or (-1, -1)
        if offset < 0 and leadership is not None and not known:
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

    async def epoch_ends(self, wanted: Sequence[EpochQuery], caller: Caller) -> list[ListedEpochEnd]:
        """Where each of these epochs ended, as Kafka's OffsetForLeaderEpoch: see `LeaderEpochs.end_of`."""
        slices = Slices(self._clock)
        found: list[ListedEpochEnd] = []
        split = self.access.split(caller, DESCRIBE_TOPIC, wanted, topic_of)
        for query in split.allowed:
            if slices.used_up:
                await slices.next()
            found.append(self._epochs.end_of(query))
        replaced = await self.standing.replaced([each.name for each in found if each.error is None])
        confirmed = [
            ListedEpochEnd(each.name, replaced[each.name]) if each.name in replaced else each
            for each in found
        ]
        return split.whole(confirmed, lambda asked, error: ListedEpochEnd(asked.name, error))

    async def describe_replicas(
        self, wanted: Sequence[ReplicasQuery], caller: Caller
    ) -> list[DescribedReplicas]:
        """How far the replicas of these partitions are, as far as this broker leads them."""
        split = self.access.split(caller, DESCRIBE_TOPIC, wanted, topic_of)
        found = await in_slices(lambda each: self._described.of(each.name), split.allowed, self._clock)
        return split.whole(found, lambda asked, error: DescribedReplicas(asked.name, error))

    async def delete_records(
        self, name: TopicPartition, offset: int, caller: Caller, *, timeout_ms: int
    ) -> DeletedRecords:
        """Deletes the records below an offset (-1: all that are committed), exactly: see `RecordDeletion`."""
        if (refusal := self.access.refusal(caller, DELETE_TOPIC, name.topic)) is not None:
            return DeletedRecords(name, refusal)
        noted = partial(
            self.access.changed,
            caller,
            DELETE_TOPIC,
            name.topic,
            partition=name.partition,
            records_before=offset,
        )
        timeout_ms = min(max(timeout_ms, 1), self._settings.produce_timeout_ms_max)
        with unfinished_noted(noted):
            deleted = await self._deletion.delete(name, offset, timeout_ms / 1000)
        if may_have_changed(deleted.error):
            noted(deleted.error)
        return deleted

    # --- the cluster -------------------------------------------------------------------------

    async def metadata(self, query: MetadataQuery, caller: Caller) -> MetadataAnswer:
        """As `described`. A topic that is named and may not be seen is refused, whether it exists or not.
        Others are left out."""
        if not self.access.enforced:
            return await self.described(query)
        refused = self.access.refusals(caller, DESCRIBE_TOPIC, query.topics or ())
        waits = [each for each in query.waits if self._may_see(caller, each.name.topic)]
        named: list[str] | None = [name for name in query.topics or () if name not in refused]
        if query.topics is None or (refused and not named):
            named = None  # an empty list would be all topics
        answer = await self.described(replace(query, topics=named, waits=waits))
        topics = await self._visible(caller, answer.cluster.topics, include_config=query.include_config)
        return MetadataAnswer(replace(answer.cluster, topics=topics), {**answer.errors, **refused})

    async def _visible(
        self, caller: Caller, topics: Sequence[TopicMetadata], *, include_config: bool
    ) -> tuple[TopicMetadata, ...]:
        slices, visible = Slices(self._clock), list[TopicMetadata]()
        for topic in topics:
            if slices.used_up:
                await slices.next()
            if not self._may_see(caller, topic.name):
                continue
            if include_config and not self.access.allowed(caller, DESCRIBE_TOPIC_CONFIGS, topic.name):
                topic = replace(topic, config={})
            visible.append(topic)
        return tuple(visible)

    def _may_see(self, caller: Caller, topic: str) -> bool:
        return self.access.allowed(caller, DESCRIBE_TOPIC, topic)

    async def described(self, query: MetadataQuery) -> MetadataAnswer:
        """The cluster as this broker knows it, for the broker itself. Raises LeaderNotAvailable."""
        if query.waits:
            await self._view.wait_for_leaders(query.waits, query.max_wait_ms / 1000)
        cluster, unknown = await self._view.describe(
            query.topics or (), omit_topics=query.topics is None, current_sizes=query.current_sizes
        )
        if not query.include_config:
            cluster = replace(cluster, topics=tuple(replace(each, config={}) for each in cluster.topics))
        return MetadataAnswer(cluster, {name: _no_topic(name) for name in unknown})

    async def partition_counts(self, topics: Sequence[str], caller: Caller) -> dict[str, int]:
        """Partition counts by topic, for topics that exist and may be seen. Raises LeaderNotAvailable, and
        TopicAuthorizationFailed for a named topic that may not be seen."""
        for name in topics:
            self.access.check(caller, DESCRIBE_TOPIC, name)
        counts = await self._view.partition_counts(topics)
        if topics or not self.access.enforced:
            return counts
        slices, visible = Slices(self._clock), dict[str, int]()
        for name, count in counts.items():
            if slices.used_up:
                await slices.next()
            if self._may_see(caller, name):
                visible[name] = count
        return visible

    async def new_identity(self, caller: Caller) -> ProducerIdentity:
        """Returns an identity that no other producer of this cluster has. Raises LeaderNotAvailable,
        ClusterAuthorizationFailed."""
        self.access.check_idempotent(caller)
        return ProducerIdentity(await self._producer_ids.new(), 0)


def _no_topic(name: str) -> StrandlineError:
    try:
        check_topic_name(name)
    except InvalidTopic as error:
        return error
    return UnknownTopicOrPartition(f"topic {name!r} does not exist")
