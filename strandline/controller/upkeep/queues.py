"""Keeps the queues of dead brokers within bounds, on their behalf.

Each step is a compare-and-set on what was read, and the next active controller can repeat it. Ends are
written first, then recorded in `__state_changes`; only recorded requests are removed. A broker that returns
meanwhile ends its requests by the same compare-and-sets: only one of two ends is written, and a write that
loses makes its broker read again. A live broker's queue is never touched.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final

import structlog

from strandline.adapters.system.crash_points import crash_point
from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.layout import queue_znodes
from strandline.config.limits import MULTI_BYTES_MAX, STATE_ENTRY_BYTES_MAX, ZOOKEEPER_READS_IN_FLIGHT_MAX
from strandline.controller.core.survey import Survey
from strandline.controller.core.upkeep.queues import (
    Merge,
    QueueEntry,
    backlog,
    ended,
    merge,
    settle,
)
from strandline.controller.term.reading import read_topic
from strandline.controller.term.surveying import read_queue
from strandline.controller.term.term import Term
from strandline.ids import BrokerId, PartitionKey
from strandline.ports import BadVersion, Delete, MultiFailed, NoNode, Operation, SetData
from strandline.tasks import pipelined
from strandline.vocabulary.state_changes import Command, StateChange, life_of

logger = structlog.get_logger(__name__)

MERGED_ZNODES_MAX: Final = 1_000
"""Znodes that are merged into one at most; their deletions have to fit into one `multi`."""

OPERATION_BYTES: Final = 128
"""The size of an operation of a `multi` beside its data."""


class DeadQueues:
    """The dead brokers' queues during one controller epoch. `tidy` is called repeatedly."""

    def __init__(self, term: Term) -> None:
        self._term = term
        self._dead_since: dict[BrokerId, float] = {}
        self._recorded: defaultdict[BrokerId, set[str]] = defaultdict(set)
        """Ids of requests that ended and are recorded in `__state_changes`."""
        self._recording: defaultdict[BrokerId, set[str]] = defaultdict(set)
        """Ids of requests whose end is being recorded."""
        self._at_rest: dict[BrokerId, tuple[str, ...]] = {}
        """The entries of queues that needed no step."""

    async def tidy(self, survey: Survey) -> None:
        """Takes one step for each broker that has been dead for a while."""
        now = self._term.clock.monotonic()
        dead = set(survey.known) - survey.live.keys()
        self._dead_since = {broker: self._dead_since.get(broker, now) for broker in dead}
        for broker in [*self._recorded, *self._recording, *self._at_rest]:
            if broker not in dead:
                self._forget(broker)
        wait_s = self._term.settings.mend_after_ms / 1000
        for broker, since in sorted(self._dead_since.items()):
            if now - since >= wait_s:
                await self._tidy(broker, survey)

    def _forget(self, broker: BrokerId) -> None:
        self._recorded.pop(broker, None)
        self._recording.pop(broker, None)
        self._at_rest.pop(broker, None)

    async def _tidy(self, broker: BrokerId, survey: Survey) -> None:
        session = self._term.session
        entries = await read_queue(session, broker, known=self._at_rest.get(broker))
        if entries is None:
            return
        gone = await self._gone(entries, survey)
        coalesce = backlog(entries).requests >= self._term.settings.queue_coalesce_requests
        settled = settle(entries, gone, self._term.clock.wall_ms(), coalesce=coalesce)
        try:
            if settled:
                await self._settle(broker, settled)
            removed = await self._remove(broker, entries)
            merged = 0 if settled or removed else await self._merge(broker, entries)
        except MultiFailed as failed:
            if not isinstance(failed.cause, BadVersion | NoNode):
                raise
            logger.info("another acts on the queue of a dead broker", broker=broker, reason=str(failed))
            self._at_rest.pop(broker, None)
            return
        changes = (change for entry in entries for change in settled.get(entry, entry.changes))
        self._record_ends(broker, changes)
        if settled or removed or merged or self._recording[broker]:
            self._at_rest.pop(broker, None)
        else:
            self._at_rest[broker] = tuple(entry.name for entry in entries)

    async def _gone(self, entries: Iterable[QueueEntry], survey: Survey) -> set[PartitionKey]:
        """The partitions that requests wait for and that no longer exist.

        A request is written with its partition or after it. A deleted incarnation never returns, and a topic
        never shrinks. So a partition that is missing after its request was read will not appear later.
        """
        there = {partition.key for partition in survey.partitions}
        doubtful = {
            change.key: change.topic
            for entry in entries
            for change in entry.changes
            if change.end is None and change.command is not Command.DELETE_REPLICA and change.key not in there
        }
        if not doubtful:
            return set()
        await self._term.session.sync()

        async def is_gone(item: tuple[PartitionKey, str]) -> bool:
            key, name = item
            node = await read_topic(self._term.session, name)
            if node is None or node.topic_id != key.topic_id:
                return True
            return await self._term.session.is_absent(znodes.isr(name, key.partition))

        items = sorted(doubtful.items())
        found = await pipelined(is_gone, items, in_flight_max=ZOOKEEPER_READS_IN_FLIGHT_MAX)
        return {key for (key, _), gone in zip(items, found, strict=True) if gone}

    # --- the steps -----------------------------------------------------------------------------

    async def _settle(self, broker: BrokerId, settled: Mapping[QueueEntry, tuple[StateChange, ...]]) -> None:
        writes = [
            (SetData(_path(broker, entry), queue_znodes.dump_state_changes(changes), entry.version), changes)
            for entry, changes in settled.items()
        ]
        for group in _groups(writes):
            await self._term.session.write(
                [write for write, _ in group], partial(self._holds, group[0][0].path, group[0][1])
            )
        count = sum(
            before.end is None and after.end is not None
            for entry, changes in settled.items()
            for before, after in zip(entry.changes, changes, strict=True)
        )
        logger.info("requests of a dead broker ended as superseded", broker=broker, requests=count)
        crash_point("controller.queue.settled")

    def _record_ends(self, broker: BrokerId, changes: Iterable[StateChange]) -> None:
        """Has the lives of the ended requests recorded, unless that is done or under way."""
        recording, recorded = self._recording[broker], self._recorded[broker]

        def on_recorded(request: str, written: bool) -> None:
            recording.discard(request)
            if written:
                recorded.add(request)

        for change in changes:
            request = change.request_id
            if change.end is not None and request not in recording and request not in recorded:
                recording.add(request)
                self._term.recorder.record(life_of(change, broker), partial(on_recorded, request))

    async def _remove(self, broker: BrokerId, entries: Sequence[QueueEntry]) -> int:
        recorded = self._recorded[broker]
        over = [
            entry
            for entry in entries
            if ended(entry) and all(c.request_id in recorded for c in entry.changes)
        ]
        for start in range(0, len(over), MERGED_ZNODES_MAX):
            part = over[start : start + MERGED_ZNODES_MAX]
            deletes = [Delete(_path(broker, entry), entry.version) for entry in part]
            session = self._term.session
            await session.write(deletes, partial(session.is_absent, deletes[0].path))
        for entry in over:
            recorded.difference_update(change.request_id for change in entry.changes)
        if over:
            crash_point("controller.queue.removed")
        return len(over)

    async def _merge(self, broker: BrokerId, entries: Sequence[QueueEntry]) -> int:
        """Merges many znodes into few, each in the place of its first; leaves out what is recorded."""
        recorded = self._recorded[broker]
        over = sum(change.request_id in recorded for entry in entries for change in entry.changes)
        settings = self._term.settings
        if len(entries) < settings.queue_merge_znodes and over < settings.queue_coalesce_requests:
            return 0
        merges = merge(entries, recorded, bytes_max=STATE_ENTRY_BYTES_MAX, entries_max=MERGED_ZNODES_MAX)
        for each in merges:
            await self._merge_one(broker, each)
            recorded.difference_update(each.left_out)
        if merges:
            logger.info(
                "the queue of a dead broker was put together",
                broker=broker,
                znodes=len(entries),
                less=sum(len(each.entries) - 1 for each in merges),
            )
        return len(merges)

    async def _merge_one(self, broker: BrokerId, wanted: Merge) -> None:
        first, *rest = wanted.entries
        path = _path(broker, first)
        deletes: list[Operation] = [Delete(_path(broker, entry), entry.version) for entry in rest]
        data = queue_znodes.dump_state_changes(wanted.changes)
        await self._term.session.write(
            [SetData(path, data, first.version), *deletes], partial(self._holds, path, wanted.changes)
        )
        crash_point("controller.queue.merged")

    async def _holds(self, path: str, changes: Sequence[StateChange]) -> bool:
        try:
            node = await self._term.session.get(path)
        except NoNode:
            return False
        return node.data == queue_znodes.dump_state_changes(changes)


def _path(broker: BrokerId, entry: QueueEntry) -> str:
    return f"{znodes.state_queue(broker)}/{entry.name}"


Write = tuple[SetData, tuple[StateChange, ...]]


def _groups(writes: Sequence[Write]) -> list[list[Write]]:
    """Groups of writes, each as large as fits into one `multi`."""
    groups: list[list[Write]] = []
    room = 0
    for write in writes:
        size = len(write[0].data) + len(write[0].path) + OPERATION_BYTES
        if not groups or size > room:
            groups.append([])
            room = MULTI_BYTES_MAX
        groups[-1].append(write)
        room -= size
    return groups
