"""Reads a topic of events into the window: the newest first, then live, and further back when a view asks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from strandline.client.reading.records import ConsumerRecord
from strandline.console.core.timeline.journal import CHUNK_RECORDS, Record
from strandline.console.core.timeline.places import TOPICS, Source
from strandline.console.core.window import Window
from strandline.consumer.consumer import Consumer
from strandline.errors import OffsetOutOfRange, StrandlineError, UnknownTopicOrPartition
from strandline.ids import TopicPartition
from strandline.ports import Clock

logger = logging.getLogger(__name__)

FIRST_RECORDS: Final = 5_000
"""The newest records of the topic, with which the first view begins."""
BACK_RECORDS: Final = 2_048
"""Records of one partition that one step back reads."""
BACK_RECORDS_MAX: Final = 100_000
"""Records that are read back for one view; the next one asks again."""
AT_ONCE: Final = 64
"""Records that go into the window before the loop may do something else: some milliseconds."""
POLL_MS: Final = 1_000
ENDS_AGAIN_S: Final = 5.0
"""After this time the ends of the topic are asked for again, also if not all before them is read yet."""
AGAIN_S: Final = 1.0
"""The pause after a failure."""
FOLLOWING: Final = "following"

NewConsumer = Callable[[], Consumer]
"""A consumer with `offset_reset = none`: an offset that is gone is an error, and not another place."""


class EventTopic:
    """One topic, until `run` is cancelled. `state` says what it does: FOLLOWING, or in words why not."""

    def __init__(
        self,
        source: Source,
        window: Window,
        new_consumer: NewConsumer,
        clock: Clock,
        topic_id: Callable[[str], str | None] = lambda _: None,
        first_records: int = FIRST_RECORDS,
        changed: Callable[[set[str]], None] = lambda _: None,
    ) -> None:
        """`topic_id`: the id that a topic of this name has now, None if that is not known. `changed` gets the
        topics to which something happens, after the first reading."""
        self.source = source
        self.topic = TOPICS[source]
        self.state = "not read yet"
        self.read_until_ms: int | None = None
        """All events that were written before this time are read; None while that is not known."""
        self.reading_back = False
        self.begun = asyncio.Event()
        """Set once the records are read that were there at the beginning, or if they cannot be read."""
        self._window = window
        self._new_consumer = new_consumer
        self._clock = clock
        self._topic_id = topic_id
        self._first_records = first_records
        self._changed = changed
        self._next: dict[int, int] = {}
        """By partition, the offset to read next."""
        self._oldest: dict[int, int] = {}
        """By partition, the first offset that was read."""
        self._begins: Mapping[TopicPartition, int] = {}
        """Where the logs begin."""
        self._ends: tuple[int, dict[TopicPartition, int]] | None = None
        """When the ends of the topic were asked for, and the ends, until everything before them is read."""
        self._ends_again_s = 0.0
        self._wanted_ms = 0
        self._asked = asyncio.Event()

    @property
    def complete(self) -> bool:
        """Whether nothing older can be read: it is all there, or the window has no room for more."""
        return bool(self._begins) and (
            self._window.room(self.source) == 0
            or all(self._oldest[name.partition] <= begin for name, begin in self._begins.items())
        )

    def further_back(self, from_ms: int) -> None:
        """Has older records read, down to this time, in the background; nothing if there are none."""
        kept_from = self._window.kept_from(self.source)
        if kept_from is not None and from_ms < kept_from and not self.complete:
            self._wanted_ms = from_ms
            self.reading_back = True
            self._asked.set()

    async def run(self) -> None:
        """Reads without an end, after every failure again."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._again_and_again(self._follow))
            tasks.create_task(self._again_and_again(self._read_back))

    async def _again_and_again(self, read: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await read()
            except UnknownTopicOrPartition:
                self.state = "there is no such topic yet: it is made with the first event"
                self._start_over()
            except OffsetOutOfRange:
                self._start_over()  # the topic is another one now, or has lost what was read
            except StrandlineError as error:
                state = f"cannot be read now: {error.message}"
                if state != self.state:
                    logger.warning("%s %s", self.topic, state)
                self.state = state
            self.reading_back = False
            self.begun.set()
            await self._clock.sleep(AGAIN_S)

    def _start_over(self) -> None:
        if self._next:
            self._window.forget(self.source)
        self._next, self._oldest, self._begins = {}, {}, {}
        self.read_until_ms = None

    # --- live -----------------------------------------------------------------------------------

    async def _follow(self) -> None:
        async with self._new_consumer() as consumer:
            names = [TopicPartition(self.topic, each) for each in await consumer.partitions_for(self.topic)]
            begins = await consumer.beginning_offsets(names)
            ends = await consumer.end_offsets(names)
            read = {name: self._next.get(name.partition, ends[name]) for name in names}
            if not all(begins[name] <= read[name] <= ends[name] for name in names):
                self._start_over()  # it is another topic, or what comes next is gone
            for name in names:
                first = max(begins[name], ends[name] - self._first_records // len(names))
                self._next.setdefault(name.partition, first)
                self._oldest.setdefault(name.partition, first)
            self._begins = begins
            consumer.assign(names)
            for name in names:
                consumer.seek(name, self._next[name.partition])
            self.state = FOLLOWING
            self._ends = None
            known = self._topic_id(self.topic)
            while (now := self._topic_id(self.topic)) == known or None in (now, known):
                known = known or now
                batches = await consumer.getmany(timeout_ms=POLL_MS)
                for name, records in batches.items():
                    await self._put(name.partition, records)
                    self._next[name.partition] = records[-1].offset + 1
                if not batches or all(self._next[name.partition] >= ends[name] for name in names):
                    self.begun.set()
                await self._note_until(consumer, names)
            self._start_over()

    async def _note_until(self, consumer: Consumer, names: Sequence[TopicPartition]) -> None:
        """Notes up to when events are read. While no leader answers that stays as it is: a consumer waits for
        leaders without an error."""
        now_s = self._clock.monotonic()
        if self._ends is None or now_s >= self._ends_again_s:
            asked_ms = self._clock.wall_ms()
            try:
                async with asyncio.timeout(POLL_MS / 1000):
                    self._ends = asked_ms, await consumer.end_offsets(names)
            except (TimeoutError, StrandlineError):
                return
            self._ends_again_s = now_s + ENDS_AGAIN_S
        asked_ms, ends = self._ends
        if all(self._next[name.partition] >= end for name, end in ends.items()):
            self.read_until_ms, self._ends = asked_ms, None

    async def _put(self, partition: int, records: Sequence[ConsumerRecord]) -> None:
        for first in range(0, len(records), AT_ONCE):
            given = _records(records[first : first + AT_ONCE])
            topics = self._window.read(self.source, partition, given, self._clock.wall_ms())
            if self.begun.is_set() and topics:
                self._changed(topics)
            await asyncio.sleep(0)

    # --- further back ---------------------------------------------------------------------------

    async def _read_back(self) -> None:
        await self._asked.wait()
        self._asked.clear()
        async with self._new_consumer() as consumer:
            read = 0
            while read < BACK_RECORDS_MAX and not self.complete and self._wants_more():
                read += await self._step_back(consumer)
        self.reading_back = False

    def _wants_more(self) -> bool:
        kept_from = self._window.kept_from(self.source)
        return kept_from is not None and self._wanted_ms < kept_from

    async def _step_back(self, consumer: Consumer) -> int:
        """Reads the records just before the oldest of one partition: the one that is read the least far back.
        Returns their number."""
        name = max(
            (name for name, begin in self._begins.items() if self._oldest[name.partition] > begin),
            key=lambda name: self._window.oldest_ms(self.source, name.partition) or 0,
        )
        end = self._oldest[name.partition]
        most = min(BACK_RECORDS, self._window.room(self.source))
        first = max(self._begins[name], end - most)
        consumer.assign([name])
        consumer.seek(name, first)
        found: list[ConsumerRecord] = []
        while await consumer.position(name) < end:
            found += (await consumer.getmany(name, timeout_ms=POLL_MS)).get(name, ())
        records = _records([each for each in found if each.offset < end])
        for until in range(len(records), 0, -CHUNK_RECORDS):
            part = records[max(0, until - CHUNK_RECORDS) : until]
            self._window.read(self.source, name.partition, part, self._clock.wall_ms(), older=True)
            await asyncio.sleep(0)
        self._oldest[name.partition] = first
        return end - first

    async def read_one(self, partition: int, offset: int) -> Record | None:
        """The record at an offset, None if the topic has none there. Raises the errors of a consumer."""
        name = TopicPartition(self.topic, partition)
        begin, end = self._begins.get(name), self._next.get(partition)
        if begin is None or end is None or not begin <= offset < end:
            return None
        async with self._new_consumer() as consumer:
            consumer.assign([name])
            consumer.seek(name, offset)
            batches = await consumer.getmany(name, timeout_ms=POLL_MS, max_records=1)
        found = _records(batches.get(name, ()))
        return found[0] if found and found[0].offset == offset else None


def _records(records: Sequence[ConsumerRecord]) -> list[Record]:
    """What the window keeps of them. A record without a value is no event."""
    return [Record(each.offset, each.timestamp, each.value or b"") for each in records]
