"""The processor time of a broker for a poll of a Kafka consumer at whose partitions nothing is new.

    python -m strandline_lab.bench.kafka.idle_partitions [PARTITIONS]

Starts one broker, makes a topic, and polls it with whole requests and within a fetch session (KIP-227).
"""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from collections.abc import Callable
from typing import Any, Final

from strandline import Admin, LocalCluster
from strandline.broker.kafka.wire import apis
from strandline.broker.kafka.wire.apis import ApiWire
from strandline.broker.kafka.wire.fetch import (
    FINAL_SESSION_EPOCH,
    INITIAL_SESSION_EPOCH,
    FetchAnswer,
    FetchRequest,
    PartitionPosition,
)
from strandline.broker.kafka.wire.metadata import MetadataRequest, TopicWanted
from strandline.broker.kafka.wire.topics import OfTopic
from strandline.ids import TopicId
from strandline_lab.bench.report import cpu_s
from strandline_lab.bench.scale.processes import START_S_MAX
from strandline_lab.simulation.kafka.messages import answer_in, frame

PARTITIONS: Final = 1_000
POLLS: Final = 300
WAIT_MS: Final = 5
"""Of each poll: what it costs does not depend on how long it waits."""
BYTES_MAX: Final = 1 << 20
TOPIC: Final = "idle"
METADATA_VERSION: Final = 12


class Connection:
    """Asks one broker, one request after the other."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)))
        self._stream = self._socket.makefile("rb")

    def ask(self, wire: ApiWire[Any, Any], request: Any, version: int) -> Any:
        self._socket.sendall(frame(wire, version, request, 1, "idle"))
        size = int.from_bytes(self._stream.read(4), "big")
        return answer_in(wire, version, self._stream.read(size))


class Poller:
    """Polls each partition of the topic at its end."""

    def __init__(self, address: str, partitions: int) -> None:
        self._connection = Connection(address)
        wanted = MetadataRequest((TopicWanted(TOPIC),))
        (topic,) = self._connection.ask(apis.METADATA, wanted, METADATA_VERSION).topics
        positions = tuple(PartitionPosition(number, -1, 0, BYTES_MAX) for number in range(partitions))
        self._session_id = self._epoch = 0
        self._whole = (OfTopic("", positions, TopicId(topic.topic_id)),)

    def whole(self, epoch: int = FINAL_SESSION_EPOCH) -> FetchAnswer:
        return self._ask(FetchRequest(WAIT_MS, 1, BYTES_MAX, 0, self._whole, 0, epoch))

    def in_session(self, session_id: int, epoch: int) -> FetchAnswer:
        return self._ask(FetchRequest(WAIT_MS, 1, BYTES_MAX, 0, (), session_id, epoch))

    def _ask(self, request: FetchRequest) -> FetchAnswer:
        answer: FetchAnswer = self._connection.ask(apis.FETCH, request, apis.FETCH.last)
        assert not answer.error, answer.error
        return answer

    def poll_whole(self) -> None:
        for _ in range(POLLS):
            self.whole()

    def poll_in_session(self) -> None:
        if not self._session_id:
            self._session_id = self.whole(INITIAL_SESSION_EPOCH).session_id
        for _ in range(POLLS):
            self._epoch += 1
            self.in_session(self._session_id, self._epoch)


async def measure(partitions: int) -> None:
    """Prints both figures."""
    cluster = LocalCluster(1, kafka=True)
    await cluster.start(timeout_s=START_S_MAX)
    try:
        async with Admin(cluster.bootstrap, request_timeout_ms=300_000) as admin:
            await admin.create_topic(TOPIC, partitions=partitions, replication_factor=1)
        await compare(cluster.kafka_bootstrap, cluster.pid(1), partitions)
    finally:
        await cluster.stop(clean=False)


async def cpu_of(broker_pid: int, work: Callable[[], object]) -> float:
    """The processor time that the broker uses for this work, seconds: without what it uses at rest."""
    before, began = cpu_s(broker_pid), time.monotonic()
    await asyncio.to_thread(work)
    used, took_s = cpu_s(broker_pid) - before, time.monotonic() - began
    before = cpu_s(broker_pid)
    await asyncio.sleep(took_s)
    return used - (cpu_s(broker_pid) - before)


async def compare(address: str, broker_pid: int, partitions: int) -> None:
    poller = await asyncio.to_thread(Poller, address, partitions)
    for what, poll in (("whole", poller.poll_whole), ("in a session", poller.poll_in_session)):
        await asyncio.to_thread(poll)
        used_us = await cpu_of(broker_pid, poll) / POLLS * 1e6
        sys.stdout.write(f"{partitions} partitions, {what}: {used_us:.0f} us of CPU a poll\n")


if __name__ == "__main__":
    asyncio.run(measure(int(sys.argv[1]) if len(sys.argv) > 1 else PARTITIONS))
