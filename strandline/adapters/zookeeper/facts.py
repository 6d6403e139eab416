"""Reads facts of the cluster from ZooKeeper as typed values, each with the versions that fence a write.

A fact whose znode is gone reads as None. So does one whose data is not what its place asks for, after it is
logged: no znode is guessed at. A caller that has to tell the two apart loads the znode itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Generic, NamedTuple, Protocol, TypeVar

import structlog

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.layout import balance_znodes, drain_znodes, isr_znodes, reassignment_znodes
from strandline.config.limits import ZOOKEEPER_BULK_READS_IN_FLIGHT_MAX, ZOOKEEPER_READS_IN_FLIGHT_MAX
from strandline.ids import BrokerId, TopicId
from strandline.ports import ConnectionLost, NoNode, Znode
from strandline.tasks import pipelined
from strandline.vocabulary.metadata import Balance, Drain, PartitionState, Reassignment, Registration

logger = structlog.get_logger(__name__)

T = TypeVar("T")

_pipelined = partial(pipelined, in_flight_max=ZOOKEEPER_READS_IN_FLIGHT_MAX)


class Reader(Protocol):
    """A ZooKeeper session, as far as facts need it. Both calls raise NoNode, and what the session raises."""

    async def get(self, path: str) -> Znode: ...

    async def children(self, path: str) -> list[str]: ...


class BulkReads:
    """A `Reader` for loops over thousands of znodes: it sends at most `in_flight_max` reads at once, and the
    others as answers arrive.

    ZooKeeper answers a session in order, so elections, leases and writes wait for all reads that were sent
    before them. `pipelined` bounds one loop only: a loop over topics whose work is a loop over partitions has
    the product of both bounds. All loops that read through one object share its bound.

    Calls raise as those of `reader`. After a read that raised ConnectionLost, so do those that waited for
    their turn meanwhile: each would wait as long for the same silence.
    """

    def __init__(self, reader: Reader, *, in_flight_max: int = ZOOKEEPER_BULK_READS_IN_FLIGHT_MAX) -> None:
        self._reader = reader
        self._turns = asyncio.Semaphore(in_flight_max)
        self._losses = 0

    async def get(self, path: str) -> Znode:
        return await self._in_turn(self._reader.get, path)

    async def children(self, path: str) -> list[str]:
        return await self._in_turn(self._reader.children, path)

    async def _in_turn(self, read: Callable[[str], Awaitable[T]], path: str) -> T:
        losses = self._losses
        async with self._turns:
            if self._losses != losses:
                raise ConnectionLost(f"{path} was not read: ZooKeeper did not answer the reads before it")
            try:
                return await read(path)
            except ConnectionLost:
                self._losses += 1
                raise


class Fact(NamedTuple, Generic[T]):
    """What a znode holds."""

    value: T
    version: int
    mzxid: int
    """Of the last write."""


async def read_znode(session: Reader, path: str, load: Callable[[Znode], T]) -> T | None:
    """What `load` makes of a znode; None if it is gone, or unreadable: then `load` raises ValueError."""
    try:
        return load(await session.get(path))
    except NoNode:
        return None
    except ValueError as error:
        logger.error("unreadable znode", path=path, reason=str(error))
        return None


async def _fact(session: Reader, path: str, load: Callable[[Znode], T]) -> Fact[T] | None:
    return await read_znode(session, path, lambda node: Fact(load(node), node.version, node.mzxid))


async def read_registration(session: Reader, broker: BrokerId) -> Fact[Registration] | None:
    return await _fact(
        session, znodes.broker(broker), lambda node: znodes.load_registration(broker, node.data, node.czxid)
    )


async def read_registrations(session: Reader) -> dict[BrokerId, Registration]:
    """The registered brokers, by their ids."""

    async def read(child: str) -> Registration | None:
        path = f"{znodes.BROKER_IDS}/{child}"
        return await read_znode(
            session, path, lambda node: znodes.load_registration(int(child), node.data, node.czxid)
        )

    found = await _pipelined(read, await session.children(znodes.BROKER_IDS))
    return {each.id: each for each in found if each is not None}


async def read_drain(session: Reader, broker: BrokerId) -> Drain | None:
    return await read_znode(
        session, znodes.drain(broker), lambda node: drain_znodes.load_drain(broker, node.data)
    )


async def read_drains(session: Reader) -> dict[BrokerId, Drain]:
    """Every drain that was asked for and not taken back."""
    try:
        brokers = sorted(znodes.broker_ids(await session.children(znodes.DRAINS)))
    except NoNode:
        return {}
    drains = await _pipelined(partial(read_drain, session), brokers)
    return {broker: drain for broker, drain in zip(brokers, drains, strict=True) if drain is not None}


async def read_balance(session: Reader) -> Fact[Balance] | None:
    """The balance under way, or the last one."""
    return await _fact(session, znodes.BALANCE, lambda node: balance_znodes.load_balance(node.data))


async def read_topic(session: Reader, name: str) -> Fact[znodes.TopicNode] | None:
    """Raises InvalidTopic for what is no topic's name."""
    return await _fact(session, znodes.topic(name), lambda node: znodes.load_topic(name, node.data))


async def read_deletion(session: Reader, name: str) -> TopicId | None:
    """The incarnation of the topic that is marked for deletion."""
    return await read_znode(
        session, znodes.delete_topic(name), lambda node: znodes.load_deletion(name, node.data)
    )


async def read_replicas(session: Reader, name: str, number: int) -> Fact[tuple[BrokerId, ...]] | None:
    """AR of a partition."""
    return await _fact(
        session, znodes.replicas(name, number), lambda node: znodes.load_replicas(name, number, node.data)
    )


async def read_isr(session: Reader, name: str, number: int) -> Fact[PartitionState] | None:
    return await _fact(
        session, znodes.isr(name, number), lambda node: isr_znodes.load_isr(name, number, node.data)
    )


async def read_reassignment(session: Reader, name: str, number: int) -> Fact[Reassignment] | None:
    return await _fact(
        session,
        znodes.reassigned(name, number),
        lambda node: reassignment_znodes.load_reassignment(name, number, node.data),
    )
