"""The console of a local cluster, as a process of its own."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from strandline.local.layout import Layout, MemberFile
from strandline.local.ports import LOOPBACK, answer_of, free_ports, is_free
from strandline.local.process import Process
from strandline.local.service import python_path

PORT: Final = 8088
"""The usual port of a console; another one if it is taken."""
POLL_S: Final = 0.05
HEALTH_S_MAX: Final = 1.0
STOP_S_MAX: Final = 5.0
HEALTH: Final = f"GET /healthz HTTP/1.1\r\nHost: {LOOPBACK}\r\nConnection: close\r\n\r\n".encode()
OF_OTHERS: Final = ("STRANDLINE_BOOTSTRAP", "STRANDLINE_CLIENT_CONFIG")
"""Variables that would lead it to another cluster."""


def new_console(taken: set[int]) -> MemberFile:
    """The console of a cluster whose members have these ports."""
    port = PORT if PORT not in taken and is_free(PORT) else free_ports(1)[0]
    return MemberFile(id=1, port=port)


class ConsoleProcess:
    """Runs `strandline console` for the cluster of a folder.

    In a secure cluster a browser needs its token, because the console acts as the cluster's admin.
    """

    kind: Final = "console"
    name: Final = "console"

    def __init__(self, member: MemberFile, layout: Layout, *, secure: bool, detached: bool) -> None:
        self.member = member
        self.log_path = layout.log(self.name)
        self.process: Process | None = None
        self._layout = layout
        self._secure = secure
        self._detached = detached

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.alive

    @property
    def address(self) -> str:
        """Where browsers find it."""
        return f"http://{LOOPBACK}:{self.member.port}/"

    @property
    def token_file(self) -> Path | None:
        """The file with the token that a browser gives, which the console makes; None: it needs none."""
        return self._layout.console_token if self._secure else None

    def find(self) -> None:
        """Find the process that the cluster's file names, if it is still running."""
        if self.member.process_id is not None:
            self.process = Process.find(self.name, self.member.process_id, log_path=self.log_path)

    def start(self) -> None:
        """Start the process."""
        command = [sys.executable, "-m", "strandline", "console", "--dir", str(self._layout.directory)]
        command += ["--listen", f"{LOOPBACK}:{self.member.port}"]
        if self.token_file is not None:
            command += ["--token-file", str(self.token_file)]
        self.process = Process.spawn(
            self.name, command, log_path=self.log_path, environment=_environment(), detached=self._detached
        )

    async def wait_serving(self) -> None:
        """Return once browsers are served. Raises ProcessFailed if it ends before."""
        assert self.process is not None
        while not await self.serves():
            if not self.process.alive:
                raise self.process.failure("ended before it served")
            await asyncio.sleep(POLL_S)

    async def serves(self) -> bool:
        """Ask for its health once, which is bad from the signal on that ends it. Another process on its port
        does not count."""
        if self.process is None or not self.process.listens(self.member.port):
            return False
        return b" 200 " in await answer_of(self.member.port, HEALTH, HEALTH_S_MAX)

    async def stop(self, *, clean: bool) -> None:
        """SIGTERM (SIGKILL if it takes too long), or SIGKILL at once; waits until it has exited."""
        if self.process is not None:
            await self.process.stop(clean=clean, timeout_s=STOP_S_MAX)
            self.process = None


def _environment() -> Mapping[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in OF_OTHERS}
    return {**kept, **python_path()}
