"""Reads what an application left in the log, until all of its input is counted, and has it judged."""

from __future__ import annotations

import json

from strandline import Admin, Consumer, FetchedBatch
from strandline.ids import GROUP_EVENTS_TOPIC, TopicPartition
from strandline.streams import INTEGER
from tests.integration.streams import judge
from tests.integration.streams.application import Application
from tests.integration.streams.counting import COMPONENTS, USERS
from tests.waiting import eventually

READ_MS = 200
EVENTS_S = 10.0
"""How long a member may take to report its partitions."""


async def exactly_once(app: Application) -> judge.History:
    """Return once every line that is written by now was counted, and hold the whole story against it.

    Raises AssertionError with all that is wrong.
    """
    reading = Reading(app)
    await reading.complete()
    found = judge.faults(reading.history, app.lines, app.repartition)
    assert found == [], "\n".join(found[:20])
    await committed(app)
    await eventually(lambda: one_owner(app), deadline_s=EVENTS_S, what="nothing has two owners")
    return reading.history


async def one_owner(app: Application) -> bool:
    """Raises AssertionError only at the caller's deadline: a late report may explain an earlier one."""
    found = judge.owner_faults(await events(app))
    if found:
        print("\n".join(found[:20]))
    return not found


async def committed(app: Application) -> None:
    """Return once the group's offsets are at the ends of its input: what tools for lags look at."""
    names = [*app.partitions_of(app.lines), *app.partitions_of(app.repartition)]
    async with Admin(app.cluster.bootstrap) as admin, Consumer(app.cluster.bootstrap) as consumer:

        async def at_the_ends() -> bool:
            offsets = await admin.group_offsets(app.id)
            ends = await consumer.end_offsets(names)
            return all(name in offsets and offsets[name].offset == end for name, end in ends.items() if end)

        await app.until(at_the_ends, f"{app.id} has committed all of its input")


async def events(app: Application) -> list[dict[str, object]]:
    """The group's events so far."""
    partition = TopicPartition(GROUP_EVENTS_TOPIC, 0)
    found: list[dict[str, object]] = []
    async with Consumer(app.cluster.bootstrap, offset_reset="earliest") as consumer:
        consumer.assign([partition])
        (end,) = (await consumer.end_offsets([partition])).values()
        while await consumer.position(partition) < end:
            for batch in await consumer.getbatches(timeout_ms=READ_MS):
                parsed = [json.loads(record.value or b"{}") for record in batch.records()]
                found += [event for event in parsed if event["group"] == app.id]
    return found


class Reading:
    """All topics of an application, from their beginnings."""

    def __init__(self, app: Application) -> None:
        self.history = judge.History()
        self._app = app
        self._users, self._components = app.changelog(app.lines), app.changelog(COMPONENTS)

    async def complete(self) -> None:
        """Read until every input partition is read, here and by the application, to its end."""
        topics = (
            *(self._app.lines, self._app.repartition, self._app.counts),
            *(self._users, self._components),
        )
        names = [name for topic in topics for name in self._app.partitions_of(topic)]
        async with Consumer(self._app.cluster.bootstrap, offset_reset="earliest") as consumer:
            consumer.assign(names)

            async def at_the_end() -> bool:
                for batch in await consumer.getbatches(timeout_ms=READ_MS):
                    self._take(batch)
                if not self._all_read(await consumer.end_offsets(names)):
                    return False
                ends = await consumer.end_offsets(names)
                return all([await consumer.position(name) >= ends[name] for name in names])

            await self._app.until(at_the_end, "every line is counted")

    def _take(self, batch: FetchedBatch) -> None:
        history, partition = self.history, batch.partition
        if batch.topic == self._users:
            history.users[partition].append(judge.commit(batch, USERS))
        elif batch.topic == self._components:
            history.components[partition].append(judge.commit(batch, COMPONENTS))
        elif batch.topic == self._app.lines:
            history.lines[partition] += [(r.key or b"", r.value or b"") for r in batch.records()]
        elif batch.topic == self._app.repartition:
            history.repartitioned[partition] += [judge.origin(r.headers) for r in batch.records()]
        else:
            records = batch.records()
            history.counts += [(r.key or b"", INTEGER.decode(r.value or b"")) for r in records]

    def _all_read(self, ends: dict[TopicPartition, int]) -> bool:
        """True by the last commits. A commit comes after the outputs that belong to it."""
        stages = ((self._app.lines, self.history.users), (self._app.repartition, self.history.components))
        return all(
            _read(commits[name.partition], name) >= ends[name]
            for topic, commits in stages
            for name in self._app.partitions_of(topic)
        )


def _read(commits: list[judge.Commit], source: TopicPartition) -> int:
    return commits[-1].read.get(source, 0) if commits else 0
