"""docker-compose.secure.yml: a cluster that serves its admin, and no stranger (docs/run/docker.md)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

import pytest

from strandline_lab.chaos.containers.commands import CommandFailed, run
from strandline_lab.chaos.containers.compose import UP_S_MAX, compose_program
from strandline_lab.chaos.containers.engine import IMAGE, PROJECT, Engine
from tests.waiting import eventually

pytestmark = [pytest.mark.containers, pytest.mark.timeout(600)]

NAME = "strandline-chaos-secure"
ANOTHER_LOOPBACK = "127.0.0.2"
"""The other cluster of these tests has the same ports."""
STRANGER = """
from kazoo.client import KazooClient
client = KazooClient("zookeeper-1:2181")
client.start(timeout=10)
print(client.get_children("/"))
"""


class Secure:
    """The cluster, and what a container of it is asked to do."""

    def __init__(self, engine: Engine, program: tuple[str, ...]) -> None:
        bind = {"STRANDLINE_IMAGE": IMAGE, "STRANDLINE_BIND": ANOTHER_LOOPBACK}
        self._environment = {**engine.environment, **bind}
        self._program = program

    async def compose(self, *arguments: str) -> str:
        files = [f"--file={PROJECT / name}" for name in ("docker-compose.yml", "docker-compose.secure.yml")]
        return await run(
            *self._program, "--project-name", NAME, "--project-directory", str(PROJECT), *files, *arguments,
            environment=self._environment, timeout_s=UP_S_MAX,
        )  # fmt: skip

    async def in_broker(self, *command: str) -> str:
        return await self.compose("exec", "-T", "broker-1", *command)

    async def brokers(self) -> bool:
        """Whether the admin sees all of them."""
        try:
            said = await self.in_broker("strandline", "--bootstrap", "broker-1:9092", "broker", "list")
        except CommandFailed:
            return False
        return all(f"broker-{number}" in said for number in (1, 2, 3))


@pytest.fixture
async def secure(docker: Engine) -> AsyncIterator[Secure]:
    cluster = Secure(docker, tuple(await compose_program(docker.environment)))
    try:
        await cluster.compose("up", "--detach", "--no-build")
        await eventually(cluster.brokers, deadline_s=240, what="the admin sees three brokers")
        yield cluster
    finally:
        await cluster.compose("down", "--volumes", "--timeout", "0")


async def test_a_secure_cluster_serves_its_admin_and_no_stranger(secure: Secure) -> None:
    await secure.in_broker("strandline", "--bootstrap", "broker-1:9092", "topic", "create", "tides")
    plain = partial(secure.in_broker, "env", "--unset=STRANDLINE_CLIENT_CONFIG", "strandline")
    with pytest.raises(CommandFailed, match="this port speaks TLS"):
        await plain("--bootstrap", "broker-1:9092", "topic", "list")
    with pytest.raises(CommandFailed, match="SessionClosedRequireSasl"):
        await secure.in_broker("python", "-c", STRANGER)
    await secure.in_broker("python", "/opt/strandline/healthy.py")
    keys = "stat --format=%a /var/lib/strandline/tls/*.key /var/lib/strandline/tls/zookeeper-auth"
    assert set((await secure.in_broker("sh", "-c", keys)).split()) == {"600"}
