"""Followers that are none: streams of another cluster, life, epoch or imagination change nothing."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from strandline.adapters.rpc.member_key import METADATA_NAME
from strandline.adapters.rpc.wire_errors import error_of_call
from strandline.adapters.zookeeper import znodes
from strandline.errors import ErrorCode
from strandline.rpc import replication_pb2, replication_pb2_grpc
from tests.integration.support.harness import Harness, Topic
from tests.integration.support.raw import CALL_S_MAX

Request, Response = replication_pb2.ReplicaFetchRequest, replication_pb2.ReplicaFetchResponse


@pytest.fixture
async def topic(shared: Harness) -> AsyncIterator[Topic]:
    """A partition that broker 1 alone has; the tests pretend to be broker 3, which follows nothing here."""
    topic = await shared.create_topic([(1,)])
    yield topic
    await topic.isr_is(1)


class Impostor:
    """A replication stream opened by hand."""

    def __init__(self, topic: Topic, channel: grpc.aio.Channel, key: bytes) -> None:
        self._topic = topic
        self.call = replication_pb2_grpc.ReplicationStub(channel).ReplicaFetch(
            timeout=CALL_S_MAX, metadata=((METADATA_NAME, key),)
        )

    async def hello(self, **wrong: Any) -> None:
        harness = self._topic.harness
        cluster_id = (await harness.session.get(znodes.CLUSTER_ID)).data.decode()
        epoch = await harness.broker_epoch(3)
        right: dict[str, Any] = {
            "broker_id": 3,
            "broker_epoch": epoch,
            "leader_id": 1,
            "cluster_id": cluster_id,
        }
        await self.send(hello=replication_pb2.FollowerHello(**(right | wrong)))

    async def send(self, **fields: Any) -> None:
        await self.call.write(Request(**fields))

    async def subscribe(self, **wrong: Any) -> replication_pb2.PartitionPush:
        state = await self._topic.state()
        node = await self._topic.harness.session.get(znodes.topic(self._topic.name))
        right: dict[str, Any] = {
            "subscription_id": 1,
            "topic": self._topic.name,
            "topic_id": znodes.load_topic(self._topic.name, node.data).topic_id,
            "partition": 0,
            "leader_epoch": state.leader_epoch,
            "fetch_offset": 0,
            "last_fetched_epoch": -1,
        }
        await self.send(subscribe=[replication_pb2.Subscribe(**(right | wrong))])
        return await self.push()

    async def push(self) -> replication_pb2.PartitionPush:
        """The next one. Messages without any are the leader's beats."""
        while True:
            response = await self.call.read()
            assert isinstance(response, Response), await self.call.details()
            if response.pushes:
                return response.pushes[0]

    async def refusal(self) -> int:
        """The number of the error that the broker ended the stream with."""
        with contextlib.suppress(grpc.aio.AioRpcError):
            while isinstance(await self.call.read(), Response):
                pass
        ended = grpc.aio.AioRpcError(
            await self.call.code(), await self.call.initial_metadata(), await self.call.trailing_metadata()
        )
        typed = error_of_call(ended)
        assert typed is not None, await self.call.details()
        return typed.code


@pytest.fixture
async def impostor(topic: Topic) -> AsyncIterator[Impostor]:
    async with grpc.aio.insecure_channel(topic.local.cluster.address(1)) as channel:
        key = (await topic.harness.session.get(znodes.MEMBER_KEY)).data
        stream = Impostor(topic, channel, key)
        yield stream
        stream.call.cancel()


async def test_a_stream_begins_with_the_name_of_the_follower(impostor: Impostor) -> None:
    await impostor.send(acknowledged=0)
    assert await impostor.refusal() == ErrorCode.INVALID_REQUEST


async def test_a_life_that_is_not_registered_is_refused(topic: Topic, impostor: Impostor) -> None:
    """CORRECTNESS X4: with a hello of a future life any client could count as a follower, forever."""
    await impostor.hello(broker_epoch=await topic.harness.broker_epoch(3) + 1_000_000)
    assert await impostor.refusal() == ErrorCode.BROKER_NOT_AVAILABLE


async def test_a_subscription_of_another_incarnation_is_refused(impostor: Impostor) -> None:
    """CORRECTNESS E6: a topic created again under its old name is another one."""
    await impostor.hello()
    push = await impostor.subscribe(topic_id="0" * 32)
    assert push.error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_reader_that_is_not_assigned_never_enters_the_isr(topic: Topic, impostor: Impostor) -> None:
    """CORRECTNESS I1: a broker that is not an assigned replica may read, and does not count."""
    await impostor.hello()
    push = await impostor.subscribe()
    assert not push.HasField("error")
    await impostor.send(progress=[replication_pb2.Progress(subscription_id=1, log_end_offset=0)])
    await impostor.send(acknowledged=1)
    produce = topic.harness.brokers.produce(1, topic.partitions[0])
    await produce.one(b"another turn of the commit loop", acks=-1)
    produce.close()
    assert (await topic.state()).isr_ids == (1,)
