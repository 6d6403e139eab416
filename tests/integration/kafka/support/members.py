"""Members of groups by three Kafka clients, as they are, behind one face for tests.

Each reads, commits after each read what it read, and notes what it owns.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, NamedTuple

import confluent_kafka
import kafka
from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.range import RangePartitionAssignor as AiokafkaRange
from aiokafka.errors import CommitFailedError as AiokafkaCommitFailed
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import CommitFailedError, RebalanceInProgressError

POLL_S: Final = 0.1
SESSION_MS: Final = 6_000
HEARTBEAT_MS: Final = 200
REBALANCED: Final = (
    confluent_kafka.KafkaError.REBALANCE_IN_PROGRESS,
    confluent_kafka.KafkaError.ILLEGAL_GENERATION,
    confluent_kafka.KafkaError.UNKNOWN_MEMBER_ID,
    confluent_kafka.KafkaError._NO_OFFSET,
    confluent_kafka.KafkaError._ASSIGNMENT_LOST,
)
"""Why a commit is refused whose partitions may belong to another member by now."""


class Read(NamedTuple):
    partition: int
    offset: int
    value: bytes


class Member(ABC):
    """One member of a group. `run` is its task."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self.bootstrap = bootstrap
        self.group = group
        self.topic = topic
        self.read: list[Read] = []
        self.owned: frozenset[int] = frozenset()
        self.revoked: list[int] = []
        """Partitions in the order in which they were taken away; of clients that say so."""
        self._stop = False

    @property
    def values(self) -> list[bytes]:
        return [each.value for each in self.read]

    async def run(self, ready: asyncio.Event) -> None:
        await self._open()
        ready.set()
        try:
            while not self._stop:
                found = await self._poll()
                self.read += found
                if found:
                    await self._commit()
                self.owned = await self._assignment()
        finally:
            await self._close()
            self.owned = frozenset()

    def stop(self) -> None:
        self._stop = True

    @abstractmethod
    async def _open(self) -> None: ...

    @abstractmethod
    async def _poll(self) -> list[Read]: ...

    @abstractmethod
    async def _commit(self) -> None: ...

    @abstractmethod
    async def _assignment(self) -> frozenset[int]: ...

    @abstractmethod
    async def _close(self) -> None: ...


class Aiokafka(Member):
    def __init__(
        self, bootstrap: str, group: str, topic: str, *, assignor: Any = AiokafkaRange, **config: Any
    ) -> None:
        super().__init__(bootstrap, group, topic)
        self._consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            metadata_max_age_ms=1_000,
            partition_assignment_strategy=(assignor,),
            **config,
        )

    async def _open(self) -> None:
        await self._consumer.start()

    async def _poll(self) -> list[Read]:
        found = await self._consumer.getmany(timeout_ms=round(POLL_S * 1_000))
        return [Read(r.partition, r.offset, r.value) for records in found.values() for r in records]

    async def _commit(self) -> None:
        with suppress(AiokafkaCommitFailed):  # the partitions may be another member's by now
            await self._consumer.commit()

    async def _assignment(self) -> frozenset[int]:
        return frozenset(each.partition for each in self._consumer.assignment())

    async def _close(self) -> None:
        await self._consumer.stop()


class _Threaded(Member):
    """A client whose calls block: all in one thread of its own."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        super().__init__(bootstrap, group, topic)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=group)

    async def _call(self, function: Callable[..., Any], *args: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *args)

    async def _close(self) -> None:
        await self._call(self._end)
        self._thread.shutdown()

    @abstractmethod
    def _end(self) -> None: ...


class Librdkafka(_Threaded):
    """confluent-kafka. `assignor` as its `partition.assignment.strategy`."""

    def __init__(
        self, bootstrap: str, group: str, topic: str, *, assignor: str = "range", **config: Any
    ) -> None:
        super().__init__(bootstrap, group, topic)
        self._config = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "partition.assignment.strategy": assignor,
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "topic.metadata.refresh.interval.ms": 1_000,
            "log_level": 0,
            **{name.replace("_", "."): value for name, value in config.items()},
        }

    async def _open(self) -> None:
        self._consumer = confluent_kafka.Consumer(self._config)
        self._consumer.subscribe([self.topic], on_revoke=self._on_revoke)

    def _on_revoke(self, _: Any, partitions: Sequence[Any]) -> None:
        self.revoked += [each.partition for each in partitions]

    async def _poll(self) -> list[Read]:
        found: list[Read] = await self._call(self._consume)
        return found

    def _consume(self) -> list[Read]:
        found = []
        messages: list[Any] = self._consumer.consume(1_000, POLL_S)
        for message in messages:
            error = message.error()
            if error is None:
                found.append(Read(message.partition(), message.offset(), message.value()))
            else:
                assert error.retriable() or error.code() in TRANSIENT, error
        return found

    async def _commit(self) -> None:
        try:
            await self._call(lambda: self._consumer.commit(asynchronous=False))
        except confluent_kafka.KafkaException as error:
            if error.args[0].code() not in (*REBALANCED, *TRANSIENT) and not error.args[0].retriable():
                raise

    async def _assignment(self) -> frozenset[int]:
        return frozenset(each.partition for each in self._consumer.assignment())

    def _end(self) -> None:
        self._consumer.close()


TRANSIENT: Final = (
    confluent_kafka.KafkaError._TRANSPORT,
    confluent_kafka.KafkaError._ALL_BROKERS_DOWN,
    confluent_kafka.KafkaError._RESOLVE,
    confluent_kafka.KafkaError._TIMED_OUT,
    confluent_kafka.KafkaError._WAIT_COORD,
    confluent_kafka.KafkaError.NOT_COORDINATOR,
    confluent_kafka.KafkaError.COORDINATOR_NOT_AVAILABLE,
    confluent_kafka.KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)
"""What librdkafka reports, and tries again without being asked."""


class KafkaPython(_Threaded):
    def __init__(
        self, bootstrap: str, group: str, topic: str, *, assignor: Any = RangePartitionAssignor, **config: Any
    ) -> None:
        super().__init__(bootstrap, group, topic)
        self._config = {
            "bootstrap_servers": bootstrap.split(","),
            "group_id": group,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "session_timeout_ms": SESSION_MS,
            "heartbeat_interval_ms": HEARTBEAT_MS,
            "metadata_max_age_ms": 1_000,
            "partition_assignment_strategy": (assignor,),
            **config,
        }

    async def _open(self) -> None:
        self._consumer = await self._call(lambda: kafka.KafkaConsumer(self.topic, **self._config))

    async def _poll(self) -> list[Read]:
        found = await self._call(lambda: self._consumer.poll(round(POLL_S * 1_000)))
        return [Read(r.partition, r.offset, r.value) for records in found.values() for r in records]

    async def _commit(self) -> None:
        with suppress(CommitFailedError, RebalanceInProgressError):
            await self._call(self._consumer.commit)

    async def _assignment(self) -> frozenset[int]:
        return frozenset(each.partition for each in await self._call(self._consumer.assignment))

    def _end(self) -> None:
        self._consumer.close()


KINDS: Final[dict[str, Callable[[str, str, str], Member]]] = {
    "aiokafka": Aiokafka,
    "librdkafka-range": Librdkafka,
    "librdkafka-roundrobin": lambda *args: Librdkafka(*args, assignor="roundrobin"),
    "librdkafka-cooperative": lambda *args: Librdkafka(*args, assignor="cooperative-sticky"),
    "kafka-python": KafkaPython,
    "kafka-python-cooperative": lambda *args: KafkaPython(*args, assignor=CooperativeStickyAssignor),
}


@asynccontextmanager
async def joined(*members: Member) -> AsyncIterator[None]:
    """The members run inside, and leave their group at the end."""
    async with asyncio.TaskGroup() as tasks:
        for member in members:
            ready = asyncio.Event()
            tasks.create_task(member.run(ready))
            await ready.wait()
        try:
            yield
        finally:
            for member in members:
                member.stop()
