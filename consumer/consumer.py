"""The consumer: hands out the committed records of the partitions that are assigned to it."""

from __future__ import annotations

import asyncio
import logging
import re
import sys
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self

from strandline.client import arguments as client_arguments
from strandline.client.client import Client
from strandline.client.coordinator import Coordinator
from strandline.client.messages import EARLIEST, LATEST, ListedOffset
from strandline.config import ConsumerSettings, load
from strandline.consumer import arguments
from strandline.consumer.core.assignors.assignor import Assignor
from strandline.consumer.core.positions import Reset
from strandline.consumer.delivery import HandOut
from strandline.consumer.group.commits import OffsetLike
from strandline.consumer.group.committed import Committed
from strandline.consumer.group.group import Group, GroupMetadata
from strandline.consumer.group.listener import RebalanceListener
from strandline.consumer.reader import Reader
from strandline.consumer.records import ConsumerRecord, FetchedBatch, OffsetAndTimestamp
from strandline.consumer.wakeups import News
from strandline.errors import InvalidRequest
from strandline.ids import TopicPartition
from strandline.ports import Clock, Transport
from strandline.vocabulary.groups import CommittedOffset, TaskChange

logger = logging.getLogger(__name__)

CLOSE_DRAIN_S: Final = 1.0
"""How long a close waits for another task that works on what it was handed out."""


class Consumer(Client[ConsumerSettings]):
    """Reads partitions up to their high watermarks: assigned ones, or its share of a group's (DESIGN §6).

    `bootstrap` as for a producer; `settings` are those of `ConsumerSettings`; `assignors` are names of
    built-in ones or objects of one's own, the most wanted first. A position moves with what was handed
    out, and by `seek`; a change of leader keeps it. Where there is none, the group's committed offset
    counts, and where there is none of those, or none that is valid, `offset_reset` decides. Iterate over
    it, or use one of the get calls; what the cluster refuses for good is raised there. What a get call
    handed out counts as processed at the next one, or at a commit.
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        *,
        assignors: Sequence[str | Assignor] = ("sticky",),
        transport: Transport | None = None,
        clock: Clock | None = None,
        **settings: Any,
    ) -> None:
        super().__init__("consumer", bootstrap, load(ConsumerSettings, **settings), transport, clock)
        chosen = arguments.assignors(assignors)
        self._news = News(self._clock)
        coordinator = self._make_coordinator()
        self._committed: Committed | None = None
        if coordinator is not None:
            self._committed = Committed(coordinator, self._settings, self._clock)
        self._reader = Reader(
            cluster=self._cluster,
            scope=self._scope,
            news=self._news,
            committed=None if self._committed is None else self._committed.fetch,
            settings=self._settings,
            clock=self._clock,
        )
        self._positions = self._reader.positions
        self._handout = HandOut(
            reader=self._reader,
            scope=self._scope,
            news=self._news,
            settings=self._settings,
            clock=self._clock,
        )
        self._closing = asyncio.Lock()
        """Who closes a second time waits for the first, and finds nothing left to do."""
        self._group: Group | None = None
        if coordinator is not None:
            self._group = self._make_group(coordinator, chosen)
            self._handout.on_call = self._group.polled

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
            handout=self._handout,
            scope=self._scope,
            settings=self._settings,
            clock=self._clock,
        )

    # --- life --------------------------------------------------------------------------------

    async def start(self) -> None:
        """Connects only when something is asked."""
        await super().start()
        self._reader.start()
        if self._group is not None:
            self._group.start()

    async def stop(self) -> None:
        """Close: leave the group in order, with all that belongs to it, then the cluster.

        What was handed out last counts as processed if the task that asked for it closes the consumer, or has
        ended, without an exception. Otherwise others read it again.
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
                    self._news.arrived()
                    if self._group is not None:
                        await self._group.end()

    def _drain_s(self, error: BaseException | None) -> float:
        """How long to wait for what is in hand. If it is done with, it counts as processed."""
        if error is not None:
            return 0
        caller = self._handout.caller
        if caller is None or caller is asyncio.current_task() or _ended_in_peace(caller):
            self._handout.done()
            return 0
        return 0 if caller.done() else CLOSE_DRAIN_S

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close(error)

    def _failed(self, error: BaseException) -> None:
        super()._failed(error)
        self._news.arrived()

    # --- the group ---------------------------------------------------------------------------

    def subscribe(
        self,
        topics: Iterable[str] | None = None,
        *,
        pattern: str | re.Pattern[str] | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Share these topics, or those whose whole name matches, with the other members of the group.

        In place of what was subscribed to before. Raises InvalidRequest without a `group_id`, or while
        partitions are assigned by hand.
        """
        group = self._in_group()
        if not group.subscribed and self.assignment() and not group.leaving:
            raise InvalidRequest("partitions are assigned by hand: `assign([])` before you subscribe")
        group.subscribe(*arguments.subscription(topics, pattern), listener)

    def unsubscribe(self) -> None:
        """Leave the group in order, which takes a moment; or drop what was assigned by hand."""
        group = self._in_group()
        if group.subscribed:
            group.unsubscribe()
        else:
            self.assign([])

    def subscription(self) -> frozenset[str]:
        """The topics subscribed to: for a pattern those that match now."""
        return self._in_group().subscription()

    def group_metadata(self) -> GroupMetadata:
        """Who this consumer is in its group now."""
        return self._in_group().metadata()

    async def commit(self, offsets: Mapping[TopicPartition, OffsetLike] | None = None) -> None:
        """Commit these offsets (each that of the next record to read), or all that was handed out; within a
        listener all but what the application is still working on.

        Tried for `api_timeout_ms`. What is still assigned is committed before an error is raised for the
        rest: UnknownMemberId (FencedInstanceId) for what the group took from this consumer, until the next
        get call, and InvalidRequest for partitions that are not assigned (any more).
        """
        await self._in_group().commits.commit(offsets)

    async def committed(self, partition: TopicPartition) -> CommittedOffset | None:
        """What the group has committed; None if nothing."""
        _ = self._in_group()
        name = client_arguments.partition(partition)
        assert self._committed is not None
        return (await self._committed.fetch([name])).get(name)

    def extend_processing(self, seconds: float) -> None:
        """The next get call may take so long from now, though `max_poll_interval_ms` is less.

        From any thread. In a rebalance the others still wait no longer than `max_poll_interval_ms`.
        """
        self._in_group().extend_processing(arguments.processing_s(seconds))

    def report_tasks(self, changes: Iterable[TaskChange]) -> None:
        """Have the group's events tell what this member did with tasks, in this order (docs/use/groups.md).

        Behind what became of partitions until now. Nobody waits for it, and it is tried a few times at most;
        who is in no generation of the group tells nothing. Raises InvalidRequest.
        """
        self._in_group().report_tasks(arguments.task_changes(changes))

    def enforce_rebalance(self, reason: str) -> None:
        """Have the group rebalance (KIP-568), behind the scenes: what assignors of one's own have to say is
        asked anew. During a rebalance one more follows it, however often it is asked for.

        `reason` is for people: members and events have it. Raises InvalidRequest while this consumer is in
        no group, or leaves it.
        """
        self._in_group().enforce_rebalance(arguments.reason(reason))

    def _in_group(self) -> Group:
        if self._group is None:
            raise InvalidRequest("this consumer has no group: give it a group_id")
        self._scope.check()
        return self._group

    # --- what is read, and where -------------------------------------------------------------

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions and no others. Those that are assigned already go on where they are.

        With a `group_id` offsets are committed to the group all the same, as long as nobody subscribes in
        it. Raises InvalidRequest while this consumer does. After an `unsubscribe` it waits, behind the
        scenes, until all of that is given up.
        """
        self._scope.check()
        if self._group is not None and self._group.subscribed:
            raise InvalidRequest("this consumer is subscribed: `unsubscribe` before you assign by hand")
        names = client_arguments.partitions(partitions)
        if self._group is None:
            self._assign(names)
        else:
            self._group.when_out(lambda: self._assign(names))

    def _assign(self, names: Sequence[TopicPartition]) -> None:
        self._reader.subscribed = False
        self._handout.forget(self.assignment() - set(names))
        self._reader.assign(names)

    def assignment(self) -> set[TopicPartition]:
        return {state.name for state in self._positions}

    async def partitions_for(self, topic: str) -> list[int]:
        """The partitions of a topic. Raises UnknownTopicOrPartition, BrokerNotAvailable."""
        self._scope.check()
        return [partition.partition for partition in (await self._cluster.topic(topic)).partitions]

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Hand out the record at `offset` next. Raises InvalidRequest if it is not assigned."""
        state = self._reader.assigned(partition)
        self._reader.seek(state.name, client_arguments.offset(state.name, offset))

    async def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go where the logs start; without arguments in all assigned partitions."""
        await self._seek_to(partitions, Reset.EARLIEST)

    async def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go to the high watermarks of now; without arguments in all assigned partitions."""
        await self._seek_to(partitions, Reset.LATEST)

    async def _seek_to(self, partitions: Sequence[TopicPartition], reset: Reset) -> None:
        names = [self._reader.assigned(name).name for name in partitions or self.assignment()]
        self._reader.search(names, reset)
        for name in names:
            await self.position(name)

    async def position(self, partition: TopicPartition) -> int:
        """Offset of the record that is handed out next; waits until it is found.

        Raises InvalidRequest if the partition is not assigned, and what keeps the position from being found.
        """
        state = self._reader.assigned(partition)
        while state.position is None:
            error = self._news.error(state.name)
            # With an error it waits a moment, too: an application that asks again at once must not starve
            # the loop.
            pause_s = self._settings.retry_backoff_ms / 1000
            deadline = None if error is None else self._clock.monotonic() + pause_s
            if not await self._news.wait(deadline) and error is not None:
                raise error
            state = self._reader.assigned(partition)
        return state.position

    def pause(self, *partitions: TopicPartition) -> None:
        """Hand out and fetch nothing of these until `resume`; their positions stay, and what was fetched."""
        for partition in partitions:
            self._reader.pause(self._reader.assigned(partition).name)
            self._handout.interrupt()

    def resume(self, *partitions: TopicPartition) -> None:
        for partition in partitions:
            state = self._reader.assigned(partition)
            self._positions.resume(state.name)
            self._reader.wake(state.broker)
        self._news.arrived()

    def paused(self) -> set[TopicPartition]:
        return {state.name for state in self._positions if state.paused}

    def highwater(self, partition: TopicPartition) -> int | None:
        """The high watermark of the last answer, None before the first. It never goes back."""
        return self._reader.assigned(partition).high_watermark

    def lag(self, partition: TopicPartition) -> int | None:
        """Committed records that were not handed out yet, None while that is not known."""
        state = self._reader.assigned(partition)
        if state.high_watermark is None or state.position is None:
            return None
        return max(0, state.high_watermark - state.position)

    # --- offsets -----------------------------------------------------------------------------

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Where the logs of these partitions start, assigned or not."""
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
        None where no record is that young."""
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
        """What every get call raises because this consumer has failed for good; None if it has not."""
        return self._scope.error() or self._news.fatal

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Coroutine[Any, Any, ConsumerRecord]:
        return self._handout.getone()

    def getone(self) -> Coroutine[Any, Any, ConsumerRecord]:
        """The next record, as soon as there is one. Partitions take turns batch by batch."""
        return self._handout.getone()

    def getmany(
        self, *partitions: TopicPartition, timeout_ms: float = 0, max_records: int | None = None
    ) -> Coroutine[Any, Any, dict[TopicPartition, list[ConsumerRecord]]]:
        """Records that are there, by partition, at most `max_records` (or `poll_records_max`); waits up
        to `timeout_ms` for the first. Without arguments of all assigned partitions."""
        return self._handout.getmany(
            partitions, arguments.timeout_ms(timeout_ms), arguments.max_records(max_records)
        )

    def getbatches(
        self, *partitions: TopicPartition, timeout_ms: float = 0
    ) -> Coroutine[Any, Any, list[FetchedBatch]]:
        """All batches that are there, undecoded: the fast way. Waits up to `timeout_ms` for the first."""
        return self._handout.getbatches(partitions, arguments.timeout_ms(timeout_ms))


def _ended_in_peace(task: asyncio.Task[Any]) -> bool:
    if not task.done() or task.cancelled():
        return False
    error = task.exception()
    if error is not None:
        logger.warning("the task that read has failed: what it had in hand is read again", exc_info=error)
    return error is None
