"""What the start of a service loads: its imports are most of the time until it serves."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = frozenset(
    {
        *("aiokafka", "click", "matplotlib", "numpy", "pandas", "prometheus_client", "pyarrow"),
        *("importlib.metadata", "pydantic_settings", "pyspark", "rocksdict", "tomllib"),
        *("urllib.request", "wsgiref"),
        *("strandline.cli", "strandline.consumer", "strandline.local", "strandline.producer"),
    }
)
"""Libraries and packages that a service does not need, or only with metrics."""


def loaded(script: str) -> set[str]:
    """Those of HEAVY that a new process has loaded at the end of the script."""
    report = f"\nimport sys\nprint(*sorted({set(HEAVY)!r} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", script + report], text=True, capture_output=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize("service", ["broker", "controller"])
def test_a_service_loads_nothing_heavy(service: str) -> None:
    """All that `python -m strandline.SERVICE` imports before it reads its settings."""
    assert (
        loaded(
            "import strandline.adapters.service_host, strandline.adapters.telemetry.logs, uvloop\n"
            f"import strandline.{service}.process"
        )
        == set()
    )


@pytest.mark.parametrize(
    ("port", "libraries"), [(None, set()), (0, {"prometheus_client", "urllib.request", "wsgiref"})]
)
def test_the_libraries_of_metrics_are_loaded_when_their_server_starts(
    port: int | None, libraries: set[str]
) -> None:
    """Not with the first scrape: the loop of a service under load would wait for it."""
    script = f"""
import asyncio
from strandline.adapters.system.clock import SystemClock
from strandline.adapters.telemetry.metrics_server import serve_metrics
from strandline.config.services.listener import ListenerSettings

async def main():
    settings = ListenerSettings.model_construct(metrics_port={port})
    async with serve_metrics(settings, [], list, bool, SystemClock()):
        pass

asyncio.run(main())
"""
    assert loaded(script) == libraries
