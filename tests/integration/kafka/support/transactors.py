"""Transactional producers of three clients behind one face. Calls that block run in threads."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from aiokafka import AIOKafkaProducer
from aiokafka import TopicPartition as AiokafkaPartition
from aiokafka import errors as aiokafka_errors
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import KafkaError as ConfluentError
from confluent_kafka import KafkaException as ConfluentException
from confluent_kafka import Producer as ConfluentProducer
from confluent_kafka import TopicPartition as ConfluentPartition
from kafka import KafkaProducer
from kafka import TopicPartition as PythonPartition
from kafka import errors as python_errors
from kafka.structs import OffsetAndMetadata

AIOKAFKA, CONFLUENT, KAFKA_PYTHON = "aiokafka", "confluent", "kafka-python"
KINDS: Final = (AIOKAFKA, CONFLUENT, KAFKA_PYTHON)
CALL_S_MAX: Final = 30.0
TIMEOUT_MS: Final = 60_000

Offsets = Mapping[tuple[str, int], int]
"""The offset of the next record to read, by topic and partition."""


class Fenced(Exception):
    """Another producer has taken the transactional id."""


class ToAbort(Exception):
    """The transaction cannot be committed. Once it is aborted the producer may begin another."""


class Transactor(ABC):
    """One transactional producer, made with addresses, its transactional id and its timeout in milliseconds.
    Its methods raise Fenced or ToAbort; `commit` waits for what was sent."""

    @abstractmethod
    async def init(self) -> None: ...

    @abstractmethod
    async def begin(self) -> None: ...

    @abstractmethod
    async def send(self, topic: str, partition: int, value: bytes) -> None: ...

    @abstractmethod
    async def send_offsets(self, group: str, offsets: Offsets) -> None: ...

    @abstractmethod
    async def commit(self) -> None: ...

    @abstractmethod
    async def abort(self) -> None: ...

    @abstractmethod
    async def close(self) -> None: ...


class ConfluentTransactor(Transactor):
    """Of confluent-kafka, which speaks the protocol that the brokers' features name."""

    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int) -> None:
        self._bootstrap = bootstrap
        self._producer = ConfluentProducer({
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": timeout_ms,
            "linger.ms": 0,
        })  # fmt: skip

    async def init(self) -> None:
        await self._call(self._producer.init_transactions, CALL_S_MAX)

    async def begin(self) -> None:
        await self._call(self._producer.begin_transaction)

    async def send(self, topic: str, partition: int, value: bytes) -> None:
        """Waits for its delivery: an abort drops what is still here. A failure shows at the commit."""
        self._producer.produce(topic, value, partition=partition)
        await self._call(self._producer.flush, CALL_S_MAX)

    async def send_offsets(self, group: str, offsets: Offsets) -> None:
        consumer = ConfluentConsumer({"bootstrap.servers": self._bootstrap, "group.id": group})
        places = [ConfluentPartition(*name, offset) for name, offset in offsets.items()]
        try:
            metadata = consumer.consumer_group_metadata()
            await self._call(self._producer.send_offsets_to_transaction, places, metadata, CALL_S_MAX)
        finally:
            await asyncio.to_thread(consumer.close)

    async def commit(self) -> None:
        await self._call(self._producer.commit_transaction, CALL_S_MAX)

    async def abort(self) -> None:
        await self._call(self._producer.abort_transaction, CALL_S_MAX)

    async def close(self) -> None:
        with suppress(ConfluentException):  # a producer that was fenced raises it once more
            await asyncio.to_thread(self._producer.close)

    async def _call(self, function: Any, *arguments: Any) -> None:
        while True:
            try:
                return await asyncio.to_thread(function, *arguments)
            except ConfluentException as error:
                what: ConfluentError = error.args[0]
                if what.code() == ConfluentError._FENCED or what.code() == ConfluentError.PRODUCER_FENCED:
                    raise Fenced(what) from error
                if what.txn_requires_abort():
                    raise ToAbort(what) from error
                if not what.retriable():
                    raise


class AiokafkaTransactor(Transactor):
    """Of aiokafka, which speaks the first protocol."""

    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int) -> None:
        self._producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap, transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
        )

    async def init(self) -> None:
        await self._producer.start()

    async def begin(self) -> None:
        await self._call(self._producer.begin_transaction())

    async def send(self, topic: str, partition: int, value: bytes) -> None:
        await self._call(self._producer.send_and_wait(topic, value, partition=partition))

    async def send_offsets(self, group: str, offsets: Offsets) -> None:
        places = {AiokafkaPartition(*name): offset for name, offset in offsets.items()}
        await self._call(self._producer.send_offsets_to_transaction(places, group))

    async def commit(self) -> None:
        await self._call(self._producer.commit_transaction())

    async def abort(self) -> None:
        await self._call(self._producer.abort_transaction())

    async def close(self) -> None:
        await self._producer.stop()

    async def _call(self, calling: Any) -> None:
        try:
            await calling
        except aiokafka_errors.ProducerFenced as error:
            raise Fenced(error) from error
        except aiokafka_errors.KafkaError as error:
            raise ToAbort(error) from error


class KafkaPythonTransactor(Transactor):
    """Of kafka-python 3, which speaks the first protocol."""

    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int) -> None:
        self._producer = KafkaProducer(
            bootstrap_servers=bootstrap.split(","),
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
        )

    async def init(self) -> None:
        await self._call(self._producer.init_transactions)

    async def begin(self) -> None:
        await self._call(self._producer.begin_transaction)

    async def send(self, topic: str, partition: int, value: bytes) -> None:
        await self._call(
            lambda: self._producer.send(topic, value, partition=partition).get(timeout=CALL_S_MAX)
        )

    async def send_offsets(self, group: str, offsets: Offsets) -> None:
        places = {
            PythonPartition(*name): OffsetAndMetadata(offset, "", -1) for name, offset in offsets.items()
        }
        await self._call(self._producer.send_offsets_to_transaction, places, group)

    async def commit(self) -> None:
        await self._call(self._producer.commit_transaction)

    async def abort(self) -> None:
        await self._call(self._producer.abort_transaction)

    async def close(self) -> None:
        await asyncio.to_thread(self._producer.close, CALL_S_MAX)

    async def _call(self, function: Any, *arguments: Any) -> None:
        try:
            await asyncio.to_thread(function, *arguments)
        except (python_errors.ProducerFencedError, python_errors.InvalidProducerEpochError) as error:
            raise Fenced(error) from error
        except python_errors.KafkaError as error:
            raise ToAbort(error) from error


_TRANSACTORS: Final[Mapping[str, Callable[[str, str, int], Transactor]]] = {
    AIOKAFKA: AiokafkaTransactor,
    CONFLUENT: ConfluentTransactor,
    KAFKA_PYTHON: KafkaPythonTransactor,
}


@asynccontextmanager
async def transactor(
    kind: str, bootstrap: str, transactional_id: str, *, timeout_ms: int = TIMEOUT_MS
) -> AsyncIterator[Transactor]:
    """A producer that has taken its transactional id. A transaction that is open at the end stays open."""
    producer = _TRANSACTORS[kind](bootstrap, transactional_id, timeout_ms)
    try:
        await producer.init()
        yield producer
    finally:
        await producer.close()
