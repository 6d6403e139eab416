"""All that the timeline is fed with."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

from strandline.client.admin.admin import Admin
from strandline.console.core.seen import Seen
from strandline.console.core.timeline.explanation import Event
from strandline.console.core.timeline.facts.times import shown_ms
from strandline.console.core.timeline.places import Ref, Source, unpack
from strandline.console.core.window import Window, parsed
from strandline.console.feeds.event_topic import FOLLOWING, EventTopic, NewConsumer
from strandline.console.feeds.replica_offsets import ReplicaOffsets
from strandline.ports import Clock
from strandline.vocabulary.state_changes import StateChangeEvent

BEGUN_S: Final = 1.0


class TimelineFeed:
    """Puts events, and what the console sees of the cluster, into `window`."""

    def __init__(
        self,
        window: Window,
        admin: Admin,
        new_consumer: NewConsumer,
        clock: Clock,
        changed: Callable[[set[str]], None],
    ) -> None:
        """`changed` gets the topics to which something happens."""
        self.window = window
        self._clock = clock
        self.offsets = ReplicaOffsets(admin, window, clock)
        self._ids: dict[str, str] = {}
        self._problem = ""
        self._silent = False
        self._described_at_ms: int | None = None
        self._read_at_ms: int | None = None

        def topic(source: Source) -> EventTopic:
            return EventTopic(source, window, new_consumer, clock, self._ids.get, changed=changed)

        self.topics = {source: topic(source) for source in (Source.STATE, Source.GROUP)}

    async def run(self) -> None:
        """Reads without an end."""
        async with asyncio.TaskGroup() as tasks:
            for topic in self.topics.values():
                tasks.create_task(topic.run())
            tasks.create_task(self.offsets.run())

    async def begun(self) -> None:
        """Returns once the newest state changes are read, or cannot be; after BEGUN_S at the latest."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(BEGUN_S):
                await self.topics[Source.STATE].begun.wait()

    def state_of(self, source: Source) -> str:
        """What the reading of a topic does: FOLLOWING, or in words why not. A consumer that follows goes on
        without an error while no broker answers."""
        state = self.topics[source].state
        return f"cannot be read now: {self._problem}" if self._problem and state == FOLLOWING else state

    async def read_one(self, ref: Ref) -> tuple[int, Event] | None:
        """An event that the window does not have, read from its topic, and when it is shown. None if there is
        none."""
        source, partition, offset = unpack(ref)
        topic = self.topics.get(source)
        record = None if topic is None else await topic.read_one(partition, offset)
        event = None if record is None else parsed(source, record.value)
        if record is None or event is None:
            return None
        at_ms = event.at_ms if isinstance(event, StateChangeEvent) else record.timestamp_ms
        return shown_ms(at_ms, record.timestamp_ms, self._clock.wall_ms()), event

    def seen(self, state: Seen) -> None:
        """Takes what was seen of the cluster; only what is newer than the last."""
        self._problem = state.problem
        if state.unanswered != self._silent and state.read_at_ms is not None:
            self._silent = state.unanswered
            if self._silent:
                self.window.seen_silence(state.read_at_ms)
            else:
                self.window.seen_answer(self._clock.wall_ms() if state.problem else state.read_at_ms)
        if state.read_at_ms is not None and state.read_at_ms != self._read_at_ms:
            self._read_at_ms = state.read_at_ms
            self._ids.clear()
            self._ids.update((topic.name, topic.topic_id) for topic in state.topics)
            self.window.seen_topics(state.topics, state.read_at_ms)
        if state.described_at_ms is not None and state.described_at_ms != self._described_at_ms:
            self._described_at_ms = state.described_at_ms
            controller = None if state.controller is None else state.controller.id
            self.window.seen_brokers(state.described, controller, state.described_at_ms)
