"""The handlers of the service `Log` as callers may use them: each entry of a request needs its own right.

What the broker asks for itself it asks the unguarded handlers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol, TypeVar

from strandline.broker.core.replication.produce_ticket import OnProduced
from strandline.broker.log.handlers import Handlers
from strandline.broker.log.long_poll import LongPoll
from strandline.config.limits import RECORDS_BYTES_MAX
from strandline.errors import StrandlineError
from strandline.ids import TopicPartition
from strandline.ports import Caller, Clock
from strandline.security.access import Access
from strandline.security.audit.entry import may_have_changed
from strandline.security.rights import (
    DELETE_TOPIC,
    DESCRIBE_TOPIC,
    DESCRIBE_TOPIC_CONFIGS,
    READ_TOPIC,
    Right,
)
from strandline.security.topic_changes import write_refusal
from strandline.serving.unfinished import unfinished_noted
from strandline.tasks import Slices
from strandline.vocabulary.log import (
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
from strandline.vocabulary.metadata import TopicMetadata


class _OfPartition(Protocol):
    @property
    def name(self) -> TopicPartition: ...


Asked = TypeVar("Asked", bound=_OfPartition)
Found = TypeVar("Found")


class GuardedLog:
    """The handlers, with the caller of each request. See `Handlers` for what they do and raise."""

    def __init__(self, handlers: Handlers, access: Access, clock: Clock) -> None:
        self.handlers = handlers
        """Unguarded."""
        self.access = access
        self._clock = clock

    # --- produce -----------------------------------------------------------------------------

    def produce(self, entry: ProduceEntry, done: OnProduced, caller: Caller, *, sure: bool = True) -> None:
        if not self.access.enforced:
            self.handlers.produce(entry, done, sure=sure)
        elif (refusal := self.write_refusal(entry.name.topic, caller)) is not None:
            done(refusal)
        else:
            self.handlers.produce(entry, done, sure=sure, by=self.access.owner(caller))

    def write_refusal(self, topic: str, caller: Caller) -> StrandlineError | None:
        """Why the caller may not write to the topic; None if it may."""
        return write_refusal(self.access, caller, topic)

    async def new_identity(self, caller: Caller) -> ProducerIdentity:
        self.access.check_idempotent(caller)
        return await self.handlers.new_identity()

    # --- fetch -------------------------------------------------------------------------------

    async def fetchable(
        self,
        partitions: Sequence[FetchPartition],
        caller: Caller,
        *,
        wait_ms: int,
        bytes_min: int,
        bytes_max: int,
        bound: int = RECORDS_BYTES_MAX,
    ) -> None:
        """Returns at once if a partition is refused."""
        if self._may_read(caller, partitions):
            await self.handlers.fetchable(
                partitions, wait_ms=wait_ms, bytes_min=bytes_min, bytes_max=bytes_max, bound=bound
            )

    def poll(
        self,
        partitions: Sequence[FetchPartition],
        caller: Caller,
        *,
        wait_ms: int,
        ended: Callable[[bool], None],
    ) -> LongPoll | None:
        """None, or `ended` with True, also if a partition is refused: a right may end meanwhile."""
        if not self._may_read(caller, partitions):
            return None

        def decide(arrived: bool) -> None:
            ended(arrived or not self._may_read(caller, partitions))

        return self.handlers.poll(partitions, wait_ms=wait_ms, ended=decide)

    async def read(
        self,
        partitions: Sequence[FetchPartition],
        bytes_max: int,
        caller: Caller,
        *,
        bound: int = RECORDS_BYTES_MAX,
    ) -> list[Fetched]:
        """It decides anew: a right may end while a fetch waits for records."""

        async def read(allowed: Sequence[FetchPartition]) -> list[Fetched]:
            return await self.handlers.read(allowed, bytes_max, bound=bound)

        return await self._each(caller, READ_TOPIC, partitions, read, Fetched)

    async def without_records(self, partitions: Sequence[FetchPartition], caller: Caller) -> list[Fetched]:
        """As `read` answers where nothing is."""

        async def answer(allowed: Sequence[FetchPartition]) -> list[Fetched]:
            return await self.handlers.without_records(allowed)

        return await self._each(caller, READ_TOPIC, partitions, answer, Fetched)

    # --- offsets -----------------------------------------------------------------------------

    async def list_offsets(
        self,
        wanted: Sequence[OffsetQuery],
        caller: Caller,
        known_epochs: Mapping[TopicPartition, int] | None = None,
    ) -> list[ListedOffset]:
        async def list_offsets(allowed: Sequence[OffsetQuery]) -> list[ListedOffset]:
            return await self.handlers.list_offsets(allowed, known_epochs)

        return await self._each(caller, DESCRIBE_TOPIC, wanted, list_offsets, ListedOffset)

    async def epoch_ends(self, wanted: Sequence[EpochQuery], caller: Caller) -> list[ListedEpochEnd]:
        return await self._each(caller, DESCRIBE_TOPIC, wanted, self.handlers.epoch_ends, ListedEpochEnd)

    async def describe_replicas(
        self, wanted: Sequence[ReplicasQuery], caller: Caller
    ) -> list[DescribedReplicas]:
        return await self._each(
            caller, DESCRIBE_TOPIC, wanted, self.handlers.describe_replicas, DescribedReplicas
        )

    async def delete_records(
        self, name: TopicPartition, offset: int, caller: Caller, *, timeout_ms: int
    ) -> DeletedRecords:
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
        with unfinished_noted(noted):
            deleted = await self.handlers.delete_records(name, offset, timeout_ms=timeout_ms)
        if may_have_changed(deleted.error):
            noted(deleted.error)
        return deleted

    # --- the cluster -------------------------------------------------------------------------

    async def metadata(self, query: MetadataQuery, caller: Caller) -> MetadataAnswer:
        """A topic that is named and may not be seen is refused, whether it exists or not. Others are left
        out."""
        if not self.access.enforced:
            return await self.handlers.metadata(query)
        refused = self.access.refusals(caller, DESCRIBE_TOPIC, query.topics or ())
        waits = [each for each in query.waits if self._may_see(caller, each.name.topic)]
        named: list[str] | None = [name for name in query.topics or () if name not in refused]
        if query.topics is None or (refused and not named):
            named = None  # an empty list would be all topics
        answer = await self.handlers.metadata(replace(query, topics=named, waits=waits))
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

    async def partition_counts(self, topics: Sequence[str], caller: Caller) -> dict[str, int]:
        """Raises TopicAuthorizationFailed for a named topic that may not be seen."""
        for name in topics:
            self.access.check(caller, DESCRIBE_TOPIC, name)
        counts = await self.handlers.partition_counts(topics)
        if topics or not self.access.enforced:
            return counts
        slices, visible = Slices(self._clock), dict[str, int]()
        for name, count in counts.items():
            if slices.used_up:
                await slices.next()
            if self._may_see(caller, name):
                visible[name] = count
        return visible

    # --- refusals ----------------------------------------------------------------------------

    def _may_see(self, caller: Caller, topic: str) -> bool:
        return self.access.allowed(caller, DESCRIBE_TOPIC, topic)

    def _may_read(self, caller: Caller, partitions: Sequence[_OfPartition]) -> bool:
        """Whether the caller may read all of these. It is no refusal: `read` says that."""
        if not self.access.enforced:
            return True
        topics = dict.fromkeys(each.name.topic for each in partitions)
        return all(self.access.allowed(caller, READ_TOPIC, topic) for topic in topics)

    def _refusals(
        self, caller: Caller, right: Right, asked: Sequence[_OfPartition]
    ) -> Mapping[str, StrandlineError]:
        """The refusals by topic."""
        if not self.access.enforced:
            return {}
        return self.access.refusals(caller, right, (each.name.topic for each in asked))

    async def _each(
        self,
        caller: Caller,
        right: Right,
        asked: Sequence[Asked],
        answer: Callable[[Sequence[Asked]], Awaitable[list[Found]]],
        refuse: Callable[[TopicPartition, StrandlineError], Found],
    ) -> list[Found]:
        """The answers in order: those that may be given, and refusals of the others."""
        refused = self._refusals(caller, right, asked)
        if not refused:
            return await answer(asked)
        given = iter(await answer([each for each in asked if each.name.topic not in refused]))
        return [
            refuse(each.name, refused[each.name.topic]) if each.name.topic in refused else next(given)
            for each in asked
        ]
