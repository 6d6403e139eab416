"""A cluster's znodes are given to its identity while it runs, and back to everyone (CORRECTNESS Z2)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.access.identity import OPEN, Grant, digest_id
from strandline.adapters.zookeeper.migration import Migrated, MigrationRefused, migrate
from strandline.adapters.zookeeper.security import acl_znodes
from strandline.adapters.zookeeper.security.user_znodes import user_path
from strandline.adapters.zookeeper.session import ZooKeeperSession
from strandline.config.services.zookeeper import ZooKeeperSettings
from strandline.errors import SettingsError
from strandline.local.zookeeper_process import ZooKeeperProcess
from tests.conftest import SessionFactory
from tests.proxy import Proxy
from tests.strangers import every_znode, open_to_strangers, stranger
from tests.waiting import eventually

CLUSTER = "strandline:secret"
OF_CLUSTER = {Grant("digest", digest_id(CLUSTER))}

Identified = Callable[..., dict[str, Any]]


@pytest.fixture
def identified(tmp_path: Path) -> Identified:
    def settings(*lines: str, **others: Any) -> dict[str, Any]:
        path = tmp_path / str(abs(hash(lines)))
        path.touch(0o600)
        path.write_text("\n".join(lines or (CLUSTER,)))
        return {"zookeeper_auth_scheme": "digest", "zookeeper_auth_file": path, **others}

    return settings


async def found(session: ZooKeeperSession) -> None:
    """The znodes of a small cluster, without a broker."""
    everywhere = (*znodes.SKELETON, *acl_znodes.SKELETON, znodes.CLUSTER_ID, znodes.MEMBER_KEY)
    for path in (*everywhere, "/brokers/topics/t/0/isr", user_path("alice")):
        await session.ensure_path(path)


async def test_every_znode_is_given_to_the_identity_and_back(
    open_session: SessionFactory, zookeeper: str, identified: Identified
) -> None:
    """And a second time changes nothing."""
    settings = ZooKeeperSettings(zookeeper=zookeeper, **identified())
    session = await open_session(**identified())
    await found(session)
    paths = await every_znode(session)
    assert open_to_strangers(zookeeper, paths) == paths
    assert await migrate(settings, protect=True) == Migrated(len(paths), len(paths), ())
    assert open_to_strangers(zookeeper, paths) == []
    assert await migrate(settings, protect=True) == Migrated(len(paths), 0, ())
    assert (await migrate(settings, protect=False)).changed == len(paths)
    assert open_to_strangers(zookeeper, paths) == paths


async def test_processes_that_would_lose_access_are_named_first(
    open_session: SessionFactory, zookeeper: str, identified: Identified
) -> None:
    """Registrations are created as all else that a process creates, so they show who is ready."""
    settings = ZooKeeperSettings(zookeeper=zookeeper, **identified())
    without, ready = await open_session(), await open_session(**identified(zookeeper_set_acl=False))
    await found(without)
    for broker in (1, 2):
        await without.create(znodes.broker(broker), ephemeral=True)
    await ready.create(znodes.CONTROLLER, ephemeral=True)
    with pytest.raises(MigrationRefused, match="broker 1, broker 2, the active controller with"):
        await migrate(settings, protect=True)
    assert await without.acl("/brokers/topics") == OPEN
    await without.close()
    await ready.delete(znodes.CONTROLLER)
    setting = await open_session(**identified(zookeeper_set_acl=True))
    await setting.create(znodes.CONTROLLER, ephemeral=True)
    await setting.create(znodes.broker(1), ephemeral=True)
    await migrate(settings, protect=True)
    with pytest.raises(MigrationRefused, match=r"restart broker 1, the active controller with .*false"):
        await migrate(settings, protect=False)
    await migrate(settings, protect=False, force=True)
    assert await ready.acl("/brokers/topics") == OPEN


async def test_a_process_that_creates_otherwise_is_noticed(
    open_session: SessionFactory, zookeeper: str, identified: Identified
) -> None:
    """A standby controller, for example, has no registration that could be looked at first."""
    session = await open_session(**identified(zookeeper_set_acl=False))
    await found(session)
    stop = asyncio.Event()

    async def create_all_the_time() -> None:
        while not stop.is_set():
            await session.create("/brokers/state/n-", sequential=True)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(create_all_the_time())
        with pytest.raises(MigrationRefused, match="a process still creates znodes with another ACL"):
            await migrate(ZooKeeperSettings(zookeeper=zookeeper, **identified()), protect=True)
        stop.set()


async def test_what_is_not_of_the_cluster_stays_as_it_is(
    own_zookeeper: ZooKeeperProcess, open_session: SessionFactory, identified: Identified
) -> None:
    """An ensemble without a chroot may have others; so the root cannot be the cluster's."""
    settings = identified(zookeeper=own_zookeeper.address)
    session = await open_session(**settings)
    await found(session)
    with stranger(own_zookeeper.address) as client:
        client.ensure_path("/kafka/brokers")
        done = await migrate(ZooKeeperSettings(**settings), protect=True)
        assert done.left == ("/kafka",)
        everything = await every_znode(session)
        assert open_to_strangers(own_zookeeper.address, everything) == ["/", "/kafka", "/kafka/brokers"]
        client.delete("/kafka", recursive=True)
    assert await migrate(ZooKeeperSettings(**settings), protect=True) == Migrated(done.znodes + 1, 1, ())
    assert open_to_strangers(own_zookeeper.address, ["/"]) == []


async def test_an_interrupted_connection_leaves_no_znode_out(
    own_zookeeper: ZooKeeperProcess, open_session: SessionFactory, identified: Identified
) -> None:
    # It is looked at again in the end, after more work than a busy machine does in a session's usual time.
    patient = {"zookeeper": own_zookeeper.address, "zookeeper_session_timeout_ms": 30_000}
    session = await open_session(**identified(**patient))
    await found(session)
    async with asyncio.TaskGroup() as tasks:
        for number in range(1_000):
            tasks.create_task(session.create(f"/brokers/topics/t{number}"))

    async def begun() -> bool:
        return await session.acl("/brokers/topics") == OF_CLUSTER

    async with Proxy(own_zookeeper.port) as link, asyncio.TaskGroup() as tasks:
        settings = ZooKeeperSettings(zookeeper=link.address, **identified())
        migrating = tasks.create_task(migrate(settings, protect=True))
        await eventually(begun)
        link.cut()
        link.mend()
    done = migrating.result()
    assert done.znodes == len(await every_znode(session))
    for path in ("/brokers/topics/t0", "/brokers/topics/t500", "/brokers/topics/t999"):
        assert await session.acl(path) == OF_CLUSTER


async def test_a_replaced_password_takes_the_znodes_of_the_old_one(
    open_session: SessionFactory, zookeeper: str, identified: Identified
) -> None:
    old = await open_session(**identified("s:old", zookeeper_set_acl=True))
    await found(old)
    both = identified("s:new", "s:old")
    await migrate(ZooKeeperSettings(zookeeper=zookeeper, **both), protect=True)
    new = await open_session(**identified("s:new", zookeeper_set_acl=True))
    for path in await every_znode(new):
        assert await new.acl(path) == {Grant("digest", digest_id("s:new"))}


async def test_a_process_without_an_identity_protects_nothing(zookeeper: str) -> None:
    for protect in (True, False):
        with pytest.raises(SettingsError, match="set zookeeper_auth_scheme"):
            await migrate(ZooKeeperSettings(zookeeper=zookeeper), protect=protect)
