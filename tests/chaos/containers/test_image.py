"""The images: their content, their users, and correct health checks."""

from __future__ import annotations

import pytest

from strandline_lab.chaos.containers.commands import CommandFailed
from strandline_lab.chaos.containers.compose import NAME
from strandline_lab.chaos.containers.engine import IMAGE, Engine
from strandline_lab.chaos.core.faults import Member, Role
from strandline_lab.chaos.world import World

pytestmark = [pytest.mark.containers, pytest.mark.timeout(600)]

IMAGES = (IMAGE, f"{IMAGE}-zookeeper")
OWN_BYTES_MAX = 140 * 1024 * 1024
"""Bytes added to the base image: brokers and their packages; a Java and eight jars."""


@pytest.mark.parametrize("image", IMAGES)
async def test_the_image_runs_as_an_ordinary_user_and_has_no_compiler(docker: Engine, image: str) -> None:
    script = "id --user; command -v gcc cc make g++ || echo no compiler"
    said = await docker.docker("run", "--rm", "--network", "none", image, "sh", "-c", script)
    user, found = said.splitlines()
    assert int(user) >= 10_000
    assert found == "no compiler"


@pytest.mark.parametrize("image", IMAGES)
async def test_the_image_adds_little_to_its_base(docker: Engine, image: str) -> None:
    sizes = await docker.docker("history", "--human=false", "--format", "{{.Size}} {{.CreatedBy}}", image)
    own = [line for line in sizes.splitlines() if "Imported from" not in line]
    assert sum(int(line.split()[0]) for line in own if "COPY" in line) < OWN_BYTES_MAX


async def test_the_packages_are_those_of_the_lock_and_the_command_line_is_there(docker: Engine) -> None:
    run = ("run", "--rm", "--network", "none", IMAGE)
    assert "Usage: strandline" in await docker.docker(*run, "strandline", "--help")
    said = await docker.docker(*run, "python", "-c", "import grpc; print(grpc.__version__)")
    with open("docker/strandline.lock", encoding="utf-8") as lock:
        assert f"grpcio=={said.strip()} " in lock.read()


async def test_health_checks_show_serving_and_not_serving_members(docker: Engine, cluster: World) -> None:
    healthy = ("python", "/opt/strandline/healthy.py")
    for service in ("broker-1", "controller-1", "controller-2"):
        await docker.docker("exec", await container(docker, service), *healthy)
    zookeeper = await container(docker, "zookeeper-1")
    await docker.docker("exec", zookeeper, "bash", "/opt/zookeeper/zookeeper-healthy.sh")
    # A container that only holds disks listens on no port.
    with pytest.raises(CommandFailed, match="no answer"):
        await docker.docker("exec", await container(docker, "disks"), *healthy)


async def test_the_engine_restarts_no_container(docker: Engine, cluster: World) -> None:
    """Chaos itself decides which members come back, and when."""
    for service in ("broker-1", "controller-1", "zookeeper-1"):
        policy = "{{.HostConfig.RestartPolicy.Name}}"
        said = await docker.docker("inspect", "--format", policy, await container(docker, service))
        assert said.strip() in ("no", "")
    assert await cluster.alive(Member(Role.ZOOKEEPER, 1))


async def container(docker: Engine, service: str) -> str:
    labels = (f"com.docker.compose.project={NAME}", f"com.docker.compose.service={service}")
    filters = [word for label in labels for word in ("--filter", f"label={label}")]
    (found,) = (await docker.docker("ps", "--quiet", *filters)).split()
    return found
