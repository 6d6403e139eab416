"""Leader epochs out of `/epoch`, on a ZooKeeper in memory that was set back (CORRECTNESS E17)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.set_back import SetBack
from strandline.broker.replicas.epoch_source import compare_epoch, raise_epoch, read_epoch, take_epoch
from strandline.ids import NO_EPOCH, LeaderEpoch
from strandline.ports import Coordination
from tests.broker.support.replicas import LIVE, write
from tests.broker.support.seat import Seat, led_by, seated
from tests.waiting import eventually
from tests.znode_tree import ZnodeTree


async def ensemble(version: int) -> tuple[ZnodeTree, Coordination]:
    """A ZooKeeper whose `/epoch` was written this number of times, by brokers of any version."""
    tree = ZnodeTree()
    session = tree.open_session()
    await session.ensure_path(znodes.EPOCH)
    for _ in range(version):
        await session.set(znodes.EPOCH, b"")
    return tree, session


async def test_the_version_is_the_epoch_until_zookeeper_is_set_back() -> None:
    """Epochs that brokers of earlier versions take, or took, stay unchanged."""
    _, session = await ensemble(5)
    assert await take_epoch(session, LeaderEpoch(5)) == 6
    assert await session.set(znodes.EPOCH, b"") == 7
    assert await take_epoch(session, NO_EPOCH) == 8
    assert (await session.get(znodes.EPOCH)).data == b""


async def test_no_epoch_is_given_twice_even_to_brokers_that_know_lost_epochs() -> None:
    """CORRECTNESS E17: some of the brokers know of epochs that ZooKeeper lost, more and more of them."""
    tree, _ = await ensemble(3)
    taken: list[tuple[int, int]] = []

    async def take(known: int) -> None:
        taken.append((await take_epoch(tree.open_session(), LeaderEpoch(known)), known))

    async with asyncio.TaskGroup() as brokers:
        for known in (3, 40, 3, 9, 41, 2, 60, 40, 3, 7):
            brokers.create_task(take(known))
    epochs = [epoch for epoch, _ in taken]
    assert len(set(epochs)) == len(epochs) == 10
    assert epochs == sorted(epochs)
    assert all(epoch > known for epoch, known in taken)


async def test_a_broker_finds_that_zookeeper_gave_out_fewer_epochs_than_it_knows() -> None:
    """CORRECTNESS E21: ZooKeeper takes a session back once it has as many transactions again."""
    _, session = await ensemble(5)
    await compare_epoch(session, LeaderEpoch(5))
    with pytest.raises(SetBack, match="up to 5, and 6 is known"):
        await compare_epoch(session, LeaderEpoch(6))
    with pytest.raises(SetBack):
        await compare_epoch(ZnodeTree().open_session(), LeaderEpoch(0))


async def test_a_joining_broker_raises_the_epochs_that_all_others_take() -> None:
    """CORRECTNESS E17: a broker may lead a partition whose log knows nothing of the epochs that were lost."""
    _, session = await ensemble(5)
    await raise_epoch(session, LeaderEpoch(5))
    assert (await session.get(znodes.EPOCH)).version == 5
    await raise_epoch(session, LeaderEpoch(20))
    assert await take_epoch(session, NO_EPOCH) > 20


async def test_the_epochs_that_zookeeper_lost_are_remembered() -> None:
    """CORRECTNESS Q7: what was made in that time is no stray, though ZooKeeper has never heard of it."""
    _, session = await ensemble(5)
    assert (await read_epoch(session)).epochs.lost is None
    await raise_epoch(session, LeaderEpoch(20))
    await raise_epoch(session, LeaderEpoch(30))
    assert (await read_epoch(session)).epochs.lost == (6, 30)
    assert (await read_epoch(session)).latest == 31


@pytest.mark.parametrize("data", [b"{", b"[]", b'{"base": 1}', b'{"base": null, "lost": null}'])
async def test_a_znode_that_says_something_else_is_named(data: bytes) -> None:
    _, session = await ensemble(0)
    await session.set(znodes.EPOCH, data)
    with pytest.raises(ValueError, match="/epoch"):
        await read_epoch(session)


# --- elections ----------------------------------------------------------------------------------------


@pytest.fixture
async def seat(tmp_path: Path) -> AsyncIterator[Seat]:
    """All three brokers are alive; `/epoch` says that 5 epochs were taken."""
    async with seated(tmp_path) as found:
        yield found


@pytest.mark.parametrize("knows", ["log", "isr", "memory"])
async def test_a_claim_is_above_what_the_log_or_the_record_knows(seat: Seat, knows: str) -> None:
    """CORRECTNESS E17: else one epoch would be led by two brokers, in turn, with different records."""
    if knows == "log":
        write(seat.replica, 9, "a")
    elif knows == "isr":
        seat.write(led_by(1, 1, 2, 3, epoch=9))
    else:
        seat.replica.leader_epoch = LeaderEpoch(9)
    seat.registration.live = {b: r for b, r in LIVE.items() if b != 1}
    seat.elector.vacant(seat.replica)
    await eventually(lambda: seat.leads_in() == 10)
    assert seat.record == led_by(2, 2, 3, epoch=10)
