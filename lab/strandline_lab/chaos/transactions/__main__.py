"""`python -m strandline_lab.chaos.transactions LIBRARY BOOTSTRAP produce|process TOPIC`: a client of a round
that writes in transactions.

`produce` sends to TOPIC until SIGTERM. `process` reads TOPIC as a member of a group, and sends what it makes
of it to another. Its history, on standard output, has the lines of `strandline verify`.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from strandline.adapters.system.clock import SystemClock
from strandline.adapters.system.standard_streams import open_standard_streams
from strandline.errors import StrandlineError
from strandline_lab.chaos.core.load import Library
from strandline_lab.chaos.history_lines import HistoryLines
from strandline_lab.chaos.kafka.options import Connection
from strandline_lab.chaos.kafka.security import Certified
from strandline_lab.chaos.signals import stopped_by_sigterm
from strandline_lab.chaos.transactions.options import Processing, Transacting

FAILED: Final = 1
LIBRARIES: Final = (Library.STRANDLINE, Library.CONFLUENT)


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m strandline_lab.chaos.transactions", description=__doc__)
    parser.add_argument("library", type=Library, choices=LIBRARIES)
    parser.add_argument("bootstrap", help="addresses of brokers, separated by commas")
    commands = parser.add_subparsers(dest="command", required=True)
    produce = commands.add_parser("produce", help="send numbered records")
    produce.add_argument("--rate", type=float, default=50.0, help="records a second")
    process = commands.add_parser("process", help="make one record of each one that is read")
    process.add_argument("--to", required=True, help="the topic of what is made")
    process.add_argument("--group", required=True)
    process.add_argument("--session-timeout-ms", type=int, default=10_000)
    for command in (produce, process):
        command.add_argument("topic")
        command.add_argument("--transactional-id", required=True)
        command.add_argument("--partitions", type=int, required=True, help="to which it sends in turn")
        command.add_argument("--value-prefix", default="", help="what each value begins with")
        command.add_argument("--client-id", default="strandline-chaos")
        command.add_argument(
            "--client-config",
            type=Path,
            help="file with the settings of strandline's clients, for certificates",
        )
    return parser.parse_args(given)


def run_client(wanted: argparse.Namespace) -> bool:
    """Runs the client until SIGTERM. Returns False if it could not continue."""
    clock, sequence = SystemClock(), itertools.count()
    processes = wanted.command == "process"
    inputs = HistoryLines(wanted.topic, sys.stdout, clock, sequence)
    outputs = HistoryLines(wanted.to, sys.stdout, clock, sequence) if processes else inputs
    try:
        if wanted.library is Library.STRANDLINE:
            return asyncio.run(_own(wanted, inputs, outputs))
        return _confluent(wanted, inputs, outputs)
    finally:
        outputs.summary()


def _wanted(wanted: argparse.Namespace) -> Transacting | Processing:
    certified = None
    if wanted.client_config is not None and wanted.library is not Library.STRANDLINE:
        certified = Certified.read(wanted.client_config)
    processes = wanted.command == "process"
    topic = wanted.to if processes else wanted.topic
    connection = Connection(wanted.bootstrap, topic, wanted.client_id, certified)
    rate = 0.0 if processes else wanted.rate
    producing = Transacting(connection, wanted.transactional_id, wanted.partitions, rate)
    if not processes:
        return producing
    return Processing(producing, wanted.topic, wanted.group, wanted.session_timeout_ms)


async def _own(wanted: argparse.Namespace, inputs: HistoryLines, outputs: HistoryLines) -> bool:
    from strandline_lab.chaos.transactions import own

    what, prefix, stopped = _wanted(wanted), wanted.value_prefix, stopped_by_sigterm()
    settings: dict[str, Any] = {}
    if wanted.client_config is not None:
        settings = tomllib.loads(wanted.client_config.read_text(encoding="utf-8"))
    try:
        match what:
            case Transacting():
                await own.produce(what, settings, outputs, prefix, SystemClock(), stopped)
            case Processing():
                await own.process(what, settings, inputs, outputs, prefix, stopped)
    except StrandlineError as error:
        outputs.error(int(error.code), type(error).__name__, str(error))
        return False
    return True


def _confluent(wanted: argparse.Namespace, inputs: HistoryLines, outputs: HistoryLines) -> bool:
    from confluent_kafka import KafkaException

    from strandline_lab.chaos.transactions import confluent

    what, prefix, stopped = _wanted(wanted), wanted.value_prefix, stopped_by_sigterm()
    try:
        match what:
            case Transacting():
                confluent.produce(what, outputs, prefix, SystemClock(), stopped)
            case Processing():
                confluent.process(what, inputs, outputs, prefix, SystemClock(), stopped)
    except KafkaException as error:
        cause = error.args[0]
        outputs.error(cause.code(), cause.name(), cause.str())
        return False
    return True


def main() -> int:
    """Returns 0 after SIGTERM, 1 if the client could not continue."""
    open_standard_streams()
    return 0 if run_client(arguments()) else FAILED


if __name__ == "__main__":
    sys.exit(main())
