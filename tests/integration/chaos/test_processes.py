"""A world of processes: what is done to a member is done, and is over when it is taken back."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from strandline import Admin, LocalCluster, Producer
from strandline_lab.chaos import settling
from strandline_lab.chaos.core.faults import Member, Role
from strandline_lab.chaos.processes import ProcessWorld, local_world
from strandline_lab.chaos.world import World, WorldFailed
from tests.forking.client import spawn
from tests.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

BROKER = Member(Role.BROKER, 1)
CONTROLLER = Member(Role.CONTROLLER, 1)
ZOOKEEPER = Member(Role.ZOOKEEPER, 1)


@pytest.fixture(scope="module")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LocalCluster]:
    cluster = LocalCluster(2, directory=tmp_path_factory.mktemp("chaos") / "cluster", spawn=spawn)
    await cluster.start()
    yield cluster
    await cluster.stop(clean=False)


@pytest.fixture
async def world(cluster: LocalCluster) -> AsyncIterator[World]:
    """One whose members all serve, before and after."""
    world = ProcessWorld(cluster)
    # A registration of a broker's earlier life may still be there: the processes themselves have to serve.
    await cluster.wait_serving()
    assert await settling.until_settled(world) == ""
    yield world
    for member in world.members:
        await world.resume(member)
        if not await world.alive(member):
            await world.start(member)


@pytest.mark.parametrize("member", [BROKER, CONTROLLER, ZOOKEEPER], ids=str)
async def test_a_killed_or_terminated_member_is_dead_until_it_is_started(
    world: World, member: Member
) -> None:
    for end in (world.kill, world.terminate):
        await end(member)
        assert not await world.alive(member)
        await end(member)  # once more is no error
        await world.start(member)
        assert await world.alive(member)
        await world.start(member)
    assert await settling.until_settled(world) == ""


@pytest.mark.parametrize("member", [BROKER, CONTROLLER, ZOOKEEPER], ids=str)
async def test_a_paused_member_is_alive_and_stands_still(
    world: World, cluster: LocalCluster, member: Member
) -> None:
    (pid,) = (each.pid for each in cluster.members() if (each.kind, each.id) == (member.role, member.number))
    await world.pause(member)
    assert await world.alive(member)
    await eventually(lambda: state_of(pid) == "T", what=f"{member} stands still")
    await world.resume(member)
    await eventually(lambda: state_of(pid) != "T", what=f"{member} continues")


def state_of(pid: int | None) -> str:
    stat = Path(f"/proc/{pid}/stat").read_text()
    return stat[stat.rindex(")") + 2]


async def test_a_broker_that_is_paused_can_be_killed(world: World) -> None:
    await world.pause(BROKER)
    await world.kill(BROKER)
    assert not await world.alive(BROKER)


async def test_a_replica_on_a_full_disk_fails_and_recovers_by_a_restart_with_room(
    world: World, cluster: LocalCluster
) -> None:
    """CORRECTNESS E14: EFBIG stands for ENOSPC. The broker itself lives on."""
    async with Admin(world.bootstrap) as admin, Producer(world.bootstrap) as producer:
        await admin.create_topic("full", 1, 2)
        _ = await producer.send_and_wait("full", bytes(256 * 1024))
        await world.fill_disk(BROKER)
        try:
            async with asyncio.timeout(30):
                while b"a replica failed" not in await world.said(BROKER):
                    _ = await producer.send_and_wait("full", b"no room for this one")
        finally:
            await world.free_disk(BROKER)
        assert await world.alive(BROKER)
        await world.terminate(BROKER)
        await world.start(BROKER)
        assert await settling.until_settled(world) == ""
        (topic,) = await admin.describe_topics(["full"])
        assert sorted(topic.partitions[0].isr) == [1, 2]


async def test_a_brokers_logs_on_disk_are_found(world: World) -> None:
    async with Admin(world.bootstrap) as admin:
        await admin.create_topic("on-disk", 1, 2)
    folder = await world.log_of(BROKER)
    await eventually(lambda: list(folder.glob("on-disk-0*")), what="the partition's folder")


async def test_a_disk_is_kept_while_the_cluster_counts_on_its_broker(world: World) -> None:
    """It is alive; then it has a session; then it is the only one in sync of a partition."""
    assert not await world.lose_disk(BROKER)
    async with Admin(world.bootstrap) as admin:
        await admin.create_topic("alone", 2, 1)
        await world.kill(BROKER)
        assert not await world.lose_disk(BROKER)

        async def gone() -> bool:
            brokers = (await admin.describe_cluster()).brokers
            return not any(each.alive for each in brokers if each.endpoint.id == BROKER.number)

        await eventually(gone, deadline_s=30, what="its session has ended")
        assert not await world.lose_disk(BROKER)
        assert list((await world.log_of(BROKER)).glob("alone-*"))
        await world.start(BROKER)
        assert await settling.until_settled(world) == ""
        await admin.delete_topics(["alone"])


async def test_a_network_is_not_cut_here(world: World) -> None:
    with pytest.raises(WorldFailed):
        await world.disconnect(BROKER)
    with pytest.raises(WorldFailed):
        await world.cut(BROKER, Member(Role.BROKER, 2))


async def test_nothing_is_left_of_a_world_that_was_cancelled(tmp_path: Path) -> None:
    """One of its members hangs."""
    pids: list[int] = []
    ready = asyncio.Event()

    async def live() -> None:
        async with local_world(1, 1, tmp_path / "cluster") as world:
            cluster = LocalCluster.open(tmp_path / "cluster")
            pids.extend(each.pid for each in cluster.members() if each.pid is not None)
            await world.pause(BROKER)
            ready.set()
            await asyncio.Event().wait()

    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(live())
        await ready.wait()
        task.cancel()
    assert len(pids) == 3
    assert not [pid for pid in pids if os.path.exists(f"/proc/{pid}")]


async def test_a_world_that_cannot_be_made_says_why(tmp_path: Path) -> None:
    (tmp_path / "cluster").write_text("in the way")
    with pytest.raises(WorldFailed, match="is not a folder"):
        async with local_world(1, 1, tmp_path / "cluster"):
            pass


async def test_unhealthy_members_are_named(world: World) -> None:
    async with Admin(world.bootstrap) as admin:
        await world.kill(BROKER)
        assert await settling.settled(world, admin) == "broker 1 is dead"
        await world.start(BROKER)
        assert await settling.until_settled(world) == ""
