"""The systems that `control_plane_versus` compares: a local cluster, and others that run already."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import PIPE
from collections.abc import Sequence
from typing import Final, Protocol

from strandline import LocalCluster
from strandline.errors import SettingsError

START_S_MAX: Final = 120.0


class Peer(Protocol):
    """A cluster that speaks Kafka's protocol, with processes on this machine."""

    @property
    def name(self) -> str: ...

    @property
    def bootstrap(self) -> str: ...

    @property
    def brokers(self) -> int:
        """How many it has."""
        ...

    def pids(self) -> Sequence[int]:
        """All processes that run for it."""
        ...

    async def kill(self, broker: int) -> None:
        """SIGKILL."""
        ...

    async def start(self, broker: int) -> None:
        """Starts a broker that was killed."""
        ...


class Own:
    """A local cluster, with its controller and ZooKeeper."""

    name = "strandline"

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self.bootstrap = cluster.kafka_bootstrap
        self.brokers = len(cluster.broker_ids)

    def pids(self) -> Sequence[int]:
        return [member.pid for member in self._cluster.members() if member.pid is not None]

    async def kill(self, broker: int) -> None:
        await self._cluster.kill_broker(broker)

    async def start(self, broker: int) -> None:
        await self._cluster.start_broker(broker, wait_s=START_S_MAX)


class Given:
    """A system that others have started. `restart` is a shell command with `{broker}` in it, which starts one
    broker and prints its pid last."""

    def __init__(self, name: str, bootstrap: str, pids: str, restart: str) -> None:
        """`pids`: `BROKER=PID,…`. Raises SettingsError."""
        self.name = name
        self.bootstrap = bootstrap
        self._restart = restart
        self._pids = parse_pids(pids)
        self.brokers = len(self._pids)

    def pids(self) -> Sequence[int]:
        return list(self._pids.values())

    async def kill(self, broker: int) -> None:
        os.kill(self._pids.pop(broker), signal.SIGKILL)

    async def start(self, broker: int) -> None:
        """Raises RuntimeError if the command prints no pid."""
        command = self._restart.replace("{broker}", str(broker))
        process = await asyncio.create_subprocess_shell(command, stdout=PIPE)
        out, _ = await process.communicate()
        words = out.split()
        if process.returncode or not words or not words[-1].isdigit():
            raise RuntimeError(f"{command} ended with {process.returncode}, and printed no pid: {out!r}")
        self._pids[broker] = int(words[-1])


def parse_pids(text: str) -> dict[int, int]:
    """By broker. Raises SettingsError.

    >>> parse_pids("1=401,2=402")
    {1: 401, 2: 402}
    """
    try:
        return {
            int(broker): int(pid) for broker, pid in (each.split("=") for each in text.split(",") if each)
        }
    except ValueError:
        raise SettingsError(f"pids of brokers: {text!r} is not BROKER=PID,BROKER=PID") from None
