"""The simulated ensemble and its sessions keep the promises of the port, and break what may break."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

import pytest

from strandline.config.services.zookeeper import ZooKeeperSettings
from strandline.ports import (
    BadVersion,
    Check,
    ConnectionLost,
    Create,
    Delete,
    LinkState,
    MultiFailed,
    NodeExists,
    NoNode,
    NotEmpty,
    SessionEnded,
    SetData,
)
from strandline.simulation.engine.hosts import SimulatedProcess
from strandline.simulation.engine.world import World
from strandline.simulation.engine.zookeeper.session import SimulatedSession

T = TypeVar("T")


@pytest.fixture
def world() -> Iterator[World]:
    with World(3) as world:
        yield world


def process(world: World, name: str = "p") -> SimulatedProcess:
    return world.new_process(name, world.new_machine())


async def session_of(world: World, owner: SimulatedProcess, timeout_ms: int = 3_000) -> SimulatedSession:
    settings = ZooKeeperSettings(
        zookeeper=f"{world.zookeeper.address}/root", zookeeper_session_timeout_ms=timeout_ms
    )
    begun = owner.host.connect_coordination(settings, lambda seconds: None)
    session = await owner.run(begun)
    assert isinstance(session, SimulatedSession)
    return session


def run(world: World, work: Callable[[SimulatedSession], Awaitable[T]], timeout_ms: int = 3_000) -> T:
    """Run within a process that has a session."""
    owner = process(world)

    async def within() -> T:
        return await work(await session_of(world, owner, timeout_ms))

    async def outside() -> T:
        return await owner.run(within())

    return world.run(outside())


def test_znodes_are_made_read_written_and_deleted(world: World) -> None:
    async def work(session: SimulatedSession) -> None:
        with pytest.raises(NoNode):
            await session.create("/a/b")
        await session.ensure_path("/a/b")
        await session.ensure_path("/a/b")
        with pytest.raises(NodeExists):
            await session.create("/a")
        assert await session.set("/a/b", b"1", version=0) == 1
        with pytest.raises(BadVersion):
            await session.set("/a/b", b"2", version=0)
        found = await session.get("/a/b")
        assert (found.data, found.version, found.children) == (b"1", 1, 0)
        assert found.mzxid > found.czxid
        with pytest.raises(NotEmpty):
            await session.delete("/a")
        made = await session.create("/a/q-", sequential=True)
        again = await session.create("/a/q-", sequential=True)
        assert made < again
        await session.delete("/a/b", version=1)
        assert await session.exists("/a/b") is None
        assert sorted(await session.children("/a")) == [made[3:], again[3:]]

    run(world, work)


def test_a_multi_is_done_whole_or_not_at_all(world: World) -> None:
    async def work(session: SimulatedSession) -> None:
        await session.create("/a", b"0")
        with pytest.raises(MultiFailed) as failed:
            await session.multi(
                [Create("/a/x"), SetData("/a", b"1"), Delete("/a/x"), Check("/a", 1), Create("/no/x")]
            )
        assert failed.value.index == 4
        assert isinstance(failed.value.cause, NoNode)
        assert await session.children("/a") == []
        assert (await session.get("/a")).data == b"0"
        assert await session.multi([Create("/a/x"), SetData("/a", b"1"), Check("/a", 1)]) == ["/a/x", 1, None]

    run(world, work)


def test_ephemerals_go_with_their_session(world: World) -> None:
    """By the end of the session, by the silence of its owner, and only then."""
    other = process(world, "other")

    async def work(session: SimulatedSession) -> None:
        await session.ensure_path("/ids")
        for end in ("close", "kill"):
            theirs = await session_of(world, other if end == "kill" else process(world, "leaving"))
            await theirs.create(f"/ids/{end}", ephemeral=True)
            await session.sync()
            assert await session.children("/ids") == [end]
            if end == "close":
                await theirs.close()
                await session.sync()
            else:
                other.kill()
                await asyncio.sleep(2)
                assert await session.children("/ids") == [end]
                await asyncio.sleep(3)
            assert await session.children("/ids") == []

    run(world, work)


def test_a_watch_reports_what_there_is_after_each_change(world: World) -> None:
    async def work(session: SimulatedSession) -> None:
        seen: list[list[str]] = []
        await session.create("/w")
        session.watch_children("/w", lambda names: seen.append(sorted(names)))
        await asyncio.sleep(0.1)
        for name in "abc":
            await session.create(f"/w/{name}")
            await asyncio.sleep(0.1)
        world.zookeeper.lose_leader()
        await asyncio.sleep(0.1)
        assert session.state is LinkState.SUSPENDED
        await session.delete("/w/a")
        await asyncio.sleep(0.1)
        assert seen[0] == []
        assert ["a", "b", "c"] in seen
        assert seen[-1] == ["b", "c"]

    run(world, work)


def test_a_lost_leader_leaves_outcomes_unknown(world: World) -> None:
    """Some of what was under way was done, some not; the sessions live on."""
    done = set()

    async def work(session: SimulatedSession) -> None:
        states: list[LinkState] = []
        session.on_state(states.append)
        for number in range(20):
            await session.create(f"/{number}")
            name = f"/{number}/x"
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(asked(session, name))
                await asyncio.sleep(0.001)
                world.zookeeper.lose_leader()
                await asyncio.sleep(0.1)
            done.add(await session.exists(name) is not None)
        assert set(states) == {LinkState.CONNECTED, LinkState.SUSPENDED}

    async def asked(session: SimulatedSession, name: str) -> None:
        with pytest.raises(ConnectionLost):
            await session.create(name)
            raise ConnectionLost("it was quick")

    run(world, work)
    assert done == {True, False}


def test_a_paused_owner_learns_afterwards_that_its_session_has_ended(world: World) -> None:
    paused = process(world, "paused")

    async def work(session: SimulatedSession) -> None:
        theirs = await session_of(world, paused)
        await theirs.create("/theirs", ephemeral=True)
        ended = paused.run(theirs.wait_ended())
        paused.pause()
        await asyncio.sleep(5)
        assert await session.exists("/theirs") is None
        assert theirs.state is LinkState.CONNECTED
        paused.resume()
        await ended
        with pytest.raises(SessionEnded):
            await theirs.get("/")

    run(world, work)


def test_a_session_ends_whose_owner_is_heard_and_hears_nothing(world: World) -> None:
    """Its owner knocks, and names it no more until a server answers (CORRECTNESS E20)."""
    owner = process(world, "deaf")
    hosts = [server.process.host for server in world.zookeeper.servers]

    async def within() -> None:
        session = await session_of(world, owner)
        for host in hosts:
            world.network.lose_answers(host, owner.machine.host)
        await asyncio.sleep(5.0)
        assert session.session_id in world.zookeeper.sessions, "named once in vain"
        await asyncio.sleep(3.0)
        assert session.session_id not in world.zookeeper.sessions
        assert session.state is LinkState.SUSPENDED
        for host in hosts:
            world.network.find_answers(host, owner.machine.host)
        await session.wait_ended()

    async def outside() -> None:
        await owner.run(within())

    world.run(outside())


def test_a_server_alone_answers_old_reads_until_it_notices(world: World) -> None:
    async def work(session: SimulatedSession) -> None:
        await session.create("/a", b"old")
        await asyncio.sleep(0.1)
        writers = [await session_of(world, process(world, f"w{number}")) for number in range(12)]
        alone = world.zookeeper.servers[0]
        world.zookeeper.isolate(0)
        readers = [each for each in writers if each.session_id in alone.sessions]
        writer = next(each for each in writers if each.session_id not in alone.sessions)
        assert readers
        await writer.set("/a", b"new")
        await asyncio.sleep(0.1)
        assert (await readers[0].get("/a")).data == b"old"
        with pytest.raises(ConnectionLost):
            await readers[0].sync()
        await readers[0].sync()
        assert (await readers[0].get("/a")).data == b"new"
        world.zookeeper.rejoin(0)
        await asyncio.sleep(5)
        assert all(each.state is LinkState.CONNECTED for each in writers)

    run(world, work)


def test_a_write_to_a_lone_server_that_soon_rejoins_ends_with_a_lost_connection(world: World) -> None:
    async def work(session: SimulatedSession) -> None:
        await session.ensure_path("/a")
        [number] = [
            number
            for number, server in enumerate(world.zookeeper.servers)
            if session.session_id in server.sessions
        ]
        world.zookeeper.isolate(number)
        async with asyncio.TaskGroup() as tasks:
            writing = tasks.create_task(_outcome(session.set("/a", b"new")))
            await asyncio.sleep(0.1)
            world.zookeeper.rejoin(number)
        assert isinstance(writing.result(), ConnectionLost)
        assert await session.set("/a", b"newer") > 0

    run(world, work)


def test_a_session_that_expired_while_its_server_was_alone_ends_when_the_server_rejoins(world: World) -> None:
    async def work(session: SimulatedSession) -> None:
        [number] = [
            number
            for number, server in enumerate(world.zookeeper.servers)
            if session.session_id in server.sessions
        ]
        world.zookeeper.isolate(number)
        world.zookeeper.expire(session.session_id)
        await asyncio.sleep(0.1)
        world.zookeeper.rejoin(number)
        async with asyncio.timeout(10.0):
            await session.wait_ended()

    run(world, work)


async def _outcome(work: Awaitable[object]) -> object:
    """What it returns or raises, within a second."""
    try:
        async with asyncio.timeout(1.0):
            return await work
    except (ConnectionLost, TimeoutError) as error:
        return error
