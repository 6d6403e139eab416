"""A real ZooKeeper from PySpark's jars: it starts, keeps its data, and starts faster the second time."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from strandline.adapters.zookeeper.access.identity import identity
from strandline.config.load import load
from strandline.config.services.zookeeper import ZooKeeperSettings
from strandline.local.java import find_java
from strandline.local.layout import Layout
from strandline.local.ports import LOOPBACK, free_ports
from strandline.local.process import ProcessFailed
from strandline.local.secure.zookeeper_identity import ZooKeeperIdentity
from strandline.local.zookeeper_process import ZooKeeperProcess, find_jars, four_letter_word
from tests.conftest import SessionFactory

START_S_MAX = 30.0


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[Path]:
    """An empty cache folder for this test alone."""
    before = os.environ.get("XDG_CACHE_HOME")
    os.environ["XDG_CACHE_HOME"] = str(tmp_path / "cache")
    yield tmp_path / "cache" / "strandline"
    if before is None:
        del os.environ["XDG_CACHE_HOME"]
    else:
        os.environ["XDG_CACHE_HOME"] = before


def test_the_eight_jars_are_found() -> None:
    names = [path.name for path in find_jars()]
    assert len(names) == 8
    assert names[0].startswith("zookeeper-3.9")


def test_a_port_that_was_drawn_is_not_drawn_again_before_its_server_listens() -> None:
    """Clusters that started at the same time drew the same port, and one of them did not come up."""
    (somewhere,) = free_ports(1)
    few = range(somewhere, somewhere + 40)
    assert set(free_ports(10, few)).isdisjoint(free_ports(10, few))


def test_free_ports_are_all_different_and_none_of_them_is_ephemeral() -> None:
    """A port of the kernel's own range may be given away while its server is being restarted."""
    ports = free_ports(50)
    assert len(set(ports)) == 50
    with socket.create_server((LOOPBACK, 0)) as anywhere:
        assert max(ports) < anywhere.getsockname()[1]


async def test_data_and_port_survive_a_kill(
    own_zookeeper: ZooKeeperProcess, open_session: SessionFactory
) -> None:
    session = await open_session(zookeeper=own_zookeeper.address, zookeeper_session_timeout_ms=30_000)
    await session.create("/x", b"kept")
    await own_zookeeper.kill()
    assert not own_zookeeper.alive
    assert not await own_zookeeper.serves()
    own_zookeeper.start()
    await own_zookeeper.wait_serving(START_S_MAX)
    assert (await session.get("/x")).data == b"kept"


async def test_four_letter_words_are_not_answered() -> None:
    assert await four_letter_word(free_ports(1)[0], "srvr") == ""


async def test_a_server_that_cannot_start_reports_the_reason(
    zookeeper_server: ZooKeeperProcess, tmp_path: Path
) -> None:
    """The error carries the end of its log; the server that has the port is not taken for this one."""
    port = zookeeper_server.port
    second = ZooKeeperProcess(tmp_path / "second", port, log_path=tmp_path / "second.log")
    second.start()
    with pytest.raises(ProcessFailed, match=r"zookeeper died before it served.*Address already in use"):
        await second.wait_serving(START_S_MAX)


@pytest.mark.skipif(not find_java().can_archive_classes, reason="this Java has no base archive to build on")
async def test_the_first_clean_stop_leaves_an_archive_of_classes(cache: Path, tmp_path: Path) -> None:
    """It costs the first start nothing, and a server that is killed leaves none."""
    port = free_ports(1)[0]
    server = ZooKeeperProcess(tmp_path / "zookeeper", port, log_path=tmp_path / "zookeeper.log")
    server.start()
    await server.wait_serving(START_S_MAX)
    await server.kill()
    assert not cache.exists()
    server.start()
    await server.wait_serving(START_S_MAX)
    await server.discard()
    (archive,) = cache.iterdir()
    assert archive.suffix == ".jsa"
    server.start()
    assert server.process is not None
    command = Path(f"/proc/{server.process.pid}/cmdline")
    await server.wait_serving(START_S_MAX)
    assert f"-XX:SharedArchiveFile={archive}" in command.read_text()
    await server.stop()
    assert list(cache.iterdir()) == [archive]


def test_a_cluster_has_one_secret_identity(tmp_path: Path) -> None:
    """Made once, for its znodes are for it; others may not read it (CORRECTNESS Z2)."""
    made = ZooKeeperIdentity(Layout(tmp_path / "cluster"))
    made.make()
    content = made.path.read_text()
    assert made.path.stat().st_mode & 0o777 == 0o600
    ZooKeeperIdentity(Layout(tmp_path / "cluster")).make()
    assert made.path.read_text() == content
    other = ZooKeeperIdentity(Layout(tmp_path / "other"))
    other.make()
    assert other.path.read_text() != content
    assert identity(load(ZooKeeperSettings, **made.settings)).set_acl
