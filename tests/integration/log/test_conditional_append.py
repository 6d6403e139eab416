"""Writers that name the expected end of the log: their batches are nowhere else, even after crashes."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable
from dataclasses import dataclass, field

import pytest

from strandline import BatchMetadata, Producer
from strandline.config.limits import RECORDS_BYTES_MAX
from strandline.errors import (
    ErrorCode,
    InvalidRequest,
    MessageTooLarge,
    Outcome,
    StrandlineError,
    UnexpectedOffset,
)
from strandline.records import decode, encode_values
from strandline.rpc import log_pb2
from tests.integration.support.harness import Harness, Topic, stored
from tests.integration.support.raw import CALL_S_MAX
from tests.integration.support.simulated_harness import SimulatedHarness
from tests.virtual_time import on_virtual_time
from tests.waiting import eventually

ROUNDS = 3
IN_FLIGHT = 5
PROGRESS_S_MAX = 30.0


def records_of(*values: str) -> list[tuple[bytes | None, bytes | None, tuple[()], int]]:
    return [(b"k", value.encode(), (), 1_000) for value in values]


async def end_of(future: Awaitable[object]) -> object:
    """The result of the future, also an error."""
    try:
        return await future
    except StrandlineError as error:
        return error


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


@pytest.mark.slow
async def test_behind_a_failed_batch_a_gapless_producer_appends_nothing(harness: Harness) -> None:
    """This holds for batches in flight, waiting or sent later, by any call; other partitions continue."""
    topic = await harness.create_topic([(1, 2, 3), (2, 3, 1)])
    async with Producer(harness.cluster.bootstrap, gapless=True, linger_ms=5) as producer:
        before = await producer.send_records(topic.name, 0, records_of("a"), expected_offset=0)
        assert producer.failure is None
        wrong = await producer.send_records(topic.name, 0, records_of("b"), expected_offset=7)
        behind: list[Awaitable[object]] = [
            await producer.send_records(topic.name, 0, records_of(f"{n}")) for n in range(8)
        ]
        behind.append(await producer.send(topic.name, b"c", partition=0))
        assert (await before).base_offset == 0
        with pytest.raises(UnexpectedOffset) as first:
            await wrong
        ends = [await end_of(future) for future in behind]
        assert ends == [first.value] * len(ends)

        later: list[Awaitable[object]] = [
            await producer.send(topic.name, b"d", partition=0),
            await producer.send_many(topic.name, [b"e", b"f"], partition=0),
            await producer.send_batch(topic.name, 0, encode_values([b"g"], 0)),
            await producer.send_records(topic.name, 0, records_of("h"), expected_offset=1),
        ]
        await producer.flush()
        ends = [await end_of(future) for future in later]
        assert ends == [first.value] * len(ends)
        elsewhere = await producer.send_records(topic.name, 1, records_of("i"), expected_offset=0)
        assert (await elsewhere).base_offset == 0
        assert producer.failure is first.value
    assert await values_of(topic) == ["a"]


@pytest.mark.slow
async def test_a_refused_batch_does_not_block_the_others(harness: Harness) -> None:
    """A producer that is not gapless continues, in order, under another producer id."""
    topic = await harness.create_topic([(1, 2, 3)])
    async with Producer(harness.cluster.bootstrap) as producer:
        sent = [
            await producer.send_records(topic.name, 0, records_of(f"{number}"), expected_offset=expected)
            for number, expected in enumerate([0, 1, 5, None, 3, None])
        ]
        ends = [await end_of(future) for future in sent]
    refused = {number for number, end in enumerate(ends) if isinstance(end, UnexpectedOffset)}
    assert refused == {2}
    assert await values_of(topic) == ["0", "1", "3", "4", "5"]


@pytest.mark.slow
async def test_an_invalid_expected_offset_is_refused_at_the_call(harness: Harness) -> None:
    topic = await harness.create_topic([(1, 2, 3)])
    bootstrap = harness.cluster.bootstrap
    async with Producer(bootstrap) as producer, Producer(bootstrap, acks=0) as deaf:
        for wrong in (-1, 2**63, True, 1.5, "0"):
            with pytest.raises(InvalidRequest, match="expected_offset"):
                await (await producer.send_records(topic.name, 0, records_of("a"), expected_offset=wrong))  # type: ignore[arg-type]
        with pytest.raises(InvalidRequest, match="acks=0"):
            await (await deaf.send_records(topic.name, 0, records_of("a"), expected_offset=0))
        with pytest.raises(InvalidRequest, match="at least one"):
            await (await producer.send_records(topic.name, 0, []))
        with pytest.raises(MessageTooLarge):
            await (await producer.send_records(topic.name, 0, records_of("a" * RECORDS_BYTES_MAX)))
        with pytest.raises(TypeError, match="value"):
            await (await producer.send_records(topic.name, 0, [(None, "text", (), 0)]))  # type: ignore[list-item]
        half = "a" * (RECORDS_BYTES_MAX // 2)
        with pytest.raises(MessageTooLarge):
            await (await producer.send_records(topic.name, 0, records_of(half, half)))
    assert await values_of(topic) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("expected", "code"),
    [
        (-1, ErrorCode.INVALID_REQUEST),
        (-(2**63), ErrorCode.INVALID_REQUEST),
        (1, ErrorCode.UNEXPECTED_OFFSET),
        (2**63 - 1, ErrorCode.UNEXPECTED_OFFSET),
    ],
)
async def test_an_absurd_offset_is_refused_by_the_broker_and_named(
    harness: Harness, expected: int, code: ErrorCode
) -> None:
    topic = await harness.create_topic([(1, 2, 3)])
    entry = log_pb2.PartitionRecords(
        correlation_id=7, topic=topic.name, acks=-1, timeout_ms=3_000, records=encode_values([b"a"], 0),
        expected_offset=expected,
    )  # fmt: skip
    call = harness.brokers.log((await topic.state()).leader).Produce(timeout=CALL_S_MAX)
    await call.write(log_pb2.ProduceRequest(entries=[entry]))
    response = await call.read()
    call.cancel()
    assert isinstance(response, log_pb2.ProduceResponse)
    (result,) = response.results
    assert (result.error.code, str(expected) in result.error.message) == (code, True)
    assert await topic.end() == (0, 0)
