"""The simulated ZooKeeper and the real one answer the same operations alike: one table, run against both."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import pairwise

import pytest

from strandline.config.services.zookeeper import ZooKeeperSettings
from strandline.errors import CoordinationError
from strandline.host import CoordinationSession
from strandline.ports import (
    Check,
    Create,
    Delete,
    MultiFailed,
    Operation,
    SessionEnded,
    SetData,
    Znode,
)
from strandline.simulation.engine.world import World
from strandline.tasks import pipelined
from tests.conftest import SessionFactory
from tests.waiting import eventually

SESSION_TIMEOUT_MS = 4_000


@dataclass(slots=True)
class Pair:
    """Two sessions of one ensemble."""

    one: CoordinationSession
    two: CoordinationSession


async def outcomes(*calls: Awaitable[object]) -> list[object]:
    """The value or the error of each call; all are issued in one turn of the loop."""

    async def outcome(call: Awaitable[object]) -> object:
        try:
            return await call
        except CoordinationError as error:
            return error

    return await pipelined(outcome, calls, in_flight_max=len(calls))


Row = tuple[str, Callable[[Pair], Awaitable[object]]]


def sorted_children(path: str) -> Callable[[Pair], Awaitable[object]]:
    async def step(pair: Pair) -> object:
        return sorted(await pair.one.children(path))  # no server promises their order

    return step


def facts(path: str) -> Callable[[Pair], Awaitable[object]]:
    """Of a znode, with its owner as a role, and how its two zxids compare."""

    async def step(pair: Pair) -> object:
        await pair.one.sync(path)
        node = await pair.one.get(path)
        owners = {0: "none", pair.one.session_id: "one", pair.two.session_id: "two"}
        changed = "changed" if node.mzxid > node.czxid else "as created"
        return node.data, node.version, changed, owners[node.ephemeral_owner], node.children

    return step


async def versions_rise(pair: Pair) -> object:
    """The zxids of two writes, one after the other by different sessions, compared."""
    await pair.one.create("/zxid-1")
    await pair.two.create("/zxid-2")
    await pair.one.sync("/")
    first, second = await pair.one.get("/zxid-1"), await pair.one.get("/zxid-2")
    return first.czxid < second.czxid


async def reads_of_one_turn(pair: Pair) -> object:
    """What each read finds of those that are sent together."""
    paths = ["/kept", "/no", "/made", "/no/either", "/deep"]
    found = await outcomes(*(pair.one.get(path) for path in paths))
    return [each.data if isinstance(each, Znode) else type(each).__name__ for each in found]


async def multis_of_one_turn(pair: Pair) -> object:
    """The outcomes of multis that are sent together: some are refused, and one depends on another."""
    await pair.one.create("/turn", b"0")
    multis: list[list[Operation]] = [
        [Create("/turn/a"), Check("/turn", 0)],
        [Create("/turn/b"), Check("/turn", 7)],
        [SetData("/turn", b"1", 0), Create("/turn/c-", sequential=True)],
        [Check("/turn", 0), Create("/turn/d")],
        [Create("/turn/a")],
        [Check("/turn", 1), Create("/turn/e")],
    ]
    found = await outcomes(*(pair.one.multi(operations) for operations in multis))
    said = [
        (each.index, type(each.cause).__name__) if isinstance(each, MultiFailed) else each for each in found
    ]
    return said, sorted(await pair.one.children("/turn"))


def children_changed(path: str) -> Callable[[Pair], Awaitable[object]]:
    """Whether a child that comes, that changes, and that goes, moves the zxid of the parent's children."""

    async def step(pair: Pair) -> object:
        async def zxid() -> int:
            await pair.one.sync(path)
            return (await pair.one.get(path)).children_zxid

        await pair.one.ensure_path(path)
        seen = [await zxid()]
        await pair.two.create(f"{path}/child")
        seen.append(await zxid())
        await pair.two.set(f"{path}/child", b"changed", version=0)
        seen.append(await zxid())
        await pair.two.delete(f"{path}/child")
        seen.append(await zxid())
        return [after > before for before, after in pairwise(seen)]

    return step


async def watch_twice(pair: Pair) -> object:
    """What a watch on children reports: it is armed again after each change, and a change of data is none."""
    seen: list[list[str]] = []
    await pair.one.create("/watched")
    pair.one.watch_children("/watched", lambda names: seen.append(sorted(names)))
    await eventually(lambda: seen == [[]], what="the first reading")
    await pair.two.create("/watched/a")
    await eventually(lambda: seen[-1] == ["a"], what="the first child")
    await pair.two.create("/watched/b")
    await eventually(lambda: seen[-1] == ["a", "b"], what="the second child")
    await pair.two.set("/watched", b"data")
    await pair.two.set("/watched/a", b"data")
    await pair.two.create("/watched/a/grandchild")
    await pair.two.create("/watched/c")
    await eventually(lambda: seen[-1] == ["a", "b", "c"], what="the last child")
    return seen


async def end_of_a_session(pair: Pair) -> object:
    """Its ephemerals go at once when it is closed, and it does nothing more."""
    await pair.two.close()
    with pytest.raises(SessionEnded):
        await pair.two.get("/kept")
    await pair.one.sync("/")
    return await pair.one.exists("/of-two"), sorted(await pair.one.children("/parent"))


TABLE: list[Row] = [
    ("create", lambda s: s.one.create("/kept", b"first")),
    ("its facts", facts("/kept")),
    ("create what exists", lambda s: s.one.create("/kept")),
    ("create without a parent", lambda s: s.one.create("/no/child")),
    ("read what is not there", lambda s: s.one.get("/no")),
    ("look for what is not there", lambda s: s.one.exists("/no")),
    ("children of what is not there", lambda s: s.one.children("/no")),
    ("set, any version", lambda s: s.one.set("/kept", b"second")),
    ("set, right version", lambda s: s.one.set("/kept", b"third", version=1)),
    ("set, old version", lambda s: s.one.set("/kept", b"never", version=1)),
    ("set what is not there", lambda s: s.one.set("/no", b"")),
    ("the facts of a changed one", facts("/kept")),
    ("delete, wrong version", lambda s: s.one.delete("/kept", version=7)),
    ("delete what is not there", lambda s: s.one.delete("/no")),
    ("a parent", lambda s: s.one.create("/parent")),
    ("a first sequential child", lambda s: s.one.create("/parent/n-", sequential=True)),
    ("a plain child", lambda s: s.one.create("/parent/plain")),
    ("a sequential one counts plain ones", lambda s: s.one.create("/parent/n-", sequential=True)),
    ("a deletion", lambda s: s.one.delete("/parent/plain")),
    ("does not count", lambda s: s.one.create("/parent/m-", sequential=True)),
    ("a name of digits alone", lambda s: s.one.create("/parent/", sequential=True)),
    ("all children", sorted_children("/parent")),
    ("delete one with children", lambda s: s.one.delete("/parent")),
    ("an ephemeral", lambda s: s.two.create("/of-two", b"e", ephemeral=True)),
    ("its facts", facts("/of-two")),
    ("an ephemeral has no children", lambda s: s.one.create("/of-two/child")),
    ("a sequential ephemeral", lambda s: s.two.create("/parent/e-", ephemeral=True, sequential=True)),
    ("a parent's facts count children", facts("/parent")),
    (
        "a multi of every kind",
        lambda s: s.one.multi(
            [
                Check("/kept", 2),
                Create("/made", b"m"),
                Create("/made/below"),
                Create("/made/s-", sequential=True),
                SetData("/kept", b"fourth", 2),
                SetData("/made", b"n", 0),
                Delete("/made/below"),
            ]
        ),
    ),
    ("what it set", facts("/kept")),
    ("what it made", facts("/made")),
    ("an empty multi", lambda s: s.one.multi([])),
    ("a check that fails", lambda s: s.one.multi([Create("/undone"), Check("/kept", 2), Delete("/no")])),
    ("undid the rest", lambda s: s.one.exists("/undone")),
    ("a check of what is not there", lambda s: s.one.multi([Check("/no", 0)])),
    (
        "a creation that fails",
        lambda s: s.one.multi([Create("/parent/x-", b"", False, True), Create("/kept")]),
    ),
    ("used up no number", lambda s: s.one.create("/parent/x-", sequential=True)),
    ("a deletion that fails", lambda s: s.one.multi([SetData("/kept", b"never"), Delete("/parent")])),
    ("changed nothing", facts("/kept")),
    ("a set that fails", lambda s: s.one.multi([Delete("/made/s-0000000001"), SetData("/kept", b"", 0)])),
    ("removed nothing", sorted_children("/made")),
    ("an ephemeral's child in a multi", lambda s: s.one.multi([Create("/of-two/child")])),
    (
        "delete and create in one multi",
        lambda s: s.one.multi([Delete("/made/s-0000000001"), Create("/made/t")]),
    ),
    ("one znode twice in a multi", lambda s: s.one.multi([SetData("/made", b"1"), SetData("/made", b"2")])),
    ("a path and its parents", lambda s: s.one.ensure_path("/deep/er/est")),
    ("once more", lambda s: s.one.ensure_path("/deep/er/est")),
    ("which are there", sorted_children("/deep/er")),
    ("the root is there", facts("/deep")),
    ("reads of one turn", reads_of_one_turn),
    ("multis of one turn", multis_of_one_turn),
    ("zxids rise with commits", versions_rise),
    ("children that come and go change their zxid", children_changed("/children")),
    ("a watch", watch_twice),
    ("a session is closed", end_of_a_session),
    ("delete, right version", lambda s: s.one.delete("/kept", version=3)),
]


async def answers(pair: Pair) -> list[tuple[str, object]]:
    """The result of each row: a value, or the kind of an error."""
    found: list[tuple[str, object]] = []
    for name, step in TABLE:
        try:
            found.append((name, await step(pair)))
        except MultiFailed as error:
            found.append((name, ("MultiFailed", error.index, type(error.cause).__name__)))
        except CoordinationError as error:
            found.append((name, type(error).__name__))
    return found


async def simulated() -> list[tuple[str, object]]:
    """The table's answers of a simulated ensemble; in a thread, since a loop runs here already."""

    def run() -> list[tuple[str, object]]:
        with World(11) as world:
            owner = world.new_process("owner", world.new_machine())
            settings = ZooKeeperSettings(
                zookeeper=f"{world.zookeeper.address}/table", zookeeper_session_timeout_ms=SESSION_TIMEOUT_MS
            )

            async def within() -> list[tuple[str, object]]:
                one, two = [
                    await owner.host.connect_coordination(settings, lambda seconds: None) for _ in range(2)
                ]
                return await answers(Pair(one, two))

            async def work() -> list[tuple[str, object]]:
                return await owner.run(within())

            return world.run(work())

    return await asyncio.to_thread(run)


async def test_both_ensembles_answer_the_whole_table_alike(open_session: SessionFactory) -> None:
    """CORRECTNESS E5, E9: what a simulation finds about ZooKeeper holds only as far as both are alike."""
    real = await answers(Pair(await open_session(), await open_session()))
    assert await simulated() == real
