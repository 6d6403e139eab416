"""Reads what an application left in the log, until all of its input is counted, and has it judged."""

from __future__ import annotations

import json

from strandline import Admin, Consumer
from strandline.ids import GROUP_EVENTS_TOPIC, TopicPartition
from strandline_lab.simulation.workloads.counting import judge
from strandline_lab.simulation.workloads.counting.reading import Reading
from tests.integration.streams.application import Application
from tests.waiting import eventually

READ_MS = 200
EVENTS_S = 10.0
"""How long a member may take to report its partitions."""


async def exactly_once(app: Application) -> judge.History:
    """Return once every line that is written by now was counted, and hold the whole story against it.

    Raises AssertionError with all that is wrong.
    """
    reading = await _read_all(app)
    found = reading.faults()
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
    names = [*app.names.of(app.lines), *app.names.of(app.names.repartition)]
    async with (
        Admin(app.cluster.bootstrap, **app.connecting) as admin,
        Consumer(app.cluster.bootstrap, **app.reading) as consumer,
    ):

        async def at_the_ends() -> bool:
            offsets = await admin.group_offsets(app.id)
            ends = await consumer.end_offsets(names)
            return all(name in offsets and offsets[name].offset == end for name, end in ends.items() if end)

        await app.until(at_the_ends, f"{app.id} has committed all of its input")


async def events(app: Application) -> list[dict[str, object]]:
    """The group's events so far."""
    partition = TopicPartition(GROUP_EVENTS_TOPIC, 0)
    found: list[dict[str, object]] = []
    async with Consumer(app.cluster.bootstrap, **app.connecting, offset_reset="earliest") as consumer:
        consumer.assign([partition])
        (end,) = (await consumer.end_offsets([partition])).values()
        while await consumer.position(partition) < end:
            for batch in await consumer.getbatches(timeout_ms=READ_MS):
                parsed = [json.loads(record.value or b"{}") for record in batch.records()]
                found += [event for event in parsed if event["group"] == app.id]
    return found


async def _read_all(app: Application) -> Reading:
    """All topics of an application, once every input partition is read, here and by it, to its end."""
    reading, names = Reading(app.names, exactly_once=app.exactly_once), app.names.everything
    async with Consumer(app.cluster.bootstrap, **app.reading, offset_reset="earliest") as consumer:
        consumer.assign(names)

        async def at_the_end() -> bool:
            for batch in await consumer.getbatches(timeout_ms=READ_MS):
                reading.take(batch)
            if not reading.all_read(await consumer.end_offsets(names)):
                return False
            ends = await consumer.end_offsets(names)
            return all([await consumer.position(name) >= ends[name] for name in names])

        await app.until(at_the_end, "every line is counted")
    return reading
