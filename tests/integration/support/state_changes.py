"""The records of a cluster in `__state_changes`, and what ZooKeeper showed meanwhile."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager

from strandline import Admin, Consumer
from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.layout import isr_znodes
from strandline.ids import STATE_CHANGES_TOPIC, TopicPartition
from strandline.ports import ConnectionLost, NoNode
from strandline.vocabulary.state_changes import ChangeKind, StateChangeEvent, parse_event
from tests.integration.support.harness import ClusterHarness
from tests.waiting import eventually, looking

READ_S_MAX = 30.0
RECORDS = TopicPartition(STATE_CHANGES_TOPIC, 0)


class EventReading:
    """A reader of the whole topic: the first record of each identity counts, as for every reader."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self.events: list[StateChangeEvent] = []
        self.again: list[StateChangeEvent] = []
        """Repetitions of earlier records."""
        self._seen: dict[tuple[str, str], StateChangeEvent] = {}

    async def read_on(self) -> None:
        for records in (await self._consumer.getmany(timeout_ms=50)).values():
            for record in records:
                event = parse_event(record.value)
                assert record.key == f"{event.topic}-{event.key.partition}".encode()
                if event.identity in self._seen:
                    self.again.append(event)
                else:
                    self._seen[event.identity] = event
                    self.events.append(event)

    async def to_the_end(self) -> None:
        """Everything that is committed now."""
        (name,) = self._consumer.assignment()
        end = (await self._consumer.end_offsets([name]))[name]

        async def there() -> bool:
            await self.read_on()
            return await self._consumer.position(name) >= end

        await eventually(there, deadline_s=READ_S_MAX, what=f"read up to {end}")

    async def until(
        self, wanted: Callable[[StateChangeEvent], bool], *, count: int = 1, what: str
    ) -> list[StateChangeEvent]:
        """The wanted events, once there are this number of them."""

        async def found() -> list[StateChangeEvent]:
            await self.read_on()
            events = [event for event in self.events if wanted(event)]
            return events if len(events) >= count else []

        return await eventually(found, deadline_s=READ_S_MAX, what=what)

    async def all_of(self, seen: Witness) -> None:
        """Return once each epoch that was seen has the record of its election, and each event in a trail its
        own, telling the same."""

        async def missing() -> tuple[set[tuple[TopicPartition, int]], list[StateChangeEvent]]:
            await self.read_on()
            elected = {
                (TopicPartition(event.topic, event.key.partition), event.epoch)
                for event in self.events
                if event.command is ChangeKind.ELECT_LEADER
            }
            before = [self._seen.get(identity) for identity in seen.trails]
            return seen.leaders.keys() - elected, [
                event for event, found in zip(seen.trails.values(), before, strict=True) if found != event
            ]

        async def nothing() -> bool:
            return not any(await missing())

        try:
            await eventually(nothing, deadline_s=READ_S_MAX)
        except AssertionError:
            raise AssertionError(f"not in {STATE_CHANGES_TOPIC}: {await missing()}") from None

    def once(self) -> None:
        """No epoch has two elections, and repeated events of a trail are equal."""
        for event in self.again:
            if event.command in (
                ChangeKind.ELECT_LEADER,
                ChangeKind.RESIGN_LEADER,
                ChangeKind.CHANGE_ISR,
            ):
                assert event == self._seen[event.identity]
        elections = [e for e in self.events if e.command is ChangeKind.ELECT_LEADER]
        assert len({(e.key, e.epoch) for e in elections}) == len(elections)


@asynccontextmanager
async def reading_events(harness: ClusterHarness) -> AsyncIterator[EventReading]:
    """Reads from the beginning; waits for the topic."""
    cluster = harness.cluster

    async def there() -> bool:
        async with Admin(cluster.bootstrap, host=cluster.host) as admin:
            return bool((await admin.metadata([STATE_CHANGES_TOPIC])).topics)

    await eventually(there, deadline_s=READ_S_MAX, what="__state_changes is there")
    async with Consumer(cluster.bootstrap, host=cluster.host, offset_reset="earliest") as consumer:
        consumer.assign([RECORDS])
        yield EventReading(consumer)


class Witness:
    """Looks at the `isr` znodes of some partitions all the time."""

    def __init__(self, harness: ClusterHarness, names: Iterable[TopicPartition]) -> None:
        self._harness = harness
        self._names = [*names, RECORDS]
        self.leaders: dict[tuple[TopicPartition, int], int] = {}
        """Each epoch and its leader."""
        self.trails: dict[tuple[str, str], StateChangeEvent] = {}
        """Each event that was in a trail."""

    async def look(self) -> None:
        for name in self._names:
            try:
                node = await self._harness.session.get(znodes.isr(*name))
            except (NoNode, ConnectionLost):
                continue
            state = isr_znodes.load_isr(name.topic, name.partition, node.data)
            if state.leader >= 0:
                self.leaders[name, state.leader_epoch] = state.leader
            self.trails.update((event.identity, event) for event in state.trail)


@asynccontextmanager
async def witness(harness: ClusterHarness, names: Iterable[TopicPartition]) -> AsyncIterator[Witness]:
    found = Witness(harness, names)
    async with looking(found.look):
        yield found
