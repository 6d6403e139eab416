"""Operations and errors through the `Coordination` port, on a real server (DESIGN, "ZooKeeper")."""

from __future__ import annotations

import asyncio

import pytest

from strandline.adapters.zookeeper.connect import connect
from strandline.adapters.zookeeper.facts import BulkReads
from strandline.config.limits import MULTI_BYTES_MAX, ZNODE_BYTES_MAX
from strandline.config.services.zookeeper import ZooKeeperSettings
from strandline.errors import CoordinationError, SettingsError
from strandline.local.zookeeper_process import ZooKeeperProcess
from strandline.ports import (
    BadVersion,
    Check,
    ConnectionLost,
    Coordination,
    Create,
    Delete,
    MultiFailed,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    SetData,
    Znode,
)
from tests.conftest import SessionFactory
from tests.proxy import Proxy
from tests.waiting import eventually

PIPELINED = 1_000
SESSION_MS = 40_000
"""The longest that the server grants: a client misses no answer for two thirds of it."""


async def test_a_session_is_a_coordination_port(open_session: SessionFactory) -> None:
    """The adapter fulfils the port exactly: this assignment is checked by mypy (DESIGN, "Seams")."""
    session: Coordination = await open_session()
    assert session.session_id != 0


async def test_a_created_znode_is_read_back_with_its_facts(open_session: SessionFactory) -> None:
    """A read returns data, version, the incarnation's czxid and the owner (CORRECTNESS E4, E10)."""
    session = await open_session()
    assert await session.create("/plain", b"one") == "/plain"
    assert await session.create("/mine", b"", ephemeral=True) == "/mine"
    plain, mine = await session.get("/plain"), await session.get("/mine")
    assert (plain.data, plain.version, plain.ephemeral_owner) == (b"one", 0, 0)
    assert (mine.data, mine.ephemeral_owner) == (b"", session.session_id)
    assert plain.czxid == plain.mzxid < mine.czxid


async def test_exists_returns_the_facts_without_the_data(open_session: SessionFactory) -> None:
    session = await open_session()
    assert await session.exists("/nothing") is None
    await session.create("/something", b"data")
    found = await session.exists("/something")
    assert found is not None
    assert (found.data, found.version) == (b"", 0)


async def test_set_is_a_compare_and_set_on_the_version(open_session: SessionFactory) -> None:
    """A write on an old version is refused and changes nothing (CORRECTNESS I3)."""
    session = await open_session()
    await session.create("/x", b"0")
    assert await session.set("/x", b"1", version=0) == 1
    with pytest.raises(BadVersion, match="/x was written in between"):
        await session.set("/x", b"2", version=0)
    assert await session.set("/x", b"3") == 2
    assert (await session.get("/x")).data == b"3"


async def test_each_refusal_has_its_own_error_that_names_the_path(open_session: SessionFactory) -> None:
    session = await open_session()
    await session.create("/parent")
    await session.create("/parent/child")
    with pytest.raises(NodeExists, match="/parent exists already"):
        await session.create("/parent")
    with pytest.raises(NotEmpty, match="/parent has children"):
        await session.delete("/parent")
    with pytest.raises(BadVersion):
        await session.delete("/parent/child", version=7)
    for asked in (session.get, session.children, session.delete):
        with pytest.raises(NoNode, match="/absent does not exist"):
            await asked("/absent")
    with pytest.raises(NoNode):
        await session.set("/absent", b"")
    with pytest.raises(NoNode):
        await session.create("/absent/child")
    await session.create("/short", ephemeral=True)
    with pytest.raises(CoordinationError, match="NoChildrenForEphemerals"):
        await session.create("/short/child")


async def test_sequential_znodes_are_numbered_in_order(open_session: SessionFactory) -> None:
    """The state-change queue is read in the order of these numbers (Kafka's design V2)."""
    session = await open_session()
    await session.create("/queue")
    made = [await session.create("/queue/request-", b"", sequential=True) for _ in range(3)]
    assert made == [f"/queue/request-{n:010d}" for n in range(3)]
    assert sorted(await session.children("/queue")) == [path.rpartition("/")[2] for path in made]


async def test_ensure_path_creates_only_missing_znodes(open_session: SessionFactory) -> None:
    session = await open_session()
    await session.ensure_path("/a/b/c")
    await session.set("/a/b", b"kept")
    await session.ensure_path("/a/b/c/d")
    await session.ensure_path("/a/b")
    assert (await session.get("/a/b")).data == b"kept"
    assert await session.children("/a/b/c") == ["d"]


async def test_two_may_ensure_the_same_path_at_once(open_session: SessionFactory) -> None:
    first, second = await open_session(), await open_session()
    async with asyncio.TaskGroup() as group:
        for session in (first, second) * 10:
            group.create_task(session.ensure_path("/deep/er/and/deeper"))
    assert await first.exists("/deep/er/and/deeper") is not None


async def test_a_multi_does_all_in_order_and_answers_for_each(open_session: SessionFactory) -> None:
    session = await open_session()
    await session.create("/isr", b"[1,2]")
    await session.create("/leader", b"1", ephemeral=True)
    await session.create("/notices")
    assert await session.multi(
        [
            Check("/isr", 0),
            SetData("/isr", b"[2]", 0),
            Delete("/leader"),
            Create("/leader", b"2", ephemeral=True),
            Create("/notices/n-", sequential=True),
        ]
    ) == [None, 1, None, "/leader", "/notices/n-0000000000"]
    assert (await session.get("/leader")).data == b"2"
    assert await session.multi([]) == []


@pytest.mark.parametrize(
    ("culprit", "cause"),
    [
        (Check("/a", 5), BadVersion),
        (Check("/absent"), NoNode),
        (SetData("/a", b"new", 5), BadVersion),
        (Create("/b"), NodeExists),
        (Create("/absent/child"), NoNode),
        (Delete("/parent"), NotEmpty),
        (Delete("/absent"), NoNode),
    ],
    ids=repr,
)
@pytest.mark.parametrize("index", [0, 1, 2])
async def test_a_multi_is_all_or_nothing_and_names_the_culprit(
    open_session: SessionFactory, culprit: Operation, cause: type[CoordinationError], index: int
) -> None:
    """An election is one multi: half of it must never happen (DESIGN, "Election")."""
    session = await open_session()
    for path in ("/a", "/b", "/parent", "/parent/child"):
        await session.create(path, b"old")
    operations: list[Operation] = [SetData("/a", b"new"), Delete("/b")]
    if isinstance(culprit, Create):  # it collides with /b, which must stand then
        operations[1] = SetData("/b", b"new")
    operations.insert(index, culprit)
    if isinstance(culprit, SetData | Check):
        operations = [op for op in operations if op is culprit or op.path != culprit.path]
        index = operations.index(culprit)
    with pytest.raises(MultiFailed) as failed:
        await session.multi(operations)
    assert failed.value.index == index
    assert type(failed.value.cause) is cause
    assert (await session.get("/a")).data == b"old"
    assert (await session.get("/b")).data == b"old"


async def test_the_version_of_a_written_znode_grows_by_one_each_time(open_session: SessionFactory) -> None:
    """An epoch is the version that an unconditional write returns: no two callers get the same one."""
    session, other = await open_session(), await open_session()
    await session.create("/epoch")
    async with asyncio.TaskGroup() as group:
        taken = [group.create_task(s.set("/epoch", b"")) for s in (session, other) * 50]
    assert sorted(task.result() for task in taken) == list(range(1, 101))


async def test_after_a_sync_a_read_sees_the_writes_of_others(open_session: SessionFactory) -> None:
    """Reads that decide something are preceded by sync (CORRECTNESS E8)."""
    writer, reader = await open_session(), await open_session()
    await writer.create("/x", b"0")
    for n in range(20):
        await writer.set("/x", b"%d" % n)
        await reader.sync("/x")
        assert (await reader.get("/x")).data == b"%d" % n


async def test_chroots_do_not_meet(open_session: SessionFactory, zookeeper: str) -> None:
    """The chroot at the end of the address is created with its parents, and paths are relative to it."""
    left = await open_session(zookeeper=f"{zookeeper}/left/deep")
    right = await open_session(zookeeper=f"{zookeeper}/right/")
    whole = await open_session()
    assert await left.create("/x-", b"left", sequential=True) == "/x-0000000000"
    assert await right.children("/") == []
    assert await whole.children("/left/deep") == ["x-0000000000"]
    assert sorted(await whole.children("/")) == ["left", "right"]


async def test_oversized_data_is_refused_before_zookeeper_hangs_up(
    open_session: SessionFactory,
) -> None:
    """Data over ZooKeeper's limit shows as a lost connection, so it is never sent (limits in config)."""
    session = await open_session()
    await session.create("/full", b"x" * ZNODE_BYTES_MAX)
    too_much = b"x" * (ZNODE_BYTES_MAX + 1)
    with pytest.raises(ValueError, match="/full: 524289 bytes"):
        await session.set("/full", too_much)
    with pytest.raises(ValueError, match="/fuller"):
        await session.create("/fuller", too_much)
    with pytest.raises(ValueError, match="/full"):
        await session.multi([SetData("/full", too_much)])
    names = [f"/n{n:03d}" for n in range(100)]
    with pytest.raises(ValueError, match="a multi of"):
        await session.multi([Create(name, b"x" * (MULTI_BYTES_MAX // 100)) for name in names])
    await session.multi([Create(name, b"x" * (MULTI_BYTES_MAX // 100 - len(name))) for name in names])


async def test_a_relative_path_is_refused(open_session: SessionFactory) -> None:
    session = await open_session()
    with pytest.raises(ValueError, match="begins with a slash"):
        await session.get("brokers")


async def test_a_malformed_address_is_a_settings_error() -> None:
    with pytest.raises(SettingsError, match="STRANDLINE_ZOOKEEPER"):
        await connect(ZooKeeperSettings(zookeeper="localhost:port"))


async def test_a_cancelled_operation_harms_no_other(open_session: SessionFactory) -> None:
    session = await open_session()
    await session.create("/x", b"0")
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(session.set("/x", b"%d" % n)) for n in range(100)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
    assert all(task.cancelled() for task in tasks[::2])
    assert [task.result() for task in tasks[1::2]] == list(range(2, 101, 2))


async def test_thousands_of_operations_are_pipelined(
    own_zookeeper: ZooKeeperProcess, open_session: SessionFactory
) -> None:
    """No operation waits for the answer to another one: the server does all of them though no answer
    arrives."""
    other = await open_session(zookeeper=own_zookeeper.address)
    async with Proxy(own_zookeeper.port) as link:
        session = await open_session(zookeeper=link.address, zookeeper_session_timeout_ms=SESSION_MS)
        await session.create("/x")
        link.swallows_answers = True

        async def all_done() -> bool:
            return (await other.get("/x")).version == PIPELINED

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(session.set("/x", b"v")) for _ in range(PIPELINED)]
            await eventually(all_done, deadline_s=SESSION_MS / 2_000, what="the server has them all")
            assert not any(task.done() for task in tasks)
            for task in tasks:
                task.cancel()


# --- reads of thousands -----------------------------------------------------------------------------


class SilentServer:
    """Answers nothing until it loses the connection."""

    def __init__(self) -> None:
        self.reads: list[asyncio.Future[Znode]] = []

    async def get(self, path: str) -> Znode:
        self.reads.append(asyncio.get_running_loop().create_future())
        return await self.reads[-1]

    async def children(self, path: str) -> list[str]:
        raise AssertionError(path)


async def test_reads_that_wait_for_their_turn_do_not_wait_for_a_silent_server() -> None:
    """Each of them would wait as long again; a later read asks anew whether the server is back."""
    server = SilentServer()
    bulk = BulkReads(server, in_flight_max=2)
    ends: dict[str, type[Exception] | None] = {}

    async def read(path: str) -> None:
        try:
            await bulk.get(path)
            ends[path] = None
        except ConnectionLost as error:
            ends[path] = type(error)

    async with asyncio.TaskGroup() as tasks:
        for number in range(5):
            tasks.create_task(read(f"/{number}"))
        await eventually(lambda: len(server.reads) == 2)
        server.reads[0].set_exception(ConnectionLost("no answer"))
        await eventually(lambda: ends == dict.fromkeys(("/0", "/2", "/3", "/4"), ConnectionLost))
        assert len(server.reads) == 2
        tasks.create_task(read("/later"))
        await eventually(lambda: len(server.reads) == 3)
        for answer in server.reads[1:]:
            answer.set_result(Znode(b"", 0, 0, 0, 0))
    assert (ends["/1"], ends["/later"]) == (None, None)
