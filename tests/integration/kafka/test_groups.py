"""Groups of Kafka clients, as they are, on a cluster of three brokers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

import pytest

from strandline import Admin, Producer, TopicPartition
from strandline.local.cluster import LocalCluster
from tests.conftest import ClusterFactory
from tests.integration.kafka.support.kcat import kcat, needs_kcat
from tests.integration.kafka.support.members import KINDS, Librdkafka, Member, joined
from tests.integration.support.harness import FAULT_SETTINGS
from tests.waiting import eventually

PARTITIONS = 6
ALL = frozenset(range(PARTITIONS))
SETTLE_S_MAX = 30.0
EACH_KIND = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(scope="module")
async def cluster(make_module_cluster: ClusterFactory) -> LocalCluster:
    return await make_module_cluster(brokers=3, broker_settings=FAULT_SETTINGS, kafka=True)


async def create(cluster: LocalCluster, topic: str) -> None:
    async with Admin(cluster.bootstrap) as admin:
        await admin.create_topic(topic, partitions=PARTITIONS, replication_factor=3)


async def produce(cluster: LocalCluster, topic: str, numbers: Iterable[int]) -> Counter[bytes]:
    """Returns what was written."""
    values = [str(number).encode() for number in numbers]
    async with Producer(cluster.bootstrap) as producer:
        for number, value in enumerate(values):
            await producer.send_and_wait(topic, value, partition=number % PARTITIONS)
    return Counter(values)


async def settles(condition: Callable[[], bool], what: str) -> None:
    await eventually(condition, deadline_s=SETTLE_S_MAX, what=what)


def shared(*members: Member) -> bool:
    """Each partition has one owner, and each member has partitions."""
    owned = [number for each in members for number in each.owned]
    return all(each.owned for each in members) and sorted(owned) == sorted(ALL)


@EACH_KIND
async def test_offsets_that_were_committed_are_where_the_next_member_reads_on(
    cluster: LocalCluster, kind: str
) -> None:
    """CORRECTNESS G12, G15."""
    topic = f"resumed-{kind}"
    await create(cluster, topic)
    first, second = (KINDS[kind](cluster.kafka_bootstrap, topic, topic) for _ in range(2))
    written = await produce(cluster, topic, range(60))
    async with joined(first):
        await settles(lambda: len(first.read) >= 60, "all are read")
    more = await produce(cluster, topic, range(60, 90))
    async with joined(second):
        await settles(lambda: len(second.read) >= 30, "the others are read")
    assert (Counter(first.values), Counter(second.values)) == (written, more)


@EACH_KIND
async def test_partitions_move_to_members_that_join_and_from_those_that_leave(
    cluster: LocalCluster, kind: str
) -> None:
    """No partition has two owners, none stays without one, and no record is lost."""
    topic = f"moved-{kind}"
    await create(cluster, topic)
    first, second = (KINDS[kind](cluster.kafka_bootstrap, topic, topic) for _ in range(2))
    written = await produce(cluster, topic, range(60))
    async with joined(first):
        await settles(lambda: first.owned == ALL, "the first has all partitions")
        async with joined(second):
            await settles(lambda: shared(first, second), "both have partitions")
            written += await produce(cluster, topic, range(60, 120))
            await settles(lambda: len(first.read) + len(second.read) >= 120, "all are read")
        await settles(lambda: first.owned == ALL, "the first has all partitions again")
        written += await produce(cluster, topic, range(120, 150))
        await settles(lambda: len(first.read) + len(second.read) >= 150, "all are read")
    read = Counter(first.values + second.values)
    assert read.keys() == written.keys()
    assert second.read


async def test_a_cooperative_member_keeps_what_does_not_move(cluster: LocalCluster) -> None:
    """KIP-429, as librdkafka has it: a member revokes what moves, and reads on in the others."""
    topic = "kept"
    await create(cluster, topic)
    first, second = (
        Librdkafka(cluster.kafka_bootstrap, topic, topic, assignor="cooperative-sticky") for _ in range(2)
    )
    async with joined(first):
        await settles(lambda: first.owned == ALL, "the first has all partitions")
        async with joined(second):
            await settles(lambda: shared(first, second), "both have partitions")
            assert sorted(first.revoked) == sorted(second.owned)
        await settles(lambda: first.owned == ALL, "the first has all partitions again")
        assert len(first.revoked) == PARTITIONS // 2


async def test_a_static_member_comes_back_and_no_member_notices(cluster: LocalCluster) -> None:
    """CORRECTNESS G13, KIP-345: its partitions wait for it, in the same generation."""
    topic = "static"
    await create(cluster, topic)

    def member(instance: str) -> Librdkafka:
        return Librdkafka(cluster.kafka_bootstrap, topic, topic, assignor="range", group_instance_id=instance)

    first, second, again = member("i"), member("j"), member("i")
    async with Admin(cluster.bootstrap) as admin, joined(second):
        async with joined(first):
            await settles(lambda: shared(first, second), "both have partitions")
            before, generation = first.owned, (await admin.describe_group(topic)).group.generation
        written = await produce(cluster, topic, range(60))
        async with joined(again):
            await settles(lambda: again.owned == before, "it has its partitions again")
            await settles(lambda: len(again.read) + len(second.read) >= 60, "all are read")
        assert (await admin.describe_group(topic)).group.generation == generation
    assert second.revoked == sorted(ALL - before), "only at its end"
    assert Counter(again.values + second.values) == written


async def test_clients_of_different_kinds_share_a_group(cluster: LocalCluster) -> None:
    """They meet on `range`; any of them leads."""
    topic = "mixed"
    await create(cluster, topic)
    kinds = ("aiokafka", "librdkafka-range", "kafka-python")
    members = [KINDS[kind](cluster.kafka_bootstrap, topic, topic) for kind in kinds]
    async with joined(*members):
        await settles(lambda: shared(*members), "all have partitions")
        written = await produce(cluster, topic, range(60))
        await settles(lambda: sum(len(each.read) for each in members) >= 60, "all are read")
    assert Counter(value for each in members for value in each.values) == written


@needs_kcat
async def test_kcat_reads_in_a_group(cluster: LocalCluster) -> None:
    topic = "by-kcat"
    await create(cluster, topic)
    written = await produce(cluster, topic, range(60))
    of_group = ("-b", cluster.kafka_bootstrap, "-G", topic, "-X", "auto.offset.reset=earliest")
    found = await kcat(*of_group, "-q", "-c", "60", topic, within_s=SETTLE_S_MAX)
    assert Counter(line.encode() for line in found.splitlines()) == written
    async with Admin(cluster.bootstrap) as admin:
        committed = await admin.group_offsets(topic)
    assert {name.partition: each.offset for name, each in committed.items()} == dict.fromkeys(ALL, 10)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("kind", ["aiokafka", "librdkafka-cooperative"])
async def test_a_killed_coordinator_costs_a_group_nothing(cluster: LocalCluster, kind: str) -> None:
    """CORRECTNESS G12: committed offsets never fall, members come back, and every record is read.

    kafka-python is left out: it does not close sockets whose connections were refused, an error here.
    """
    topic = f"killed-{kind}"
    await create(cluster, topic)
    first, second = (KINDS[kind](cluster.kafka_bootstrap, topic, topic) for _ in range(2))
    highest: dict[TopicPartition, int] = {}

    async with Admin(cluster.bootstrap) as admin, joined(first, second):

        async def committed(count: int) -> bool:
            for name, found in (await admin.group_offsets(topic)).items():
                assert found.offset >= highest.get(name, 0), f"the offset of {name} fell"
                highest[name] = found.offset
            return sum(highest.values()) >= count

        await settles(lambda: shared(first, second), "both have partitions")
        written = await produce(cluster, topic, range(60))
        await eventually(lambda: committed(60), deadline_s=SETTLE_S_MAX)
        coordinator = (await admin.describe_group(topic)).coordinator.id
        await cluster.kill_broker(coordinator)
        written += await produce(cluster, topic, range(60, 120))
        await eventually(lambda: committed(120), deadline_s=SETTLE_S_MAX)
        await settles(lambda: shared(first, second), "both have partitions")
        await cluster.start_broker(coordinator)
    assert Counter(first.values + second.values).keys() == written.keys()
