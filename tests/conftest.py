"""Shared by all tests: one real ZooKeeper for the whole run, and clusters of real processes.

Every process dies with this one, so a killed test run leaves none behind; their output is below pytest's
temporary folders, which keeps the last three runs.
"""

from __future__ import annotations

import itertools
import logging
import os
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random, SystemRandom
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
import structlog

from strandline.adapters.zookeeper.connect import connect
from strandline.adapters.zookeeper.session import ZooKeeperSession
from strandline.client.waits import WAITS_LOGGER
from strandline.config.services.zookeeper import ZooKeeperSettings
from strandline.local.cluster import LocalCluster
from strandline.local.ports import free_ports
from strandline.local.zookeeper_process import ZooKeeperProcess
from strandline.simulation.engine.loop import SimulatedLoop
from tests.forking.client import spawn
from tests.workers import Scheduling, in_share, longest_first

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Every test has a time limit already; one example may take long on a busy machine.
hypothesis.settings.register_profile("strandline", deadline=None)
hypothesis.settings.register_profile("quick", deadline=None, max_examples=30)
hypothesis.settings.load_profile("strandline")

# A shell that starts a run in the background has it ignore Ctrl-C, and so would everything started here.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Settings of the shell that runs the tests are none of theirs: nor of the processes that they start.
for _name in [name for name in os.environ if name.startswith("STRANDLINE_")]:
    del os.environ[_name]

# Spark starts its JVM by fork and exec. gRPC's fork handlers are not needed for that, and can kill the child.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"

os.environ["SPARK_CONF_DIR"] = str(Path(__file__).parent / "pipeline" / "spark_settings")

ZOOKEEPER_START_S_MAX = 30.0
SPARK_TIME = pytest.mark.timeout(300)
"""For tests that may have to wait until Spark has started."""

SessionFactory = Callable[..., Coroutine[Any, Any, ZooKeeperSession]]
ClusterFactory = Callable[..., Coroutine[Any, Any, LocalCluster]]

_chroots = itertools.count(1)

FUZZ_INPUTS = 1_000


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--share", help="mark what is not in this share of the tests, such as 0/2")
    group = parser.getgroup("hostile inputs")
    group.addoption("--fuzz-inputs", type=int, default=FUZZ_INPUTS, help="inputs of each attack on a port")
    group.addoption("--fuzz-seed", type=int, help="repeats the inputs of a failure; default: random")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Marks what is not in the share that this run has."""
    share = item.config.getoption("--share")
    if share and not in_share(item.nodeid, share):
        item.add_marker(pytest.mark.other_share)


@pytest.fixture(scope="session")
def fuzz_seed(request: pytest.FixtureRequest) -> int:
    """The seed of hostile inputs. A test that fails says it."""
    given: int | None = request.config.getoption("--fuzz-seed")
    return SystemRandom().randrange(2**32) if given is None else given


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling:
    """`log` is what xdist logs with; a scheduler without it prints every step."""
    return Scheduling(config, log)


@pytest.hookimpl(trylast=True)  # once the marks that the command line leaves out are gone
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        items[:] = longest_first(items)


@pytest.fixture
def logging_as_before() -> Iterator[None]:
    """For tests that set up logging: leaves the process as it was, for others look at its logs."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()
    for name in ("grpc", "asyncio", WAITS_LOGGER):
        logging.getLogger(name).setLevel(logging.NOTSET)
    waits = logging.getLogger(WAITS_LOGGER)
    waits.handlers[:], waits.propagate = [], True


@pytest.fixture(scope="session")
async def zookeeper_server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ZooKeeperProcess]:
    """A real server for all tests that do no harm to it."""
    async for server in zookeeper_in(tmp_path_factory.mktemp("zookeeper")):
        yield server


@pytest.fixture
async def own_zookeeper(tmp_path: Path) -> AsyncIterator[ZooKeeperProcess]:
    """A real server for one test, which may kill it or make it hang."""
    async for server in zookeeper_in(tmp_path / "zookeeper"):
        yield server


async def zookeeper_in(directory: Path) -> AsyncIterator[ZooKeeperProcess]:
    """A server that serves, for as long as the generator is not gone on with. It answers `mntr` too."""
    log_path, more = directory / "zookeeper.log", "4lw.commands.whitelist=srvr,mntr\n"
    server = ZooKeeperProcess(directory, free_ports(1)[0], log_path=log_path, more=more)
    server.start()
    try:
        await server.wait_serving(ZOOKEEPER_START_S_MAX)
        yield server
    finally:
        await server.discard()


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One Spark for all tests of this process that want one: two cores, four attempts for each task.

    It takes seconds to start, on a busy machine a minute, which the first test waits for: a module that
    uses it says `pytestmark = SPARK_TIME`.
    """
    from strandline.pipeline.spark.session import session

    spark = session("local[2,4]", "tests")
    yield spark
    spark.stop()


@pytest.fixture
def zookeeper(zookeeper_server: ZooKeeperProcess) -> Iterator[str]:
    """Where ZooKeeper is, with a chroot that no other test has: `127.0.0.1:port/test-N`."""
    yield _chroot(zookeeper_server)


def _chroot(server: ZooKeeperProcess) -> str:
    return f"{server.address}/test-{next(_chroots)}"


@pytest.fixture
async def open_session(zookeeper: str) -> AsyncIterator[SessionFactory]:
    """Opens sessions below this test's chroot (`zookeeper=` for elsewhere); closed at its end.

    Keyword arguments are those of ZooKeeperSettings.
    """
    async with AsyncExitStack() as opened:

        async def open_one(**settings: Any) -> ZooKeeperSession:
            session = await connect(ZooKeeperSettings(**{"zookeeper": zookeeper, **settings}))
            opened.push_async_callback(session.close)
            return session

        yield open_one


@pytest.fixture
async def make_cluster(tmp_path: Path, zookeeper_server: ZooKeeperProcess) -> AsyncIterator[ClusterFactory]:
    """Starts clusters for one test: `cluster = await make_cluster(brokers=3, …)`, as LocalCluster has it.

    They share a ZooKeeper, each below a chroot of its own; `zookeeper=None` starts one that may be harmed.
    """
    async for factory in _clusters_in(tmp_path, zookeeper_server):
        yield factory


@pytest.fixture(scope="module")
async def make_module_cluster(
    tmp_path_factory: pytest.TempPathFactory, zookeeper_server: ZooKeeperProcess
) -> AsyncIterator[ClusterFactory]:
    """As `make_cluster`, for the tests of one module together."""
    async for factory in _clusters_in(tmp_path_factory.mktemp("clusters"), zookeeper_server):
        yield factory


@pytest.fixture(scope="module")
async def cluster(make_module_cluster: ClusterFactory) -> LocalCluster:
    """Three brokers and a controller for a module whose tests do no harm to them."""
    return await make_module_cluster(brokers=3)


async def _clusters_in(directory: Path, server: ZooKeeperProcess) -> AsyncIterator[ClusterFactory]:
    names = itertools.count(1)
    async with AsyncExitStack() as started:

        async def start_one(brokers: int = 3, **arguments: Any) -> LocalCluster:
            home = directory / f"cluster-{next(names)}"
            given = {"directory": home, "zookeeper": _chroot(server), "spawn": spawn, **arguments}
            cluster = LocalCluster(brokers, **given)
            started.push_async_callback(cluster.stop, clean=False)
            await cluster.start()
            return cluster

        yield start_one


@pytest.fixture
def loop() -> Iterator[SimulatedLoop]:
    """For tests on virtual time. Its time passes only while all tasks wait."""
    loop = SimulatedLoop.new(Random(1))
    yield loop
    loop.close()
