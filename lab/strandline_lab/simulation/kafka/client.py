"""What a producer and a reader have in common: connections to brokers, and who leads the partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Final, NamedTuple, TypeVar

from strandline.broker.kafka.wire.metadata import MetadataRequest, PartitionFacts, TopicWanted
from strandline.errors import ErrorCode
from strandline.host import Host
from strandline.simulation.engine.hosts import SimulatedProcess
from strandline_lab.simulation.kafka.connection import Disconnected, KafkaConnection, connected
from strandline_lab.simulation.kafka.messages import METADATA, Api

Request = TypeVar("Request")
Answer = TypeVar("Answer")

ANSWER_S_MAX: Final = 2.0
"""A connection on which an answer takes longer is given up, with everything on it."""
AGAIN_S: Final = 0.1
"""Between two attempts."""

LOOK_AGAIN: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)
"""Errors after which a client asks who leads, and tries again."""


class Led(NamedTuple):
    """The leader of a partition, as this client knows it."""

    broker: int
    epoch: int


NOT_LED: Final = Led(-1, -1)


class KafkaClient:
    """The connections of one client, and what it knows of one topic."""

    def __init__(
        self,
        process: SimulatedProcess,
        bootstrap: Sequence[str],
        topic: str,
        random: Random,
        wrong: list[str],
        *,
        flexible: bool,
    ) -> None:
        """`wrong` gets a sentence for each thing that no broker may do."""
        self.name = process.name
        self.host: Host = process.host
        self.topic = topic
        self.wrong = wrong
        self.random = random
        self._process = process
        self._bootstrap = bootstrap
        self._flexible = flexible
        self._connections: dict[str, KafkaConnection] = {}
        self._opening: dict[str, asyncio.Lock] = {}
        self._addresses: dict[int, str] = {}
        self._led: dict[int, Led] = {}

    def led(self, partition: int) -> Led:
        return self._led.get(partition, NOT_LED)

    # --- requests ----------------------------------------------------------------------------

    async def connection(self, broker: int) -> KafkaConnection:
        """An open connection to a broker. Raises Disconnected."""
        if broker not in self._addresses:
            raise Disconnected(f"broker {broker} has no known address")
        return await self.connection_to(self._addresses[broker])

    async def connection_to(self, address: str) -> KafkaConnection:
        """An open connection to this address. Raises Disconnected."""
        async with self._opening.setdefault(address, asyncio.Lock()):
            connection = self._connections.get(address)
            if connection is None or not connection.open:
                connection = await connected(self._process, address, self.wrong, flexible=self._flexible)
                self._connections[address] = connection
            return connection

    async def ask(
        self,
        connection: KafkaConnection,
        api: Api[Request, Answer],
        request: Request,
        *,
        wait_s: float = ANSWER_S_MAX,
    ) -> Answer:
        """Raises Disconnected, also for an answer that takes too long."""
        try:
            async with asyncio.timeout(wait_s):
                return await connection.ask(api, request)
        except TimeoutError:
            connection.close()
            raise Disconnected("no answer in time") from None

    async def ask_any(self, api: Api[Request, Answer], request: Request) -> Answer:
        """Asks a drawn broker of the bootstrap. Raises Disconnected."""
        connection = await self.connection_to(self.random.choice(self._bootstrap))
        return await self.ask(connection, api, request)

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()

    # --- leaders -----------------------------------------------------------------------------

    async def refresh(self) -> None:
        """Ask who leads, after a pause. An answer with an older epoch is out of date (KIP-320)."""
        await self.host.clock.sleep(self.random.uniform(0, 2 * AGAIN_S))
        try:
            found = await self.ask_any(METADATA, MetadataRequest((TopicWanted(self.topic),), False))
        except Disconnected:
            return
        self._addresses = {each.broker: f"{each.host}:{each.port}" for each in found.brokers}
        for topic in found.topics:
            for each in topic.partitions:
                self._learn(each)

    def _learn(self, facts: PartitionFacts) -> None:
        known = self.led(facts.partition)
        if facts.leader_epoch == known.epoch and facts.leader not in (-1, known.broker) and known.broker >= 0:
            self.wrong.append(
                f"{self.name}: epoch {facts.leader_epoch} of {self.topic}-{facts.partition} has the leaders "
                f"{known.broker} and {facts.leader}"
            )
        if facts.leader_epoch >= known.epoch and facts.leader >= 0:
            self._led[facts.partition] = Led(facts.leader, facts.leader_epoch)
