"""A stream application lives longer than the topic that it reads, or than the records in it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from strandline import TopicPartition
from strandline.streams import STRING, KeyValueStore, ProcessingFailed, Record, Store, Streams, Topology
from strandline.testing import MemoryCluster

WAIT_S_MAX = 30
APP = "app"


@pytest.fixture
async def cluster() -> AsyncIterator[MemoryCluster]:
    async with MemoryCluster(brokers=2, broker_settings={"group_initial_rebalance_delay_ms": 0}) as cluster:
        await cluster.create_topic("t", config={"unclean.leader.election.enable": "true"})
        yield cluster


def counting() -> Topology:
    topology = Topology()
    topology.source("t", key=STRING, value=STRING).count("counts")
    return topology


def member(cluster: MemoryCluster, topology: Topology | None = None, **settings: Any) -> Streams:
    return cluster.streams(topology or counting(), application_id=APP, commit_interval_ms=20, **settings)


def counts(app: Streams) -> dict[str, int]:
    return dict(app.store("counts").range())


async def write(cluster: MemoryCluster, key: str, count: int) -> None:
    async with cluster.producer() as producer:
        await (await producer.send_many("t", [b""] * count, keys=[key.encode()] * count))


async def counted(cluster: MemoryCluster, app: Streams, wanted: dict[str, int]) -> None:
    await cluster.run_until(lambda: counts(app) == wanted, what=f"{wanted} is counted")


async def made_anew(cluster: MemoryCluster) -> tuple[str, str]:
    """The topic's id before and now."""
    async with cluster.admin() as admin:
        (before,) = await admin.describe_topics(["t"])
        await admin.delete_topics(["t"])
        await cluster.create_topic("t")
        (now,) = await admin.describe_topics(["t"])
    return before.topic_id, now.topic_id


async def failure(app: Streams) -> str:
    async with asyncio.timeout(WAIT_S_MAX):
        with pytest.raises(ProcessingFailed) as caught:
            await app.wait()
    return caught.value.message


@pytest.mark.parametrize("offset_reset", ["earliest", "latest", "none"])
@pytest.mark.parametrize("records", [0, 10, 50])
async def test_an_application_ends_whose_topic_was_made_anew_while_it_was_stopped(
    cluster: MemoryCluster, offset_reset: str, records: int
) -> None:
    """CORRECTNESS S10: with no record, and with fewer and more of them than it has read; however often it is
    started."""
    await write(cluster, "old", 20)
    async with member(cluster) as app:
        await counted(cluster, app, {"old": 20})
    before, now = await made_anew(cluster)
    if records:
        await write(cluster, "new", records)
    for _ in range(2):
        app = member(cluster, offset_reset=offset_reset)
        await app.start()
        said = await failure(app)
        await app.stop()
        assert f"task t-0 has read {TopicPartition('t', 0)} up to offset 20" in said
        assert before in said and now in said and "was made anew" in said
        assert "another application_id, or delete its changelogs" in said


async def test_an_application_ends_whose_topic_is_made_anew_under_it(cluster: MemoryCluster) -> None:
    """CORRECTNESS S10: it counts nothing of the new topic, and commits nothing for it."""
    await write(cluster, "old", 20)
    app = member(cluster)
    await app.start()
    await counted(cluster, app, {"old": 20})
    before, now = await made_anew(cluster)
    await write(cluster, "new", 50)
    said = await failure(app)
    await app.stop()
    assert before in said and now in said
    async with cluster.admin() as admin:
        assert await admin.group_offsets(APP) == {}


async def test_a_task_without_a_state_begins_anew_at_its_next_start(cluster: MemoryCluster) -> None:
    """CORRECTNESS S10: what it says to do helps."""
    seen: list[str] = []

    def note(record: Record[str, str]) -> Record[str, str]:
        seen.append(record.key or "")
        return record

    def passing() -> Topology:
        topology = Topology()
        topology.source("t", key=STRING, value=STRING).map(note).to("out", key=STRING, value=STRING)
        return topology

    await cluster.create_topic("out")

    await write(cluster, "old", 20)
    app = member(cluster, passing())
    await app.start()
    await cluster.run_until(lambda: len(seen) == 20)
    await made_anew(cluster)
    await write(cluster, "new", 50)
    assert "start the application again" in await failure(app)
    await app.stop()
    async with member(cluster, passing()):
        await cluster.run_until(lambda: len(seen) >= 70)
    assert seen == ["old"] * 20 + ["new"] * 50


async def test_an_application_says_that_a_log_was_cut(cluster: MemoryCluster) -> None:
    """CORRECTNESS S10: in an election with a loss, after which the log has grown beyond what was read."""
    await write(cluster, "kept", 20)
    leader, (follower,) = cluster.leader("t"), cluster.followers("t")
    async with member(cluster) as app:
        await counted(cluster, app, {"kept": 20})
        cluster.kill(follower)
        await cluster.run_until(lambda: cluster.in_sync("t") == [leader])
        await write(cluster, "lost", 30)
        await counted(cluster, app, {"kept": 20, "lost": 30})
    cluster.kill(leader)
    cluster.start(follower)
    await cluster.run_until(lambda: cluster.leader("t") == follower)
    await write(cluster, "after", 80)
    cluster.start(leader)
    app = member(cluster)
    await app.start()
    said = await failure(app)
    await app.stop()
    assert "up to offset 50: the log has lost the records from 20 on, in an election with a loss" in said


def tagging(tag: str) -> Topology:
    """Stores by which member each key was seen."""
    tags = Store("tags", key=STRING, value=STRING)

    def put(record: Record[str, str], store: KeyValueStore[str, str]) -> None:
        store.put(record.key or "", tag)

    topology = Topology()
    topology.source("t", key=STRING, value=STRING).process(put, store=tags)
    return topology


async def tagged(cluster: MemoryCluster, app: Streams, wanted: dict[str, str]) -> None:
    await cluster.run_until(lambda: dict(app.store("tags").range()) == wanted, what=f"{wanted} is stored")


async def test_a_store_of_a_changelog_that_lost_its_end_and_grew_again_is_restored_anew(
    cluster: MemoryCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """CORRECTNESS S11: another member has processed again what was lost."""
    unclean = {"cleanup.policy": "compact", "unclean.leader.election.enable": "true"}
    await cluster.create_topic("app-t-changelog", config=unclean)
    keys = [f"{number:02d}" for number in range(80)]

    async def write_each(keys: list[str]) -> None:
        async with cluster.producer() as producer:
            await (await producer.send_many("t", [b""] * len(keys), keys=[key.encode() for key in keys]))

    await write_each(keys[:20])
    wanted = dict.fromkeys(keys[:20], "a")
    async with member(cluster, tagging("a"), state_dir="/a") as app:
        await tagged(cluster, app, wanted)
    await write_each(keys[20:50])
    leader, (follower,) = cluster.leader("app-t-changelog"), cluster.followers("app-t-changelog")
    cluster.kill(follower)
    await cluster.run_until(lambda: cluster.in_sync("app-t-changelog") == [leader])
    async with member(cluster, tagging("a"), state_dir="/a") as app:
        await tagged(cluster, app, dict.fromkeys(keys[:50], "a"))
    cluster.kill(leader)
    cluster.start(follower)
    await cluster.run_until(lambda: cluster.leader("app-t-changelog") == follower)
    cluster.start(leader)
    await write_each(keys[50:])
    wanted |= dict.fromkeys(keys[20:], "b")
    async with member(cluster, tagging("b"), state_dir="/b") as app:
        await tagged(cluster, app, wanted)
    async with member(cluster, tagging("a"), state_dir="/a") as app:
        await cluster.run_until(lambda: [each.role for each in app.tasks()] == ["running"])
        assert dict(app.store("tags").range()) == wanted
    assert "in an election with a loss: it is restored from the start" in caplog.text
