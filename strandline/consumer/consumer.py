"""The consumer: reads the committed records of its assigned partitions."""

from __future__ import annotations

import asyncio
import logging
import re
import sys
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, ClassVar, Final, Self

from strandline.adapters.system_host import client_host
from strandline.client import arguments as client_arguments
from strandline.client.coordinator import Coordinator
from strandline.client.core.effects import Reset
from strandline.client.core.positions import ReadLog
from strandline.client.metrics import ClientMetric
from strandline.client.reading.client import ReadingClient
from strandline.client.reading.records import ConsumerRecord, FetchedBatch, OffsetAndTimestamp
from strandline.config.consumer import ConsumerSettings
from strandline.config.load import load
from strandline.consumer import arguments
from strandline.consumer.core.assignors.assignor import Assignor
from strandline.consumer.core.assignors.registry import DEFAULTS
from strandline.consumer.delivery import RecordDelivery
from strandline.consumer.group.committed import Committed
from strandline.consumer.group.group import Group
from strandline.consumer.group.listener import RebalanceListener
from strandline.consumer.measures import CONSUMER_METRICS
from strandline.errors import InvalidRequest
from strandline.host import Host
from strandline.ids import TopicPartition
from strandline.records import Columns
from strandline.vocabulary.groups import CommittedOffset, GroupMetadata, OffsetLike, TaskChange
from strandline.vocabulary.log import EARLIEST, LATEST, ListedOffset
from strandline.vocabulary.log_position import LogPosition

logger = logging.getLogger(__name__)

CLOSE_DRAIN_S: Final = 1.0
"""The longest time that a close waits for another task with records in hand."""


class Consumer(ReadingClient):
    """Reads partitions up to their high watermarks: assigned ones, or its share of a group's.

    `bootstrap` as for a producer; `settings` are those of `ConsumerSettings`; `assignors` are names of
    built-in ones or the user's own objects, the preferred one first; the default depends on
    `rebalance_protocol` (`assignors.registry.DEFAULTS`). Iterate over the consumer, or use one of the get
    calls, which raise permanent errors of the cluster.

    A position moves with the delivered records, and by `seek`; a change of leader keeps it. A partition
    without a position begins at the group's committed offset, or, if there is no valid one, where
    `offset_reset` says. The records of a get call count as processed at the next get call, or at a commit. A
    get call raises InvalidRequest while nothing is assigned or subscribed to.
    """

    METRICS: ClassVar[tuple[ClientMetric, ...]] = CONSUMER_METRICS
    """The metrics of `metrics()`."""

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        *,
        assignors: Sequence[str | Assignor] | None = None,
        host: Host | None = None,
        **settings: Any,
    ) -> None:
        given = load(ConsumerSettings, **settings)
        self._host = host = client_host(given, host)
        super().__init__("consumer", bootstrap, given, host.transport(None), host.clock)
        if assignors is not None and given.group_protocol == "consumer":
            raise InvalidRequest(
                'assignors are for group_protocol="classic"; with "consumer" the coordinator assigns, by the '
                "one that group_remote_assignor names"
            )
        chosen = arguments.assignors(DEFAULTS[given.rebalance_protocol] if assignors is None else assignors)
        coordinator = self._make_coordinator()
        self._committed: Committed | None = None
        if coordinator is not None:
            self._committed = Committed(coordinator, self._settings)
            self._reader.finder.committed = self._committed.fetch
        self._positions = self._reader.positions
        self._delivery = RecordDelivery(
            reader=self._reader,
            scope=self._scope,
            wakeups=self._wakeups,
            settings=self._settings,
            clock=self._clock,
        )
        self._closing = asyncio.Lock()
        """A second close waits for the first one, and finds nothing left to do."""
        self._group: Group | None = None
        if coordinator is not None:
            self._group = self._make_group(coordinator, chosen)
            self._delivery.on_call = self._group.polled
        self._delivery.may_read = self._may_read

    def _make_coordinator(self) -> Coordinator | None:
        if self._settings.group_id is None:
            return None
        return Coordinator(
            self._settings.group_id,
            cluster=self._cluster,
            transport=self._transport,
            settings=self._settings,
            clock=self._clock,
        )

    def _make_group(self, coordinator: Coordinator, assignors: Sequence[Assignor]) -> Group:
        return Group(
            coordinator,
            assignors=assignors,
            cluster=self._cluster,
            reader=self._reader,
            delivery=self._delivery,
            scope=self._scope,
            settings=self._settings,
            transport=self._transport,
            host=self._host,
        )

    # --- life --------------------------------------------------------------------------------

    async def start(self) -> None:
        """Connects only with the first request."""
        await super().start()
        if self._group is not None:
            self._group.start()

    async def stop(self) -> None:
        """Leave the group in order, with commits and releases, then close.

        The records in hand count as processed if the task that got them closes the consumer, or has ended,
        without an exception. Otherwise other consumers read them again.
        """
        await self._close(sys.exc_info()[1])

    async def _close(self, error: BaseException | None) -> None:
        if self._group is not None:
            self._group.check_outside()
        drain_s = self._drain_s(error)
        async with self._closing:
            try:
                if self._group is not None:
                    await self._group.leave(drain_s)
            finally:
                try:
                    await super().stop()
                finally:
                    self._wakeups.arrived()
                    if self._group is not None:
                        await self._group.end()

    def _drain_s(self, error: BaseException | None) -> float:
        """Seconds to wait for the records in hand. If their task is done, they count as processed."""
        if error is not None:
            return 0
        caller = self._delivery.caller
        if caller is None or caller is asyncio.current_task() or _ended_in_peace(caller):
            self._delivery.done()
            return 0
        return 0 if caller.done() else CLOSE_DRAIN_S

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close(error)

    # --- the group ---------------------------------------------------------------------------

    def subscribe(
        self,
        topics: Iterable[str] | None = None,
        *,
        pattern: str | re.Pattern[str] | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Share these topics, or those whose whole name matches, with the other members of the group.

        Replaces an earlier subscription. Raises InvalidRequest without a `group_id`, or while partitions are
        assigned by hand.
        """
        group = self._in_group()
        if not group.subscribed and self.assignment() and not group.leaving:
            raise InvalidRequest("partitions are assigned by hand: `assign([])` before you subscribe")
        group.subscribe(*arguments.subscription(topics, pattern), listener)

    def unsubscribe(self) -> None:
        """Leave the group in order, which takes a moment; or drop manually assigned partitions."""
        group = self._in_group()
        if group.subscribed:
            group.unsubscribe()
        else:
            self.assign([])

    def subscription(self) -> frozenset[str]:
        """The topics subscribed to: for a pattern those that match now."""
        return self._in_group().subscription()

    def group_metadata(self) -> GroupMetadata:
        """This consumer's membership in its group."""
        return self._in_group().metadata()

    async def commit(self, offsets: Mapping[TopicPartition, OffsetLike] | None = None) -> None:
        """Commit these offsets (each that of the next record to read), or those of all delivered records;
        within a listener without the records in hand.

        Retried for `api_timeout_ms`. Assigned partitions are committed before an error is raised for the
        rest: UnknownMemberId (FencedInstanceId) for partitions that were lost, until the next get call, and
        InvalidRequest for partitions that are not, or no longer, assigned.
        """
        await self._in_group().commits.commit(offsets)

    async def committed(self, partition: TopicPartition) -> CommittedOffset | None:
        """The committed offset of the group; None if there is none."""
        _ = self._in_group()
        name = client_arguments.partition(partition)
        assert self._committed is not None
        return (await self._committed.fetch([name])).get(name)

    def extend_processing(self, seconds: float) -> None:
        """Allow the next get call to come this late, even beyond `max_poll_interval_ms`.

        From any thread. In a rebalance the other members still wait for `max_poll_interval_ms` at most.
        """
        self._in_group().extend_processing(arguments.processing_s(seconds))

    def report_tasks(self, changes: Iterable[TaskChange]) -> None:
        """Report changes of this member's tasks for the group's events, in this order (docs/use/groups.md).

        They come behind earlier changes of partitions. A report is sent in the background with a few tries; a
        consumer that is in no generation of the group sends none. Raises InvalidRequest.
        """
        self._in_group().report_tasks(arguments.task_changes(changes))

    def enforce_rebalance(self, reason: str) -> None:
        """Have the group rebalance (KIP-568), in the background: assignors are called for new user data.
        During a rebalance one more follows, however many are requested.

        `reason` is for humans: members and events show it. Raises InvalidRequest while this consumer is in no
        group, or leaves it.
        """
        self._in_group().enforce_rebalance(arguments.reason(reason))

    def _in_group(self) -> Group:
        if self._group is None:
            raise InvalidRequest("this consumer has no group: give it a group_id")
        self._scope.check()
        return self._group

    # --- what is read, and where -------------------------------------------------------------

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions and no others. Those that are already assigned keep their positions.

        With a `group_id` offsets are committed to the group as long as it has no members. Raises
        InvalidRequest while this consumer subscribes. After an `unsubscribe` it takes effect once the
        partitions of the subscription are released.
        """
        self._scope.check()
        if self._group is not None and self._group.subscribed:
            raise InvalidRequest("this consumer is subscribed: `unsubscribe` before you assign by hand")
        names = client_arguments.partitions(partitions)
        if self._group is None:
            self._assign(names)
        else:
            self._group.assign_once_left(lambda: self._assign(names))

    def _assign(self, names: Sequence[TopicPartition]) -> None:
        self._reader.subscribed = False
        self._delivery.forget(self.assignment() - set(names))
        self._reader.assign(names)
        self._delivery.reconsider()

    def _may_read(self) -> bool:
        return bool(self.assignment()) or (self._group is not None and self._group.may_assign)

    def assignment(self) -> set[TopicPartition]:
        return {state.name for state in self._positions}

    async def partitions_for(self, topic: str) -> list[int]:
        """The partitions of a topic. Raises UnknownTopicOrPartition, BrokerNotAvailable."""
        self._scope.check()
        return [partition.partition for partition in (await self._cluster.topic(topic)).partitions]

    def seek(self, partition: TopicPartition, offset: int | LogPosition) -> None:
        """Deliver the record at `offset` next. A LogPosition is compared with the log first: if it is of
        another log, the partition goes on as after a change of the log that it reads.

        Raises InvalidRequest for an invalid position, or if the partition is not assigned."""
        name = self._reader.assigned(partition).name
        self._reader.seek_to(name, client_arguments.position(name, offset))

    def log(self, partition: TopicPartition) -> ReadLog:
        """The log that is read of an assigned partition, as of this moment: the offsets of records that get
        calls have returned so far belong to it."""
        return self._reader.assigned(partition).log

    async def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Move to the starts of the logs; without arguments in all assigned partitions."""
        await self._seek_to(partitions, Reset.EARLIEST)

    async def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Move to the current high watermarks; without arguments in all assigned partitions."""
        await self._seek_to(partitions, Reset.LATEST)

    async def _seek_to(self, partitions: Sequence[TopicPartition], reset: Reset) -> None:
        wanted = partitions or [state.name for state in self._positions]
        names = [self._reader.assigned(name).name for name in wanted]
        self._reader.search(names, reset)
        for name in names:
            await self.position(name)

    async def position(self, partition: TopicPartition) -> int:
        """The offset of the record that is delivered next; waits until it is found.

        Raises InvalidRequest if the partition is not assigned, and the error of the search for the position.
        """
        state = self._reader.assigned(partition)
        while state.position is None:
            error = self._wakeups.error(state.name)
            # It waits a moment before it raises: an application that calls again at once must not starve the
            # loop.
            pause_s = self._settings.retry_backoff_ms / 1000
            deadline = None if error is None else self._clock.monotonic() + pause_s
            if not await self._wakeups.wait(deadline) and error is not None:
                raise error
            state = self._reader.assigned(partition)
        return state.position

    def pause(self, *partitions: TopicPartition) -> None:
        """Deliver and fetch nothing of these until `resume`. Positions and fetched records stay."""
        for partition in partitions:
            self._reader.pause(self._reader.assigned(partition).name)
            self._delivery.interrupt()

    def resume(self, *partitions: TopicPartition) -> None:
        for partition in partitions:
            state = self._reader.assigned(partition)
            self._positions.resume(state.name)
            self._reader.wake(state.broker)
        self._wakeups.arrived()

    def paused(self) -> set[TopicPartition]:
        return {state.name for state in self._positions if state.paused}

    def highwater(self, partition: TopicPartition) -> int | None:
        """The high watermark of the last answer, None before the first. It never goes back."""
        return self._reader.assigned(partition).high_watermark

    def lag(self, partition: TopicPartition) -> int | None:
        """The number of committed records that are not delivered yet; None while it is unknown."""
        return self._reader.assigned(partition).lag

    # --- offsets -----------------------------------------------------------------------------

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The start offsets of these partitions, assigned or not."""
        found = await self._list(dict.fromkeys(client_arguments.partitions(partitions), EARLIEST))
        return {name: listed.offset for name, listed in found.items()}

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The high watermarks of these partitions, assigned or not."""
        found = await self._list(dict.fromkeys(client_arguments.partitions(partitions), LATEST))
        return {name: listed.offset for name, listed in found.items()}

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record not older than a time (milliseconds since the Unix epoch), by partition;
        None where no record is that recent."""
        found = await self._list(arguments.timestamps(timestamps))
        return {
            name: None if listed.offset < 0 else OffsetAndTimestamp(listed.offset, listed.timestamp_ms)
            for name, listed in found.items()
        }

    async def _list(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, ListedOffset]:
        self._scope.check()
        return await self._reader.finder.list(wanted)

    # --- handing out -------------------------------------------------------------------------

    def error(self) -> Exception | None:
        """The error that every get call raises since this consumer has failed; None if it has not."""
        return self._scope.error() or self._wakeups.fatal

    def metrics(self) -> dict[str, float]:
        """What this consumer measures, by Kafka's names: those of `METRICS`. From any thread."""
        return self._delivery.measures.read(tuple(self._positions), self._delivery.unpolled_s())

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Coroutine[Any, Any, ConsumerRecord]:
        return self._delivery.getone()

    def getone(self) -> Coroutine[Any, Any, ConsumerRecord]:
        """The next record, as soon as there is one. Partitions take turns batch by batch."""
        return self._delivery.getone()

    def getmany(
        self, *partitions: TopicPartition, timeout_ms: float = 0, max_records: int | None = None
    ) -> Coroutine[Any, Any, dict[TopicPartition, list[ConsumerRecord]]]:
        """The records that have arrived, by partition, at most `max_records` (or `poll_records_max`). Waits
        up to `timeout_ms` for the first. Without arguments of all assigned partitions."""
        return self._delivery.getmany(
            partitions, arguments.timeout_ms(timeout_ms), arguments.max_records(max_records)
        )

    def getcolumns(
        self, *partitions: TopicPartition, timeout_ms: float = 0, max_records: int | None = None
    ) -> Coroutine[Any, Any, dict[TopicPartition, Columns]]:
        """As `getmany`, by column: lists of offsets, timestamps, keys, values and headers of equal length. No
        object is made for a record."""
        return self._delivery.getcolumns(
            partitions, arguments.timeout_ms(timeout_ms), arguments.max_records(max_records)
        )

    def getbatches(
        self, *partitions: TopicPartition, timeout_ms: float = 0
    ) -> Coroutine[Any, Any, list[FetchedBatch]]:
        """All batches that have arrived, undecoded: the fastest way. Waits up to `timeout_ms` for one."""
        return self._delivery.getbatches(partitions, arguments.timeout_ms(timeout_ms))


def _ended_in_peace(task: asyncio.Task[Any]) -> bool:
    if not task.done() or task.cancelled():
        return False
    error = task.exception()
    if error is not None:
        logger.warning("the task that read has failed: what it had in hand is read again", exc_info=error)
    return error is None
