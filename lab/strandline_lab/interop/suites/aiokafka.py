"""aiokafka's integration tests. Fixtures that start a container give the cluster's addresses."""

from __future__ import annotations

from typing import Final

from strandline_lab.interop.outcome import Place, Report, Suite
from strandline_lab.interop.process import PYTHONPATH, printed
from strandline_lab.interop.suites.pytest_suite import run_pytest

IMAGE: Final = "strandline:2.13_2.8.1"
"""The tests take Kafka's version from an image's name. This is the newest one that its authors use."""
SUITE_S_MAX: Final = 2400.0
FILES: Final = (
    "admin",
    "client",
    "conn",
    "consumer",
    "coordinator",
    "pep492",
    "producer",
    "sender",
    "transactional_consumer",
    "transactional_producer",
)
"""The files whose tests need brokers, without those for SASL."""
LEFT_OUT: Final = {
    "*ssl*": "TLS",
    "*sasl*": "SASL",
}
STAYS: Final = {"*test_sender__handler_base_do": "asks broker 0; a local cluster has broker 1"}


def run_suite(place: Place) -> Report | None:
    """Runs it, or returns None if there is no checkout or no environment."""
    checkout, python = place.suites / "aiokafka", place.suites / "python" / "bin" / "python"
    if not (checkout / "tests" / "conftest.py").is_file() or not python.exists():
        return None
    built = any((checkout / "aiokafka" / "record" / "_crecords").glob("*.so"))
    outcomes = run_pytest(
        python,
        checkout,
        place.output / "aiokafka",
        [
            "-o", "asyncio_default_fixture_loop_scope=function",
            "-p", "strandline_lab.interop.plugins.aiokafka_brokers", "--docker-image", IMAGE, "--no-pull",
            *(f"tests/test_{name}.py" for name in FILES),
        ],
        seconds=SUITE_S_MAX,
        environment={
            "INTEROP_KAFKA": place.kafka,
            "PYTHONPATH": PYTHONPATH,
            **({} if built else {"AIOKAFKA_NO_EXTENSIONS": "1"}),
        },
        left_out=LEFT_OUT,
        names=place.tests,
    )  # fmt: skip
    return Report("aiokafka", printed(["git", "describe", "--tags"], cwd=checkout), outcomes)


SUITE: Final = Suite(
    "aiokafka",
    "a checkout of aio-libs/aiokafka as SUITES/aiokafka; its environment in SUITES/python",
    run_suite,
    STAYS,
    {"num_partitions": 2},
    brokers=1,  # as the authors' container: tests count the brokers
)
