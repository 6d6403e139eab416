"""Those who read an unsteady topic: consumers of strandline and of Kafka, by themselves and in groups."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, Literal

from strandline.consumer.consumer import Consumer
from strandline.consumer.group.listener import RebalanceListener
from strandline.errors import StrandlineError
from strandline.host import Host
from strandline.ids import TopicPartition
from strandline.records import BatchHeader, Record
from strandline.simulation.engine.hosts import SimulatedProcess
from strandline_lab.simulation.kafka.client import KafkaClient
from strandline_lab.simulation.kafka.consumer import KafkaConsumer
from strandline_lab.simulation.kafka.reader import KafkaReader
from strandline_lab.simulation.stage import Stage
from strandline_lab.simulation.workloads.unsteady.judge import Heard

GET_MS_MAX: Final = 300
SESSION_TIMEOUT_MS: Final = 4_000
MAX_POLL_INTERVAL_MS: Final = 5_000
COMMIT_EVERY: Final = 3
"""Get calls between two commits by hand."""
RECORDS_MAX: Final = 8
"""Records of one get call of a Kafka consumer."""
LOOK_S: Final = 0.1
AGAIN_S: Final = 0.2
"""Between two calls after an error."""

Kind = Literal["alone", "keeping", "member", "kafka", "kafka member"]
"""`keeping`: it reads partitions by assignment, and a group keeps its offsets."""
IN_GROUPS: Final[tuple[Kind, ...]] = ("keeping", "member", "kafka member")
"""Their next lives go on where the group has committed offsets."""


class Reader:
    """The life of a reader as one process. All lives of one group share `heard`."""

    def __init__(
        self,
        kind: Kind,
        process: SimulatedProcess,
        stage: Stage,
        topic: str,
        partitions: int,
        heard: list[Heard],
        wrong: list[str],
        **settings: Any,
    ) -> None:
        """`partitions`: the fewest that the topic has. A reader by assignment reads these. `settings`: of a
        consumer of strandline. `wrong` gets a sentence for what no broker may do."""
        self.kind = kind
        self.process = process
        self.leave = asyncio.Event()
        """Set to have it leave in order."""
        self.assigned = False
        """True once a consumer of strandline had partitions."""
        self._stage = stage
        self._topic = topic
        self._partitions = partitions
        self._heard = heard
        self._wrong = wrong
        self._settings = settings

    def start(self) -> None:
        self.process.start(self._run)

    async def _run(self, host: Host) -> None:
        """Raises StrandlineError if it cannot go on."""
        match self.kind:
            case "kafka":
                await self._read_as_kafka(host)
            case "kafka member":
                await self._take_part_as_kafka(host)
            case _:
                await self._read(host)

    async def _read(self, host: Host) -> None:
        names = [TopicPartition(self._topic, number) for number in range(self._partitions)]
        given = {"offset_reset": "earliest", **self._settings}
        async with Consumer(self._stage.cluster.bootstrap, host=host, **given) as consumer:
            if self.kind == "member":
                consumer.subscribe([self._topic])
            else:
                consumer.assign(names)
            calls = 0
            while not self.leave.is_set():
                await self._get(host, consumer)
                self.assigned = self.assigned or bool(consumer.assignment())
                calls += 1
                if calls % COMMIT_EVERY == 0 and not self._settings.get("enable_auto_commit", True):
                    with suppress(StrandlineError):
                        await consumer.commit()

    async def _get(self, host: Host, consumer: Consumer) -> None:
        try:
            batches = await consumer.getbatches(timeout_ms=GET_MS_MAX)
        except StrandlineError as error:
            if not error.retriable or consumer.error() is not None:
                raise
            await host.clock.sleep(AGAIN_S)
            return
        for batch in batches:
            self._hear(batch.partition, batch.header.leader_epoch, batch.records())

    def _hear(self, partition: int, epoch: int, records: Sequence[Any]) -> None:
        self._heard += [Heard(partition, each.offset, epoch, each.value) for each in records]

    # --- Kafka clients -----------------------------------------------------------------------

    def _client(self) -> KafkaClient:
        random = self._stage.random(f"{self.process.name} client")
        return KafkaClient(
            self.process,
            self._stage.cluster.kafka_bootstrap,
            self._topic,
            random,
            self._wrong,
            flexible=random.random() < 1 / 2,
        )

    async def _read_as_kafka(self, host: Host) -> None:
        client = self._client()

        def seen(partition: int, watermark: int) -> None:
            """A new log has another one."""

        def heard(partition: int, header: BatchHeader, records: Sequence[Record]) -> None:
            self._hear(partition, header.leader_epoch, records)

        reader = KafkaReader(client, self._partitions, heard, seen, unsteady=True)
        running = asyncio.get_running_loop().create_task(reader.run())
        while not self.leave.is_set() and not running.done():
            await host.clock.sleep(LOOK_S)
        if running.done():
            running.result()
        running.cancel()
        await asyncio.wait((running,))
        client.close()

    async def _take_part_as_kafka(self, host: Host) -> None:
        consumer = KafkaConsumer(
            self._client(),
            self._settings["group_id"],
            self._partitions,
            instance=None,
            assignor="range",
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=MAX_POLL_INTERVAL_MS,
            unsteady=self._hear,
        )
        async with consumer:
            consumer.subscribe([self._topic], _Silent())
            calls = 0
            while not self.leave.is_set():
                _ = await consumer.getmany(timeout_ms=GET_MS_MAX, max_records=RECORDS_MAX)
                calls += 1
                if calls % COMMIT_EVERY == 0:
                    with suppress(StrandlineError):
                        await consumer.commit()


class _Silent(RebalanceListener):
    async def on_revoked(self, removed: set[TopicPartition]) -> None:
        """The next owner begins at the last commit."""
