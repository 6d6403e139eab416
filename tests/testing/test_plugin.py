"""The pytest plugin, in a run of pytest of its own as users have it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

USERS_TESTS = """
import asyncio
import pytest

async def first_leader(cluster):
    await cluster.create_topic("orders")
    return cluster.leader("orders")

@pytest.mark.strandline(brokers=2, seed=7)
def test_simulated(simulated_cluster):
    assert simulated_cluster.run(first_leader(simulated_cluster)) in (1, 2)
    assert simulated_cluster.seed == 7

@pytest.mark.strandline(brokers=1, seeds=3)
def test_each_seed(simulated_cluster):
    assert simulated_cluster.seed != 1, "seed 1 is bad"

def test_that_fails(simulated_cluster):
    simulated_cluster.run(first_leader(simulated_cluster))
    simulated_cluster.kill(2)
    assert not simulated_cluster.broker_ids

@pytest.mark.asyncio
@pytest.mark.strandline(brokers=1)
async def test_memory(memory_cluster):
    assert await first_leader(memory_cluster) == 1

@pytest.mark.asyncio
@pytest.mark.strandline(seed=1)
async def test_memory_has_no_seed(memory_cluster):
    pass
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "test_orders.py").write_text(USERS_TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -q -p no:cacheprovider -p no:xdist\n")
    return tmp_path


def pytest_run(project: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "pytest", *arguments]
    return subprocess.run(
        command, cwd=project, capture_output=True, text=True, check=False, timeout=50
    ).stdout


def test_a_failed_simulated_test_shows_its_seed_and_how_to_repeat_it(project: Path) -> None:
    printed = pytest_run(project)
    assert "2 failed, 4 passed, 1 error" in printed, printed
    assert (
        "seed 1; run it again: pytest 'test_orders.py::test_each_seed[seed-1]' --strandline-seed=1" in printed
    )
    assert "seed= is for simulated_cluster: a memory_cluster has no seed" in printed
    again = re.search(
        r"seed (\d+); run it again: pytest (\S+test_that_fails) (--strandline-seed=\d+)\n", printed
    )
    trace = re.search(r"trace (\w+), [\d.]+ s of virtual time\n", printed[again.end() :] if again else "")
    assert again is not None and trace is not None, printed
    assert "broker 2: killed or stopped" in printed
    repeated = pytest_run(project, again[2], again[3])
    assert f"seed {again[1]};" in repeated
    assert trace[0] in repeated, "the same seed has the same run"
