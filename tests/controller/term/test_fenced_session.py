"""Writes of the active controller: fenced by its epoch, and found out about when their answer is lost."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.session import ZooKeeperSession
from strandline.controller.term.fenced_session import Deposed, FencedSession
from strandline.ports import (
    Coordination,
    Create,
    MultiFailed,
    NodeExists,
    SessionEnded,
)
from tests.conftest import SessionFactory
from tests.controller.support.unreliable import Unreliable
from tests.znode_tree import ZnodeTree


async def fenced(session: ZooKeeperSession, lost: Sequence[str] = ()) -> FencedSession:
    await session.ensure_path(znodes.CONTROLLER_EPOCH)
    epoch = await session.set(znodes.CONTROLLER_EPOCH, b"")
    unreliable: Coordination = Unreliable(session, lost)  # type: ignore[assignment]  # by __getattr__
    return FencedSession(unreliable, epoch)


async def test_a_deposed_controller_completes_no_write(open_session: SessionFactory) -> None:
    """CORRECTNESS E5."""
    session = await open_session()
    old = await fenced(session)

    async def happened() -> bool:
        return await old.exists("/x") is not None

    await session.set(znodes.CONTROLLER_EPOCH, b"")
    with pytest.raises(Deposed):
        await old.write([Create("/x")], happened)
    assert old.deposed.is_set()
    assert await session.exists("/x") is None


@pytest.mark.parametrize("lost", [["before"], ["after"], ["before", "after"], ["before", "before", "after"]])
async def test_a_write_whose_answer_was_lost_is_done_exactly_once(
    open_session: SessionFactory, lost: list[str]
) -> None:
    """CORRECTNESS E9: also a sequential znode, which a blind repetition would create twice."""
    session = await open_session()
    writer = await fenced(session, lost)
    await session.ensure_path("/queue")

    async def happened() -> bool:
        return await writer.exists("/x") is not None

    await writer.write([Create("/x", b"mine"), Create("/queue/entry-", sequential=True)], happened)
    assert (await session.get("/x")).data == b"mine"
    assert len(await session.children("/queue")) == 1


async def test_a_refusal_after_a_lost_answer_is_still_a_refusal(open_session: SessionFactory) -> None:
    """CORRECTNESS E9: another's znode is not taken for ours."""
    session = await open_session()
    writer = await fenced(session, ["before"])
    await session.create("/x", b"theirs")

    async def happened() -> bool:
        return (await writer.get("/x")).data == b"mine"

    with pytest.raises(MultiFailed) as caught:
        await writer.write([Create("/x", b"mine")], happened)
    assert caught.value.index == 0
    assert isinstance(caught.value.cause, NodeExists)


@pytest.mark.parametrize("applied", [True, False], ids=["applied", "not-applied"])
async def test_a_write_that_must_not_happen_twice_is_tried_once(applied: bool) -> None:
    """CORRECTNESS Q2, E9: a copy of a request would have an end of its own."""
    tree = ZnodeTree()
    session = tree.open_session()
    await session.ensure_path(znodes.CONTROLLER_EPOCH)
    await session.ensure_path("/queue")
    fenced = FencedSession(session, 0)
    request = Create("/queue/request-", b"[]", sequential=True)
    session.lose(applied=applied)
    assert await fenced.write_once([request]) is False
    assert len(tree.children("/queue")) == int(applied)
    assert await fenced.write_once([request]) is True
    await session.set(znodes.CONTROLLER_EPOCH, b"")
    with pytest.raises(Deposed):
        await fenced.write_once([request])


async def test_nothing_is_written_once_the_session_is_over(open_session: SessionFactory) -> None:
    session = await open_session()
    writer = await fenced(session)
    await session.close()

    async def happened() -> bool:
        raise AssertionError("this is never called")

    with pytest.raises(SessionEnded):
        await writer.write([Create("/x")], happened)
