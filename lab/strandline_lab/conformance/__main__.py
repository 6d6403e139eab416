"""`python -m strandline_lab.conformance [API…]`: sends the same requests to strandline and to Kafka."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from strandline import LocalCluster
from strandline.adapters.system.clock import SystemClock
from strandline_lab.conformance import kafka
from strandline_lab.conformance.case import Case
from strandline_lab.conformance.cases import CASES, FAMILIES
from strandline_lab.conformance.compare import judged, read_table
from strandline_lab.conformance.definitions import Messages
from strandline_lab.conformance.normal import HOUR_MS
from strandline_lab.conformance.report import kinds, reasons, rows, summary, version_table
from strandline_lab.conformance.run import compared, faults
from strandline_lab.conformance.system import Cluster, versions_of

TABLE: Final = Path(__file__).parent / "known"
START_S_MAX: Final = 240.0
DIFFERS, NOT_HERE = 1, 3
"""Exit codes: the answers and the table do not agree; Kafka cannot be run on this machine."""
_BROKER_SETTINGS: Final = {
    "authorizer": "acl",
    "super_users": "User:ANONYMOUS",
    "group_initial_rebalance_delay_ms": 0,
}
_CONTROLLER_SETTINGS: Final = {"authorizer": "acl", "super_users": "User:ANONYMOUS"}


@asynccontextmanager
async def strandline_running() -> AsyncIterator[Sequence[str]]:
    """Three brokers of strandline; gives their addresses in order."""
    cluster = LocalCluster(
        3, kafka=True, broker_settings=_BROKER_SETTINGS, controller_settings=_CONTROLLER_SETTINGS
    )
    try:
        await cluster.start(timeout_s=START_S_MAX)
        yield cluster.kafka_bootstrap.split(",")
    finally:
        await cluster.stop(clean=False)


async def run(families: Sequence[Sequence[Case]], arguments: argparse.Namespace) -> int:
    """Brings Kafka, starts both systems, and prints the report. Returns the exit code."""
    clock = SystemClock()
    began = clock.monotonic()
    found = await kafka.bring(arguments.output / "kafka")
    messages = Messages.read(found.clients)
    if wrong := faults([case for family in families for case in family], messages):
        raise ValueError("\n".join(wrong))
    async with AsyncExitStack() as stack:
        first, second = (
            Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="strandline-conformance-")))
            for _ in range(2)
        )
        theirs = await stack.enter_async_context(kafka.running(found, first))
        other = kafka.running(found, second) if arguments.itself else strandline_running()
        ours = await stack.enter_async_context(other)
        print(f"both run after {clock.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
        start_ms = clock.wall_ms() - HOUR_MS
        ours_cluster = Cluster("Kafka itself" if arguments.itself else "strandline", ours, messages, start_ms)
        their_cluster = Cluster("Kafka", theirs, messages, start_ms)
        table = version_table(
            await versions_of(ours_cluster), await versions_of(their_cluster), messages.keys
        )
        result = await compared(families, ours_cluster, their_cluster, messages)
    judgement = judged(result.differences, [] if arguments.itself else read_table(TABLE), result.answers)
    text = summary(result, judgement)
    arguments.output.mkdir(parents=True, exist_ok=True)
    (arguments.output / "differences.txt").write_text(
        f"{text}\n\nBy reason:\n\n{reasons(judgement)}\n\n{table}\n\n"
        f"All differences:\n\n{kinds(result.differences)}\n"
    )
    (arguments.output / "rows.txt").write_text(f"{rows(judgement.new)}\n")
    print(table, text, sep="\n\n")
    print(f"{clock.monotonic() - began:.0f} s; all of it is in {arguments.output}", file=sys.stderr)
    return DIFFERS if judgement.new or judgement.stale else 0


def main() -> int:
    """Reads the command line."""
    parser = argparse.ArgumentParser(prog="python -m strandline_lab.conformance", description=__doc__)
    parser.add_argument("apis", nargs="*", metavar="API", help="such as Metadata; default: all")
    parser.add_argument(
        "--output", type=Path, default=Path(".interop"), help="gets Kafka's jars, and all differences"
    )
    parser.add_argument(
        "--itself", action="store_true", help="compare Kafka with itself: what a run cannot tell apart"
    )
    given = parser.parse_args()
    given.output = given.output.resolve()
    unknown = sorted(set(given.apis) - {case.api for case in CASES})
    if unknown:
        parser.error(f"there are no cases of {', '.join(unknown)}")
    families = [
        [case for case in family.CASES if not given.apis or case.api in given.apis] for family in FAMILIES
    ]
    try:
        return asyncio.run(run(families, given))
    except kafka.NotHere as error:
        print(f"The conformance run cannot begin: {error}", file=sys.stderr)
        return NOT_HERE


if __name__ == "__main__":
    sys.exit(main())
