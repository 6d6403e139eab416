"""Runs members of a group in one process, as `member_processes` commands it.

`python -m strandline_lab.perf.rebalance_members BOOTSTRAP TOPIC SETTINGS` reads commands from standard
input: `connect SETTINGS` (of connections, as quoted JSON), `start NAME` and `stop NAME`. It writes `ready`,
then a JSON line for each time that its members are given partitions, lose them or receive records. When its
input ends, its members leave and it ends.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import unquote

import uvloop

from strandline import Consumer, RebalanceListener, TopicPartition
from strandline.adapters.system.clock import SystemClock
from strandline.adapters.system.standard_streams import open_standard_streams
from strandline.adapters.telemetry.logs import configure_logging
from strandline.config.load import load
from strandline.config.services.zookeeper import ZooKeeperSettings
from strandline_lab.perf.rebalance_times import ASSIGNED, LOST, RECEIVED, REVOKED
from strandline_lab.perf.worker_processes import commands

POLL_MS: Final = 250


class Reporter(RebalanceListener):
    """Writes a line for each change of one member's partitions, with the time of its notification."""

    def __init__(self, member: str) -> None:
        self._member = member
        self._monotonic = SystemClock().monotonic

    def on_assigned(self, added: set[TopicPartition]) -> None:
        self.report(ASSIGNED, sorted(added))

    def on_revoked(self, removed: set[TopicPartition]) -> None:
        self.report(REVOKED, sorted(removed))

    def on_lost(self, lost: set[TopicPartition]) -> None:
        self.report(LOST, sorted(lost))

    def report(self, event: str, partitions: Sequence[TopicPartition]) -> None:
        numbers = [each.partition for each in partitions]
        line = {"at": self._monotonic(), "member": self._member, "event": event, "partitions": numbers}
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


async def belong(
    member: str, bootstrap: str, topic: str, settings: Mapping[str, Any], stop: asyncio.Event
) -> None:
    """Runs one member, from joining to leaving."""
    reporter = Reporter(member)
    async with Consumer(bootstrap, client_id=member, **settings) as consumer:
        consumer.subscribe([topic], listener=reporter)
        while not stop.is_set():
            batches = await consumer.getmany(timeout_ms=POLL_MS)
            if batches:
                reporter.report(RECEIVED, sorted(batches))


async def serve(bootstrap: str, topic: str, settings: Mapping[str, Any]) -> None:
    """Carries out the commands of standard input until it ends."""
    connection: dict[str, Any] = {}
    stops: dict[str, asyncio.Event] = {}
    async with asyncio.TaskGroup() as tasks:
        async for command, member in commands():
            if command == "connect":
                connection = json.loads(unquote(member))
            elif command == "start":
                stops[member] = asyncio.Event()
                tasks.create_task(
                    belong(member, bootstrap, topic, {**settings, **connection}, stops[member]), name=member
                )
            else:
                stops.pop(member).set()
        for stop in stops.values():
            stop.set()


if __name__ == "__main__":
    open_standard_streams()
    configure_logging(load(ZooKeeperSettings, log_format="console", log_level="error"))
    uvloop.run(serve(sys.argv[1], sys.argv[2], json.loads(sys.argv[3])))
