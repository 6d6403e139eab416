"""Members that run while something happens to what they run on."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from itertools import count
from random import Random
from time import monotonic

import pytest

from strandline import LocalCluster, Producer
from strandline.streams import INTEGER, STRING, NotHere, ProcessingFailed, Record, Streams, Topology
from strandline.streams.runtime.tasks.local import Wanted
from tests.streams.runtime.applications import COUNTS, SETTLE_S, Application, found, running, words
from tests.waiting import eventually

SLOW_RECORDS = 5_000
"""A member has joined long before half of them are processed, on a busy machine too."""
OUTAGE_LOOKS = 300
"""A few seconds."""


async def test_partitions_that_are_added_are_read_and_their_keys_are_found(application: Application) -> None:
    """The changelog gets them too."""
    await application.create(1)
    member = await application.start(num_standbys=1)
    await application.write(words(20))
    await application.counted(member)
    await application.admin.alter_topic(application.source, partitions=3)
    await application.running(member, [0, 1, 2])
    await application.write([f"more-{number}" for number in range(3)], partition=2)
    await application.counted(member)
    await eventually(lambda: _count_of(application) == 3, deadline_s=SETTLE_S)
    (described,) = await application.admin.describe_topics([application.changelog])
    assert len(described.partitions) == 3


def _count_of(application: Application) -> int:
    member = application.members[0]
    return len({member.store(COUNTS).owner(f"any-{number}").task for number in range(100)})


async def test_a_running_task_reads_the_partition_that_another_of_its_topics_gets(
    application: Application,
) -> None:
    await application.create(2)
    second = f"{application.id}-second"
    await application.admin.create_topic(second, 1)
    topology = Topology()
    both = topology.source(application.source, second, key=STRING, value=STRING)
    both.count(COUNTS, key=STRING).to(application.sink, key=STRING, value=INTEGER)
    member = await application.start(topology=topology)
    await application.write(["one"], partition=1)
    await application.counted(member)
    await application.admin.alter_topic(second, partitions=2)
    await application.producer.send_and_wait(second, b"", b"two", partition=1)
    application.written["two"] += 1
    await application.counted(member)
    await application.write(["three"], partition=1)
    await application.counted(member)


async def test_a_task_without_state_that_gets_a_partition_repeats_nothing_of_the_others(
    application: Application,
) -> None:
    """It has no positions of its own but those that it had when it began again."""
    await application.create(1)
    second = f"{application.id}-second"
    await application.admin.create_topic(second, 1)
    seen: list[str | None] = []

    def see(record: Record[str, str]) -> Record[str, str]:
        seen.append(record.key)
        return record

    topology = Topology()
    both = topology.source(application.source, second, key=STRING, value=STRING)
    both.map(see).to(application.sink, key=STRING, value=STRING)
    await application.start(topology=topology)
    await application.write(words(10))
    await eventually(lambda: len(seen) == 10, deadline_s=SETTLE_S)
    await application.admin.alter_topic(second, partitions=2)
    await application.admin.alter_topic(application.source, partitions=2)
    await application.producer.send_and_wait(second, b"", b"last", partition=1)
    await eventually(lambda: "last" in seen, deadline_s=SETTLE_S)
    assert len(seen) == 11


async def test_a_deleted_source_ends_no_member_until_another_one_has_its_name(
    application: Application,
) -> None:
    """The counts belong to the old topic: the first records of the new one would be skipped."""
    await application.create(1)
    member = await application.start()
    await application.write(words(20))
    await application.counted(member)
    await application.admin.delete_topics([application.source])
    generation = member._clients.consumer.group_metadata().generation
    await eventually(
        lambda: member._clients.consumer.group_metadata().generation > generation, deadline_s=SETTLE_S
    )
    await application.counted(member)
    await application.admin.create_topic(application.source, 1)
    async with Producer(application.bootstrap) as producer:
        await producer.send_and_wait(application.source, b"", b"word")
    async with asyncio.timeout(SETTLE_S):
        with pytest.raises(ProcessingFailed, match="was made anew"):
            await member.wait()


async def test_roles_may_change_at_any_moment_and_the_store_stays_open(application: Application) -> None:
    """However many times before the task comes to anything: each word is counted once (CORRECTNESS S2)."""
    await application.create(1)
    member = await application.start()
    await application.running(member, [0])
    (local,) = member._tasks
    store, lots = local.store, Random(7)
    roles = [Wanted.SUSPEND, Wanted.LEARN, Wanted.STAND_BY, Wanted.RUN, Wanted.RUN]
    for number in range(150):
        if number % 10 == 0:
            await application.write(words(5))
        match lots.randrange(4):
            case 0:
                local.abandon()
            case 1:
                local.assigned_more()
            case _:
                local.want(lots.choice(roles))
        for _ in range(lots.choice([0, 0, 1, 2, 5, 20, 100])):
            await asyncio.sleep(0)
    local.want(Wanted.RUN)
    await application.counted(member)
    assert local.store is store
    async with asyncio.timeout(SETTLE_S):
        await member._tasks.suspend([local.task])
    assert [status.role for status in member.tasks()] == ["suspended"]
    local.want(Wanted.RUN)


@pytest.mark.parametrize(
    ("wanted", "role"),
    [(Wanted.LEARN, "learning"), (Wanted.STAND_BY, "standby"), (Wanted.RUN, "restoring")],
)
async def test_a_task_that_has_not_begun_is_in_the_role_that_it_will_have(
    application: Application, wanted: Wanted, role: str
) -> None:
    """It is not called suspended: that is a task that ran, with its store open. A slow member begins late."""
    await application.create(1)
    member = await application.start()
    await application.running(member, [0])
    (running,) = member._tasks
    new = running.task._replace(partition=7)
    member._tasks.want(new, wanted)
    assert {status.task: status.role for status in member.tasks()} == {running.task: "running", new: role}
    member._tasks.want(new, Wanted.CLOSE)


def found_until_damaged(member: Streams) -> Iterator[Counter[str]]:
    """Look by look; nothing while a store is restored, be it the look that finds the damage."""
    while True:
        try:
            yield found(member)
        except NotHere:
            yield Counter()


async def test_a_store_that_turns_out_to_be_damaged_is_restored_while_others_run(
    application: Application,
) -> None:
    """(CORRECTNESS S6) opening it finds nothing: the damage is met by the record whose key lies there."""
    await application.create(2)
    member = await application.start()
    await application.write((f"word-{number:05}" for number in range(5_000)), partition=0)
    await application.write(words(20), partition=1)
    await application.counted(member)
    await member.stop()
    store = next(application.folder.rglob(f"{application.source}-0"))
    table = max(store.rglob("*.sst"), key=lambda path: path.stat().st_size)
    data = bytearray(table.read_bytes())
    data[len(data) // 3] ^= 0xFF
    table.write_bytes(data)
    again = await application.start()
    await application.write((f"word-{number:05}" for number in range(5_000)), partition=0)
    looked = found_until_damaged(again)
    await eventually(lambda: next(looked) == application.written, deadline_s=SETTLE_S, what="all is counted")
    assert not (store / "corrupt").exists(), "it was begun anew"
    await application.running(again, [0, 1])


async def test_slices_adapt_to_a_slow_processor_so_that_a_rebalance_is_quick(
    application: Application,
) -> None:
    """Each record takes a hundredth of a second: a joining member waits for a few of them, not for all."""
    await application.create(2)

    def see(record: Record[str, str]) -> None:
        until = monotonic() + 0.01
        while monotonic() < until:
            pass

    slow = await application.start(see)
    await application.running(slow, [0, 1])
    await application.write(words(SLOW_RECORDS))
    await eventually(lambda: found(slow).total() > 100, deadline_s=SETTLE_S)
    other = await application.start(acceptable_lag=10)
    before = 0

    def shared() -> bool:
        nonlocal before
        before = found(slow).total()
        return bool(running(other))

    await eventually(shared, deadline_s=SETTLE_S)
    assert before < SLOW_RECORDS / 2, "it moved only when all was done"


@pytest.mark.slow
async def test_brokers_that_are_away_for_a_while_are_waited_for(
    application: Application, cluster: LocalCluster
) -> None:
    """Also by tasks that are about to begin, and for what is sent to a topic for the first time."""
    await application.create(2)
    member = await application.start()
    await application.running(member, [0, 1])
    late = application.member()
    await application.write(["early"])
    await application.counted(member)
    await cluster.kill_broker(1)
    looks = count()
    await eventually(lambda: next(looks) > OUTAGE_LOOKS, deadline_s=SETTLE_S, what="the outage has lasted")
    assert running(member), "it does not know that it is out of the group"
    await cluster.start_broker(1)
    await application.write(words(30))
    await application.counted(member)
    await late.start()
    await eventually(lambda: running(late), deadline_s=SETTLE_S)
    await application.counted(member, late)
