"""A process under attack: what watches it, and what must hold of it afterwards."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from strandline.config.limits import MIB
from strandline.local.cluster import LocalCluster

STALL_S_MAX: Final = 10.0
"""Of processor time. A deadline rather than a measure: what blocked the loop took 23 s and more."""
MEMORY_BYTES_MAX: Final = 300 * MIB
LOG_BYTES_MAX: Final = 100_000
LOG_BYTES_PER_INPUT_MAX: Final = 20
"""On average. Each refused login has a line, and an address may try three in a second."""


@dataclass
class Watched:
    """One broker or controller, and its probe (`stall_probe`)."""

    address: str
    pid: int
    log: Path
    probe: asyncio.subprocess.Process

    async def worst(self) -> tuple[float, int]:
        """(stall in seconds, memory in bytes), the worst since the last call."""
        assert self.probe.stdin is not None and self.probe.stdout is not None
        self.probe.stdin.write(b"\n")
        line = await self.probe.stdout.readline()
        assert line, f"{self.address} answers no question about its health"
        found = json.loads(line)
        return found["stall_s"], found["memory_bytes"]

    @asynccontextmanager
    async def harmless(self, what: str, inputs: int = 0) -> AsyncIterator[None]:
        """What the block does keeps no other client waiting, takes little memory, and is no defect by the
        process's own log. `what` is named if not. `inputs`: how many there are, if they are small."""
        _, rest_bytes = await self.worst()
        log_before = self.log.stat().st_size
        yield
        stall_s, memory_bytes = await self.worst()
        with self.log.open("rb") as file:
            file.seek(log_before)
            log = file.read().decode(errors="replace")
        assert stall_s <= STALL_S_MAX, f"{what} kept the others waiting for {stall_s:.2f} s of processor time"
        taken_bytes = memory_bytes - rest_bytes
        assert taken_bytes <= MEMORY_BYTES_MAX, f"{what} took {taken_bytes:,} bytes"
        assert "raceback" not in log, f"{what}: {log[-4000:]}"
        log_bytes_max = LOG_BYTES_MAX + LOG_BYTES_PER_INPUT_MAX * inputs
        assert len(log) <= log_bytes_max, f"{what} had {len(log):,} bytes logged: {log[-4000:]}"


@asynccontextmanager
async def watched(
    address: str, pid: int, log: Path, settings: Mapping[str, Any] | None = None
) -> AsyncIterator[Watched]:
    """`settings`: those of a client that may connect."""
    names = ("ssl_cafile", "ssl_certfile", "ssl_keyfile") if settings else ()
    files = [str((settings or {})[name]) for name in names]
    probe = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.integration.hostile.support.stall_probe", address, str(pid), *files,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        yield Watched(address, pid, log, probe)
    finally:
        probe.kill()
        await probe.wait()


@asynccontextmanager
async def watched_broker(cluster: LocalCluster) -> AsyncIterator[Watched]:
    """The first one."""
    log, settings = cluster.log_path(1), cluster.client_settings
    async with watched(cluster.address(1), cluster.pid(1), log, settings) as found:
        yield found


@asynccontextmanager
async def watched_controller(cluster: LocalCluster) -> AsyncIterator[Watched]:
    """The only one."""
    (member,) = [member for member in cluster.members() if member.kind == "controller"]
    assert member.pid is not None
    log = cluster.log_path(1).with_name(f"controller-{member.id}.log")
    address = cluster.controller_address(member.id)
    async with watched(address, member.pid, log, cluster.client_settings) as found:
        yield found
