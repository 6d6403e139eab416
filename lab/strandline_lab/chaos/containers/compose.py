"""The project's docker-compose.yml, and an overlay for chaos: fixed addresses, and disks that can be filled.

It uses Compose 2 (`docker compose`) if it is there, else 1.29 (`docker-compose`). Containers are looked up
with `ps --quiet`, since the two name them differently.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from strandline.config.load import variable_of
from strandline.config.services.broker import BrokerSettings
from strandline.config.services.constants import constants_of
from strandline_lab.chaos.containers.commands import CommandFailed, run
from strandline_lab.chaos.containers.engine import IMAGE, PROJECT, Engine
from strandline_lab.chaos.world import WorldFailed

NAME: Final = "strandline-chaos"
NETWORK: Final = f"{NAME}_strandline"
SUBNET: Final = "10.213.77"
BROKERS: Final = (1, 2, 3)
CONTROLLERS: Final = (1, 2)
ADDRESSES: Final = {
    **{f"zookeeper-{number}": f"{SUBNET}.{10 + number}" for number in (1, 2, 3)},
    **{f"controller-{number}": f"{SUBNET}.{20 + number}" for number in CONTROLLERS},
    **{f"broker-{number}": f"{SUBNET}.{30 + number}" for number in BROKERS},
}
"""Addresses by service. A restarted container keeps its address, so firewall rules still apply to it."""

DISKS: Final = "disks"
"""A service that only holds the brokers' disks, in `/disks/broker-N`. A tmpfs disappears with the last
container that has it, and a broker that was killed needs its log again."""

OVERLAY: Final = "chaos.compose.json"
"""The name of the overlay's file."""

UP_S_MAX: Final = 300.0
_USER: Final = 10001  # as the Dockerfile has it


def overlay(settings: Mapping[str, Any], disk_mb: int) -> dict[str, Any]:
    """The overlay for docker-compose.yml. `settings`: those of all brokers, by name."""
    disks = [f"broker-{number}" for number in BROKERS]
    services: dict[str, Any] = {
        service: {"networks": {"strandline": {"ipv4_address": address}}, "healthcheck": {"interval": "1h"}}
        for service, address in ADDRESSES.items()
    }
    constants = constants_of(BrokerSettings)
    environment = {variable_of(name, constants): str(value) for name, value in settings.items()}
    for broker in disks:
        services[broker] |= {"depends_on": [DISKS], "environment": environment}
    services[DISKS] = {
        "image": IMAGE,
        "user": "0",
        "init": True,
        "command": ["sleep", "infinity"],
        "network_mode": "none",
        "volumes": [f"{broker}:/disks/{broker}" for broker in disks],
    }
    options = {"type": "tmpfs", "device": "tmpfs", "o": f"size={disk_mb}m,uid={_USER},gid={_USER},mode=0755"}
    return {
        "services": services,
        "networks": {"strandline": {"ipam": {"config": [{"subnet": f"{SUBNET}.0/24"}]}}},
        "volumes": {broker: {"driver": "local", "driver_opts": options} for broker in disks},
    }


class Compose:
    """One Compose project in an engine. Its overlay file is in `directory`."""

    def __init__(
        self, engine: Engine, directory: Path, settings: Mapping[str, Any], zookeepers: int, disk_mb: int
    ) -> None:
        self._engine = engine
        self._overlay = directory / OVERLAY
        self._overlay.write_text(json.dumps(overlay(settings, disk_mb), indent=1))
        names = [f"zookeeper-{number}" for number in range(1, zookeepers + 1)]
        self._environment = {
            **engine.environment,
            "STRANDLINE_IMAGE": IMAGE,
            "STRANDLINE_ZOOKEEPER": ",".join(f"{name}:2181" for name in names),
            "ZOOKEEPER_SERVERS": " ".join(names),
        }
        self._program: Sequence[str] = ()
        self.services: Sequence[str] = [
            *names, *(f"controller-{n}" for n in CONTROLLERS), *(f"broker-{n}" for n in BROKERS), DISKS,
        ]  # fmt: skip

    async def up(self) -> dict[str, str]:
        """Creates and starts all containers. Returns them by service. Raises WorldFailed."""
        self._program = await compose_program(self._environment)
        await self._compose("up", "--detach", "--no-build", *self.services, timeout_s=UP_S_MAX)
        return {service: await self._container(service) for service in self.services}

    async def down(self) -> None:
        """Removes all of the project from the engine, its volumes included."""
        if self._program:
            await self._compose("down", "--volumes", "--timeout", "0", timeout_s=UP_S_MAX)

    async def _container(self, service: str) -> str:
        found = (await self._compose("ps", "--quiet", service)).split()
        if len(found) != 1:
            raise WorldFailed(f"Compose was to start one container of {service}, and has {len(found)}")
        return found[0]

    async def _compose(self, *arguments: str, timeout_s: float = 60.0) -> str:
        files = ("--file", str(PROJECT / "docker-compose.yml"), "--file", str(self._overlay))
        return await run(
            *self._program, "--project-name", NAME, "--project-directory", str(PROJECT), *files,
            "--profile", "ensemble", *arguments,
            environment=self._environment, timeout_s=timeout_s,
        )  # fmt: skip


async def compose_program(environment: Mapping[str, str]) -> Sequence[str]:
    """The words with which Compose is called here. Raises WorldFailed if there is none."""
    for program in (("docker", "compose"), ("docker-compose",)):
        try:
            await run(*program, "version", environment=environment)
        except CommandFailed:
            continue
        return program
    raise WorldFailed("there is no Compose here, neither `docker compose` nor `docker-compose`: install one")
