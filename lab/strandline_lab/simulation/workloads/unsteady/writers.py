"""Those who write to an unsteady topic, and live on while it is made anew.

Once nothing disturbs the last topic, each record that is sent to it must be acknowledged, with one exception.
A log that was cut has lost acknowledged batches, and the next batch of their idempotent producer fails with
`OutOfOrderSequence`: that is how an application hears of the loss. So writers first send one record to each
partition whose log was cut, and no later record may fail.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Literal

from strandline.auditing.recording import Recorder
from strandline.errors import OutOfOrderSequence, StrandlineError
from strandline.host import Host
from strandline.producer.producer import Producer
from strandline.simulation.engine.hosts import SimulatedProcess
from strandline_lab.simulation.kafka.client import KafkaClient
from strandline_lab.simulation.kafka.producer import KafkaProducer
from strandline_lab.simulation.stage import Stage
from strandline_lab.simulation.workloads.producing import producing

Kind = Literal["idempotent", "plain", "unreplicated", "kafka"]
"""Of a producer; `unreplicated`: acks=1."""
SETTINGS: Final[dict[Kind, dict[str, Any]]] = {
    "idempotent": {},
    "plain": {"enable_idempotence": False},
    "unreplicated": {"enable_idempotence": False, "acks": 1},
}
DELIVERY_TIMEOUT_MS: Final = 15_000
BURST_MAX: Final = 20
"""Records that a writer sends at a time: a batch of them is more than some topics take."""
VALUE_BYTES: Final = 120
LAST_RECORDS: Final = 20
"""Records for each partition that a writer sends once the last topic is there and nothing disturbs it."""
ENDED_S_MAX: Final = 60.0
"""Until each of them is acknowledged or has failed."""
LOOK_S: Final = 0.1


def value(name: str, record: int) -> bytes:
    return f"{name} {record}".encode().ljust(VALUE_BYTES)


class Writer:
    """A producer. `partitions`: how many the topic has, at least."""

    def __init__(
        self,
        kind: Kind,
        process: SimulatedProcess,
        stage: Stage,
        topic: str,
        partitions: int,
        pause_s: float,
        wrong: list[str],
    ) -> None:
        self.kind = kind
        self.name = process.name
        self.process = process
        self._stage = stage
        self._topic = topic
        self._partitions = partitions
        self._pause_s = pause_s
        self._wrong = wrong
        self._random = stage.random(process.name)
        self.recorder = Recorder(process.name, topic)
        self.records = 0
        """How many it has sent."""
        self._sure_from: int | None = None
        """From this record on, all were sent when the last topic was there."""
        self._ends: dict[int, str] = {}
        """What became of a record: empty if that is well."""
        self._first_behind_cut: set[int] = set()
        """The first records that were sent to partitions with a cut log once nothing disturbs them."""

    @property
    def may_repeat(self) -> bool:
        """It may write a record twice, or after a later one."""
        return self.kind != "idempotent"

    async def run(self, replaced: asyncio.Event, partitions: Callable[[], int]) -> None:
        """Write until `replaced` is set; then to each partition of the last topic."""
        host = self.process.host
        if self.kind == "kafka":
            await self._write_as_kafka(host, replaced)
        else:
            await self._write(host, replaced, partitions)

    def undelivered(self) -> list[str]:
        """The last records that were not acknowledged."""
        return [
            f"{self.name}: record {record}, sent to a topic that was there and with nothing in the way: {end}"
            for record in range(self._sure_from or 0, self.records)
            if (end := self._ends.get(record, "no answer"))
        ]

    def _next(self, partition: int | None) -> tuple[int, bytes]:
        record = self.records
        self.records += 1
        content = value(self.name, record)
        self.recorder.sent(record, None, content, partition)
        return record, content

    def _acked(self, record: int, partition: int, offset: int) -> None:
        self._ends[record] = ""
        if self._sure_from is not None and record >= self._sure_from:
            self.recorder.acked(record, partition, offset)

    # --- strandline --------------------------------------------------------------------------

    async def _write(self, host: Host, replaced: asyncio.Event, partitions: Callable[[], int]) -> None:
        given = {"delivery_timeout_ms": DELIVERY_TIMEOUT_MS, "linger_ms": 1, **SETTINGS[self.kind]}
        async with producing(self._stage.cluster.bootstrap, host, **given) as producer:
            while not replaced.is_set():
                for _ in range(self._random.randint(1, BURST_MAX)):
                    await self._send(producer, None)
                await host.clock.sleep(self._random.expovariate(1 / self._pause_s))
            self._sure_from = self.records
            if cut := self._stage.isr_history.cuts(self._topic):
                for partition in sorted(cut.keys() & set(range(partitions()))):
                    self._first_behind_cut.add(self.records)
                    await self._send(producer, partition)
                await self._flush(producer)
            for partition in list(range(partitions())) * LAST_RECORDS:
                await self._send(producer, partition)
            await self._flush(producer)

    async def _flush(self, producer: Producer) -> None:
        try:
            async with asyncio.timeout(ENDED_S_MAX):
                await producer.flush()
        except TimeoutError:
            self._wrong.append(f"{self.name} waited {ENDED_S_MAX:g} s for answers with nothing in the way")

    async def _send(self, producer: Producer, partition: int | None) -> None:
        record, content = self._next(partition)
        try:
            sent = await producer.send(self._topic, content, partition=partition)
        except StrandlineError as error:
            self._failed(record, error)
        else:
            sent.add_done_callback(partial(self._settled, record))

    def _settled(self, record: int, sent: asyncio.Future[Any]) -> None:
        if sent.cancelled():
            return
        error = sent.exception()
        if error is not None:
            self._failed(record, error)
        else:
            self._acked(record, sent.result().partition, sent.result().offset)

    def _failed(self, record: int, error: BaseException) -> None:
        hears_of_loss = record in self._first_behind_cut and isinstance(error, OutOfOrderSequence)
        self._ends[record] = "" if hears_of_loss else repr(error)
        self.recorder.failed(record, error)

    # --- Kafka -------------------------------------------------------------------------------

    async def _write_as_kafka(self, host: Host, replaced: asyncio.Event) -> None:
        client = KafkaClient(
            self.process,
            self._stage.cluster.kafka_bootstrap,
            self._topic,
            self._stage.random(f"{self.name} client"),
            self._wrong,
            flexible=self._random.random() < 1 / 2,
        )
        producer = KafkaProducer(client, self._partitions, self._acked, unsteady=True)
        running = asyncio.get_running_loop().create_task(producer.run())
        while not replaced.is_set():
            partition = self._random.randrange(self._partitions)
            for _ in range(self._random.randint(1, BURST_MAX)):
                producer.send(partition, *self._next(partition))
            await host.clock.sleep(self._random.expovariate(1 / self._pause_s))
        self._sure_from = self.records
        for partition in list(range(self._partitions)) * LAST_RECORDS:
            producer.send(partition, *self._next(partition))
        ends_s = self._stage.now_s + ENDED_S_MAX
        while not producer.idle and not running.done() and self._stage.now_s < ends_s:
            await host.clock.sleep(LOOK_S)
        if running.done():
            running.result()
        running.cancel()
        await asyncio.wait((running,))
        client.close()
