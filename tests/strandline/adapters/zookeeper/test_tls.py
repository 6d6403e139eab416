"""Connections to ZooKeeper by TLS: encrypted, to the right server, or not at all (CORRECTNESS Z1)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from structlog.testing import capture_logs

from strandline.adapters.zookeeper.connect import connect
from strandline.adapters.zookeeper.connection.refusal_log import LOGGED_EVERY_S, RefusalLog
from strandline.adapters.zookeeper.session import ZooKeeperSession
from strandline.config.services.zookeeper import ZooKeeperSettings
from strandline.errors import SettingsError
from strandline.local.ports import LOOPBACK
from strandline.local.zookeeper_process import ZooKeeperProcess
from strandline.ports import LinkState
from tests.hand_clock import HandClock
from tests.proxy import Proxy
from tests.tls_files import TestAuthority
from tests.tls_zookeeper import TlsServer
from tests.waiting import eventually


@asynccontextmanager
async def connecting(settings: ZooKeeperSettings) -> AsyncIterator[ZooKeeperSession]:
    """A session that has begun to connect, and does so until the end of the block."""
    session = ZooKeeperSession(settings)
    session.begin()
    try:
        yield session
    finally:
        await session.close()


async def refusals(settings: ZooKeeperSettings) -> Sequence[str]:
    """What the log says of a server to which there is no session."""
    with capture_logs() as logs:
        async with connecting(settings) as session:
            await eventually(lambda: logs, deadline_s=20, what="a refusal is logged")
            assert not await session.opened(0.3)
    assert {each["event"] for each in logs} == {"no encrypted connection to ZooKeeper"}
    return [each["reason"] for each in logs]


async def test_a_session_over_tls_does_what_others_do(tls_server: TlsServer) -> None:
    """Small and pipelined requests, values of many TLS records, a watch, and an end that ZooKeeper sees."""
    session, writer = await connect(tls_server.settings()), await connect(tls_server.settings())
    heard: list[list[str]] = []
    await session.create("/many")
    session.watch_children("/many", heard.append)
    async with asyncio.TaskGroup() as group:
        for number in range(500):
            group.create_task(writer.create(f"/many/{number}", ephemeral=True))
    await eventually(lambda: heard and len(heard[-1]) == 500)
    large = bytes(range(256)) * 2_000
    await session.create("/large", large)
    assert (await session.get("/large")).data == large
    await writer.close()
    assert await session.children("/many") == []
    await session.close()


async def test_a_connection_that_broke_is_encrypted_again(tls_server: TlsServer) -> None:
    """The same session, with its ephemerals, over a second handshake (E11)."""
    async with Proxy(tls_server.process.port) as link:
        settings = tls_server.settings(zookeeper=link.address, zookeeper_session_timeout_ms=30_000)
        session = await connect(settings)
        await session.create("/mine", ephemeral=True)
        identity = session.session_id
        link.cut()
        await eventually(lambda: session.state is LinkState.SUSPENDED)
        link.mend()
        assert (await session.get("/mine")).ephemeral_owner == identity
        await session.close()


async def test_nothing_is_sent_in_plaintext_to_a_server_without_tls(
    zookeeper_server: ZooKeeperProcess, tls_server: TlsServer
) -> None:
    """Settings that ask for TLS get TLS: kazoo would not notice that its handler ignores them."""
    (reason,) = await refusals(tls_server.settings(zookeeper=zookeeper_server.address))
    assert "the port may be one for plaintext" in reason


async def test_a_server_with_tls_serves_nobody_in_plaintext(tls_server: TlsServer) -> None:
    async with connecting(ZooKeeperSettings(zookeeper=tls_server.process.address)) as session:
        assert not await session.opened(1)


async def test_a_certificate_of_another_authority_is_refused(tls_server: TlsServer, tmp_path: Path) -> None:
    (reason,) = await refusals(tls_server.settings(zookeeper_ssl_cafile=TestAuthority(tmp_path).cafile))
    assert "shows a certificate that is refused: unable to get local issuer certificate" in reason


async def test_a_certificate_for_another_host_is_refused_by_default(tls_server: TlsServer) -> None:
    elsewhere = f"localhost:{tls_server.process.port}"
    reasons = await refusals(tls_server.settings(zookeeper=elsewhere))
    assert all("Hostname mismatch, certificate is not valid for 'localhost'" in each for each in reasons)
    relaxed = tls_server.settings(zookeeper=elsewhere, zookeeper_ssl_check_hostname=False)
    await (await connect(relaxed)).close()


async def test_a_client_without_a_certificate_learns_that_it_needs_one(tls_server: TlsServer) -> None:
    """TLS 1.3 has the client finish its handshake first; the refusal comes with the first answer."""
    none = tls_server.settings(zookeeper_ssl_certfile=None, zookeeper_ssl_keyfile=None)
    assert all("certificate of this process" in each for each in await refusals(none))


async def test_a_client_of_another_authority_is_refused(tls_server: TlsServer, tmp_path: Path) -> None:
    foreign = TestAuthority(tmp_path).issue("broker-1", "b1")
    files = {"zookeeper_ssl_certfile": foreign.certfile, "zookeeper_ssl_keyfile": foreign.keyfile}
    assert all("certificate of this process" in each for each in await refusals(tls_server.settings(**files)))


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"", "the port may be one for plaintext"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak TLS as it should"),
        (b"\x16\x03\x03\xff\xff" + b"\0" * 70_000, "does not speak TLS as it should"),
        (b"\x15\x03\x03\x00\x02\x02\x28", "refuses the certificate of this process"),
        (None, "did not finish the TLS handshake within 3 s"),
    ],
    ids=["nothing", "HTTP", "a record too long", "an alert", "silence"],
)
async def test_a_server_that_answers_garbage_is_named(
    tls_server: TlsServer, answer: bytes | None, reason: str
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        if answer is None:
            await reader.read()  # until the client hangs up
        else:
            writer.write(answer)
        writer.close()

    async with await asyncio.start_server(serve, LOOPBACK) as server:
        port = server.sockets[0].getsockname()[1]
        said = await refusals(tls_server.settings(zookeeper=f"{LOOPBACK}:{port}"))
    assert all(reason in each and each.startswith("the server ") for each in said)


def test_a_reason_is_logged_once_a_minute_for_each_server() -> None:
    clock = HandClock()
    log = RefusalLog(clock)
    with capture_logs() as logs:
        for _ in range(100):
            log.report("zk1:2281", "is late")
            log.report("zk2:2281", "is late")
        clock.now_s += LOGGED_EVERY_S
        log.report("zk1:2281", "is late")
        log.report("zk1:2281", "is wrong")
    assert [(each["server"], each["reason"]) for each in logs] == [
        ("zk1:2281", "the server is late"),
        ("zk2:2281", "the server is late"),
        ("zk1:2281", "the server is late"),
        ("zk1:2281", "the server is wrong"),
    ]


async def test_files_with_which_no_handshake_can_succeed_end_the_start(tmp_path: Path) -> None:
    """The error names the setting, the file and the fault; nothing is connected to."""
    authority = TestAuthority(tmp_path)
    pair, other = authority.issue("one", "b1"), authority.issue("two", "b2")
    garbage = tmp_path / "garbage"
    garbage.write_bytes(b"-----BEGIN CERTIFICATE-----\nnothing\n")
    garbage.chmod(0o600)
    encrypted, shown = tmp_path / "encrypted.key", tmp_path / "shown.key"
    encrypted.touch(0o600)
    encrypted.write_bytes(
        load_pem_private_key(pair.keyfile.read_bytes(), None).private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")
        )
    )
    shown.write_bytes(pair.keyfile.read_bytes())
    shown.chmod(0o644)
    absent = tmp_path / "absent"
    files = {"ca": authority.cafile, "cert": pair.certfile, "key": pair.keyfile}
    for change, said in (
        ({"ca": absent}, "zookeeper_ssl_cafile = '{}': it cannot be used: no such file"),
        ({"ca": garbage}, "zookeeper_ssl_cafile = '{}': it cannot be used: "),
        ({"cert": absent}, "zookeeper_ssl_certfile = '{}': it cannot be used with {key}: no such file"),
        ({"cert": garbage}, "zookeeper_ssl_certfile = '{}': it cannot be used with {key}: "),
        ({"key": absent}, "zookeeper_ssl_keyfile = '{}': No such file"),
        ({"key": garbage}, "zookeeper_ssl_certfile = '{cert}': it cannot be used with {}: "),
        ({"key": other.keyfile}, "it cannot be used with {}: key values mismatch"),
        ({"key": encrypted}, "it cannot be used with {}: the key is encrypted"),
        ({"key": shown}, "zookeeper_ssl_keyfile = '{}': other users may read it: chmod 600"),
    ):
        given: dict[str, Any] = {f"zookeeper_ssl_{name}file": path for name, path in (files | change).items()}
        with pytest.raises(SettingsError) as raised:
            await connect(ZooKeeperSettings(zookeeper_ssl=True, **given))
        (changed,) = change.values()
        assert said.format(changed, **files) in raised.value.message


async def test_files_are_read_for_each_connection(tls_server: TlsServer, tmp_path: Path) -> None:
    """A renewed certificate needs no restart; one that cannot be used is named, and tried again."""
    certfile = tmp_path / "renewed.crt"
    certfile.write_bytes(tls_server.broker.certfile.read_bytes())
    async with Proxy(tls_server.process.port) as link:
        session = await connect(
            tls_server.settings(
                zookeeper=link.address, zookeeper_ssl_certfile=certfile, zookeeper_session_timeout_ms=60_000
            )
        )
        with capture_logs() as logs:
            certfile.write_text("half of a certificate")
            link.cut()
            link.mend()
            await eventually(lambda: logs, what="the file is named")
        assert f"zookeeper_ssl_certfile = {str(certfile)!r}" in logs[0]["reason"]
        states: list[LinkState] = []
        session.on_state(states.append)
        certfile.write_bytes(tls_server.broker.certfile.read_bytes())
        await eventually(lambda: states == [LinkState.CONNECTED])
        await session.close()
