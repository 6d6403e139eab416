"""A ZooKeeper that speaks nothing but TLS, and wants certificates of its clients."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from strandline.adapters.zookeeper.connection.tls import ClientTls
from strandline.config.services.zookeeper import ZooKeeperSettings
from strandline.local.ports import free_ports
from strandline.local.zookeeper_process import ZooKeeperProcess
from strandline.local.zookeeper_tls import ServerTls
from tests.tls_files import Files, TestAuthority

START_S_MAX = 60.0


@dataclass(frozen=True)
class TlsServer:
    """The server shows a certificate for 127.0.0.1 and wants one of `authority`."""

    process: ZooKeeperProcess
    authority: TestAuthority
    broker: Files

    @property
    def of_member(self) -> dict[str, Any]:
        """The settings with which a process is let in, besides the address."""
        return {
            "zookeeper_ssl": True,
            "zookeeper_ssl_cafile": self.authority.cafile,
            "zookeeper_ssl_certfile": self.broker.certfile,
            "zookeeper_ssl_keyfile": self.broker.keyfile,
        }

    def settings(self, **others: Any) -> ZooKeeperSettings:
        """Those with which a process is let in; `others` replace some."""
        return ZooKeeperSettings(**{"zookeeper": self.process.address, **self.of_member, **others})


@asynccontextmanager
async def tls_zookeeper(directory: Path) -> AsyncIterator[TlsServer]:
    """Serves while the block runs."""
    authority = TestAuthority(directory / "certificates")
    server, broker = authority.issue("zookeeper", "127.0.0.1"), authority.issue("broker-1", "b1")
    client = ClientTls(authority.cafile, broker.certfile, broker.keyfile, check_hostname=True)
    process = ZooKeeperProcess(
        directory / "zookeeper",
        free_ports(1)[0],
        log_path=directory / "zookeeper.log",
        tls=ServerTls(server.keystore, authority.cafile, client),
    )
    process.start()
    try:
        await process.wait_serving(START_S_MAX)
        yield TlsServer(process, authority, broker)
    finally:
        await process.discard()
