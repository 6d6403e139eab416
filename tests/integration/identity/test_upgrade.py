"""What the version before ids of topics wrote, under brokers and clients of this one.

`data/of_3879411c.tar.xz` has the folders of three brokers, their ZooKeeper and a stream application. The
commit 3879411c wrote it, with its own clients, in a cluster that was then stopped by `strandline down`:

* the topics `t` and `gone` of one partition with 50 records each, `words` of two with 9 records, and `ct`,
  which is compacted, with 30 records of five keys and a tombstone;
* commits at offset 20 of the groups `g` and `own` in `t`, and of `gg` in `gone`; one at 15 of `kg` in `t`, by
  librdkafka;
* the application `app`, which counted the words by key, with its store;
* the user `alice`, with a quota.

Topics whose records are deleted by age have `retention.ms=-1`.
"""

from __future__ import annotations

import asyncio
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest
from aiokafka import AIOKafkaConsumer

from strandline import Admin, Consumer, LocalCluster, Producer, TopicPartition
from strandline.ids import NO_TOPIC_ID
from strandline.streams import STRING, Streams, Topology
from tests.conftest import ClusterFactory
from tests.waiting import eventually

pytestmark = pytest.mark.slow

WRITTEN: Final = Path(__file__).parent / "data" / "of_3879411c.tar.xz"
NEVER_MS: Final = 10**14
WAIT_S_MAX: Final = 30
T, GONE = TopicPartition("t", 0), TopicPartition("gone", 0)


@pytest.fixture(scope="module")
async def cluster(
    make_module_cluster: ClusterFactory, tmp_path_factory: pytest.TempPathFactory
) -> LocalCluster:
    home = tmp_path_factory.mktemp("written") / "cluster"
    with tarfile.open(WRITTEN) as archive:
        archive.extractall(home, filter="data")
    settings = {"offsets_retention_ms": NEVER_MS}
    return await make_module_cluster(
        brokers=3, directory=home, zookeeper=None, kafka=True, broker_settings=settings
    )


@pytest.fixture
async def admin(cluster: LocalCluster) -> AsyncIterator[Admin]:
    async with Admin(cluster.bootstrap) as admin:
        yield admin


async def read(cluster: LocalCluster, group: str, topic: str, count: int) -> list[tuple[int, bytes | None]]:
    """What a member of the group reads and commits, with its offsets."""
    async with (
        asyncio.timeout(WAIT_S_MAX),
        Consumer(cluster.bootstrap, group_id=group, offset_reset="earliest") as consumer,
    ):
        consumer.subscribe([topic])
        found = [await consumer.getone() for _ in range(count)]
        await consumer.commit()
    return [(record.offset, record.value) for record in found]


def numbered(first: int, end: int) -> list[tuple[int, bytes]]:
    return [(number, b"%d" % number) for number in range(first, end)]


async def test_a_log_has_every_record_once(cluster: LocalCluster) -> None:
    assert await read(cluster, "new", "t", 50) == numbered(0, 50)


@pytest.mark.parametrize("group", ["g", "own"])
async def test_a_group_continues_at_its_commit(cluster: LocalCluster, admin: Admin, group: str) -> None:
    """CORRECTNESS G18: its next commits have the id of the topic."""
    assert await read(cluster, group, "t", 30) == numbered(20, 50)
    (topic,) = await admin.describe_topics(["t"])
    committed = (await admin.group_offsets(group))[T]
    assert (committed.offset, committed.topic_id) == (50, topic.topic_id)


async def test_a_group_of_kafkas_clients_continues_at_its_commit(cluster: LocalCluster) -> None:
    consumer = AIOKafkaConsumer(
        "t", bootstrap_servers=cluster.kafka_bootstrap, group_id="kg", auto_offset_reset="earliest"
    )
    await consumer.start()
    async with asyncio.timeout(WAIT_S_MAX):
        record = await consumer.getone()
    await consumer.stop()
    assert (record.offset, record.value) == (15, b"15")


async def test_a_commit_does_not_outlive_its_topic(cluster: LocalCluster, admin: Admin) -> None:
    """CORRECTNESS G18: its topic is that which the coordinator found first."""

    async def is_of_its_topic() -> bool:
        return (await admin.group_offsets("gg"))[GONE].topic_id != NO_TOPIC_ID

    await eventually(is_of_its_topic, what="the coordinator has looked at the topic")
    await admin.delete_topics(["gone"])
    await admin.create_topic("gone", partitions=1, replication_factor=3)
    async with Producer(cluster.bootstrap) as producer:
        await (await producer.send_many("gone", [b"%d" % number for number in range(30)]))
    assert await admin.group_offsets("gg") == {}
    assert await read(cluster, "gg", "gone", 30) == numbered(0, 30)


async def test_a_compacted_topic_has_the_last_value_of_each_key(cluster: LocalCluster) -> None:
    found: dict[bytes | None, bytes | None] = {}
    async with (
        asyncio.timeout(WAIT_S_MAX),
        Consumer(cluster.bootstrap, offset_reset="earliest", enable_auto_commit=False) as consumer,
    ):
        name = TopicPartition("ct", 0)
        consumer.assign([name])
        while await consumer.position(name) < 31:
            for records in (await consumer.getmany(timeout_ms=100)).values():
                found |= {record.key: record.value for record in records}
    assert {key: value for key, value in found.items() if value is not None} == {
        b"k%d" % number: b"v%d" % (25 + number) for number in range(4)
    }


async def test_a_store_continues_where_it_was(
    cluster: LocalCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """CORRECTNESS S3, S10: nothing is counted twice, and no store is emptied."""
    topology = Topology()
    topology.source("words", key=STRING, value=STRING).count("counts")
    state_dir = cluster.directory / "state"
    async with Streams(topology, cluster.bootstrap, application_id="app", state_dir=state_dir) as app:

        async def counted(wanted: dict[str, int]) -> None:
            def is_counted() -> bool:
                running = [task.role for task in app.tasks()] == ["running"] * 2
                return running and dict(app.store("counts").range()) == wanted

            await eventually(is_counted, what=f"{wanted} is counted")

        await counted({"a": 4, "b": 3, "c": 2})
        async with Producer(cluster.bootstrap) as producer:
            await (await producer.send_many("words", [b"x"] * 3, keys=[b"a", b"a", b"d"]))
        await counted({"a": 6, "b": 3, "c": 2, "d": 1})
    assert not [said for said in caplog.messages if "task store" in said or "from the start" in said]
    stores = [store for task in (0, 1) for store in (state_dir / f"app/slot-0/words-{task}").glob("db*")]
    assert len(stores) == 2, "another store was begun beside one"


async def test_users_and_quotas_stay(admin: Admin) -> None:
    assert [user.user for user in await admin.describe_users()] == ["alice"]
    (quota,) = await admin.describe_client_quotas()
    assert "alice" in repr(quota.entity) and "1000000" in repr(quota)
