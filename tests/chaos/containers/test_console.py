"""The profile `console` of docker-compose.yml, beside the cluster of these tests (docs/run/docker.md)."""

from __future__ import annotations

import asyncio
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from strandline_lab.chaos.containers.commands import run
from strandline_lab.chaos.containers.compose import NAME, UP_S_MAX, compose_program
from strandline_lab.chaos.containers.engine import IMAGE, PROJECT, Engine
from strandline_lab.chaos.world import World
from tests.waiting import eventually

pytestmark = [pytest.mark.containers, pytest.mark.timeout(600)]

ADDRESS = "http://localhost:18088/"
HEALTH = "{{.State.Health.Status}}"


@pytest.fixture
async def container(docker: Engine, cluster: World, overlay: Path) -> AsyncIterator[str]:
    """The console's container."""
    program = await compose_program(docker.environment)
    files = ("--file", str(PROJECT / "docker-compose.yml"), "--file", str(overlay))

    async def compose(*arguments: str) -> str:
        return await run(
            *program, "--project-name", NAME, "--project-directory", str(PROJECT), *files,
            "--profile", "console", *arguments,
            environment={**docker.environment, "STRANDLINE_IMAGE": IMAGE}, timeout_s=UP_S_MAX,
        )  # fmt: skip

    try:
        await compose("up", "--detach", "--no-build", "--no-deps", "console")
        yield (await compose("ps", "--quiet", "console")).strip()
    finally:
        await compose("rm", "--stop", "--force", "console")


async def test_the_console_of_the_profile_shows_the_cluster_and_that_it_changes_nothing(
    docker: Engine, container: str
) -> None:
    async def is_healthy() -> bool:
        return (await docker.docker("inspect", "--format", HEALTH, container)).strip() == "healthy"

    await eventually(is_healthy, deadline_s=120, what="the check of its health passes")

    def page() -> str:
        with urllib.request.urlopen(ADDRESS, timeout=10) as opened:
            return str(opened.read().decode())

    async def shows_brokers() -> bool:
        return (await asyncio.to_thread(page)).count(">alive<") == 3

    await eventually(shows_brokers, deadline_s=60, what="the page shows three brokers")
    assert "--allow-changes" in await asyncio.to_thread(page)
