"""Two listeners for each member: a client of the external one gets addresses that work from there in every
answer that names a member, and a client of the internal one gets the others."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import grpc
import pytest

from strandline import Admin, Consumer, Producer
from strandline.adapters.rpc.wire_errors import error_from_wire
from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.connect import connect
from strandline.adapters.zookeeper.session import ZooKeeperSession
from strandline.config.services.zookeeper import ZooKeeperSettings
from strandline.errors import LeaderHint, NotController, NotLeaderOrFollower
from strandline.ids import BrokerId
from strandline.local.cluster import LocalCluster
from strandline.records import encode_values
from strandline.rpc import (
    admin_pb2,
    admin_pb2_grpc,
    group_pb2,
    group_pb2_grpc,
    log_pb2,
    log_pb2_grpc,
    replication_pb2_grpc,
)
from strandline.vocabulary.metadata import Endpoint
from tests.conftest import ClusterFactory
from tests.waiting import eventually

pytestmark = pytest.mark.slow

OUTSIDE = "localhost"
"""The members themselves say 127.0.0.1."""

CALL_S_MAX = 10.0


@dataclass(frozen=True)
class Listeners:
    """A cluster of two brokers and two controllers that listen twice."""

    cluster: LocalCluster
    brokers: dict[int, Endpoint]
    controller: Endpoint
    """The active one."""

    @property
    def bootstrap(self) -> str:
        """The addresses of the external listeners."""
        return ",".join(outer(broker) for broker in self.brokers.values())


@pytest.fixture(scope="module")
async def listeners(make_module_cluster: ClusterFactory) -> AsyncIterator[Listeners]:
    settings = {"external_port": 0, "external_host": OUTSIDE}
    cluster = await make_module_cluster(
        brokers=2, controllers=2, broker_settings=settings, controller_settings=settings
    )
    session = await connect(ZooKeeperSettings(zookeeper=cluster.zookeeper))
    brokers = {broker: await registered(session, broker) for broker in cluster.broker_ids}
    controller = znodes.load_controller((await session.get(znodes.CONTROLLER)).data).endpoint
    await session.close()
    async with Admin(cluster.bootstrap) as admin:
        await admin.create_topic("tides", partitions=1, replication_factor=2)
    yield Listeners(cluster, brokers, controller)


async def registered(session: ZooKeeperSession, broker: int) -> Endpoint:
    node = await session.get(znodes.broker(BrokerId(broker)))
    return znodes.load_registration(broker, node.data, node.czxid).endpoint


def outer(endpoint: Endpoint) -> str:
    assert endpoint.external is not None
    host, port = endpoint.external
    return f"{host}:{port}"


async def test_a_client_outside_writes_reads_and_manages_by_outer_addresses_alone(
    listeners: Listeners,
) -> None:
    async with Admin(listeners.bootstrap) as admin, Producer(listeners.bootstrap) as producer:
        (described,) = await admin.describe_topics(["tides"])
        assert described.name == "tides"
        await admin.create_topic("outside", partitions=1, replication_factor=2)
        await producer.send_and_wait("outside", b"high water")
    async with Consumer(listeners.bootstrap, group_id="outside", offset_reset="earliest") as consumer:
        consumer.subscribe(["outside"])
        assert (await consumer.getone()).value == b"high water"
        await consumer.commit()


async def test_metadata_names_brokers_and_controller_as_the_caller_reaches_them(listeners: Listeners) -> None:
    for broker, endpoint in listeners.brokers.items():
        inside = await metadata(listeners.cluster.address(broker))
        outside = await metadata(outer(endpoint))
        assert addresses(inside) == [
            listeners.controller.address, *(each.address for each in listeners.brokers.values())
        ]  # fmt: skip
        assert addresses(outside) == [
            outer(listeners.controller), *(outer(each) for each in listeners.brokers.values())
        ]  # fmt: skip


async def test_a_coordinator_is_found_where_the_caller_reaches_it(listeners: Listeners) -> None:
    found: dict[str, int] = {}
    for address in (listeners.cluster.address(1), outer(listeners.brokers[1])):
        async with grpc.aio.insecure_channel(address) as channel:
            stub = group_pb2_grpc.GroupsStub(channel)

            async def asked(
                stub: group_pb2_grpc.GroupsAsyncStub = stub,
            ) -> group_pb2.FindCoordinatorResponse | None:
                request = group_pb2.FindCoordinatorRequest(group="harbour")
                answer = await stub.FindCoordinator(request, timeout=CALL_S_MAX)
                return None if answer.HasField("error") else answer

            answer = await eventually(asked, what="a coordinator")
            assert answer is not None
            found[f"{answer.coordinator.host}:{answer.coordinator.port}"] = answer.coordinator.id
    (coordinator,) = set(found.values())
    assert list(found) == [listeners.brokers[coordinator].address, outer(listeners.brokers[coordinator])]


async def test_a_client_of_the_wrong_broker_gets_an_address_that_it_can_use(
    listeners: Listeners,
) -> None:
    """Another task receives the result of a produce, and it still names the address for its own caller."""
    (topic,) = (await metadata(listeners.bootstrap.split(",")[0])).topics
    leader = topic.partitions[0].leader
    follower = listeners.brokers[3 - leader]
    entry = log_pb2.PartitionRecords(
        correlation_id=1, topic="tides", acks=-1, timeout_ms=1_000, records=encode_values([b"x"], 0)
    )
    for address, wanted in (
        (follower.address, ("127.0.0.1", listeners.brokers[leader].port)),
        (outer(follower), listeners.brokers[leader].external),
    ):
        async with grpc.aio.insecure_channel(address) as channel:
            call = log_pb2_grpc.LogStub(channel).Produce(iter([log_pb2.ProduceRequest(entries=[entry])]))
            answer = await anext(aiter(call))
        error = error_from_wire(answer.results[0].error)
        assert isinstance(error, NotLeaderOrFollower)
        assert pointed(error.leader) == wanted


async def test_the_inactive_controller_names_an_address_that_the_caller_can_reach(
    listeners: Listeners,
) -> None:
    standby = 3 - listeners.controller.id
    address = listeners.cluster.controller_address(standby)
    async with grpc.aio.insecure_channel(address) as channel:
        answer = await admin_pb2_grpc.AdminStub(channel).DescribeCluster(
            admin_pb2.DescribeClusterRequest(), timeout=CALL_S_MAX
        )
    error = error_from_wire(answer.error)
    assert isinstance(error, NotController)
    assert pointed(error.leader) == (listeners.controller.host, listeners.controller.port)
    async with grpc.aio.insecure_channel(outer(listeners.controller)) as channel:
        answer = await admin_pb2_grpc.AdminStub(channel).DescribeCluster(
            admin_pb2.DescribeClusterRequest(), timeout=CALL_S_MAX
        )
    named = [(each.endpoint.host, each.endpoint.port) for each in answer.brokers]
    assert named == [each.external for each in listeners.brokers.values()]


async def test_replication_is_not_served_outside(listeners: Listeners) -> None:
    """CORRECTNESS X4: brokers reach each other by the inner listeners; a client has no use for it."""
    async with grpc.aio.insecure_channel(outer(listeners.brokers[1])) as channel:
        call = replication_pb2_grpc.ReplicationStub(channel).ReplicaFetch(timeout=CALL_S_MAX)
        assert await call.code() is grpc.StatusCode.UNIMPLEMENTED


def pointed(hint: LeaderHint | None) -> tuple[str, int]:
    assert hint is not None
    return hint.host, hint.port


def addresses(answer: log_pb2.MetadataResponse) -> list[str]:
    return [f"{each.host}:{each.port}" for each in (answer.controller, *answer.brokers)]


async def metadata(address: str) -> log_pb2.MetadataResponse:
    async with grpc.aio.insecure_channel(address) as channel:
        return await log_pb2_grpc.LogStub(channel).Metadata(
            log_pb2.MetadataRequest(topics=["tides"]), timeout=CALL_S_MAX
        )
