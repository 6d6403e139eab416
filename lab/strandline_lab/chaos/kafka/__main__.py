"""`python -m strandline_lab.chaos.kafka LIBRARY BOOTSTRAP produce|consume TOPIC`: a Kafka client of a round.

It writes its history to standard output until SIGTERM. The lines are those of `strandline verify`.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from strandline.adapters.system.clock import SystemClock
from strandline.adapters.system.standard_streams import open_standard_streams
from strandline_lab.chaos.core.load import KAFKA, Library
from strandline_lab.chaos.history_lines import HistoryLines
from strandline_lab.chaos.kafka.installed import how_to_install, missing
from strandline_lab.chaos.kafka.options import Connection, Membership, Produced, Reading
from strandline_lab.chaos.kafka.security import Certified
from strandline_lab.chaos.signals import stopped_by_sigterm

FAILED: Final = 1


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m strandline_lab.chaos.kafka", description=__doc__)
    parser.add_argument("library", type=Library, choices=KAFKA)
    parser.add_argument("bootstrap", help="Kafka addresses of brokers, separated by commas")
    commands = parser.add_subparsers(dest="command", required=True)
    produce = commands.add_parser("produce", help="send numbered records")
    produce.add_argument("topic")
    produce.add_argument("--rate", type=float, default=100.0, help="records a second")
    produce.add_argument("--value-prefix", default="", help="what each value begins with")
    produce.add_argument("--acks", choices=("1", "all"), default="all")
    produce.add_argument("--delivery-timeout-ms", type=int, default=120_000)
    consume = commands.add_parser("consume", help="read all partitions, or a member's share of them")
    consume.add_argument("topic")
    consume.add_argument(
        "--watermarks", type=float, default=1.0, help="seconds between two requests for them"
    )
    consume.add_argument("--group", help="read as a member of this group")
    consume.add_argument("--assignor", default="range")
    consume.add_argument("--session-timeout-ms", type=int, default=10_000)
    for command in (produce, consume):
        command.add_argument("--client-id", default="strandline-chaos")
        command.add_argument(
            "--client-config",
            type=Path,
            help="file with the settings of strandline's clients, for certificates",
        )
    return parser.parse_args(given)


def run_client(wanted: argparse.Namespace, lines: HistoryLines) -> bool:
    """Runs the client until SIGTERM. Returns False if it could not continue."""
    certified = None if wanted.client_config is None else Certified.read(wanted.client_config)
    connection = Connection(wanted.bootstrap, wanted.topic, wanted.client_id, certified)
    what = _wanted(wanted)
    try:
        if wanted.library is Library.CONFLUENT:
            return _confluent(connection, what, lines)
        return _aiokafka(connection, what, lines)
    finally:
        lines.summary()


def _wanted(wanted: argparse.Namespace) -> Produced | Reading | Membership:
    if wanted.command == "produce":
        return Produced(wanted.rate, wanted.value_prefix, wanted.acks, wanted.delivery_timeout_ms)
    if wanted.group is None:
        return Reading(wanted.watermarks)
    return Membership(wanted.group, wanted.assignor, wanted.session_timeout_ms)


def _confluent(connection: Connection, what: Produced | Reading | Membership, lines: HistoryLines) -> bool:
    from confluent_kafka import KafkaException

    from strandline_lab.chaos.kafka import confluent_clients as clients

    stopped = stopped_by_sigterm()
    try:
        match what:
            case Produced():
                clients.produce(connection, what, lines, SystemClock(), stopped)
            case Reading():
                clients.read(connection, what, lines, SystemClock(), stopped)
            case Membership():
                clients.join(connection, what, lines, stopped)
    except (KafkaException, clients.Failed) as error:
        cause = error.error if isinstance(error, clients.Failed) else error.args[0]
        lines.error(cause.code(), cause.name(), cause.str())
        return False
    return True


def _aiokafka(connection: Connection, what: Produced | Reading | Membership, lines: HistoryLines) -> bool:
    from aiokafka.errors import KafkaError

    from strandline_lab.chaos.kafka import aiokafka_clients as clients

    async def run() -> None:
        stopped = stopped_by_sigterm()
        match what:
            case Produced():
                await clients.produce(connection, what, lines, SystemClock(), stopped)
            case Reading():
                await clients.read(connection, what, lines, SystemClock(), stopped)
            case Membership():
                await clients.join(connection, what, lines, stopped)

    try:
        asyncio.run(run())
    except KafkaError as error:
        lines.error(clients.code_of(error), type(error).__name__, str(error))
        return False
    return True


def main() -> int:
    """Returns 0 after SIGTERM, 1 if the client could not continue or its library is not installed."""
    open_standard_streams()
    wanted = arguments()
    if lacking := missing([wanted.library]):
        print(f"error: {how_to_install(lacking)}", file=sys.stderr)
        return FAILED
    lines = HistoryLines(wanted.topic, sys.stdout, SystemClock())
    return 0 if run_client(wanted, lines) else FAILED


if __name__ == "__main__":
    sys.exit(main())
