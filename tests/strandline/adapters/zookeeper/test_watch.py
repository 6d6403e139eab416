"""A watch is a hint: on any event the children are read again (CORRECTNESS E8, DESIGN "Watches")."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from strandline.adapters.zookeeper.watch import ChildrenWatch
from strandline.local.zookeeper_process import ZooKeeperProcess, four_letter_word
from strandline.ports import ConnectionLost, LinkState, NoNode
from tests.conftest import SessionFactory
from tests.waiting import eventually

START_S_MAX = 30.0


async def watch_count(server: ZooKeeperProcess) -> int:
    """As ZooKeeper itself counts them."""
    for line in (await four_letter_word(server.port, "mntr")).splitlines():
        name, _, value = line.partition("\t")
        if name == "zk_watch_count":
            return int(value)
    raise AssertionError("mntr has no zk_watch_count")


def last_has(heard: list[list[str]], children: int) -> bool:
    return bool(heard) and len(heard[-1]) == children


async def test_the_children_are_reported_now_and_after_each_change(
    open_session: SessionFactory,
) -> None:
    watcher, writer = await open_session(), await open_session()
    await writer.create("/ids")
    heard: list[list[str]] = []
    watcher.watch_children("/ids", heard.append)
    await eventually(lambda: heard == [[]])
    await writer.create("/ids/1", ephemeral=True)
    await eventually(lambda: heard == [[], ["1"]])
    await writer.close()
    await eventually(lambda: heard == [[], ["1"], []])


async def test_a_burst_of_changes_is_coalesced_and_its_end_is_seen(open_session: SessionFactory) -> None:
    """The current state counts, not each event: a thousand changes cost far fewer reads."""
    watcher, writer = await open_session(), await open_session()
    await writer.create("/ids")
    heard: list[list[str]] = []
    watcher.watch_children("/ids", heard.append)
    async with asyncio.TaskGroup() as group:
        for n in range(1_000):
            group.create_task(writer.create(f"/ids/{n}"))
    await eventually(lambda: heard and len(heard[-1]) == 1_000)
    print(f"{len(heard)} reads for 1,000 changes")
    assert len(heard) < 500


async def test_an_event_that_overtakes_its_answer_is_not_lost() -> None:
    """An event and the answer before it reach the loop on different paths.

    Taken in the wrong order, the event must still lead to another read, or the watch is silent forever.
    """
    reads: list[int] = []
    heard: list[list[str]] = []
    watch = ChildrenWatch("/ids", lambda: reads.append(1), heard.append)
    watch.arm()
    watch.arm()  # the event
    watch.take(["1"])  # the answer
    assert len(reads) == 2
    watch.take(["1", "2"])
    assert len(reads) == 2
    await eventually(lambda: heard == [["1"], ["1", "2"]])


async def test_a_read_that_was_lost_with_the_link_is_sent_again() -> None:
    reads: list[int] = []
    heard: list[list[str]] = []
    watch = ChildrenWatch("/ids", lambda: reads.append(1), heard.append)
    watch.arm()
    watch.take(ConnectionLost("/ids"))
    watch.arm()  # the link is back, and the second read on its way
    assert len(reads) == 2
    watch.end()
    watch.take(["1"])
    watch.arm()
    assert (len(reads), heard) == (2, [])


@pytest.mark.slow
async def test_zookeeper_counts_one_watch_for_any_changes(
    own_zookeeper: ZooKeeperProcess, open_session: SessionFactory
) -> None:
    """The budget is four watches a broker, counted by ZooKeeper: after events and outages too (E11)."""
    session = await open_session(zookeeper=own_zookeeper.address, zookeeper_session_timeout_ms=30_000)
    await session.create("/ids")
    heard: list[list[str]] = []
    session.watch_children("/ids", heard.append)
    for n in range(3):
        await eventually(partial(last_has, heard, n))
        assert await watch_count(own_zookeeper) == 1
        await session.create(f"/ids/{n}")
    for _ in range(2):
        await own_zookeeper.kill()
        await eventually(lambda: session.state is LinkState.SUSPENDED)
        own_zookeeper.start()
        await own_zookeeper.wait_serving(START_S_MAX)
        await eventually(lambda: session.state is LinkState.CONNECTED)
        await session.sync()
        assert await watch_count(own_zookeeper) == 1
    await session.create("/ids/last")
    await eventually(lambda: len(heard[-1]) == 4)


async def test_a_change_during_an_outage_is_reported_after_it(
    own_zookeeper: ZooKeeperProcess, open_session: SessionFactory
) -> None:
    """ZooKeeper drops a watch with its connection; what changed meanwhile is read on return (E11)."""
    session = await open_session(zookeeper=own_zookeeper.address, zookeeper_session_timeout_ms=30_000)
    owner = await open_session(zookeeper=own_zookeeper.address, zookeeper_session_timeout_ms=500)
    await session.create("/ids")
    await owner.create("/ids/1", ephemeral=True)
    heard: list[list[str]] = []
    session.watch_children("/ids", heard.append)
    await eventually(lambda: heard == [["1"]])
    await own_zookeeper.kill()
    await owner.close()  # so it does not come back, and its session expires
    own_zookeeper.start()
    await eventually(lambda: heard[-1] == [])


async def test_the_watch_ends_with_the_session(open_session: SessionFactory) -> None:
    watcher, writer = await open_session(), await open_session()
    await writer.create("/ids")
    heard: list[list[str]] = []
    watcher.watch_children("/ids", heard.append)
    await eventually(lambda: heard)
    await watcher.close()
    await writer.create("/ids/1")
    await writer.sync()
    assert heard == [[]]


async def test_a_watch_of_an_absent_path_is_reported(open_session: SessionFactory) -> None:
    """It would stay silent forever, so the loop's exception handler is called: create the path first."""
    session = await open_session()
    loop = asyncio.get_running_loop()
    reported: list[dict[str, object]] = []
    loop.set_exception_handler(lambda _loop, context: reported.append(context))
    try:
        session.watch_children("/absent", print)
        await eventually(lambda: reported)
    finally:
        loop.set_exception_handler(None)
    assert isinstance(reported[0]["exception"], NoNode)


async def test_a_listener_that_fails_harms_no_other(open_session: SessionFactory) -> None:
    """Callbacks never run inside the hand-over from kazoo's thread (CORRECTNESS E12)."""
    session = await open_session()
    await session.create("/ids")
    loop = asyncio.get_running_loop()
    reported: list[dict[str, object]] = []
    heard: list[list[str]] = []

    def fail(_children: list[str]) -> None:
        raise RuntimeError("a listener's bug")

    loop.set_exception_handler(lambda _loop, context: reported.append(context))
    try:
        session.watch_children("/ids", fail)
        session.watch_children("/ids", heard.append)
        await session.create("/ids/1")
        await eventually(lambda: heard and heard[-1] == ["1"])
        await eventually(lambda: len(reported) >= 1)
    finally:
        loop.set_exception_handler(None)
    with pytest.raises(RuntimeError, match="a listener's bug"):
        raise reported[0]["exception"]  # type: ignore[misc]
