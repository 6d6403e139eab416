"""Znodes are for the cluster's identity, and processes without it learn that (CORRECTNESS Z2)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from strandline.adapters.zookeeper.access.identity import OPEN, Grant, digest_id
from strandline.adapters.zookeeper.connect import connect
from strandline.config.services.zookeeper import ZooKeeperSettings
from strandline.errors import SettingsError
from strandline.local.ports import free_ports
from strandline.local.zookeeper_process import ZooKeeperProcess
from strandline.ports import Create, Delete, MultiFailed, NotPermitted, SetData
from tests.conftest import SessionFactory
from tests.strangers import every_znode, open_to_strangers, stranger
from tests.tls_zookeeper import TlsServer

CLUSTER = "strandline:cluster-password"
SUBJECT = "CN=broker-1"

Digest = Callable[..., dict[str, Any]]


@pytest.fixture
def digest(tmp_path: Path) -> Digest:
    """Settings of an identity, which owns what it creates."""

    def settings(*lines: str, set_acl: bool = True) -> dict[str, Any]:
        path = tmp_path / "-".join(line.replace(":", "_") for line in lines)
        path.touch(0o600)
        path.write_text("\n".join(lines))
        return {
            "zookeeper_auth_scheme": "digest",
            "zookeeper_auth_file": path,
            "zookeeper_set_acl": set_acl,
        }

    return settings


async def test_every_way_to_create_a_znode_gives_it_the_acl(
    open_session: SessionFactory, zookeeper: str, digest: Digest
) -> None:
    """Alone, with its parents, sequential, ephemeral and in a multi; the chroot itself too, or a stranger
    could delete what is in it."""
    session = await open_session(**digest(CLUSTER))
    await session.create("/one", b"1")
    await session.create("/short", ephemeral=True)
    await session.create("/one/n-", sequential=True)
    await session.ensure_path("/a/b/c")
    await session.multi([Create("/m"), Create("/m/n-", sequential=True), Create("/e", ephemeral=True)])
    znodes = await every_znode(session)
    assert len(znodes) == 10
    assert open_to_strangers(zookeeper, znodes) == []
    assert await session.acl("/m") == {Grant("digest", digest_id(CLUSTER))}


async def test_without_the_setting_znodes_stay_open(
    open_session: SessionFactory, zookeeper: str, digest: Digest
) -> None:
    """The first step of a migration: processes have an identity, and use it for nothing yet."""
    session = await open_session(**digest(CLUSTER, set_acl=False))
    await session.create("/one")
    assert open_to_strangers(zookeeper, ["/", "/one"]) == ["/", "/one"]
    assert await session.acl("/one") == OPEN


async def test_a_process_without_the_identity_ends_at_its_start(
    open_session: SessionFactory, zookeeper: str, digest: Digest
) -> None:
    await open_session(**digest(CLUSTER))
    for others in ({}, digest("strandline:wrong"), digest("other:cluster-password", set_acl=False)):
        with pytest.raises(SettingsError, match=r"/ is not for the identity of .*zookeeper_auth_scheme"):
            await open_session(**others)


async def test_a_refused_operation_names_the_znode_and_the_setting(
    open_session: SessionFactory, digest: Digest
) -> None:
    """Of a session that began before the znodes were protected, too."""
    without = await open_session()
    session = await open_session(**digest(CLUSTER))
    await session.create("/mine", b"1")
    for attempt in (without.get("/mine"), without.set("/mine", b"2"), without.create("/mine/x")):
        with pytest.raises(NotPermitted, match=r"/mine.* is not for the identity of this process"):
            await attempt
    with pytest.raises(MultiFailed) as raised:
        await without.multi([Create("/mine/x")])
    assert isinstance(raised.value.cause, NotPermitted)
    with pytest.raises(MultiFailed) as raised:
        await without.multi([SetData("/mine", b"2"), Delete("/mine")])
    assert isinstance(raised.value.cause, NotPermitted)


async def test_a_chroot_that_was_made_by_hand_is_protected(
    open_session: SessionFactory, zookeeper: str, digest: Digest
) -> None:
    """And what is above it stays as it was, for it may have others below."""
    server = zookeeper.partition("/")[0]
    with stranger(server) as client:
        client.ensure_path("/shared/by-hand")
    session = await open_session(zookeeper=f"{server}/shared/by-hand", **digest(CLUSTER))
    deeper = await open_session(zookeeper=f"{server}/shared/new/deep", **digest(CLUSTER))
    above = ["/", "/shared", "/shared/new"]
    assert open_to_strangers(server, ["/shared/by-hand", "/shared/new/deep", *above]) == above
    assert await session.acl("/") == await deeper.acl("/") == session.identity.acl


async def test_the_root_of_an_ensemble_is_protected_unless_others_use_it(
    own_zookeeper: ZooKeeperProcess, digest: Digest
) -> None:
    """A znode is deleted by the permission of its parent: with an open root, a stranger may delete /epoch."""
    settings = ZooKeeperSettings(zookeeper=own_zookeeper.address, **digest(CLUSTER))
    with stranger(own_zookeeper.address) as client:
        client.create("/kafka")
        with capture_logs() as logs:
            await (await connect(settings)).close()
        assert [(each["log_level"], each["others"]) for each in logs] == [("warning", ["kafka"])]
        assert open_to_strangers(own_zookeeper.address, ["/"]) == ["/"]
        client.delete("/kafka")
        client.create("/brokers")  # of a cluster
        session = await connect(settings)
        assert open_to_strangers(own_zookeeper.address, ["/"]) == []
    await session.close()


async def test_a_password_is_replaced_step_by_step(open_session: SessionFactory, digest: Digest) -> None:
    """Both lines, then the new one first, then it alone: no process is ever without access."""
    old = await open_session(**digest("s:old"))
    await old.create("/by-old")
    both = await open_session(**digest("s:old", "s:new"))
    await both.create("/by-both")
    turned = await open_session(**digest("s:new", "s:old"))
    await turned.get("/by-old")
    await turned.create("/by-turned")
    await both.get("/by-turned")
    with pytest.raises(NotPermitted):
        await old.get("/by-turned")
    assert await turned.acl("/by-turned") == {Grant("digest", digest_id("s:new"))}


async def test_a_certificate_is_an_identity(tls_server: TlsServer) -> None:
    """Another certificate of the same authority gets a connection, and nothing more."""
    chroot = f"{tls_server.process.address}/x509"
    owner = tls_server.settings(zookeeper=chroot, zookeeper_auth_scheme="x509", zookeeper_set_acl=True)
    session = await connect(owner)
    await session.create("/mine", b"1")
    (grant,) = await session.acl("/mine")
    assert grant.scheme == "x509"
    assert SUBJECT in grant.id.split(",")
    other = tls_server.authority.issue("broker-2", "b2")
    files = {"zookeeper_ssl_certfile": other.certfile, "zookeeper_ssl_keyfile": other.keyfile}
    with pytest.raises(SettingsError, match="is not for the identity of this process"):
        await connect(owner.model_copy(update=files))
    await session.close()


async def test_several_certificates_share_their_znodes(tls_server: TlsServer) -> None:
    other = tls_server.authority.issue("broker-3", "b3")
    files = {"zookeeper_ssl_certfile": other.certfile, "zookeeper_ssl_keyfile": other.keyfile}
    ids = ";".join([await seen_as(tls_server, "first"), await seen_as(tls_server, "second", **files)])
    chroot = {"zookeeper": f"{tls_server.process.address}/shared", "zookeeper_auth_scheme": "x509"}
    settings = tls_server.settings(**chroot, zookeeper_set_acl=True, zookeeper_x509_ids=ids)
    first, second = await connect(settings), await connect(settings.model_copy(update=files))
    await first.create("/of-first")
    await second.set("/of-first", b"by second")
    for session in (first, second):
        await session.close()


async def seen_as(server: TlsServer, chroot: str, **files: Any) -> str:
    """The id by which the server knows the certificate. The chroot becomes its own."""
    below = {"zookeeper": f"{server.process.address}/{chroot}", "zookeeper_auth_scheme": "x509"}
    session = await connect(server.settings(**below, zookeeper_set_acl=True, **files))
    await session.create("/own", ephemeral=True)
    (grant,) = await session.acl("/own")
    await session.close()
    return grant.id


async def test_an_acl_that_locks_its_own_process_out_is_not_set(tls_server: TlsServer) -> None:
    """A list of certificates that lacks its own ends the start, before the root is protected by it."""
    settings = tls_server.settings(
        zookeeper=f"{tls_server.process.address}/mistaken",
        zookeeper_auth_scheme="x509",
        zookeeper_set_acl=True,
        zookeeper_x509_ids="CN=another",
    )
    open_first = settings.model_copy(update={"zookeeper_set_acl": False})
    session = await connect(open_first)
    with pytest.raises(SettingsError, match="may not read what it creates"):
        await connect(settings)
    assert await session.acl("/") == OPEN
    await session.close()


async def test_a_server_that_serves_only_the_known_says_so(tmp_path: Path, digest: Digest) -> None:
    """`enforce.auth.enabled`: the last step of a migration, if the ensemble is the cluster's alone."""
    server = ZooKeeperProcess(
        tmp_path / "zookeeper",
        free_ports(1)[0],
        log_path=tmp_path / "zookeeper.log",
        more="enforce.auth.enabled=true\nenforce.auth.schemes=digest\n",
    )
    server.start()
    try:
        await server.wait_serving(30)
        session = await connect(ZooKeeperSettings(zookeeper=server.address, **digest(CLUSTER)))
        assert await session.exists("/") is not None
        with pytest.raises(SettingsError, match="serves only processes with an identity"):
            await connect(ZooKeeperSettings(zookeeper=server.address))
        await session.close()
    finally:
        await server.discard()
