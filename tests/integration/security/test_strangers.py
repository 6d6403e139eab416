"""Callers that pose as another: as a member of the cluster, or as its super user."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

import pytest

from strandline.adapters.codecs.log import METADATA
from strandline.adapters.codecs.replication import REPLICA_FETCH, REPORT_SILENCE
from strandline.adapters.codecs.users import ALTER_USERS
from strandline.adapters.zookeeper import znodes
from strandline.broker.kafka.wire import apis
from strandline.broker.kafka.wire.admin.users import AlterUsersRequest, Upsertion
from strandline.config.services.broker import BrokerSettings
from strandline.config.services.zookeeper import ZooKeeperSettings
from strandline.errors import (
    BrokerNotAvailable,
    ClusterAuthorizationFailed,
    InvalidRequest,
    StrandlineError,
)
from strandline.ids import BrokerEpoch, BrokerId
from strandline.security.acls import CLUSTER_NAME, AclBinding, Permission, ResourcePattern
from strandline.security.login.credentials import UserChange, make_credential
from strandline.security.login.mechanisms import SCRAM_SHA_512
from strandline.security.principal import Principal
from strandline.security.rights import ALTER_CLUSTER
from strandline.testing import SimulatedCluster
from strandline.vocabulary.log import MetadataQuery
from strandline.vocabulary.replication import FollowerMessage, Hello, SilenceQuestion, Subscribe
from tests.integration.security.support.stage import ROOT, Stage, secure_cluster

TOPIC: Final = "tides"
LEADER: Final = BrokerId(1)
FOLLOWER: Final = BrokerId(2)
TIMEOUT_S: Final = 5.0


def has_ended(cluster: SimulatedCluster, broker: BrokerId) -> bool:
    return not cluster._now.cluster.brokers[broker - 1].life.alive


async def pose_as_follower(cluster: SimulatedCluster, key: bytes | None) -> StrandlineError:
    """What a caller gets that says it is the second broker and has no record: its stream's refusal."""
    transport = cluster.host.transport(lambda: key)
    leader = cluster.bootstrap.split(",")[0]
    manager = cluster._now.cluster.running[0].manager
    assert manager is not None
    (replica,) = (each for each in manager.all() if each.name.topic == TOPIC)
    known = await transport.call(leader, METADATA, MetadataQuery(None), timeout_s=TIMEOUT_S)
    hello = Hello(FOLLOWER, manager.live[FOLLOWER].epoch, LEADER, known.cluster.cluster_id)
    subscribe = Subscribe(1, TOPIC, replica.key, replica.leader_epoch, 0, -1)
    stream = await transport.open(leader, REPLICA_FETCH, timeout_s=TIMEOUT_S)
    try:
        await stream.write(FollowerMessage(hello, (subscribe,), ((1, 1_000),), (), 0))
        async with asyncio.timeout(TIMEOUT_S):
            with pytest.raises(StrandlineError) as refused:
                while True:
                    await stream.read()
        return refused.value
    finally:
        await transport.close()


@pytest.mark.parametrize(
    ("key", "error"), [(None, ClusterAuthorizationFailed), (b"guessed", BrokerNotAvailable)]
)
def test_no_stranger_follows_a_leader_of_a_cluster_without_an_authorizer(
    key: bytes | None, error: type[StrandlineError]
) -> None:
    """A5: to reach a port is not enough. It would be sent every record, and what it says that it has would
    count as replicated. A key that is not this cluster's may be that of a member after a restore of
    ZooKeeper, and has to ask again; the brokers themselves follow meanwhile."""
    with SimulatedCluster(seed=1, brokers=2) as cluster:

        async def play() -> None:
            await cluster.create_topic(TOPIC)
            assert isinstance(await pose_as_follower(cluster, key), error)
            async with cluster.producer() as producer:
                await producer.send_and_wait(TOPIC, b"kept")
            assert cluster.in_sync(TOPIC, 0) == [LEADER, FOLLOWER]

        cluster.run(play())


def test_no_stranger_asks_which_brokers_are_silent() -> None:
    """A5"""
    with SimulatedCluster(seed=1, brokers=2) as cluster:

        async def play() -> None:
            leader = cluster.bootstrap.split(",")[0]
            transport = cluster.host.transport(None)
            question = SilenceQuestion(FOLLOWER, BrokerEpoch(1))
            with pytest.raises(ClusterAuthorizationFailed, match="no member"):
                await transport.call(leader, REPORT_SILENCE, question, timeout_s=TIMEOUT_S)
            await transport.close()

        cluster.run(play())


def test_where_everyone_may_use_what_no_acl_is_about_no_one_is_a_member_by_it() -> None:
    """A5: `allow_everyone_if_no_acl_found` gives rights, and no membership."""
    with secure_cluster(brokers=2, allow_everyone_if_no_acl_found=True) as cluster:

        async def play() -> None:
            for number, process in enumerate(cluster._now.cluster.brokers, start=1):
                process.life.principal = Principal(f"broker-{number}")
            stage = Stage(cluster)
            await stage.prepare()
            assert isinstance(await pose_as_follower(cluster, None), ClusterAuthorizationFailed)

        cluster.run(play())


def test_members_take_a_key_that_replaces_theirs_and_go_on() -> None:
    """A5: an operator deletes the znode. No member is restarted, and one that is follows the others."""
    with SimulatedCluster(seed=1, brokers=3) as cluster:
        world = cluster._now.world

        async def play() -> None:
            await cluster.create_topic(TOPIC)
            test = cluster._now.test.host
            settings = ZooKeeperSettings(zookeeper=world.zookeeper.address)
            session = await test.connect_coordination(settings, lambda waited_s: None)
            before = (await session.get(znodes.MEMBER_KEY)).data
            await session.delete(znodes.MEMBER_KEY)
            await test.clock.sleep(2 * BrokerSettings.model_fields["reconcile_ms"].default / 1000)
            after = (await session.get(znodes.MEMBER_KEY)).data
            assert after != before
            for broker in cluster._now.cluster.running.values():
                assert broker._key.shown() == after
            for follower in (FOLLOWER, BrokerId(3)):
                cluster.stop(follower)
                await cluster.run_until(partial(has_ended, cluster, follower))
                cluster.start(follower)
                await cluster.run_until(lambda: cluster.in_sync(TOPIC, 0) == [1, 2, 3])
            await cluster.create_topic("after")

        cluster.run(play())


# --- super users ------------------------------------------------------------------------------

ALICE: Final = Principal("alice")
CREDENTIAL: Final = make_credential(SCRAM_SHA_512, "wonderland", b"0123456789abcdef", 4_096)


def test_only_a_super_user_sets_the_password_of_one() -> None:
    """A11: over both protocols. ALTER on the cluster is enough to set any other user's, and to delete any."""
    with secure_cluster() as cluster:

        async def play() -> None:
            stage = Stage(cluster)
            await stage.prepare()
            everything = ResourcePattern(ALTER_CLUSTER.of, CLUSTER_NAME)
            await stage.only([AclBinding(everything, ALICE, "*", ALTER_CLUSTER.operation, Permission.ALLOW)])
            as_root, as_bob = (UserChange(name, SCRAM_SHA_512, CREDENTIAL) for name in (ROOT.name, "bob"))
            with stage.calls_by(ALICE):
                refused, done = await stage.call(ALTER_USERS, [as_root, as_bob])
            assert isinstance(refused.error, ClusterAuthorizationFailed) and done.error is None
            assert "User:alice may not set the password of User:root" in refused.error.message
            upserted = [Upsertion(name, 2, 8_192, b"0" * 32, b"1" * 64) for name in (ROOT.name, "carol")]
            answer = await stage.kafka(apis.ALTER_USERS, AlterUsersRequest((), tuple(upserted)), ALICE)
            assert [each.error for each in answer.users] == [int(refused.error.code), 0]
            with stage.calls_by(ROOT):
                (done,) = await stage.call(ALTER_USERS, [as_root])
                assert done.error is None
            with stage.calls_by(ALICE):
                (done,) = await stage.call(ALTER_USERS, [UserChange(ROOT.name, SCRAM_SHA_512)])
                assert done.error is None

        cluster.run(play())


def test_no_user_is_called_as_callers_without_a_name_are() -> None:
    """A11: such a user would be the one that all of them are."""
    with pytest.raises(InvalidRequest, match="'ANONYMOUS': it means callers without a name"):
        UserChange("ANONYMOUS", SCRAM_SHA_512, CREDENTIAL)
    UserChange("ANONYMOUS", SCRAM_SHA_512)  # one that an earlier version has set can be deleted
