"""A cluster whose ZooKeeper is three servers, so that their leader can be killed without an outage."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from strandline.local.cluster import LocalCluster
from strandline.local.members.members import Members
from strandline.local.ports import LOOPBACK, free_ports
from strandline.local.process import Process
from strandline.local.zookeeper_process import ZooKeeperProcess, four_letter_word
from tests.waiting import eventually

SERVERS: Final = 3

_CONFIGURATION: Final = """\
initLimit=80
syncLimit=40
{servers}
"""


class Ensemble(ZooKeeperProcess):
    """Three servers that count as one: it serves once a majority does."""

    def __init__(self, directory: Path, *, log_path: Path) -> None:
        ports = free_ports(3 * SERVERS)
        super().__init__(directory, ports[0], log_path=log_path)
        clients, peers, elections = ports[:SERVERS], ports[SERVERS : 2 * SERVERS], ports[2 * SERVERS :]
        more = _CONFIGURATION.format(
            servers="\n".join(
                f"server.{number}={LOOPBACK}:{peer}:{election}"
                for number, (peer, election) in enumerate(zip(peers, elections, strict=True), 1)
            )
        )
        self.servers: Sequence[ZooKeeperProcess] = [
            ZooKeeperProcess(
                directory / str(number),
                port,
                log_path=log_path.with_name(f"zookeeper-{number}.log"),
                more=more,
            )
            for number, port in enumerate(clients, 1)
        ]

    @property
    def address(self) -> str:
        return ",".join(server.address for server in self.servers)

    @property
    def alive(self) -> bool:
        return all(server.alive for server in self.servers)

    def start(self) -> Process:
        """Start the servers that do not run; returns the process of the first."""
        for number, server in enumerate(self.servers, 1):
            if not server.alive:
                (server.directory / "data").mkdir(parents=True, exist_ok=True)
                (server.directory / "data" / "myid").write_text(str(number))
                server.start()
        self.process = self.servers[0].process
        assert self.process is not None
        return self.process

    async def wait_serving(self, timeout_s: float) -> None:
        async with asyncio.TaskGroup() as tasks:
            for server in self.servers:
                if server.alive:
                    tasks.create_task(server.wait_serving(timeout_s))

    async def leader(self) -> ZooKeeperProcess:
        """The server that leads the others now."""

        async def found() -> ZooKeeperProcess | None:
            for server in self.servers:
                if server.alive and "Mode: leader" in await four_letter_word(server.port, "srvr"):
                    return server
            return None

        leader = await eventually(found, deadline_s=30, what="one of the servers leads")
        assert leader is not None
        return leader

    async def stop(self) -> None:
        for server in self.servers:
            await server.stop()
        self.process = None

    async def kill(self) -> None:
        for server in self.servers:
            await server.kill()
        self.process = None

    async def discard(self) -> None:
        await self.kill()

    def pause(self) -> None:
        for server in self.servers:
            server.pause()

    def resume(self) -> None:
        for server in self.servers:
            server.resume()


class EnsembleMembers(Members):
    """All of them know all three."""

    ensemble: Ensemble

    def _zookeeper(self) -> ZooKeeperProcess:
        self.ensemble = Ensemble(self.layout.zookeeper, log_path=self.layout.log("zookeeper"))
        return self.ensemble


class EnsembleCluster(LocalCluster):
    _members: EnsembleMembers
    _members_type = EnsembleMembers

    @property
    def ensemble(self) -> Ensemble:
        return self._members.ensemble
