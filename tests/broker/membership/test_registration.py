"""The lease: for how long a broker takes its session for alive, and by which proof."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from strandline.adapters.system.files import SYSTEM_FILES
from strandline.adapters.zookeeper import znodes
from strandline.broker.membership.registration import SessionRegistration
from strandline.broker.storage.state_files.data_folder import DataFolder
from strandline.errors import SettingsError
from strandline.ports import Clock, LinkState, SessionEnded
from strandline.simulation.engine.loop import SimulatedLoop
from strandline.vocabulary.metadata import Endpoint
from tests.broker.support.replicas import CLOCK, settings
from tests.broker.support.seat import ME
from tests.virtual_time import clock_of, on_virtual_time
from tests.waiting import eventually
from tests.znode_tree import MemorySession, ZnodeTree

PATH = znodes.broker(ME)


@contextmanager
def empty_folder(path: Path) -> Iterator[DataFolder]:
    boot = path / "boot"
    boot.write_text("this one")
    folder = DataFolder(path / "data", ME, boot, SYSTEM_FILES)
    yield folder
    folder.close()


def registering(session: MemorySession, folder: DataFolder, clock: Clock) -> SessionRegistration:
    return SessionRegistration(session, folder, settings(data_dir=folder.path), clock, Endpoint(ME, "h", 1))


@pytest.fixture
async def registered(tmp_path: Path) -> AsyncIterator[tuple[SessionRegistration, MemorySession]]:
    """A broker that is registered, and has not renewed its lease yet."""
    session = ZnodeTree().open_session()
    await session.ensure_path(znodes.BROKER_IDS)
    with empty_folder(tmp_path) as folder:
        registration = registering(session, folder, CLOCK)
        await registration.register()
        yield registration, session


@asynccontextmanager
async def behind_another(
    loop: SimulatedLoop, path: Path
) -> AsyncIterator[tuple[SessionRegistration, MemorySession, MemorySession]]:
    """A broker, its session, and the session of a registration in its way, which its folder does not know."""
    tree = ZnodeTree()
    other, session = tree.open_session(), tree.open_session()
    await other.ensure_path(znodes.BROKER_IDS)
    with empty_folder(path) as folder:
        registration = registering(session, folder, clock_of(loop))
        await other.create(PATH, znodes.dump_registration(registration.own), ephemeral=True)
        yield registration, session, other


@on_virtual_time
async def test_a_broker_waits_for_another_of_its_id_no_longer_than_for_a_session(
    loop: SimulatedLoop, tmp_path: Path
) -> None:
    """CORRECTNESS E10: its folder does not know the session of the other one."""
    async with behind_another(loop, tmp_path) as (registration, session, _other):
        began = loop.time()
        with pytest.raises(SettingsError, match="is alive at h:1"):
            await registration.register()
        assert 2 * session.session_timeout_s < loop.time() - began < 3 * session.session_timeout_s


@on_virtual_time
async def test_a_broker_waits_anew_with_each_connection(loop: SimulatedLoop, tmp_path: Path) -> None:
    """CORRECTNESS E10: its last life ended with its disk, while ZooKeeper lost leader after leader. Each
    gives every session its whole time (seed 1231425)."""
    clock = clock_of(loop)
    async with behind_another(loop, tmp_path) as (registration, session, last):
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(registration.register())
            for _ in range(3):
                await clock.sleep(session.session_timeout_s)
                session.reconnect()
            await clock.sleep(session.session_timeout_s)
            last.expire()
        assert registration.own.epoch >= 0


async def test_the_lease_is_renewed_by_a_write_that_changes_nothing(
    registered: tuple[SessionRegistration, MemorySession],
) -> None:
    """CORRECTNESS E1: a server that has lost the others answers reads. A leader that renewed by reading
    acknowledged 131 records, which were lost. I7: the renewal must not look like a change of the
    registration."""
    registration, session = registered
    taken, go_on = session.hold()
    async with asyncio.TaskGroup() as tasks:
        keeping = tasks.create_task(registration.keep_lease())
        await taken.wait()
        node = await session.exists(PATH)
        assert node is not None and node.version == 0
        assert not registration.holds_lease()
        asked = CLOCK.monotonic()
        go_on.set()
        await eventually(registration.holds_lease)
        assert registration.lease_until <= asked + session.session_timeout_s
        keeping.cancel()


async def test_there_is_no_lease_while_the_link_is_down(
    registered: tuple[SessionRegistration, MemorySession],
) -> None:
    """CORRECTNESS E1, G1: a broker that has lost ZooKeeper may have lost its port too, and have a successor
    already."""
    registration, session = registered
    async with asyncio.TaskGroup() as tasks:
        keeping = tasks.create_task(registration.keep_lease())
        await eventually(registration.holds_lease)
        session.state = LinkState.SUSPENDED
        assert (registration.holds_lease(), registration.lease_s) == (False, 0)
        session.state = LinkState.CONNECTED
        assert registration.holds_lease()
        keeping.cancel()


async def test_a_registration_that_is_not_its_own_renews_nothing(
    registered: tuple[SessionRegistration, MemorySession],
) -> None:
    """CORRECTNESS E4, E10: another life of this broker has taken its place, in a session of its own."""
    registration, session = registered
    await session.delete(PATH)
    await session.create(PATH, znodes.dump_registration(registration.own))
    async with asyncio.TaskGroup() as tasks:
        keeping = tasks.create_task(registration.keep_lease())
        await eventually(lambda: len(session.multis) > 1)
        assert not registration.holds_lease()
        keeping.cancel()


async def test_a_life_ends_if_an_earlier_one_announces_its_shutdown_in_its_place(
    registered: tuple[SessionRegistration, MemorySession],
) -> None:
    """CORRECTNESS I7, E10: the announcement was sent before this life registered, and arrived after that. No
    leader took the broker back into an ISR."""
    registration, session = registered
    await session.set(PATH, znodes.dump_registration(replace(registration.own, shutting_down=True)))
    with pytest.raises(SessionEnded, match="changed"):
        await registration.keep_lease()
    await registration.leave()
    async with asyncio.TaskGroup() as tasks:
        keeping = tasks.create_task(registration.keep_lease())
        await eventually(registration.holds_lease)
        keeping.cancel()
