"""The clients of `assigned_groups`: librdkafka's consumers, and members that only send heartbeats.

`python -m strandline_lab.bench.kafka.assigned_client BOOTSTRAP WORK TOPIC [OPTION=NUMBER…]`. Each runs until
its standard input ends.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewPartitions

from strandline.broker.kafka.wire import apis
from strandline.broker.kafka.wire.coordinator import FindCoordinatorRequest
from strandline.broker.kafka.wire.groups.consumers import ConsumerHeartbeatRequest, TopicNumbers
from strandline_lab.simulation.kafka.messages import answer_in, frame

POLL_S: Final = 0.1
RECORD_BYTES: Final = 100
CALL_S_MAX: Final = 120.0
MEMBERS_OF_CONNECTION: Final = 100
REBALANCE_MS: Final = 300_000
RETRY_S: Final = 0.1
FIND_VERSION: Final = 3
Options = Mapping[str, int]


# --- librdkafka ------------------------------------------------------------------------------------


class _Member(threading.Thread):
    """One consumer. Prints when its partitions changed, by the monotonic clock, and how many it has then."""

    def __init__(self, bootstrap: str, topic: str, number: int, stop: threading.Event) -> None:
        super().__init__()
        self._topic = topic
        self._number = number
        self._stop_asked = stop
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"group-{topic}",
                "group.protocol": "consumer",
                "enable.auto.commit": False,
                "auto.offset.reset": "latest",
                "fetch.wait.max.ms": 20,
            }
        )
        self._last: dict[int, float] = {}
        self._gaps: dict[int, float] = {}
        """By partition: the time of its last record, and its longest gap since the mark."""

    def run(self) -> None:
        self._consumer.subscribe(
            [self._topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
        )
        while not self._stop_asked.is_set():
            for message in self._consumer.consume(500, POLL_S):
                partition = message.partition()
                if message.error() is None and partition is not None:
                    self._received(partition)
        self._consumer.close()

    def _received(self, partition: int) -> None:
        now, last = time.monotonic(), self._last.get(partition)
        self._last[partition] = now
        if last is not None and partition in self._gaps:
            self._gaps[partition] = max(self._gaps[partition], now - last)

    def mark(self) -> None:
        """From now on, gaps count of the partitions that are read already."""
        self._gaps = dict.fromkeys(self._last, 0.0)

    def gap_s(self) -> float:
        return max(self._gaps.values(), default=0.0)

    def _assigned(self, client: Any, partitions: list[Any]) -> None:
        client.incremental_assign(partitions)
        self._last |= {each.partition: time.monotonic() for each in partitions}
        _say(at=time.monotonic(), member=self._number, held=len(self._last))

    def _revoked(self, client: Any, partitions: list[Any]) -> None:
        client.incremental_unassign(partitions)
        for each in partitions:
            self._last.pop(each.partition, None)
            self._gaps.pop(each.partition, None)
        _say(at=time.monotonic(), member=self._number, held=len(self._last))


def _say(**said: float) -> None:
    sys.stdout.write(json.dumps(said) + "\n")  # one call: threads share the output
    sys.stdout.flush()


def members(bootstrap: str, topic: str, options: Options) -> None:
    """`members` consumers of a topic, numbered from `first` on. They join at `join`; `mark` begins to look
    for gaps, and `gap` prints the longest."""
    stop = threading.Event()
    first = options["first"]
    threads = [_Member(bootstrap, topic, number, stop) for number in range(first, first + options["members"])]
    print("ready", flush=True)
    joined = False
    for line in sys.stdin:
        match line.strip():
            case "join":
                joined = True
                for thread in threads:
                    thread.start()
            case "mark":
                for thread in threads:
                    thread.mark()
            case "gap":
                _say(gap_s=max(thread.gap_s() for thread in threads))
    stop.set()
    for thread in threads if joined else ():
        thread.join()


def feed(bootstrap: str, topic: str, options: Options) -> None:
    """Sends `rate` records a second to `partitions` partitions in turns."""
    stop = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        stop.set()

    threading.Thread(target=wait, daemon=True).start()
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "1"})
    sent, began, value = 0, time.monotonic(), bytes(RECORD_BYTES)
    while not stop.is_set():
        due = int((time.monotonic() - began) * options["rate"])
        for number in range(sent, due):
            producer.produce(topic, value, partition=number % options["partitions"])
        sent = due
        producer.poll(0.005)
    producer.flush(CALL_S_MAX)


def grow(bootstrap: str, topic: str, options: Options) -> None:
    """Gives the topic `partitions` partitions."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = [NewPartitions(topic, options["partitions"])]
    for future in admin.create_partitions(new, operation_timeout=CALL_S_MAX).values():
        future.result()
    print("{}")


# --- heartbeats alone --------------------------------------------------------------------------------


class _Connection:
    """Requests to one broker, each answered before the next."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @staticmethod
    async def to(host: str, port: int) -> _Connection:
        return _Connection(*await asyncio.open_connection(host, port))

    async def ask(self, wire: Any, version: int, request: Any) -> Any:
        self._writer.write(frame(wire, version, request, 1, "beats"))
        size = int.from_bytes(await self._reader.readexactly(4), "big")
        return answer_in(wire, version, await self._reader.readexactly(size))


class _Beating:
    """One member: says at its next heartbeat what it was given."""

    def __init__(self, group: str, number: int, topic: str) -> None:
        self._request = ConsumerHeartbeatRequest(
            group, f"{group}-{number}", 0, None, None, REBALANCE_MS, (topic,), owned=()
        )
        self.settled = False
        self.interval_s = 0.0

    async def beat(self, connection: _Connection) -> None:
        """Raises RuntimeError for a refusal that is not one of a coordinator that is loading or changing."""
        wire = apis.CONSUMER_GROUP_HEARTBEAT
        answer = await connection.ask(wire, wire.last, self._request)
        if answer.error in (14, 15):
            await asyncio.sleep(RETRY_S)
            return
        if answer.error:
            raise RuntimeError(f"{self._request.member}: error {answer.error}, {answer.message}")
        owned: tuple[TopicNumbers, ...] | None = None
        if answer.assignment is not None:
            owned = tuple(
                TopicNumbers(each.topic_id, each.partitions) for each in answer.assignment.partitions
            )
        request = self._request
        self._request = ConsumerHeartbeatRequest(request.group, request.member, answer.epoch, owned=owned)
        self.settled, self.interval_s = owned is None, answer.interval_ms / 1_000


async def _beat(bootstrap: str, topic: str, options: Options) -> None:
    groups = await _groups_of_one_broker(bootstrap, topic, options["groups"])
    host, port = groups.pop("")
    beats, left, whole = 0, len(groups), asyncio.Event()

    async def run(group: str) -> None:
        nonlocal beats, left
        connection = await _Connection.to(host, port)
        all_of_it = [_Beating(group, number, topic) for number in range(options["members"])]
        while not all(each.settled for each in all_of_it):
            for each in all_of_it:
                await each.beat(connection)
        left -= 1
        if not left:
            whole.set()
        while True:
            began = time.monotonic()
            for number, each in enumerate(all_of_it):
                due = began + each.interval_s * number / len(all_of_it)
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                await each.beat(connection)
                beats += 1
            await asyncio.sleep(max(0.0, began + all_of_it[0].interval_s - time.monotonic()))

    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(run(group)) for group in groups]
        await whole.wait()
        print("whole", flush=True)
        while await asyncio.to_thread(sys.stdin.readline):
            print(beats, flush=True)
        for task in running:
            task.cancel()


async def _groups_of_one_broker(bootstrap: str, topic: str, count: int) -> dict[str, Any]:
    """Names of groups with the same coordinator, and its address under an empty name."""
    host, _, port = bootstrap.split(",", maxsplit=1)[0].rpartition(":")
    connection = await _Connection.to(host, int(port))
    found: dict[str, Any] = {}
    number = 0
    while len(found) <= count:
        name = f"{topic}-{number}"
        request = FindCoordinatorRequest((name,))
        (answer,) = (await connection.ask(apis.FIND_COORDINATOR, FIND_VERSION, request)).found
        if answer.error:
            await asyncio.sleep(RETRY_S)
            continue
        address = (answer.host, answer.port)
        if found.setdefault("", address) == address:
            found[name] = address
        number += 1
    return found


def beat(bootstrap: str, topic: str, options: Options) -> None:
    """`members` members in each of `groups` groups of one coordinator. Prints `whole` once all have what they
    are to have, and at each line how many heartbeats were answered since."""
    asyncio.run(_beat(bootstrap, topic, options))


WORK: Final[Mapping[str, Callable[[str, str, Options], None]]] = {
    work.__name__: work for work in (members, feed, grow, beat)
}


def main(bootstrap: str, work: str, topic: str, *options: str) -> None:
    """Does the work."""
    WORK[work](bootstrap, topic, {key: int(value) for key, value in (each.split("=") for each in options)})


if __name__ == "__main__":
    main(*sys.argv[1:])
