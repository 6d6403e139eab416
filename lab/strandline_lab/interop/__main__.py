"""`python -m strandline_lab.interop [--suites FOLDER] [--tests NAME…] [suite…]`: runs others' suites."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from strandline import Admin, LocalCluster
from strandline_lab.interop.outcome import Missing, Place, Report, Suite, explained, table, unexplained
from strandline_lab.interop.security import write_client_settings
from strandline_lab.interop.suites import aiokafka, clients, franz_go, kafka_python, librdkafka, streams

SUITES: Final[dict[str, Suite]] = {
    suite.name: suite
    for suite in (
        *clients.SUITES, aiokafka.SUITE, kafka_python.SUITE, franz_go.SUITE, *librdkafka.SUITES,
        streams.SUITE,
    )
}  # fmt: skip
START_S_MAX: Final = 120.0
KILL_S_MAX: Final = 30.0


def cluster_for(suite: Suite) -> LocalCluster:
    """A cluster that is not started."""
    acls = {"authorizer": "acl", "super_users": "User:ANONYMOUS"} if suite.acls else {}
    logins = suite.security.broker_settings if suite.security else {}
    return LocalCluster(
        suite.brokers,
        kafka=True,
        secure=suite.security is not None,
        broker_settings={**suite.settings, **acls, **logins},
        controller_settings=acls,
    )


def killer_of(cluster: LocalCluster) -> Callable[[str], None]:
    """A function for another thread, which kills the broker that leads partition 0 of a topic."""
    loop = asyncio.get_running_loop()

    async def kill_leader(topic: str) -> None:
        async with Admin(cluster.bootstrap, **cluster.client_settings) as admin:
            (found,) = (await admin.metadata([topic])).topics
        await cluster.kill_broker(found.partitions[0].leader)

    return lambda topic: asyncio.run_coroutine_threadsafe(kill_leader(topic), loop).result(KILL_S_MAX)


async def run(suites: list[Suite], arguments: argparse.Namespace) -> int:
    """Runs the suites one after another, each against a new cluster; prints the table. 1 if one failed."""
    reports: list[Report] = []
    missing: list[Missing] = []
    failed = False
    for suite in suites:
        began = time.monotonic()
        print(f"{suite.name} …", file=sys.stderr, flush=True)
        cluster = cluster_for(suite)
        try:
            await cluster.start(timeout_s=START_S_MAX)
            folder = None
            if suite.security is not None:
                folder = arguments.output / "security" / suite.security.value
                await write_client_settings(suite.security, cluster, folder)
            where = Place(
                cluster.kafka_bootstrap, arguments.suites, arguments.output, arguments.tests,
                arguments.slower, folder, killer_of(cluster),
            )  # fmt: skip
            report = await asyncio.to_thread(suite.run, where)
        finally:
            await cluster.stop(clean=False)
        if report is None:
            missing.append(Missing(suite.name, suite.how))
            continue
        print(f"{suite.name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
        failed = failed or bool(unexplained(report, suite.stays))
        reports.append(explained(report, suite.stays))
    print(table(reports, missing))
    return 1 if failed else 0


def main() -> int:
    """Reads the command line."""
    parser = argparse.ArgumentParser(prog="python -m strandline_lab.interop", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="suite", help=f"of {', '.join(SUITES)}; default: all")
    parser.add_argument("--suites", type=Path, default=Path("suites"), help="the folder with checkouts")
    parser.add_argument("--output", type=Path, default=Path(".interop"), help="where output is kept")
    parser.add_argument(
        "--tests", nargs="*", default=[], help="only tests that have one of these in the name"
    )
    parser.add_argument("--slower", type=float, default=1.0, help="stretch librdkafka's timeouts; default: 1")
    given = parser.parse_args()
    given.suites, given.output = given.suites.resolve(), given.output.resolve()
    unknown = sorted(set(given.names) - set(SUITES))
    if unknown:
        parser.error(f"unknown suite {', '.join(unknown)}; there are {', '.join(SUITES)}")
    return asyncio.run(run([SUITES[name] for name in given.names or SUITES], given))


if __name__ == "__main__":
    sys.exit(main())
