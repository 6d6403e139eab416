"""Writers that name the expected end of the log: their batches are nowhere else, even after crashes."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field

import pytest

from strandline import BatchMetadata, Producer
from strandline.errors import (
    Outcome,
    StrandlineError,
    UnexpectedOffset,
)
from strandline.records import decode
from tests.integration.support.harness import Topic, stored
from tests.integration.support.simulated_harness import SimulatedHarness
from tests.virtual_time import on_virtual_time
from tests.waiting import eventually

ROUNDS = 3
IN_FLIGHT = 5
PROGRESS_S_MAX = 30.0


def records_of(*values: str) -> list[tuple[bytes | None, bytes | None, tuple[()], int]]:
    return [(b"k", value.encode(), (), 1_000) for value in values]


async def values_of(topic: Topic) -> list[str]:
    """Every record's value, once all replicas agree; its place in the list is its offset."""
    await topic.agreed()
    watermark, _ = await topic.end()
    first = topic.assignment[0][0]
    batches = stored(topic.folder(first), watermark, topic.harness.files(first))
    found = [record for _, data in batches for record in decode(data)]
    assert [record.offset for record in found] == list(range(watermark))
    return [(record.value or b"").decode() for record in found]


@dataclass
class Writer:
    """Appends batch after batch, each where the last ended as far as it knows. Each record's value has its
    batch's name, and the offset that it is to have."""

    name: str
    topic: Topic
    producer: Producer
    appended: dict[str, int] = field(default_factory=dict)
    """Acknowledged batches, and how many records each has."""
    refused: set[str] = field(default_factory=set)
    doubtful: set[str] = field(default_factory=set)
    stopped: bool = False

    async def run(self) -> None:
        end, number = 0, 0
        while not self.stopped:
            batch, count = f"{self.name}{number}", 1 + number % 3
            number += 1
            records = records_of(*(f"{batch} {offset}" for offset in range(end, end + count)))
            sent = await self.producer.send_records(self.topic.name, 0, records, expected_offset=end)
            try:
                assert await sent == BatchMetadata(self.topic.name, 0, end, count)
            except UnexpectedOffset as error:
                self.refused.add(batch)
                assert error.limit is not None and error.limit != end
                end = error.limit
            except StrandlineError as error:
                assert error.outcome is Outcome.UNKNOWN
                self.doubtful.add(batch)
                end = 0  # surely wrong by now: the refusal will say what is right
            else:
                self.appended[batch] = count
                end += count


@pytest.mark.slow
@on_virtual_time
async def test_a_log_is_the_appends_that_succeeded_though_two_writers_race_and_leaders_die(
    simulated: SimulatedHarness,
) -> None:
    """Every record is at the offset that its writer expected, all of a batch or none of it; what was
    acknowledged is there, and what was refused is not (CORRECTNESS S8)."""
    topic = await simulated.create_topic([(1, 2, 3)])
    cluster = simulated.cluster
    async with (
        Producer(cluster.bootstrap, host=cluster.host) as one,
        Producer(cluster.bootstrap, host=cluster.host) as two,
    ):
        writers = [Writer("one-", topic, one), Writer("two-", topic, two)]

        async def progress() -> None:
            goals = {writer.name: len(writer.appended) + 20 for writer in writers}
            await eventually(
                lambda: all(len(writer.appended) >= goals[writer.name] for writer in writers),
                deadline_s=PROGRESS_S_MAX,
                what="both writers get something appended",
            )

        async with asyncio.TaskGroup() as tasks:
            for writer in writers:
                tasks.create_task(writer.run())
            for _ in range(ROUNDS):
                await progress()
                state = await topic.state()
                await cluster.kill_broker(state.leader)
                await topic.led_above(state.leader_epoch)
                await progress()
                await cluster.start_broker(state.leader)
                await topic.isr_is(1, 2, 3)
            for writer in writers:
                writer.stopped = True

    found: dict[str, int] = {}
    for offset, value in enumerate(await values_of(topic)):
        batch, expected = value.split()
        assert int(expected) == offset, f"{value} is at offset {offset}"
        found[batch] = found.get(batch, 0) + 1
    for writer in writers:
        print(f"{writer.name}: {len(writer.appended)} appended, {len(writer.refused)} refused")
        print(f"{writer.name}: of unknown outcome {sorted(writer.doubtful)}")
        assert writer.appended.items() <= found.items()
        assert not writer.refused & found.keys()
    known = set[str]().union(*(writer.appended.keys() | writer.doubtful for writer in writers))
    assert found.keys() <= known


@on_virtual_time
async def test_a_writer_alone_is_never_refused_though_leaders_die_under_its_batches(
    simulated: SimulatedHarness,
) -> None:
    """Five batches are in flight when the leader dies: some are in the log of the next one, and are
    answered as duplicates though it ends elsewhere; the others find its end where they expect it."""
    topic = await simulated.create_topic([(1, 2, 3)])
    cluster = simulated.cluster
    ends: list[int] = []
    stopped = False

    async def write(producer: Producer) -> None:
        sent: deque[tuple[int, asyncio.Future[BatchMetadata]]] = deque()
        end = 0
        while sent or not stopped:
            while len(sent) < IN_FLIGHT and not stopped:
                records = records_of(f"{end}", f"{end + 1}")
                sent.append((end, await producer.send_records(topic.name, 0, records, expected_offset=end)))
                end += 2
            expected, future = sent.popleft()
            assert (await future).base_offset == expected
            ends.append(expected + 2)

    async def progress() -> None:
        goal = len(ends) + 50
        await eventually(lambda: len(ends) >= goal, deadline_s=PROGRESS_S_MAX)

    async with (
        Producer(cluster.bootstrap, host=cluster.host, gapless=True) as producer,
        asyncio.TaskGroup() as tasks,
    ):
        tasks.create_task(write(producer))
        for _ in range(ROUNDS):
            await progress()
            state = await topic.state()
            await cluster.kill_broker(state.leader)
            await topic.led_above(state.leader_epoch)
            await progress()
            await cluster.start_broker(state.leader)
            await topic.isr_is(1, 2, 3)
        stopped = True
    assert await values_of(topic) == [str(offset) for offset in range(ends[-1])]
