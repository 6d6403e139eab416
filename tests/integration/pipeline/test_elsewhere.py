"""Tasks in executors, each a JVM of its own, as on a cluster of machines; one of them dies in the middle."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyspark
import pytest

from strandline import Consumer, Producer, TopicPartition
from strandline.local.die_with_parent import dying_with_this_process
from tests.conftest import ClusterFactory
from tests.integration.pipeline import elsewhere_process
from tests.integration.pipeline.source_world import Row, World
from tests.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

MASTER = "local-cluster[2,1,1024]"
"""A master and two workers in the driver, whose executors are processes: one core and 1,024 MiB each."""
EXECUTOR = b"CoarseGrainedExecutorBackend"
PACKAGES = ("strandline",)
DONE_S_MAX = 400.0
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
async def world(make_module_cluster: ClusterFactory, tmp_path_factory: pytest.TempPathFactory) -> World:
    cluster = await make_module_cluster(brokers=3)
    return World(cluster, None, tmp_path_factory.mktemp("elsewhere"))  # type: ignore[arg-type]  # Spark is elsewhere


class Driver:
    """A driver in a session of its own, with all that it and its executors start."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path) -> None:
        self._process = process
        self._folder = folder

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def executors(self) -> list[int]:
        """Pids, sorted."""
        return sorted(pid for pid in _session(self._process.pid) if EXECUTOR in _command(pid))

    async def done(self) -> Any:
        """Wait until it has ended well; what it said."""
        await eventually(lambda: self.ended, deadline_s=DONE_S_MAX, what="the driver is done")
        assert self._process.returncode == 0, self.log()
        return json.loads((self._folder / "said").read_text())

    def log(self) -> str:
        """Its end."""
        return (self._folder / "log").read_text()[-6_000:]


@contextmanager
def driver(world: World, source: str, target: str, folder: Path) -> Iterator[Driver]:
    """Dies with this process, its JVM with it, and the executors with that; and at the end of the block."""
    packages, home = folder / "packages", _spark_home(folder / "spark")
    for name in PACKAGES:
        shutil.copytree(ROOT / name, packages / name)
    script = [sys.executable, elsewhere_process.__file__, str(packages)]
    arguments = [MASTER, world.cluster.bootstrap, source, target, str(folder / "checkpoint")]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with (folder / "log").open("wb") as log, (folder / "said").open("wb") as said:
        process = subprocess.Popen(
            [*dying_with_this_process(), *script, *arguments],
            cwd=folder,
            env={**environment, "SPARK_HOME": str(home)},
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield Driver(process, folder)
    finally:
        _kill_session(process.pid)
        process.wait()


def _spark_home(home: Path) -> Path:
    """A copy of the package with a folder `work` elsewhere: workers write into Spark's home."""
    home.mkdir()
    for name in ("bin", "jars"):
        (home / name).symlink_to(Path(pyspark.__file__).parent / name)
    return home


def _session(leader: int) -> list[int]:
    """The processes in the session of this process, in any group."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            fields = (path / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == leader and fields[0] != "Z":
                found.append(int(path.name))
    return found


def _kill_session(leader: int) -> None:
    while members := _session(leader):
        for pid in members:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _command(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


async def filled(world: World, count: int) -> str:
    """A topic of three partitions with this number of records, of all kinds."""
    topic = await world.topic(3)
    async with Producer(world.cluster.bootstrap, linger_ms=5) as producer:
        for number in range(count):
            key = None if number % 5 == 0 else b"k%d" % (number % 50)
            value = None if number % 7 == 0 else b"v%d " % number + random.randbytes(number % 40)
            headers = [("number", b"%d" % number)] if number % 3 == 0 else []
            _ = await producer.send(topic, value, key, headers=headers)
        await producer.flush()
    return topic


async def written(world: World, topic: str) -> int:
    async with Consumer(world.cluster.bootstrap) as consumer:
        names = [TopicPartition(topic, number) for number in range(3)]
        return sum((await consumer.end_offsets(names)).values())


def multiset(rows: Sequence[Row]) -> Counter[Row]:
    return Counter(row._replace(topic="", offset=-1) for row in rows)


async def test_executors_find_their_packages_and_a_killed_one_costs_and_doubles_no_row(
    world: World, tmp_path: Path
) -> None:
    """Only the driver knows where the packages are, and only the session passes it on. The other executor,
    and the one that Spark starts in place of the dead one, repeat the interrupted work."""
    count = 6_000
    source, target = await filled(world, count), await world.topic(3)
    with driver(world, source, target, tmp_path) as copying:

        async def begun() -> bool:
            return copying.ended or await written(world, target) >= count // 10

        await eventually(begun, deadline_s=DONE_S_MAX, what="a tenth is written")
        assert not copying.ended, copying.log()
        before = copying.executors()
        assert len(before) == 2
        os.kill(before[0], signal.SIGKILL)
        assert await written(world, target) < count
        looked = await copying.done()
    assert looked == {
        "rows": count,
        "homes": [str(tmp_path / "packages" / "strandline" / "pipeline" / "source.py")],
    }
    assert multiset(await world.rows(target)) == multiset(await world.rows(source))
