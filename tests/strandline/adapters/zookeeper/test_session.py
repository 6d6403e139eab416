"""The life of one session: from waiting for ZooKeeper to its end for good (CORRECTNESS E8-E12)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence

import pytest
import structlog

from strandline.adapters.zookeeper.connect import connect, end_session
from strandline.adapters.zookeeper.connection.addresses import resolved
from strandline.adapters.zookeeper.session import ZooKeeperSession
from strandline.config.services.zookeeper import ZooKeeperSettings
from strandline.local.zookeeper_process import ZooKeeperProcess, four_letter_word
from strandline.ports import ConnectionLost, Create, LinkState, SessionEnded, SetData
from tests.conftest import SessionFactory
from tests.proxy import Proxy
from tests.waiting import DEADLINE_S, eventually


async def reached(session: ZooKeeperSession, state: LinkState) -> None:
    await eventually(lambda: session.state is state, what=f"the session is {state.value}")


def states_of(session: ZooKeeperSession) -> list[LinkState]:
    seen: list[LinkState] = []
    session.on_state(seen.append)
    return seen


@pytest.mark.parametrize(("asked_ms", "granted_s"), [(500, 0.5), (4_321, 4.321), (120_000, 120.0)])
async def test_a_session_begins_connected_with_the_timeout_granted(
    open_session: SessionFactory, asked_ms: int, granted_s: float
) -> None:
    """The local server grants all that the settings allow; the lease is reckoned from what it said (E1)."""
    session = await open_session(zookeeper_session_timeout_ms=asked_ms)
    assert session.state is LinkState.CONNECTED
    assert session.session_timeout_s == granted_s
    assert session.session_id != 0
    assert len(session.session_password) == 16


async def test_close_ends_the_session_at_once(open_session: SessionFactory) -> None:
    """Ephemerals vanish with close and not with the timeout, so a clean shutdown is seen at once."""
    watcher, leaver = await open_session(), await open_session(zookeeper_session_timeout_ms=60_000)
    await leaver.create("/me", ephemeral=True)
    states = states_of(leaver)
    await leaver.close()
    assert leaver.state is LinkState.ENDED
    assert await watcher.exists("/me") is None
    await leaver.wait_ended()
    await leaver.close()
    assert states == [LinkState.ENDED]


async def test_nothing_can_be_asked_of_a_session_that_ended(open_session: SessionFactory) -> None:
    session = await open_session()
    await session.close()
    operations: list[Callable[[], Awaitable[object]]] = [
        lambda: session.get("/"),
        lambda: session.exists("/"),
        lambda: session.children("/"),
        lambda: session.create("/x"),
        lambda: session.ensure_path("/x"),
        lambda: session.set("/", b""),
        lambda: session.delete("/x"),
        lambda: session.multi([Create("/x")]),
        session.sync,
    ]
    for operation in operations:
        with pytest.raises(SessionEnded):
            await operation()
    with pytest.raises(SessionEnded):
        session.watch_children("/", print)


async def test_requests_are_counted_with_their_operations(open_session: SessionFactory) -> None:
    session = await open_session()
    before = dict(session.requests)
    await session.create("/a")
    await session.multi([Create("/b"), Create("/c"), SetData("/a", b"x")])
    await session.multi([])
    await session.get("/a")
    await session.get("/b")
    await session.exists("/d")
    await session.children("/")
    seen: list[list[str]] = []
    session.watch_children("/", seen.append)
    await eventually(lambda: seen)
    await session.set("/a", b"")
    await session.delete("/b")
    await session.sync()
    await eventually(lambda: len(seen) > 1)  # the watch has read again after the deletion
    counted = {
        operation: (
            requests - before.get(operation, (0, 0))[0],
            operations - before.get(operation, (0, 0))[1],
        )
        for operation, (requests, operations) in session.requests.items()
    }
    assert {operation: counts for operation, counts in counted.items() if counts != (0, 0)} == {
        "create": (1, 1),
        "multi": (1, 3),
        "get": (2, 2),
        "exists": (1, 1),
        "children": (3, 3),
        "set": (1, 1),
        "delete": (1, 1),
        "sync": (1, 1),
    }


async def test_connect_waits_for_zookeeper_and_logs_it(
    own_zookeeper: ZooKeeperProcess, open_session: SessionFactory
) -> None:
    """ZooKeeper down at start is no failure: brokers and ZooKeeper are started in any order (DESIGN, 3)."""
    await own_zookeeper.kill()
    waited: list[float] = []

    async with asyncio.TaskGroup() as group:
        connecting = group.create_task(
            connect(ZooKeeperSettings(zookeeper=own_zookeeper.address), on_waiting=waited.append)
        )
        await eventually(lambda: len(waited) >= 2)
        own_zookeeper.start()
    session = connecting.result()
    assert await session.exists("/") is not None
    assert 0.9 < waited[0] < waited[1] < 4
    await session.close()


@pytest.mark.slow
async def test_connect_can_be_cancelled_while_it_waits(own_zookeeper: ZooKeeperProcess) -> None:
    await own_zookeeper.kill()
    waited: list[float] = []
    async with asyncio.TaskGroup() as group:
        connecting = group.create_task(
            connect(ZooKeeperSettings(zookeeper=own_zookeeper.address), on_waiting=waited.append)
        )
        await eventually(lambda: waited)
        connecting.cancel()
    assert connecting.cancelled()


async def test_a_short_outage_suspends_and_keeps_the_session(
    own_zookeeper: ZooKeeperProcess, open_session: SessionFactory
) -> None:
    """Back within the timeout it is the same session with its ephemerals (CORRECTNESS E11)."""
    session = await open_session(zookeeper=own_zookeeper.address, zookeeper_session_timeout_ms=30_000)
    await session.create("/me", ephemeral=True)
    states, identity = states_of(session), session.session_id
    await own_zookeeper.kill()
    await reached(session, LinkState.SUSPENDED)
    own_zookeeper.start()
    await reached(session, LinkState.CONNECTED)
    assert session.session_id == identity
    assert (await session.get("/me")).ephemeral_owner == identity
    assert states == [LinkState.SUSPENDED, LinkState.CONNECTED]


async def test_a_resolver_that_does_not_answer_delays_no_reconnect(
    own_zookeeper: ZooKeeperProcess,
) -> None:
    """A resolver that was asked without a network is silent for seconds after the network is back. The last
    addresses are used, and the session lives on (CORRECTNESS E11)."""
    answering, asked = threading.Event(), threading.Event()
    answering.set()

    def resolve(name: str, port: int) -> Sequence[str]:
        asked.set()
        answering.wait()
        return resolved(name, port)

    settings = ZooKeeperSettings(
        zookeeper=own_zookeeper.address.replace("127.0.0.1", "localhost"), zookeeper_session_timeout_ms=60_000
    )
    session = ZooKeeperSession(settings, resolve=resolve)
    session.begin()
    try:
        await reached(session, LinkState.CONNECTED)
        identity = session.session_id
        answering.clear()
        asked.clear()
        await own_zookeeper.kill()
        await reached(session, LinkState.SUSPENDED)
        await eventually(asked.is_set)
        own_zookeeper.start()
        await reached(session, LinkState.CONNECTED)
        assert session.session_id == identity
    finally:
        answering.set()
        await session.close()


@pytest.mark.slow
async def test_the_outcome_of_an_operation_under_way_is_unknown_when_the_link_breaks(
    own_zookeeper: ZooKeeperProcess, open_session: SessionFactory
) -> None:
    """Neither success nor failure may be assumed of it (CORRECTNESS E9)."""
    session = await open_session(zookeeper=own_zookeeper.address, zookeeper_session_timeout_ms=30_000)
    await session.create("/x")
    own_zookeeper.pause()
    async with asyncio.TaskGroup() as group:
        writing = group.create_task(outcome(session.set("/x", b"1")))
        await asyncio.sleep(0)
        await own_zookeeper.kill()
    assert isinstance(writing.result(), ConnectionLost)


@pytest.mark.slow
async def test_operations_that_wait_for_a_connection_never_block_the_loop(
    own_zookeeper: ZooKeeperProcess, open_session: SessionFactory
) -> None:
    """While ZooKeeper is away thousands of operations may queue; they are sent once it is back.

    On kazoo's own socket pair the event loop stood still after a few hundred (DESIGN, 3).
    """
    session = await open_session(zookeeper=own_zookeeper.address, zookeeper_session_timeout_ms=30_000)
    await session.create("/x")
    await own_zookeeper.kill()
    await reached(session, LinkState.SUSPENDED)
    async with asyncio.TaskGroup() as group:
        writes = [group.create_task(session.set("/x", b"")) for _ in range(5_000)]
        own_zookeeper.start()
    assert [write.result() for write in writes] == list(range(1, 5_001))


@pytest.mark.slow
async def test_a_server_that_hangs_is_noticed_though_requests_go_out(
    own_zookeeper: ZooKeeperProcess, open_session: SessionFactory
) -> None:
    """kazoo takes its own requests for a heartbeat; silence is measured by what is heard (E1)."""
    session = await open_session(zookeeper=own_zookeeper.address, zookeeper_session_timeout_ms=1_000)
    own_zookeeper.pause()
    async with asyncio.TaskGroup() as group:

        def still_asking() -> bool:
            group.create_task(outcome(session.exists("/")))
            return session.state is LinkState.SUSPENDED

        await eventually(still_asking)
        own_zookeeper.resume()


async def test_requests_that_wait_while_the_session_lives_are_logged_and_measured(
    own_zookeeper: ZooKeeperProcess, open_session: SessionFactory
) -> None:
    """A server that waits for its disk still keeps sessions alive; here the session is a long one."""
    session = await open_session(zookeeper=own_zookeeper.address, zookeeper_session_timeout_ms=60_000)
    assert session.unanswered_s == 0
    own_zookeeper.pause()

    async def hangs() -> bool:
        """A busy machine needs a moment to stop all threads of a process."""
        try:
            async with asyncio.timeout(0.2):
                await session.exists("/")
        except TimeoutError:
            return True
        return False

    try:
        await eventually(hangs, what="the server stands still")
        with structlog.testing.capture_logs() as logs:
            async with asyncio.TaskGroup() as group:
                asked = group.create_task(session.get("/"))
                group.create_task(session.exists("/other"))
                await eventually(lambda: bool(logs), deadline_s=10, what="it is logged")
                assert session.state is LinkState.CONNECTED
                assert session.unanswered_s >= 3
                assert not asked.done()
                own_zookeeper.resume()
    finally:
        own_zookeeper.resume()
    (line,) = logs
    assert (line["event"], line["log_level"]) == ("ZooKeeper does not answer", "warning")
    assert (line["seconds"], line["request"], line["waiting"]) == (3, "/", 2)
    assert session.unanswered_s == 0


async def test_a_session_ended_by_the_server_is_over_for_good(
    open_session: SessionFactory, zookeeper: str
) -> None:
    """Its ephemerals are gone, later operations fail, and the object never connects again (E10, E12)."""
    session, other = await open_session(), await open_session()
    await session.create("/me", ephemeral=True)
    states = states_of(session)
    settings = ZooKeeperSettings(zookeeper=zookeeper)
    assert await end_session(settings, session.session_id, session.session_password)
    async with asyncio.timeout(10):
        await session.wait_ended()
    assert session.state is LinkState.ENDED
    assert await other.exists("/me") is None
    with pytest.raises(SessionEnded):
        await session.create("/me", ephemeral=True)
    await session.close()
    assert states[-1] is LinkState.ENDED
    assert states.count(LinkState.ENDED) == 1


async def test_ending_an_ended_session_is_reported(open_session: SessionFactory, zookeeper: str) -> None:
    """A broker that restarts ends its earlier life's session, and learns if nothing was left of it (E10)."""
    session = await open_session()
    identity = session.session_id, session.session_password
    await session.close()
    assert not await end_session(ZooKeeperSettings(zookeeper=zookeeper), *identity)


async def test_requests_queued_for_a_dead_session_are_never_made_in_a_new_one(
    own_zookeeper: ZooKeeperProcess, open_session: SessionFactory
) -> None:
    """kazoo continues in a new session after an expiry and would send queued requests in its name (E10,
    E11)."""
    other = await open_session(zookeeper=own_zookeeper.address)
    async with Proxy(own_zookeeper.port) as link:
        session = await open_session(zookeeper=link.address)
        identity = session.session_id, session.session_password
        link.cut()
        await reached(session, LinkState.SUSPENDED)
        async with asyncio.TaskGroup() as group:
            queued = [group.create_task(outcome(session.create(f"/ghost-{n}"))) for n in range(1_000)]
            assert await end_session(ZooKeeperSettings(zookeeper=own_zookeeper.address), *identity)
            link.mend()
        assert {type(task.result()) for task in queued} == {SessionEnded}
        await session.wait_ended()
        await session.close()
    assert await other.children("/") == ["zookeeper"]
    assert "zk_global_sessions\t1\n" in await four_letter_word(own_zookeeper.port, "mntr")


async def test_a_session_that_was_replaced_at_a_reconnect_is_over(
    own_zookeeper: ZooKeeperProcess, open_session: SessionFactory
) -> None:
    """What stands between grants another session than the one that was asked for: its ephemerals are not
    this process's, and no queued request may be made in it (CORRECTNESS E1, E10, E11)."""
    other = await open_session(zookeeper=own_zookeeper.address)
    async with Proxy(own_zookeeper.port) as link:
        session = await open_session(zookeeper=link.address)
        await session.create("/me", ephemeral=True)
        identity, states = session.session_id, states_of(session)
        link.cut()
        await reached(session, LinkState.SUSPENDED)
        link.change_first = forgets_the_session
        async with asyncio.TaskGroup() as group:
            queued = group.create_task(outcome(session.create("/ghost")))
            await asyncio.sleep(0)
            link.mend()
        async with asyncio.timeout(10):
            await session.wait_ended()
        assert isinstance(queued.result(), SessionEnded)
        assert session.session_id == identity
        assert states == [LinkState.SUSPENDED, LinkState.ENDED]
    assert not await other.exists("/ghost")


@pytest.mark.slow
async def test_a_session_ends_though_its_requests_arrive_and_their_answers_are_lost(
    own_zookeeper: ZooKeeperProcess, open_session: SessionFactory
) -> None:
    """Its owner cannot do anything, and its ephemerals keep others from that. It is not named in attempts
    to reconnect that no server answers, and so it ends (CORRECTNESS E20)."""
    other = await open_session(zookeeper=own_zookeeper.address)
    async with Proxy(own_zookeeper.port) as link:
        session = await open_session(zookeeper=link.address, zookeeper_session_timeout_ms=1_500)
        await session.create("/me", ephemeral=True)
        link.swallows_answers = True

        async def is_gone() -> bool:
            return await other.exists("/me") is None

        await eventually(is_gone, deadline_s=8, what="the session of the deaf client has ended")
        assert session.state is LinkState.SUSPENDED
        link.swallows_answers = False
        async with asyncio.timeout(10):
            await session.wait_ended()


@pytest.mark.slow
async def test_a_session_lives_on_if_answers_were_lost_for_a_moment(
    own_zookeeper: ZooKeeperProcess, open_session: SessionFactory
) -> None:
    async with Proxy(own_zookeeper.port) as link:
        session = await open_session(zookeeper=link.address, zookeeper_session_timeout_ms=6_000)
        identity, states = session.session_id, states_of(session)
        link.swallows_answers = True
        await reached(session, LinkState.SUSPENDED)
        link.swallows_answers = False
        await reached(session, LinkState.CONNECTED)
        assert await session.exists("/")
        assert (session.session_id, states) == (identity, [LinkState.SUSPENDED, LinkState.CONNECTED])


def forgets_the_session(first: bytes) -> bytes:
    """The request that begins a connection, with 0 for the session, which begins another one: it has its own
    length, the protocol's version, the last transaction and the timeout before it, the password after it."""
    return first[:20] + bytes(8) + first[28:]


async def test_operations_around_an_expiry_all_come_to_an_end(
    open_session: SessionFactory, zookeeper: str
) -> None:
    """At any moment of an operation, it succeeds, or its outcome is unknown, or the session is over."""
    settings = ZooKeeperSettings(zookeeper=zookeeper)
    for _ in range(20):
        session = await open_session()
        results: list[object] = []

        async def keep_asking(session: ZooKeeperSession = session, results: list[object] = results) -> None:
            while not results or not isinstance(results[-1], SessionEnded):
                results.append(await outcome(session.exists("/")))

        async with asyncio.timeout(10), asyncio.TaskGroup() as group:
            for _ in range(10):
                group.create_task(keep_asking())
            await end_session(settings, session.session_id, session.session_password)
        assert session.state is LinkState.ENDED


@pytest.mark.slow
async def test_close_does_not_wait_for_a_server_that_hangs(
    own_zookeeper: ZooKeeperProcess, open_session: SessionFactory
) -> None:
    session = await open_session(zookeeper=own_zookeeper.address, zookeeper_session_timeout_ms=60_000)
    own_zookeeper.pause()
    async with asyncio.timeout(DEADLINE_S):
        await session.close()
    own_zookeeper.resume()


@pytest.mark.slow
async def test_close_while_suspended_returns(
    own_zookeeper: ZooKeeperProcess, open_session: SessionFactory
) -> None:
    session = await open_session(zookeeper=own_zookeeper.address, zookeeper_session_timeout_ms=60_000)
    await own_zookeeper.kill()
    await reached(session, LinkState.SUSPENDED)
    async with asyncio.timeout(DEADLINE_S):
        await session.close()


async def outcome(operation: Awaitable[object]) -> object:
    """The operation's result, or the error that it ended with."""
    try:
        return await operation
    except (ConnectionLost, SessionEnded) as error:
        return error


async def test_close_now_ends_the_session_while_the_loop_is_blocked(open_session: SessionFactory) -> None:
    """A process that finds a defect does this: the registration is gone before the process is."""
    session, other = await open_session(), await open_session()
    await session.create("/registered", ephemeral=True)
    session.close_now()
    assert await other.exists("/registered") is None
