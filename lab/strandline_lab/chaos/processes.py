"""A cluster of processes on this machine. Faults are SIGKILL, SIGTERM, SIGSTOP and a limit on file sizes.

Its network cannot be cut; `strandline_lab.chaos.containers` can do that.
"""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from strandline.adapters.system.clock import SystemClock
from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.connect import connect
from strandline.adapters.zookeeper.facts import Reader, read_isr, read_registrations, read_topic
from strandline.config.load import build
from strandline.config.services.zookeeper import ZooKeeperSettings
from strandline.errors import CoordinationError, StrandlineError
from strandline.ids import BrokerId
from strandline.local.cluster import LocalCluster
from strandline_lab.chaos.core.faults import OPERATED, Cut, FaultKind, Member, Role
from strandline_lab.chaos.world import World, WorldFailed

CAN: Final = frozenset(
    {
        FaultKind.KILL,
        FaultKind.TERMINATE,
        FaultKind.PAUSE,
        FaultKind.DISK_FULL,
        FaultKind.CHASE,
        FaultKind.REASSIGN,
        FaultKind.ADD_PARTITIONS,
        *OPERATED,
    }
)
PRINTED_BYTES_MAX: Final = 48 * 1024
"""Bytes that a broker may still print once its disk is full, since its output is a file too."""
START_S_MAX: Final = 90.0
TERMINATED_S_MAX: Final = 15.0
POLL_S: Final = 0.05
ISRS_READ_S_MAX: Final = 3.0
"""Time to read all ISRs from ZooKeeper."""
SAID_BYTES_MAX: Final = 16 * 1024 * 1024


class ProcessWorld:
    """A `World` of running processes."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._brokers = list(cluster.broker_ids)
        self._clock = SystemClock()

    @property
    def bootstrap(self) -> str:
        return self._cluster.bootstrap

    @property
    def client_settings(self) -> Mapping[str, Any]:
        return self._cluster.client_settings

    @property
    def client_config(self) -> Path | None:
        return self._cluster.directory / "client.toml" if self._cluster.secure else None

    @property
    def kafka_bootstrap(self) -> str:
        return self._cluster.kafka_bootstrap

    @property
    def members(self) -> Sequence[Member]:
        return [
            *(Member(Role.BROKER, number) for number in self._brokers),
            *(Member(Role.CONTROLLER, number) for number in self._cluster.controller_ids),
            Member(Role.ZOOKEEPER, 1),
        ]

    @property
    def can(self) -> frozenset[FaultKind]:
        return CAN

    async def alive(self, member: Member) -> bool:
        return self._pid(member) is not None

    async def kill(self, member: Member) -> None:
        match member.role:
            case Role.BROKER:
                await self._cluster.kill_broker(member.number)
            case Role.CONTROLLER:
                await self._cluster.kill_controller(member.number)
            case Role.ZOOKEEPER:
                await self._cluster.kill_zookeeper()

    async def terminate(self, member: Member) -> None:
        match member.role:
            case Role.BROKER:
                await self._cluster.stop_broker(member.number)
            case Role.CONTROLLER:
                await self._cluster.stop_controller(member.number)
            case Role.ZOOKEEPER:
                await self._terminate_zookeeper(member)

    async def _terminate_zookeeper(self, member: Member) -> None:
        self._signal(member, signal.SIGTERM)
        deadline = self._clock.monotonic() + TERMINATED_S_MAX
        while await self.alive(member) and self._clock.monotonic() < deadline:
            await self._clock.sleep(POLL_S)
        await self._cluster.kill_zookeeper()

    async def start(self, member: Member) -> None:
        if await self.alive(member):
            return
        await self.kill(member)  # reaps a process that ended without a fault
        try:
            match member.role:
                case Role.BROKER:
                    await self._cluster.start_broker(member.number, wait_s=None)
                case Role.CONTROLLER:
                    await self._cluster.start_controller(member.number, wait_s=None)
                case Role.ZOOKEEPER:
                    await self._cluster.start_zookeeper()
        except (StrandlineError, OSError) as error:
            raise WorldFailed(f"{member} could not be started: {error}") from error

    async def pause(self, member: Member) -> None:
        self._signal(member, signal.SIGSTOP)

    async def resume(self, member: Member) -> None:
        self._signal(member, signal.SIGCONT)

    async def disconnect(self, member: Member) -> None:
        raise WorldFailed("processes of one machine have no network that could be cut")

    async def connect(self, member: Member) -> None:
        """Does nothing: `disconnect` never succeeds."""

    async def cut(self, sender: Member, receiver: Member, how: Cut = Cut.DROPPED) -> None:
        raise WorldFailed("processes of one machine have no network that could be cut")

    async def join(self, sender: Member, receiver: Member, how: Cut = Cut.DROPPED) -> None:
        """Does nothing: `cut` never succeeds."""

    async def fill_disk(self, broker: Member) -> None:
        """Limits every file of the broker to a little more than its output so far (RLIMIT_FSIZE). Longer
        segments take no more, with EFBIG instead of ENOSPC, and shorter ones soon."""
        pid = self._pid(broker)
        if pid is None:
            raise WorldFailed(f"{broker} is dead")
        printed = self._log_path(broker).stat().st_size
        _set_file_size_max(pid, printed + PRINTED_BYTES_MAX)

    async def free_disk(self, broker: Member) -> None:
        pid = self._pid(broker)
        if pid is not None:
            _set_file_size_max(pid, resource.RLIM_INFINITY)

    async def grow(self) -> Member:
        try:
            number = await self._cluster.add_broker(wait_s=None)
        except (StrandlineError, OSError) as error:
            raise WorldFailed(f"no broker could be added: {error}") from error
        self._brokers.append(number)
        return Member(Role.BROKER, number)

    async def lose_disk(self, broker: Member) -> bool:
        if await self.alive(broker) or await self._counts_on(broker):
            return False
        await asyncio.to_thread(_empty, self._cluster.data_dir(broker.number))
        return True

    async def _counts_on(self, broker: Member) -> bool:
        """True also if ZooKeeper does not answer. A broker without a session joins no ISR."""
        settings = build(ZooKeeperSettings, self._cluster.zookeeper_settings, {})
        try:
            async with asyncio.timeout(ISRS_READ_S_MAX):
                session = await connect(settings, protect=False)
                try:
                    return await _is_named(session, BrokerId(broker.number))
                finally:
                    await session.close()
        except (CoordinationError, StrandlineError, TimeoutError):
            return True

    async def log_of(self, broker: Member) -> Path:
        return self._cluster.data_dir(broker.number)

    async def said(self, member: Member) -> bytes:
        try:
            with self._log_path(member).open("rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - SAID_BYTES_MAX))
                return file.read()
        except FileNotFoundError:
            return b""

    def _log_path(self, member: Member) -> Path:
        name = "zookeeper" if member.role is Role.ZOOKEEPER else f"{member.role}-{member.number}"
        return self._cluster.directory / "logs" / f"{name}.log"

    def _pid(self, member: Member) -> int | None:
        """The process id; None if it is dead."""
        for status in self._cluster.members():
            if status.kind == member.role and status.id == member.number:
                return status.pid
        raise WorldFailed(f"there is no {member}")

    def _signal(self, member: Member, number: signal.Signals) -> None:
        pid = self._pid(member)
        if pid is not None:  # our own child that was not waited for: the number is still its own
            os.kill(pid, number)


async def _is_named(session: Reader, broker: BrokerId) -> bool:
    """The broker has a session, or an ISR names it."""
    if broker in await read_registrations(session):
        return True
    for name in await session.children(znodes.TOPICS):
        topic = await read_topic(session, name)
        for number in range(0 if topic is None else topic.value.partitions):
            state = await read_isr(session, name, number)
            if state is not None and broker in state.value.isr_ids:
                return True
    return False


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _set_file_size_max(pid: int, size: int) -> None:
    """Sets the soft limit, in bytes. Raises WorldFailed."""
    try:
        _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, hard))
    except OSError as error:
        raise WorldFailed(f"the file sizes of process {pid} could not be limited: {error}") from error


@asynccontextmanager
async def local_world(
    brokers: int, controllers: int, directory: Path, *, secure: bool = False, **broker_settings: Any
) -> AsyncIterator[World]:
    """Runs a cluster while the block runs; its files stay in `directory`. `secure`: every connection is
    encrypted, both ends show certificates, and ACLs decide.

    All processes have ended at the end, also if the block raises. Raises WorldFailed.
    """
    settings: Mapping[str, Any] = broker_settings
    try:
        cluster = LocalCluster(
            brokers,
            controllers=controllers,
            directory=directory,
            broker_settings=settings,
            kafka=True,
            secure=secure,
        )
        await cluster.start(timeout_s=START_S_MAX)
    except StrandlineError as error:
        raise WorldFailed(f"no cluster could be started: {error}") from error
    try:
        yield ProcessWorld(cluster)
    finally:
        await cluster.stop(clean=False)
