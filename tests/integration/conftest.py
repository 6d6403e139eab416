"""Clusters for tests of faults: at their end they are checked against their own records; a failure shows
what their members printed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Iterator
from typing import Any

import pytest

from strandline.local.cluster import LocalCluster
from tests.conftest import ClusterFactory
from tests.integration.support.faulty_cluster import FaultyCluster
from tests.integration.support.harness import FAULT_SETTINGS, Harness
from tests.integration.support.lives import judged
from tests.integration.support.simulated_harness import SimulatedHarness

LOG_TAIL_BYTES = 12_000
SEED = 1

_CLUSTERS = pytest.StashKey[list[LocalCluster]]()


@pytest.fixture(scope="module")
async def shared(
    request: pytest.FixtureRequest, make_module_cluster: ClusterFactory
) -> AsyncIterator[Harness]:
    """Three brokers with short times, for all tests of a module."""
    cluster = await make_module_cluster(brokers=3, broker_settings=FAULT_SETTINGS)
    request.node.stash.setdefault(_CLUSTERS, []).append(cluster)
    async with judged(cluster) as harness:
        yield harness


@pytest.fixture
async def harness(shared: Harness) -> AsyncIterator[Harness]:
    """The module's cluster, whole before the test, and made whole again after it."""
    await shared.heal()
    yield shared
    await shared.heal()


@pytest.fixture
async def own(request: pytest.FixtureRequest, make_cluster: ClusterFactory) -> AsyncIterator[Harness]:
    """Three brokers with short times, for one test after which no other could continue."""
    cluster = await make_cluster(brokers=3, broker_settings=FAULT_SETTINGS)
    request.node.stash.setdefault(_CLUSTERS, []).append(cluster)
    async with judged(cluster) as harness:
        yield harness


@pytest.fixture
def simulated(request: pytest.FixtureRequest) -> Iterator[SimulatedHarness]:
    """Three brokers with short times, on virtual time, for one test. The marker `strandline` has other
    arguments of the cluster."""
    given: dict[str, Any] = {"seed": SEED, "broker_settings": FAULT_SETTINGS}
    for marker in reversed(list(request.node.iter_markers("strandline"))):
        given |= marker.kwargs
    with FaultyCluster(**given) as cluster:
        yield SimulatedHarness(cluster)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Attach the end of every broker's log to a failure."""
    report = yield
    if report.failed:
        nodes = [item, item.getparent(pytest.Module)]
        for cluster in (c for node in nodes if node is not None for c in node.stash.get(_CLUSTERS, [])):
            for broker in cluster.broker_ids:
                path = cluster.log_path(broker)
                tail = path.read_text(errors="replace")[-LOG_TAIL_BYTES:] if path.exists() else ""
                report.sections.append((f"broker {broker}, the end of {path}", tail))
    return report
