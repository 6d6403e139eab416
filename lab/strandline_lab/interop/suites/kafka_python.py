"""kafka-python's integration tests."""

from __future__ import annotations

from typing import Final

from strandline_lab.interop.outcome import Place, Report, Suite
from strandline_lab.interop.process import PYTHONPATH, printed
from strandline_lab.interop.suites.pytest_suite import run_pytest

BROKER_VERSION: Final = "4.3.0"
"""The version that kafka-python takes the brokers for, by the APIs that they serve."""
SUITE_S_MAX: Final = 1800.0
LEFT_OUT: Final = {
    "*_sasl_*": "SASL",
    "*_ssl_*": "TLS",
    "*test_describe_metadata_quorum": "there is no quorum of Kafka's: the metadata is in ZooKeeper",
    "*test_alter_replica_log_dirs*": "a broker has one folder of logs",
}
STAYS: Final = {
    "*test_create_partitions": "assigns replicas to broker 0; a local cluster has brokers 1 to 3",
    "*test_create_describe_delete_acls*": "asks for ACLs of principal `*`: it is not of the form User:name",
    "*test_transactional_producer_offsets": "makes up a leader epoch that is older than its new topic",
    "*test_delete_records": "expects the records of three brokers from one poll",
}


def run_suite(place: Place) -> Report | None:
    """Runs it, or returns None if there is no checkout or no environment."""
    checkout, python = place.suites / "kafka-python", place.suites / "python" / "bin" / "python"
    if not (checkout / "test" / "integration").is_dir() or not python.exists():
        return None
    outcomes = run_pytest(
        python,
        checkout,
        place.output / "kafka-python",
        ["test/integration"],
        seconds=SUITE_S_MAX,
        environment={
            "KAFKA_URI": f"kafka://{place.kafka.partition(',')[0]}",
            "KAFKA_ROOT": str(checkout),  # an installation of Kafka: it is only looked for, and not used
            "KAFKA_VERSION": BROKER_VERSION,
            "PYTHONPATH": PYTHONPATH,
        },
        left_out=LEFT_OUT,
        names=place.tests,
    )
    return Report("kafka-python", printed(["git", "describe", "--tags"], cwd=checkout), outcomes)


SUITE: Final = Suite(
    "kafka-python",
    "a checkout of dpkp/kafka-python as SUITES/kafka-python; its environment in SUITES/python",
    run_suite,
    STAYS,
    {"num_partitions": 4},
    acls=True,
)
