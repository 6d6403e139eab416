"""A cluster in containers, made from docker-compose.yml, and the faults that can be applied to it.

Clients run on the host and connect to published ports. A broker that is killed or disconnected refuses them.
The other members find it gone, or silent. A paused broker accepts connections and does not answer.
"""

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

from strandline import Admin
from strandline.adapters.system.clock import SystemClock
from strandline.errors import StrandlineError
from strandline_lab.chaos.containers.commands import CommandFailed, again_if_killed, run
from strandline_lab.chaos.containers.compose import ADDRESSES, BROKERS, CONTROLLERS, DISKS, NETWORK, Compose
from strandline_lab.chaos.containers.engine import Engine, engine
from strandline_lab.chaos.core.faults import Cut, FaultKind, Member, Role
from strandline_lab.chaos.core.plan import ISOLATED
from strandline_lab.chaos.world import World, WorldFailed

BOOTSTRAP: Final = ",".join(f"localhost:{19091 + number}" for number in BROKERS)
KAFKA_BOOTSTRAP: Final = ",".join(f"localhost:{29091 + number}" for number in BROKERS)
DISK_MB: Final = 512
SERVING_S_MAX: Final = 120.0
POLL_S: Final = 0.2
STOP_S: Final = 20
"""The time that a broker may take to stop; then it is killed."""
SAID_LINES_MAX: Final = 20_000
COPY_S_MAX: Final = 300.0

_FILLER: Final = "filler"
_CHAIN: Final = "DOCKER-USER"
_CLOCK: Final = SystemClock()


class ContainerWorld:
    """A `World` of running containers."""

    def __init__(
        self, engine: Engine, containers: Mapping[str, str], directory: Path, can: frozenset[FaultKind]
    ) -> None:
        self._engine = engine
        self._containers = containers
        self._directory = directory
        self._can = can
        self._cuts: set[tuple[Member, Member, Cut]] = set()

    @property
    def bootstrap(self) -> str:
        return BOOTSTRAP

    @property
    def client_settings(self) -> Mapping[str, Any]:
        return {}

    @property
    def client_config(self) -> Path | None:
        return None

    @property
    def kafka_bootstrap(self) -> str:
        return KAFKA_BOOTSTRAP

    @property
    def members(self) -> Sequence[Member]:
        return [
            *(Member(Role.BROKER, number) for number in BROKERS),
            *(Member(Role.CONTROLLER, number) for number in CONTROLLERS),
            *(Member(Role.ZOOKEEPER, n) for n in (1, 2, 3) if f"zookeeper-{n}" in self._containers),
        ]

    @property
    def can(self) -> frozenset[FaultKind]:
        return self._can

    # --- processes -----------------------------------------------------------------------------

    @again_if_killed
    async def alive(self, member: Member) -> bool:
        return await self._state(member) in ("running", "paused")

    @again_if_killed
    async def kill(self, member: Member) -> None:
        if await self.alive(member):
            await self._docker("kill", self._container(member))
            await self._docker("wait", self._container(member))

    @again_if_killed
    async def terminate(self, member: Member) -> None:
        await self.resume(member)  # a paused process does not handle the signal
        await self._docker("stop", "--time", str(STOP_S), self._container(member))

    @again_if_killed
    async def start(self, member: Member) -> None:
        await self._docker("start", self._container(member))

    @again_if_killed
    async def pause(self, member: Member) -> None:
        if await self._state(member) != "paused":
            await self._docker("pause", self._container(member))

    @again_if_killed
    async def resume(self, member: Member) -> None:
        if await self._state(member) == "paused":
            await self._docker("unpause", self._container(member))

    # --- the network ---------------------------------------------------------------------------

    @again_if_killed
    async def disconnect(self, member: Member) -> None:
        if await self._connected(member):
            await self._docker("network", "disconnect", NETWORK, self._container(member))

    @again_if_killed
    async def connect(self, member: Member) -> None:
        if not await self._connected(member):
            service = _service(member)
            await self._docker(
                "network", "connect", "--ip", ADDRESSES[service], "--alias", service,
                NETWORK, self._container(member),
            )  # fmt: skip

    async def cut(self, sender: Member, receiver: Member, how: Cut = Cut.DROPPED) -> None:
        if FaultKind.ONE_WAY not in self._can:
            raise WorldFailed(
                "this machine's rules of iptables are not those of the engine, or not ours to change"
            )
        if (sender, receiver, how) not in self._cuts:
            await run("iptables", "--wait", "--insert", _CHAIN, *_rule(sender, receiver, how))
            self._cuts.add((sender, receiver, how))

    async def join(self, sender: Member, receiver: Member, how: Cut = Cut.DROPPED) -> None:
        if (sender, receiver, how) in self._cuts:
            await run("iptables", "--wait", "--delete", _CHAIN, *_rule(sender, receiver, how))
            self._cuts.discard((sender, receiver, how))

    async def join_all(self) -> None:
        for cut in list(self._cuts):
            await self.join(*cut)

    # --- disks ---------------------------------------------------------------------------------

    async def fill_disk(self, broker: Member) -> None:
        """The broker's disk has a limited size of its own, so the host's disk does not fill up."""
        script = (
            f"cat /dev/zero > {_disk(broker)}/{_FILLER} 2>&1; df --output=avail {_disk(broker)} | tail -n 1"
        )
        left = await self._in_disks("sh", "-c", script)
        if int(left.split()[-1]) != 0:
            raise WorldFailed(f"the disk of {broker} is not full: {left}")

    async def free_disk(self, broker: Member) -> None:
        await self._in_disks("rm", "--force", f"{_disk(broker)}/{_FILLER}")

    async def grow(self) -> Member:
        raise WorldFailed("the number of containers is fixed")

    async def lose_disk(self, broker: Member) -> bool:
        raise WorldFailed("containers keep their disks")

    async def log_of(self, broker: Member) -> Path:
        """A copy of the log. The next call for the same broker replaces it."""
        target = self._directory / "logs" / _service(broker)
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        with target.with_suffix(".tar").open("w+b") as archive:
            # 1 means that a file grew meanwhile. Logs are compared only while they do not change.
            script = f"tar --create --exclude=./{_FILLER} --directory={_disk(broker)} . || [ $? -eq 1 ]"
            await run(
                "docker", "exec", self._containers[DISKS], "sh", "-c", script,
                environment=self._engine.environment, into=archive, timeout_s=COPY_S_MAX,
            )  # fmt: skip
            archive.seek(0)
            with tarfile.open(fileobj=archive) as copied:
                copied.extractall(target, filter="data")
        target.with_suffix(".tar").unlink()
        return target

    async def said(self, member: Member) -> bytes:
        path = self._directory / "said"
        with path.open("w+b") as file:
            # Both streams: an engine keeps them apart, and a JVM that dies writes to the other one.
            script = f'exec docker logs --tail {SAID_LINES_MAX} "$0" 2>&1'
            await run(
                "sh", "-c", script, self._container(member), environment=self._engine.environment, into=file
            )
            file.seek(0)
            return file.read()

    # --- serving -------------------------------------------------------------------------------

    async def wait_serving(self) -> None:
        """Waits until a client on the host sees all brokers registered and a controller active."""
        deadline = _CLOCK.monotonic() + SERVING_S_MAX
        seen = "no broker answered"
        while _CLOCK.monotonic() < deadline:
            try:
                async with Admin(BOOTSTRAP) as admin:
                    cluster = await admin.metadata([])
                if len(cluster.brokers) == len(BROKERS) and cluster.controller is not None:
                    return
                seen = f"brokers {[broker.id for broker in cluster.brokers]}, controller {cluster.controller}"
            except StrandlineError as error:
                seen = error.message
            await _CLOCK.sleep(POLL_S)
        raise WorldFailed(
            f"the containers run, and their cluster does not serve after {SERVING_S_MAX} s: {seen}"
        )

    # --- asking the engine ---------------------------------------------------------------------

    def _container(self, member: Member) -> str:
        container = self._containers.get(_service(member))
        if container is None:
            raise WorldFailed(f"there is no {member}")
        return container

    async def _docker(self, *arguments: str) -> str:
        return (await self._engine.docker(*arguments)).strip()

    async def _state(self, member: Member) -> str:
        return await self._docker("inspect", "--format", "{{.State.Status}}", self._container(member))

    async def _connected(self, member: Member) -> bool:
        networks = "{{range $name, $_ := .NetworkSettings.Networks}}{{$name}} {{end}}"
        return (
            NETWORK in (await self._docker("inspect", "--format", networks, self._container(member))).split()
        )

    async def _in_disks(self, *command: str) -> str:
        return await self._docker("exec", self._containers[DISKS], *command)


def _service(member: Member) -> str:
    return f"{member.role}-{member.number}"


def _disk(broker: Member) -> str:
    return f"/disks/{_service(broker)}"


_JUMPS: Final[Mapping[Cut, Sequence[str]]] = {
    Cut.DROPPED: ("--jump", "DROP"),
    Cut.UNREACHABLE: ("--jump", "REJECT", "--reject-with", "icmp-host-unreachable"),
    Cut.REFUSED: ("--protocol", "tcp", "--jump", "REJECT", "--reject-with", "tcp-reset"),
}


def _rule(sender: Member, receiver: Member, how: Cut) -> Sequence[str]:
    between = ("--source", ADDRESSES[_service(sender)], "--destination", ADDRESSES[_service(receiver)])
    return (*between, *_JUMPS[how])


async def _abilities(engine: Engine) -> frozenset[FaultKind]:
    """All faults; cuts between brokers only if the engine uses this machine's iptables and we may change
    them."""
    try:
        cuts = engine.own or (
            os.geteuid() == 0 and bool(await run("iptables", "--wait", "--list-rules", _CHAIN))
        )
    except CommandFailed:
        cuts = False
    return frozenset(FaultKind) if cuts else frozenset(FaultKind) - {FaultKind.ONE_WAY, *ISOLATED}


@asynccontextmanager
async def container_world(
    directory: Path,
    *,
    on: Engine | None = None,
    zookeepers: int = 1,
    disk_mb: int = DISK_MB,
    **broker_settings: Any,
) -> AsyncIterator[World]:
    """Runs a cluster of three brokers, two controllers and one or three ZooKeeper nodes while the block runs,
    from images of the present code. Removes all of it at the end. Raises WorldFailed.

    `directory` takes copies of logs. `on` is the engine to use; without one, it finds or starts one. Only one
    such cluster can run at a time: it uses the ports of docker-compose.yml.
    """
    directory = directory.resolve()
    directory.mkdir(parents=True, exist_ok=True)
    async with AsyncExitStack() as stack:
        running = on if on is not None else await stack.enter_async_context(engine())
        await running.build()
        compose = Compose(running, directory, broker_settings, zookeepers, disk_mb)
        stack.push_async_callback(compose.down)
        containers = await compose.up()
        world = ContainerWorld(running, containers, directory, await _abilities(running))
        stack.push_async_callback(world.join_all)
        await world.wait_serving()
        yield world
