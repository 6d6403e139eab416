"""Finds a Docker engine that answers, or installs and starts one for the duration of the tests.

The engine builds the images from this project's Dockerfile. If their base image cannot be pulled, it is made
here (`strandline_lab.chaos.containers.base_image`).
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from strandline_lab.chaos.containers.base_image import ensure_base_image
from strandline_lab.chaos.containers.commands import TIMEOUT_S, CommandFailed, run
from strandline_lab.chaos.containers.dockerd import dockerd
from strandline_lab.chaos.world import WorldFailed

PROJECT: Final = Path(__file__).resolve().parents[4]
IMAGE: Final = "strandline-chaos"
"""Not `strandline`, which may be an image of a user's."""

BUILD_S_MAX: Final = 1800.0
INSTALL_S_MAX: Final = 600.0

_PACKAGES: Final = {
    "docker": "docker.io",
    "dockerd": "docker.io",
    "docker-compose": "docker-compose",
    "debootstrap": "debootstrap",
    "iptables": "iptables",
    "ip": "iproute2",
}
"""Programs, and the Debian packages that contain them. Not every release has `docker` in docker.io."""

_POLICY: Final = Path("/usr/sbin/policy-rc.d")


@dataclass(frozen=True)
class Engine:
    """An engine that answers. `environment`: the variables for docker and Compose."""

    environment: Mapping[str, str]
    own: bool
    """True if it was started here and shares this machine's network. Of another engine that is unknown."""

    async def docker(self, *arguments: str, timeout_s: float = TIMEOUT_S) -> str:
        """Returns the output of `docker …`. Raises CommandFailed."""
        return await run("docker", *arguments, environment=self.environment, timeout_s=timeout_s)

    async def build(self) -> None:
        """Builds both images from the present code: `strandline-chaos`, `strandline-chaos-zookeeper`."""
        for target, name in (("zookeeper", f"{IMAGE}-zookeeper"), ("strandline", IMAGE)):
            await self.docker("build", "--target", target, "--tag", name, str(PROJECT), timeout_s=BUILD_S_MAX)


def base_name(dockerfile: str) -> str:
    """The base image of the Dockerfile: the default of its argument PYTHON."""
    for line in dockerfile.splitlines():
        if line.startswith("ARG PYTHON="):
            return line.removeprefix("ARG PYTHON=").strip()
    raise WorldFailed("the Dockerfile names no base image: it has no line ARG PYTHON=…")


class NoEngine(WorldFailed):
    """This machine has no engine, or none with a base image; the message says what to do."""


@asynccontextmanager
async def engine() -> AsyncIterator[Engine]:
    """Yields an engine that has the base image. Raises NoEngine."""
    async with AsyncExitStack() as stack:
        try:
            running = await _found_or_started(stack)
            await ensure_base_image(running.docker, base_name((PROJECT / "Dockerfile").read_text()))
        except WorldFailed as error:
            raise NoEngine(error.message) from error
        yield running


async def _found_or_started(stack: AsyncExitStack) -> Engine:
    environment = dict(os.environ)
    if await _answers():
        return Engine(environment, own=False)
    if "DOCKER_HOST" in os.environ:
        raise NoEngine(f"no Docker engine answers at DOCKER_HOST = {os.environ['DOCKER_HOST']}")
    await _install()
    address = await stack.enter_async_context(dockerd())
    return Engine({**environment, "DOCKER_HOST": address}, own=True)


async def _answers() -> bool:
    try:
        await run("docker", "version", timeout_s=30)
    except CommandFailed:
        return False
    return True


async def _install() -> None:
    """Installs Debian's packages, as root, without starting their services. They stay installed."""
    missing = sorted({package for program, package in _PACKAGES.items() if shutil.which(program) is None})
    if os.geteuid() != 0:
        raise NoEngine(
            "no Docker engine answers, and only root can start one: "
            "start Docker, set DOCKER_HOST, or run this as root"
        )
    if not missing:
        return
    if shutil.which("apt-get") is None:
        raise NoEngine(
            f"no Docker engine answers, and this is no Debian, where {', '.join(missing)} "
            "could be installed: start Docker, or set DOCKER_HOST"
        )
    apt = ("apt-get", "-o", "DPkg::Lock::Timeout=300", "-qq")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    await run(*apt, "update", environment=environment, timeout_s=INSTALL_S_MAX)
    with _services_not_started():
        await run(
            *apt, "install", "--yes", "--no-install-recommends", *missing,
            environment=environment, timeout_s=INSTALL_S_MAX,
        )  # fmt: skip


@contextmanager
def _services_not_started() -> Iterator[None]:
    """Stops packages from starting their services, with Debian's policy file for invoke-rc.d."""
    if _POLICY.exists():  # the machine has a policy already
        yield
        return
    _POLICY.write_text("#!/bin/sh\nexit 101\n")
    _POLICY.chmod(0o755)
    try:
        yield
    finally:
        with contextlib.suppress(FileNotFoundError):
            _POLICY.unlink()
