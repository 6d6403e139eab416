"""The pytest plugin: clusters as fixtures. pytest loads it by itself where strandline is installed.

`simulated_cluster` is a running `SimulatedCluster`, `memory_cluster` a running `MemoryCluster`, which needs
pytest-asyncio. The marker `strandline` has their arguments: `@pytest.mark.strandline(brokers=1)`. It may have
the seed of a simulated cluster, `seed=7`, or a number of seeds with each of which the test runs, `seeds=50`;
without them a seed is drawn. The option `--strandline-seed` overrides the marker. A simulated test that fails
shows its seed, and how to run it again.
"""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from random import SystemRandom
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from strandline.testing.memory import MemoryCluster
    from strandline.testing.simulated import SimulatedCluster

MARKER: Final = "strandline"
OPTION: Final = "--strandline-seed"
SEED_BITS: Final = 31
SEED_FIXTURE: Final = "strandline_seed"
USAGE: Final = (
    "strandline(brokers=3, seed=…, seeds=…, …): the arguments of this test's simulated_cluster or"
    " memory_cluster; with seeds=N a simulated test runs with the seeds 0 to N-1"
)

_SIMULATED = pytest.StashKey["SimulatedCluster"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("strandline")
    group.addoption(
        OPTION, type=int, default=None, metavar="SEED", help="the seed of every simulated_cluster"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", USAGE)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Repeat a simulated test for each seed that its marker asks for."""
    if SEED_FIXTURE not in metafunc.fixturenames:
        return
    seeds = _arguments(metafunc.definition).get("seeds")
    if seeds is not None:
        chosen = metafunc.config.getoption(OPTION)
        values = range(seeds) if chosen is None else [chosen]
        metafunc.parametrize(SEED_FIXTURE, values, indirect=True, ids=[f"seed-{seed}" for seed in values])


@pytest.fixture
def strandline_seed(request: pytest.FixtureRequest) -> int:
    """The seed of this test's `simulated_cluster`."""
    given: int | None = request.config.getoption(OPTION)
    if given is None:
        given = getattr(request, "param", None)
    if given is None:
        given = _arguments(request.node).get("seed")
    return SystemRandom().getrandbits(SEED_BITS) if given is None else given


@pytest.fixture
def simulated_cluster(request: pytest.FixtureRequest, strandline_seed: int) -> Iterator[SimulatedCluster]:
    """A cluster on virtual time: `simulated_cluster.run(…)` runs a coroutine."""
    from strandline.testing.simulated import SimulatedCluster

    arguments = {**_arguments(request.node), "seed": strandline_seed}
    arguments.pop("seeds", None)
    with SimulatedCluster(**arguments) as cluster:
        request.node.stash[_SIMULATED] = cluster
        yield cluster


async def _memory_cluster(request: pytest.FixtureRequest) -> AsyncIterator[MemoryCluster]:
    """A cluster on real time, in the event loop of the test."""
    from strandline.testing.memory import MemoryCluster

    arguments = _arguments(request.node)
    for name in ("seed", "seeds"):
        if name in arguments:
            raise pytest.UsageError(f"{name}= is for simulated_cluster: a memory_cluster has no seed")
    async with MemoryCluster(**arguments) as cluster:
        yield cluster


def _no_memory_cluster() -> None:
    """Needs pytest-asyncio."""
    raise pytest.UsageError(
        "the fixture memory_cluster needs pytest-asyncio; without it write `async with MemoryCluster()`"
    )


def _fixture() -> Callable[..., Any]:
    try:
        import pytest_asyncio
    except ImportError:
        return pytest.fixture(_no_memory_cluster, name="memory_cluster")
    return pytest_asyncio.fixture(_memory_cluster, name="memory_cluster")


memory_cluster = _fixture()


def _arguments(node: pytest.Item) -> dict[str, Any]:
    """Those of a test's markers; the marker nearest to the test overrides others."""
    arguments: dict[str, Any] = {}
    for marker in reversed(list(node.iter_markers(MARKER))):
        if marker.args:
            raise pytest.UsageError(f"the marker {MARKER} takes its arguments by name: brokers=3, not 3")
        arguments.update(marker.kwargs)
    return arguments


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Say with a failed simulated test how to repeat it, and how its cluster was."""
    report = yield
    cluster = item.stash.get(_SIMULATED, None)
    if cluster is not None and report.failed:
        again = f"pytest {shlex.quote(item.nodeid)} {OPTION}={cluster.seed}"
        lines = [f"seed {cluster.seed}; run it again: {again}", *cluster.last_words()]
        report.sections.append(("simulated cluster", "\n".join(lines)))
    return report
