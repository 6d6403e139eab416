"""The load of a round: clients, each a process with a history file of its own."""

from __future__ import annotations

import asyncio
import signal
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from strandline.adapters.system.clock import SystemClock
from strandline.local.die_with_parent import dying_with_this_process
from strandline_lab.chaos.core.faults import Member
from strandline_lab.chaos.core.load import OWN, TOPICS, ClientRole, ClientRoles, Library
from strandline_lab.chaos.world import World, WorldFailed

BEGINS_S_MAX: Final = 90.0
"""Time until every client has written or knows what it reads: twelve processes start on a busy machine."""
ENDS_S_MAX: Final = 40.0
"""Time for a client to end after SIGTERM: producers wait for every answer, members leave their groups."""
FINAL_S_MAX: Final = 90.0
AGAIN_S: Final = 0.5
"""Pause before a client that ended with an error is restarted."""
POLL_S: Final = 0.05
FINAL_IDLE_S: Final = 3.0


@dataclass(slots=True)
class _Running:
    """A client of the load, and the process that it has now."""

    role: ClientRole
    lives: int = 0
    process: Process | None = None
    wanted: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while the client is meant to run."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once the client has ended and is not to be restarted."""

    @property
    def histories(self) -> list[str]:
        """The names of the histories of all its processes, the present one last."""
        name = self.role.name
        return [name if life == 1 else f"{name}-{life}" for life in range(1, self.lives + 1)]


class Load:
    """The clients of a round. Those in groups may be harmed (`strandline_lab.chaos.world.Processes`).

    Their histories are in `out`, their standard error in `out`/stderr. strandline's clients connect to
    `bootstrap`, Kafka clients to `kafka_bootstrap`.
    """

    def __init__(
        self,
        bootstrap: str,
        out: Path,
        clients: ClientRoles = OWN,
        *,
        kafka_bootstrap: str = "",
        config: Path | None = None,
    ) -> None:
        """`config`: the file with the settings of strandline's clients, if they need any. Kafka clients show
        the certificate that it names."""
        self._bootstrap = bootstrap
        self._config = config
        self._kafka_bootstrap = kafka_bootstrap
        self._out = out
        self._roles = clients
        self._clients = [_Running(role) for role in clients.roles]
        for client in self._clients:
            client.wanted.set()
        self._clock = SystemClock()
        self._leaving: set[str] = set()
        self.hung: list[str] = []
        """Clients that did not end after SIGTERM and were killed."""

    async def run(self) -> None:
        """Keeps all clients running until each was asked to end and has ended."""
        async with asyncio.TaskGroup() as tasks:
            for client in self._clients:
                tasks.create_task(self._keep(client))

    async def _keep(self, client: _Running) -> None:
        """Starts the client, and restarts it whenever it ends. Each process has a history of its own."""
        role = client.role
        try:
            while role.name not in self._leaving:
                client.lives += 1
                name = client.histories[-1]
                arguments = self._command(role, client.lives)
                async with command(arguments, self._out / f"{name}.jsonl") as process:
                    client.process = process
                    await process.wait()
                    client.process = None
                if role.name not in self._leaving:
                    await self._clock.sleep(AGAIN_S)
                    await client.wanted.wait()
        finally:
            client.ended.set()

    def _command(self, role: ClientRole, life: int) -> Sequence[str]:
        to = ("consume", role.topic, *role.options)
        if role.value_prefix:
            prefix = f"{role.value_prefix}-" if life == 1 else f"{role.value_prefix}.{life}-"
            command = "process" if role.processes else "produce"
            to = (command, role.topic, "--value-prefix", prefix, *role.options)
        own = role.library is Library.STRANDLINE
        if own and not role.transacts:
            return strandline(self._bootstrap, self._config, "verify", *to)
        config = () if self._config is None else ("--client-config", str(self._config))
        program = f"strandline_lab.chaos.{'transactions' if role.transacts else 'kafka'}"
        bootstrap = self._bootstrap if own else self._kafka_bootstrap
        return ("-m", program, role.library, bootstrap, *to, *config)

    async def begun(self) -> None:
        """Returns once every producer has an answer and every reader knows what it reads. Any process of the
        client counts: on a busy machine the first one may have found no broker.

        Raises WorldFailed.
        """
        waiting = list(self._clients)
        deadline = self._clock.monotonic() + BEGINS_S_MAX
        while waiting := [client for client in waiting if not self._has_begun(client)]:
            if self._clock.monotonic() >= deadline:
                names = ", ".join(sorted(client.role.name for client in waiting))
                raise WorldFailed(f"{names} did nothing within {BEGINS_S_MAX:.0f} s")
            await self._clock.sleep(POLL_S)

    def _has_begun(self, client: _Running) -> bool:
        wanted = f'"event": "{client.role.begins_with}"'.encode()
        paths = [self._out / f"{name}.jsonl" for name in client.histories]
        return any(path.exists() and wanted in path.read_bytes() for path in paths)

    async def end(self, kind: str) -> None:
        """Ends the clients whose names begin with `kind`, and waits until they have ended."""
        leaving = [client for client in self._clients if client.role.name.startswith(kind)]
        self._leaving |= {client.role.name for client in leaving}
        for client in leaving:
            if client.process is not None and client.process.returncode is None:
                client.process.terminate()
        for client in leaving:
            try:
                async with asyncio.timeout(ENDS_S_MAX):
                    await client.ended.wait()
            except TimeoutError:
                self.hung.append(client.role.name)
                if client.process is not None and client.process.returncode is None:
                    client.process.kill()
                await client.ended.wait()

    # --- harm ----------------------------------------------------------------------------------

    @property
    def members(self) -> Sequence[Member]:
        return list(self._roles.members)

    def _client(self, member: Member) -> _Running:
        return next(client for client in self._clients if client.role is self._roles.members[member])

    def _signal(self, member: Member, number: signal.Signals) -> None:
        process = self._client(member).process
        if process is not None and process.returncode is None:
            process.send_signal(number)

    async def alive(self, member: Member) -> bool:
        process = self._client(member).process
        return process is not None and process.returncode is None

    async def kill(self, member: Member) -> None:
        client = self._client(member)
        client.wanted.clear()
        self._signal(member, signal.SIGKILL)
        if client.process is not None:
            await client.process.wait()

    async def terminate(self, member: Member) -> None:
        """Sends SIGTERM; the client leaves its group. A client that does not end is killed and listed in
        `hung`."""
        client = self._client(member)
        client.wanted.clear()
        self._signal(member, signal.SIGTERM)
        try:
            async with asyncio.timeout(ENDS_S_MAX):
                if client.process is not None:
                    await client.process.wait()
        except TimeoutError:
            self.hung.append(client.role.name)
            await self.kill(member)

    async def start(self, member: Member) -> None:
        self._client(member).wanted.set()

    async def pause(self, member: Member) -> None:
        self._signal(member, signal.SIGSTOP)

    async def resume(self, member: Member) -> None:
        self._signal(member, signal.SIGCONT)


def strandline(bootstrap: str, config: Path | None, *arguments: str) -> Sequence[str]:
    """Python's arguments for `strandline ARGUMENT…` against the cluster."""
    options = () if config is None else ("--command-config", str(config))
    return ("-m", "strandline", "--bootstrap", bootstrap, *options, *arguments)


@asynccontextmanager
async def command(arguments: Sequence[str], out: Path) -> AsyncIterator[Process]:
    """Runs Python with these arguments. Its history is in `out`; what else it prints is in a file of the
    folder `stderr` beside it. The process has ended at the end of the block."""
    stderr = out.parent / "stderr" / f"{out.stem}.txt"
    stderr.parent.mkdir(exist_ok=True)
    with out.open("wb") as history, stderr.open("wb") as printed:
        process = await asyncio.create_subprocess_exec(
            *dying_with_this_process(), sys.executable, *arguments,
            stdin=DEVNULL, stdout=history, stderr=printed,
        )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def read_finally(world: World, out: Path) -> dict[str, int]:
    """Has new readers read every topic from beginning to end, and reads the recorded state changes and group
    events. Returns the exit status of each reader that failed, by its history; below 0: the signal."""
    reading = ("--from", "earliest", "--isolation", "committed", "--watermarks", "0.5")
    options = (*reading, "--idle-exit", str(FINAL_IDLE_S))
    questions: dict[str, Sequence[str]] = {
        "state-changes": ("-o", "json", "state-changes"),
        "group-events": ("-o", "json", "group", "events"),
        **{f"final-{topic.topic}": ("verify", "consume", topic.topic, *options) for topic in TOPICS},
    }
    failed: dict[str, int] = {}

    async def ask(name: str, arguments: Sequence[str]) -> None:
        command_line = strandline(world.bootstrap, world.client_config, *arguments)
        async with command(command_line, out / f"{name}.jsonl") as process:
            try:
                async with asyncio.timeout(FINAL_S_MAX):
                    status = await process.wait()
            except TimeoutError:
                status = -signal.SIGKILL
        if status != 0:
            failed[name] = status

    async with asyncio.TaskGroup() as tasks:
        for name, arguments in questions.items():
            tasks.create_task(ask(name, arguments))
    return failed
