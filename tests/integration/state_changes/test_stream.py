"""The lives of state changes as they are read: each step once, even if processes die meanwhile."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import Any

import grpc
import pytest

from strandline import Admin
from strandline.adapters.codecs.admin import STATE_CHANGES
from strandline.adapters.rpc.transport import GrpcTransport
from strandline.adapters.rpc.wire_errors import error_from_wire
from strandline.adapters.system.clock import SystemClock
from strandline.client.reading.topic import TopicReader
from strandline.errors import (
    ErrorCode,
    InvalidRequest,
    NotController,
    StrandlineError,
    ThrottlingQuotaExceeded,
)
from strandline.ids import STATE_CHANGES_TOPIC, BrokerId, PartitionId, PartitionKey, TopicId
from strandline.local.cluster import LocalCluster
from strandline.ports import Stream, StreamEnded
from strandline.rpc import admin_pb2, admin_pb2_grpc
from strandline.vocabulary.admin import StateChangesAnswer, StateChangesQuery
from strandline.vocabulary.state_changes import RequestState, StateChangeEvent, parse_event
from tests.conftest import ClusterFactory
from tests.integration.support.harness import FAULT_SETTINGS, Harness
from tests.integration.support.made_up_events import MadeUpEvents, writing_events
from tests.waiting import eventually

STREAMS_MAX = 3


@pytest.fixture(scope="module")
async def cluster(make_module_cluster: ClusterFactory) -> LocalCluster:
    """Three brokers, two controllers."""
    return await make_module_cluster(
        brokers=3,
        controllers=2,
        broker_settings=FAULT_SETTINGS,
        controller_settings={
            "state_change_streams_max": STREAMS_MAX,
            "zookeeper_session_timeout_ms": FAULT_SETTINGS["zookeeper_session_timeout_ms"],
        },
    )


@pytest.fixture
async def made_up(cluster: LocalCluster) -> AsyncIterator[MadeUpEvents]:
    async with writing_events(cluster) as events:
        yield events


async def active_controller(cluster: LocalCluster) -> int:
    async def found() -> int | None:
        async with Admin(cluster.bootstrap) as admin:
            controller = (await admin.metadata([])).controller
        return None if controller is None else controller.id

    number = await eventually(found, deadline_s=20)
    assert number is not None
    return number


@asynccontextmanager
async def asked(cluster: LocalCluster, controller: int) -> AsyncIterator[Callable[..., Any]]:
    """Opens streams to one controller: `await ask(topic=…)`."""
    async with AsyncExitStack() as opened:
        transport = GrpcTransport()
        opened.push_async_callback(transport.close)

        async def ask(**query: Any) -> Stream[StateChangesQuery, StateChangesAnswer]:
            address = cluster.controller_address(controller)
            stream = await transport.open(address, STATE_CHANGES, timeout_s=5)
            opened.callback(stream.close)
            await stream.write(StateChangesQuery(**query))
            return stream

        yield ask


async def read_all(stream: Stream[StateChangesQuery, StateChangesAnswer]) -> StateChangesAnswer:
    """All records of the stream until it ends, in one answer."""
    events: list[bytes] = []
    offsets: tuple[int, ...] = ()
    async with asyncio.timeout(20):
        while True:
            try:
                answer = await stream.read()
            except StreamEnded:
                return StateChangesAnswer(events, offsets)
            events += answer.events
            offsets = answer.next_offsets or offsets


def parsed(answer: StateChangesAnswer) -> list[StateChangeEvent]:
    return [parse_event(value) for value in answer.events]


class Following:
    """Follows the events of one topic in a task."""

    def __init__(self, cluster: LocalCluster, **query: Any) -> None:
        self.events: list[StateChangeEvent] = []
        self._cluster = cluster
        self._query = query

    async def run(self) -> None:
        async with (
            Admin(self._cluster.bootstrap) as admin,
            aclosing(admin.state_changes(follow=True, **self._query)) as events,
        ):
            async for event in events:
                self.events.append(event)

    async def has(self, how_many: int) -> None:
        await eventually(lambda: len(self.events) >= how_many, deadline_s=30, what=f"{how_many} events")


@asynccontextmanager
async def following(cluster: LocalCluster, **query: Any) -> AsyncIterator[Following]:
    found = Following(cluster, **query)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(found.run())
        yield found
        task.cancel()


@pytest.mark.slow
async def test_a_follower_of_the_stream_gets_each_step_once_in_order_though_controllers_die(
    cluster: LocalCluster, made_up: MadeUpEvents
) -> None:
    """The next controller continues at the offsets that came with the last answer; one stops, one is
    killed."""
    expected = made_up.put(50)
    async with following(cluster, topic=made_up.topic) as follower:
        await follower.has(50)
        for harm in (cluster.kill_controller, cluster.stop_controller):
            number = await active_controller(cluster)
            await harm(number)
            expected += made_up.put(50)
            await follower.has(len(expected))
            await cluster.start_controller(number)
    assert follower.events == expected


@pytest.mark.slow
async def test_a_reader_gets_each_record_once_though_the_leaders_of_the_topic_die(
    cluster: LocalCluster, made_up: MadeUpEvents
) -> None:
    """CORRECTNESS H8: only committed records are read, so no leader contradicts an earlier one."""
    async with TopicReader(
        cluster.bootstrap, STATE_CHANGES_TOPIC, follow=True, transport=GrpcTransport(), clock=SystemClock()
    ) as reader:
        found: list[str] = []
        offsets: list[int] = []

        async def has(how_many: int) -> None:
            async def grown() -> bool:
                for record in await reader.read(0.1):
                    offsets.append(record.offset)
                    event = json.loads(record.value or b"")
                    if event["topic"] == made_up.topic:
                        found.append(event["id"])
                return len(found) >= how_many

            await eventually(grown, deadline_s=40)

        for round_ in (1, 2):
            made_up.put(1_000)
            async with Admin(cluster.bootstrap) as admin:
                (described,) = await admin.describe_topics([STATE_CHANGES_TOPIC])
            leader = described.partitions[0].leader
            await cluster.kill_broker(leader)
            made_up.put(1_000)
            await made_up.written()
            await has(round_ * 2_000)
            await cluster.start_broker(leader)
    assert found == [f"{made_up.topic}-{number}" for number in range(4_000)]
    assert offsets == sorted(set(offsets))


@pytest.mark.slow
async def test_the_changes_of_a_topic_can_be_watched_from_its_creation_to_the_loss_of_its_leader(
    own: Harness,
) -> None:
    """Kafka's design V2: the entire life of a state change, and the reason for each leader."""
    async with following(own.cluster, topic="orders") as follower:
        async with Admin(own.cluster.bootstrap) as admin:
            await admin.create_topic("orders", 1, 3)
        steps: dict[str, set[str]] = {}

        def lives_are_complete() -> bool:
            for event in follower.events:
                if event.command.value == "start-replica":
                    steps.setdefault(event.id, set()).add(event.state.value)
            ends = [states & {"completed", "superseded"} for states in steps.values()]
            return len(ends) >= 3 and all(ends)

        def elections() -> list[StateChangeEvent]:
            return [event for event in follower.events if event.command.value == "elect-leader"]

        await eventually(lives_are_complete, deadline_s=20)
        assert all("requested" in states for states in steps.values())
        await eventually(elections, deadline_s=20)
        (first,) = elections()
        await own.cluster.kill_broker(first.broker)

        def elected() -> StateChangeEvent | None:
            later = [
                e for e in follower.events if e.command.value == "elect-leader" and e.epoch > first.epoch
            ]
            return later[0] if later else None

        second = await eventually(elected, deadline_s=20)
        assert second is not None and second.broker != first.broker
        assert str(int(first.broker)) in second.reason


async def test_a_reading_without_follow_ends_with_what_is_there(
    cluster: LocalCluster, made_up: MadeUpEvents
) -> None:
    expected = made_up.put(20)
    await made_up.written()
    async with Admin(cluster.bootstrap) as admin:
        assert [event async for event in admin.state_changes(topic=made_up.topic)] == expected


async def test_a_step_that_was_written_twice_is_returned_once(
    cluster: LocalCluster, made_up: MadeUpEvents
) -> None:
    """A writer that cannot know whether a record is in the log writes it again: the first of one identity
    counts."""
    (first,) = made_up.put(at_ms=1_000)
    (other,) = made_up.put(at_ms=1_001)
    made_up.put_again(first)
    await made_up.written()
    async with asked(cluster, await active_controller(cluster)) as ask:
        answer = await read_all(await ask(topic=made_up.topic))
    assert parsed(answer) == [first, other]


async def test_records_that_are_no_state_changes_are_skipped(
    cluster: LocalCluster,
    made_up: MadeUpEvents,
) -> None:
    (first,) = made_up.put()
    for value in (b"", b"\xff", b"[]", b"{}", b'{"id":1}', b"null"):
        made_up.put_raw(value)
    (last,) = made_up.put()
    await made_up.written()
    async with asked(cluster, await active_controller(cluster)) as ask:
        assert parsed(await read_all(await ask(topic=made_up.topic))) == [first, last]


async def test_filters(
    cluster: LocalCluster,
    made_up: MadeUpEvents,
) -> None:
    """By broker, by partition, by time: only matching events are returned."""

    def key(partition: int) -> PartitionKey:
        return PartitionKey(TopicId("cd" * 16), PartitionId(partition))

    (one,) = made_up.put(broker=BrokerId(1), key=key(0), at_ms=1_000)
    (two,) = made_up.put(broker=BrokerId(2), key=key(0), at_ms=2_000)
    (three,) = made_up.put(broker=BrokerId(2), key=key(1), at_ms=3_000, state=RequestState.COMPLETED)
    await made_up.written()
    async with Admin(cluster.bootstrap) as admin:

        async def found(**query: Any) -> set[str]:
            return {event.id async for event in admin.state_changes(topic=made_up.topic, **query)}

        assert await found(brokers=[2]) == {two.id, three.id}
        assert await found(brokers=[1, 2]) == {one.id, two.id, three.id}
        assert await found(partition=0) == {one.id, two.id}
        assert await found(since_ms=2_000) == {two.id, three.id}
        assert await found(brokers=[2], partition=1, since_ms=1_000) == {three.id}
        assert await found(brokers=[9]) == set()


async def test_a_process_that_knows_the_offsets_continues_there(
    cluster: LocalCluster, made_up: MadeUpEvents
) -> None:
    before = made_up.put(5)
    await made_up.written()
    async with asked(cluster, await active_controller(cluster)) as ask:
        first = await read_all(await ask(topic=made_up.topic))
        after = made_up.put(5)
        await made_up.written()
        second = await read_all(await ask(topic=made_up.topic, from_offsets=first.next_offsets))
    assert parsed(first) == before
    assert parsed(second) == after


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ({"partition": 0}, "partition = 0 without a topic"),
        ({"topic": "t", "partition": -2}, "partition = -2"),
        ({"since_ms": -1}, "since_ms = -1"),
        ({"from_offsets": (0, 0, 0)}, "from_offsets = [0, 0, 0]"),
        ({"from_offsets": (-5,)}, "-5"),
        ({"brokers": (-1,)}, "-1"),
        ({"brokers": tuple(range(10_001))}, "10001 brokers"),
    ],
)
async def test_a_nonsensical_query_is_refused_with_its_value(
    cluster: LocalCluster, made_up: MadeUpEvents, query: dict[str, Any], says: str
) -> None:
    async with asked(cluster, await active_controller(cluster)) as ask:
        with pytest.raises(InvalidRequest) as caught:
            await read_all(await ask(**query))
    assert says in caught.value.message


async def test_an_offset_that_the_log_does_not_reach_is_an_error_and_not_a_wait(
    cluster: LocalCluster, made_up: MadeUpEvents
) -> None:
    for follow in (False, True):
        async with asked(cluster, await active_controller(cluster)) as ask:
            with pytest.raises(StrandlineError) as caught:
                await read_all(await ask(from_offsets=(10**12,), follow=follow))
        assert caught.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert str(10**12) in caught.value.message


async def test_garbage_on_the_wire_affects_no_client(
    cluster: LocalCluster,
    made_up: MadeUpEvents,
) -> None:
    (event,) = made_up.put()
    await made_up.written()
    number = await active_controller(cluster)
    async with grpc.aio.insecure_channel(cluster.controller_address(number)) as channel:
        raw: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(STATE_CHANGES.path)
        with pytest.raises(grpc.aio.AioRpcError):
            await raw(b"\xff\xff\xff\xff", timeout=10).read()
    async with asked(cluster, number) as ask:
        assert parsed(await read_all(await ask(topic=made_up.topic))) == [event]


async def test_a_controller_that_waits_its_turn_names_the_active_one(
    cluster: LocalCluster, made_up: MadeUpEvents
) -> None:
    number = await active_controller(cluster)
    (standby,) = [each for each in cluster.controller_ids if each != number]
    async with asked(cluster, standby) as ask:
        with pytest.raises(NotController) as caught:
            await read_all(await ask(topic=made_up.topic))
    assert caught.value.leader is not None and caught.value.leader.broker_id == number


async def test_a_stream_ends_with_not_controller_when_its_controller_stops(
    cluster: LocalCluster, made_up: MadeUpEvents
) -> None:
    """At once, and not with the grace that requests get: the next controller waits for this one to go."""
    number = await active_controller(cluster)
    async with grpc.aio.insecure_channel(cluster.controller_address(number)) as channel:
        stub: admin_pb2_grpc.AdminAsyncStub = admin_pb2_grpc.AdminStub(channel)
        request = admin_pb2.StateChangesRequest(topic=made_up.topic, partition=-1, follow=True)
        stream = stub.StateChanges(request)
        assert isinstance(await stream.read(), admin_pb2.StateChangesResponse)
        errors: list[StrandlineError | None] = []
        async with asyncio.timeout(20), asyncio.TaskGroup() as tasks:
            tasks.create_task(cluster.stop_controller(number))
            while isinstance(answer := await stream.read(), admin_pb2.StateChangesResponse):
                errors.append(error_from_wire(answer.error))
    await cluster.start_controller(number)
    assert isinstance(errors[-1], NotController)


async def test_the_number_of_streams_is_bounded(
    cluster: LocalCluster,
    made_up: MadeUpEvents,
) -> None:
    """`state_change_streams_max`; a stream that ends makes room."""
    async with asked(cluster, await active_controller(cluster)) as ask:
        streams = [await ask(topic=made_up.topic, follow=True) for _ in range(STREAMS_MAX)]
        for stream in streams:
            await stream.read()
        with pytest.raises(ThrottlingQuotaExceeded) as caught:
            await read_all(await ask(topic=made_up.topic))
        assert caught.value.limit == STREAMS_MAX
        streams[0].close()

        async def room() -> bool:
            try:
                await read_all(await ask(topic=made_up.topic))
            except ThrottlingQuotaExceeded:
                return False
            return True

        await eventually(room)
