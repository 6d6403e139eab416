"""Members of a group, as many as told, in one process: the other end of `member_processes`.

`python -m strandline.cli.perf.rebalance_members BOOTSTRAP TOPIC SETTINGS` reads `start NAME` and `stop NAME`
from standard input and writes `ready`, then a JSON line for all that its members are given, lose and receive.
When its input ends, its members leave, and it does too.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

import uvloop

from strandline import Consumer, RebalanceListener, TopicPartition
from strandline.adapters.system.clock import SystemClock
from strandline.adapters.telemetry.logs import configure_logging
from strandline.cli.perf.rebalance_times import ASSIGNED, LOST, RECEIVED, REVOKED
from strandline.config import ZooKeeperSettings, load

POLL_MS: Final = 250
READY: Final = "ready"
"""The first line: what comes after is not the time that a Python process takes to start."""


class Teller(RebalanceListener):
    """Writes what one member says, with the time at which it was told."""

    def __init__(self, member: str) -> None:
        self._member = member
        self._monotonic = SystemClock().monotonic

    def on_assigned(self, added: set[TopicPartition]) -> None:
        self.tell(ASSIGNED, sorted(added))

    def on_revoked(self, removed: set[TopicPartition]) -> None:
        self.tell(REVOKED, sorted(removed))

    def on_lost(self, lost: set[TopicPartition]) -> None:
        self.tell(LOST, sorted(lost))

    def tell(self, event: str, partitions: Sequence[TopicPartition]) -> None:
        numbers = [each.partition for each in partitions]
        line = {"at": self._monotonic(), "member": self._member, "event": event, "partitions": numbers}
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


async def belong(
    member: str, bootstrap: str, topic: str, settings: Mapping[str, Any], stop: asyncio.Event
) -> None:
    """One member, from joining to leaving."""
    teller = Teller(member)
    async with Consumer(bootstrap, client_id=member, **settings) as consumer:
        consumer.subscribe([topic], listener=teller)
        while not stop.is_set():
            batches = await consumer.getmany(timeout_ms=POLL_MS)
            if batches:
                teller.tell(RECEIVED, sorted(batches))


async def serve(bootstrap: str, topic: str, settings: Mapping[str, Any]) -> None:
    """Do what standard input says until it ends."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    print(READY, flush=True)
    stops: dict[str, asyncio.Event] = {}
    async with asyncio.TaskGroup() as tasks:
        while line := (await reader.readline()).decode().split():
            command, member = line
            if command == "start":
                stops[member] = asyncio.Event()
                tasks.create_task(belong(member, bootstrap, topic, settings, stops[member]), name=member)
            else:
                stops.pop(member).set()
        for stop in stops.values():
            stop.set()


if __name__ == "__main__":
    configure_logging(load(ZooKeeperSettings, log_format="console", log_level="error"))
    uvloop.run(serve(sys.argv[1], sys.argv[2], json.loads(sys.argv[3])))
