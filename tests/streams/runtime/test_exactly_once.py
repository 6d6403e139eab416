"""(CORRECTNESS S13) members with processing_guarantee="exactly_once": outputs, stores and offsets of a commit
are one transaction."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any, Final

import pytest

from strandline import Consumer, Producer, TopicPartition
from strandline.errors import MessageTooLarge, ProducerFenced, StrandlineError
from strandline.streams import INTEGER, STRING, Record, Topology
from tests.streams.runtime.applications import SETTLE_S, Application, words
from tests.waiting import eventually

EXACTLY: Final[dict[str, Any]] = {"processing_guarantee": "exactly_once", "transaction_timeout_ms": 2_000}
ABORTED: Final = 6


async def outputs(application: Application, topic: str | None = None) -> list[tuple[str, int]]:
    """What readers of committed records find in a topic, by default in the sink, in order."""
    topic = topic or application.sink
    async with Consumer(
        application.bootstrap, offset_reset="earliest", isolation_level="read_committed"
    ) as consumer:
        names = [TopicPartition(topic, number) for number in await consumer.partitions_for(topic)]
        consumer.assign(names)
        ends = await consumer.end_offsets(names)
        found: list[tuple[str, int]] = []
        while any([await consumer.position(name) < ends[name] for name in names]):
            for records in (await consumer.getmany(timeout_ms=200)).values():
                for record in records:
                    assert record.key is not None and record.value is not None
                    found.append((record.key.decode(), INTEGER.decode(record.value)))
    return found


def each_count_once(written: Counter[str]) -> Counter[tuple[str, int]]:
    """The outputs of a count: each number of each word once."""
    return Counter((word, number) for word, most in written.items() for number in range(1, most + 1))


async def test_each_output_is_committed_once(application: Application) -> None:
    await application.create(2)
    member = await application.start(**EXACTLY)
    await application.write(words(500))
    await application.counted(member)
    assert Counter(await outputs(application)) == each_count_once(application.written)


async def transactional_id(application: Application) -> str:
    """That of the application's newest member; empty before its first transaction."""
    mine = [each for each in await application.admin.list_transactions() if application.id in str(each)]
    return max(mine, key=lambda each: each.producer_id).transactional_id if mine else ""


async def test_commits_that_an_administrator_aborts_are_made_again(application: Application) -> None:
    """The tasks go on from the commit before. One of them has a store, and one has none."""
    await application.create(2)
    copies = f"{application.id}-copies"
    await application.admin.create_topic(copies)
    topology = Topology()
    source = topology.source(application.source, key=STRING, value=STRING)
    source.count("counts", key=STRING).to(application.sink, key=STRING, value=INTEGER)
    again = topology.source(f"{application.id}-again", key=STRING, value=STRING)
    again.map(lambda record: Record(record.key, 1, record.timestamp_ms, ())).to(
        copies, key=STRING, value=INTEGER
    )
    await application.admin.create_topic(f"{application.id}-again", 2)
    member = application.member(topology=topology, **EXACTLY, commit_interval_ms=1)
    await member.start()
    copied: Counter[tuple[str, int]] = Counter()
    aborted, numbers = 0, itertools.count()
    while aborted < ABORTED:
        number = next(numbers)
        await application.write(words(10))
        key = f"key-{number}"
        await application.producer.send_and_wait(f"{application.id}-again", b"", key.encode())
        copied[key, 1] += 1
        try:
            await application.admin.abort_transaction(await transactional_id(application))
            aborted += 1
        except StrandlineError:
            continue  # none was open at this moment
    await application.counted(member)
    assert Counter(await outputs(application)) == each_count_once(application.written)

    async def all_copied() -> bool:
        return Counter(await outputs(application, copies)) == copied

    await eventually(all_copied, deadline_s=SETTLE_S, what="each record is copied once")


async def test_a_member_ends_with_the_error_of_an_output_that_cannot_be_written(
    application: Application,
) -> None:
    await application.create(1)
    topology = Topology()
    source = topology.source(application.source, key=STRING, value=STRING)
    grown = source.map(lambda record: record.with_value("x" * 2_000_000 if record.key == "large" else "x"))
    grown.to(application.sink, key=STRING, value=STRING)
    member = application.member(topology=topology, **EXACTLY)
    await member.start()
    await application.write(["small", "large"])
    with pytest.raises(MessageTooLarge):
        await member.wait()


async def test_a_member_that_is_fenced_ends(application: Application) -> None:
    await application.create(1)
    member = await application.start(**EXACTLY)
    await application.write(words(10))
    await application.counted(member)
    async with Producer(application.bootstrap, transactional_id=await transactional_id(application)):
        await application.write(words(10))
        with pytest.raises(ProducerFenced):
            await member.wait()
    await member.stop()
    successor = await application.start(**EXACTLY)
    await application.counted(successor)
    assert Counter(await outputs(application)) == each_count_once(application.written)


async def test_the_guarantee_may_change_while_no_member_runs(application: Application) -> None:
    """Stores and positions stay; nothing is lost, and nothing counted twice."""
    await application.create(2)
    for settings in ({}, EXACTLY, {}, EXACTLY):
        member = await application.start(**settings)
        await application.write(words(100))
        await application.counted(member)
        await member.stop()
    assert Counter(await outputs(application)) == each_count_once(application.written)


async def test_tasks_that_move_repeat_no_output(application: Application) -> None:
    """To a learner, to a standby, and back. All members are in one folder."""
    await application.create(3)
    members = [await application.start(**EXACTLY, num_standbys=1)]
    for _ in range(2):
        await application.write(words(100))
        members.append(await application.start(**EXACTLY, num_standbys=1))
        await application.write(words(100))
        await application.counted(*members)
    while len(members) > 1:
        await application.write(words(100))
        await members.pop(0).stop()
        await application.counted(*members)
    assert Counter(await outputs(application)) == each_count_once(application.written)


async def test_at_the_end_of_its_inputs_an_application_has_no_lag(application: Application) -> None:
    """The group's offsets are at the ends of repartition topics, which end with markers."""
    await application.create(1)
    topology = Topology()
    source = topology.source(application.source, key=STRING, value=STRING)
    again = source.repartition("again", key=STRING, value=STRING, partitions=1)
    again.count("counts").to(application.sink, key=STRING, value=INTEGER)
    member = application.member(topology=topology, **EXACTLY)
    await member.start()
    await application.write(words(50))
    await application.counted(member)
    name = TopicPartition(f"{application.id}-again-repartition", 0)

    async def at_the_end() -> bool:
        async with Consumer(application.bootstrap) as consumer:
            end = (await consumer.end_offsets([name]))[name]
        offsets = await application.admin.group_offsets(application.id)
        return end > 50 and name in offsets and offsets[name].offset == end

    await eventually(at_the_end, deadline_s=SETTLE_S, what="the lag is 0")
