"""Names belong to the callers that made them, over both protocols; a follower is the broker that it names."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest

from strandline.adapters.codecs.groups import HEARTBEAT, LEAVE_GROUP, OFFSET_COMMIT
from strandline.adapters.codecs.log import FETCH, METADATA, PRODUCE
from strandline.adapters.codecs.replication import REPLICA_FETCH
from strandline.broker.kafka.wire import apis
from strandline.broker.kafka.wire.groups.membership import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    MemberThatLeaves,
    OfferedProtocol,
)
from strandline.broker.kafka.wire.produce import PartitionRecords, ProduceRequest
from strandline.broker.kafka.wire.producer_id import InitProducerIdRequest
from strandline.broker.kafka.wire.topics import OfTopic
from strandline.errors import (
    ClusterAuthorizationFailed,
    ErrorCode,
    GroupAuthorizationFailed,
    OutOfOrderSequence,
    StrandlineError,
    TopicAuthorizationFailed,
)
from strandline.ids import ACKS_ALL, BrokerId, TopicPartition
from strandline.records import encode_values
from strandline.security.acls import AclBinding, AclFilter, Permission, ResourcePattern
from strandline.security.principal import ANONYMOUS, Principal
from strandline.security.rights import (
    CLUSTER_ACTION,
    DELETE_GROUP,
    READ_GROUP,
    READ_TOPIC,
    WRITE_TOPIC,
    Right,
)
from strandline.testing import SimulatedCluster
from strandline.vocabulary.groups import CommittedOffset, Heartbeat, LeaveGroup, LeavingMember, OffsetCommit
from strandline.vocabulary.log import FetchPartition, FetchRequest, MetadataQuery, ProduceEntry
from strandline.vocabulary.replication import FollowerMessage, Hello
from tests.integration.security.support.cases import GROUP, TOPIC
from tests.integration.security.support.stage import ROOT, Stage, secure_cluster

ALICE: Final = Principal("alice")
MALLORY: Final = Principal("mallory")
NAME: Final = TopicPartition(TOPIC, 0)
NOT_OF_GROUP: Final = int(ErrorCode.GROUP_AUTHORIZATION_FAILED)


def allow(principal: Principal, *rights: tuple[Right, str]) -> list[AclBinding]:
    return [
        AclBinding(ResourcePattern(right.of, name), principal, "*", right.operation, Permission.ALLOW)
        for right, name in rights
    ]


def both(*rights: tuple[Right, str]) -> list[AclBinding]:
    return allow(ALICE, *rights) + allow(MALLORY, *rights)


async def staged(cluster: SimulatedCluster, acls: list[AclBinding], *, group: bool = False) -> Stage:
    stage = Stage(cluster)
    await stage.prepare()
    if group:
        await stage.commit()
    await stage.only(acls)
    return stage


# --- groups -----------------------------------------------------------------------------------


async def member_of_alice(stage: Stage) -> str:
    """It joined as a Kafka client, and is the only one of its generation."""
    request = JoinGroupRequest(GROUP, 10_000, 10_000, "", "consumer", (OfferedProtocol("range", b""),))
    given = await stage.kafka(apis.JOIN_GROUP, request, ALICE)
    joined = await stage.kafka(apis.JOIN_GROUP, request._replace(member=given.member), ALICE)
    assert joined.error == 0
    member: str = joined.member
    return member


def test_another_principal_speaks_for_no_member_over_either_protocol() -> None:
    """A1: a member that joined over Kafka's protocol, and requests in its name over both."""
    with secure_cluster() as cluster:

        async def play() -> None:
            stage = await staged(cluster, both((READ_GROUP, GROUP), (READ_TOPIC, TOPIC)), group=True)
            member = await member_of_alice(stage)
            with stage.calls_by(MALLORY):
                commit = OffsetCommit(GROUP, member, 1, {NAME: CommittedOffset(5)})
                for method, request in ((HEARTBEAT, Heartbeat(GROUP, member, 1)), (OFFSET_COMMIT, commit)):
                    assert isinstance(await stage.call(method, request), GroupAuthorizationFailed)
                (left,) = await stage.call(LEAVE_GROUP, LeaveGroup(GROUP, (LeavingMember(member),)))
                assert isinstance(left.error, GroupAuthorizationFailed)
            beat = HeartbeatRequest(GROUP, 1, member)
            leave = LeaveGroupRequest(GROUP, (MemberThatLeaves(member),))
            assert (await stage.kafka(apis.HEARTBEAT, beat, MALLORY)).error == NOT_OF_GROUP
            left = await stage.kafka(apis.LEAVE_GROUP, leave, MALLORY)
            assert [each.error for each in left.members] == [NOT_OF_GROUP]
            assert (await stage.kafka(apis.HEARTBEAT, beat, ALICE)).error != NOT_OF_GROUP

        cluster.run(play())


def test_a_principal_that_may_delete_a_group_makes_its_members_leave() -> None:
    """A1: an administrator removes members of others."""
    with secure_cluster() as cluster:

        async def play() -> None:
            acls = both((READ_GROUP, GROUP)) + allow(MALLORY, (DELETE_GROUP, GROUP))
            stage = await staged(cluster, acls, group=True)
            leave = LeaveGroupRequest(GROUP, (MemberThatLeaves(await member_of_alice(stage)),))
            left = await stage.kafka(apis.LEAVE_GROUP, leave, MALLORY)
            assert [each.error for each in left.members] == [0]

        cluster.run(play())


# --- producers --------------------------------------------------------------------------------


def batch(producer_id: int, sequence: int, value: bytes) -> bytes:
    return encode_values([value], 0, producer_id=producer_id, producer_epoch=0, base_sequence=sequence)


async def produced(stage: Stage, records: bytes, principal: Principal) -> Any:
    partitions = (PartitionRecords(0, memoryview(records)),)
    request = ProduceRequest(ACKS_ALL, 1_000, (OfTopic(TOPIC, partitions),))
    answer = await stage.kafka(apis.PRODUCE, request, principal)
    return answer.topics[0].partitions[0]


def test_a_forged_batch_takes_no_record_from_the_producer() -> None:
    """A2: alice's next record is appended, and not taken for a repetition of mallory's."""
    with secure_cluster() as cluster:

        async def play() -> None:
            stage = await staged(cluster, both((WRITE_TOPIC, TOPIC)))
            identity = await stage.kafka(apis.INIT_PRODUCER_ID, InitProducerIdRequest(None), ALICE)
            first = await produced(stage, batch(identity.producer_id, 0, b"1"), ALICE)
            assert (first.error, first.base_offset) == (0, 0)
            forged = batch(identity.producer_id, 1, b"forged")
            assert (await produced(stage, forged, MALLORY)).error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            with stage.calls_by(MALLORY):
                (result,) = await stage.call(PRODUCE, [ProduceEntry(NAME, forged)])
            assert isinstance(result.error, OutOfOrderSequence)
            second = await produced(stage, batch(identity.producer_id, 1, b"2"), ALICE)
            assert (second.error, second.base_offset) == (0, 1)

        cluster.run(play())


@pytest.mark.parametrize("internal", [True, False])
def test_a_right_to_all_topics_is_none_to_internal_ones(internal: bool) -> None:
    """A5: group state, events and state changes are written by members of the cluster."""
    with secure_cluster() as cluster:

        async def play() -> None:
            stage = await staged(cluster, allow(ALICE, (WRITE_TOPIC, "*")))
            entry = ProduceEntry(
                TopicPartition("__consumer_offsets", 0), batch(-1, -1, b"forged"), internal=internal
            )
            with stage.calls_by(ALICE):
                (result,) = await stage.call(PRODUCE, [entry])
            assert isinstance(result.error, TopicAuthorizationFailed)

        cluster.run(play())


# --- streams ----------------------------------------------------------------------------------


def test_a_fetch_that_waits_is_refused_once_its_right_is_gone() -> None:
    """A4: records that come after the revocation are not delivered to a stream that was opened before."""
    with secure_cluster() as cluster:

        async def play() -> None:
            stage = await staged(cluster, allow(ALICE, (READ_TOPIC, TOPIC)))
            request = FetchRequest(1, 20_000, 1, 1_000, [FetchPartition(NAME, 0, -1, 1_000)])
            transport = cluster.host.transport(None)
            with stage.calls_by(ALICE):
                stream = await transport.open(cluster.bootstrap, FETCH, timeout_s=5)
            await stream.write(request)
            await stage.only([])
            with stage.calls_by(ROOT):
                (written,) = await stage.call(PRODUCE, [ProduceEntry(NAME, batch(-1, -1, b"secret"))])
            assert written.error is None
            (fetched,) = (await stream.read()).partitions
            assert isinstance(fetched.error, TopicAuthorizationFailed) and not fetched.records
            await transport.close()

        cluster.run(play())


def test_without_zookeeper_the_last_rights_stand_and_a_revocation_counts_after_it() -> None:
    """A4: a broker that is cut off from ZooKeeper goes on with what it knew, for a short time at most."""
    with secure_cluster() as cluster:

        async def play() -> None:
            stage = await staged(cluster, allow(ALICE, (READ_TOPIC, TOPIC)))
            transport = cluster.host.transport(None)
            with stage.calls_by(ALICE):
                stream = await transport.open(cluster.bootstrap, FETCH, timeout_s=5)
            found = []
            for number, cut_off in enumerate((True, False)):
                if cut_off:
                    with stage.calls_by(ROOT):
                        async with cluster.admin() as admin:
                            await admin.describe_cluster()  # the broker could not name the controller later
                            cluster.cut(1, "zookeeper")
                            await admin.delete_acls([AclFilter()])
                else:
                    cluster.mend(1, "zookeeper")
                    await cluster.run_until(
                        lambda: not stage.broker.access.authorizer.acls, what="the broker knows of it"
                    )
                with stage.calls_by(ROOT):
                    (written,) = await stage.call(PRODUCE, [ProduceEntry(NAME, batch(-1, -1, b"v"))])
                assert written.error is None
                partition = FetchPartition(NAME, number, -1, 1_000)
                await stream.write(FetchRequest(number + 1, 20_000, 1, 1_000, [partition]))
                (fetched,) = (await stream.read()).partitions
                found.append((type(fetched.error), bool(fetched.records)))
            assert found == [(type(None), True), (TopicAuthorizationFailed, False)]
            await transport.close()

        cluster.run(play())


def test_a_produce_stream_is_refused_from_the_revocation_on() -> None:
    """A4"""
    with secure_cluster() as cluster:

        async def play() -> None:
            stage = await staged(cluster, allow(ALICE, (WRITE_TOPIC, TOPIC)))
            transport = cluster.host.transport(None)
            with stage.calls_by(ALICE):
                stream = await transport.open(cluster.bootstrap, PRODUCE, timeout_s=5)
            errors = []
            for revoked in (False, True):
                if revoked:
                    await stage.only([])
                await stream.write([ProduceEntry(NAME, batch(-1, -1, b"v"))])
                (result,) = await stream.read()
                errors.append(type(result.error))
            assert errors == [type(None), TopicAuthorizationFailed]
            await transport.close()

        cluster.run(play())


# --- followers --------------------------------------------------------------------------------


@pytest.mark.parametrize("principal", [ALICE, Principal("broker-1"), ANONYMOUS])
def test_a_follower_is_the_broker_that_its_principal_names(principal: Principal) -> None:
    """A5: neither a client with every right to the cluster, nor another broker, nor a caller without a name
    and without the members' key is broker 2; broker 2 itself follows meanwhile."""
    with secure_cluster(brokers=2) as cluster:

        async def play() -> None:
            for number, process in enumerate(cluster._now.cluster.brokers, start=1):
                process.life.principal = Principal(f"broker-{number}")
            stage = await staged(cluster, allow(ALICE, (CLUSTER_ACTION, "kafka-cluster")))
            assert cluster.in_sync(TOPIC, 0) == [1, 2]
            assert stage.broker.manager is not None
            epoch = stage.broker.manager.live[BrokerId(2)].epoch
            known = await stage.call(METADATA, MetadataQuery(None))
            hello = Hello(BrokerId(2), epoch, BrokerId(1), known.cluster.cluster_id)
            transport = cluster.host.transport(None)
            with stage.calls_by(principal):
                stream = await transport.open(cluster.bootstrap.split(",")[0], REPLICA_FETCH, timeout_s=5)
            await stream.write(FollowerMessage(hello, (), (), (), 0))
            with pytest.raises(StrandlineError) as refused:
                async with asyncio.timeout(5):
                    await stream.read()
            assert isinstance(refused.value, ClusterAuthorizationFailed)
            await transport.close()

        cluster.run(play())
