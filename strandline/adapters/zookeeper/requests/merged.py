"""Sends what a process asks of ZooKeeper in one turn of its event loop as few requests: reads together, and
`multi`s together.

Each caller gets what it would get from a request of its own. For a read that is an answer or an error of its
own. A `multi` stays whole: a merged one has all operations of several callers, and ZooKeeper carries out all
of them or none. If it refuses one operation, the `multi` of that one's caller is sent alone, and the others
again in two halves: n callers that are all refused cost about 2n requests, and one of them costs three more.

What is issued in a later turn goes in a later request. Requests of other kinds are sent at once, so they may
overtake what was issued before them in the same turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from strandline.adapters.zookeeper.requests.sizes import operation_size
from strandline.config.limits import MULTI_BYTES_MAX
from strandline.errors import CoordinationError
from strandline.ports import MultiFailed, Operation, Znode

READS_MERGED_MAX: Final = 100
OPERATIONS_MERGED_MAX: Final = 500
"""A `multi` of one caller may have more."""

Results = list[str | int | None]
Answered = Callable[[Sequence[Znode | CoordinationError]], None]
Carried = Callable[[Results | CoordinationError], None]
T = TypeVar("T")


class Turn(Generic[T]):
    """Collects what is added in one turn of the loop, and hands it to `send` at its end."""

    def __init__(self, loop: asyncio.AbstractEventLoop, send: Callable[[list[T]], None]) -> None:
        self._loop = loop
        self._send = send
        self._waiting: list[T] = []

    def add(self, item: T) -> None:
        if not self._waiting:
            self._loop.call_soon(self._flush)
        self._waiting.append(item)

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._send(waiting)


@dataclass(frozen=True, slots=True)
class _Read:
    path: str
    answer: asyncio.Future[Znode]


class MergedReads:
    """Reads of znodes. `send` asks for several paths, and calls back with an answer or error for each."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, send: Callable[[Sequence[str], Answered], None]
    ) -> None:
        self._send = send
        self._turn: Turn[_Read] = Turn(loop, self._send_all)

    def get(self, path: str, answer: asyncio.Future[Znode]) -> None:
        self._turn.add(_Read(path, answer))

    def _send_all(self, reads: list[_Read]) -> None:
        wanted = [read for read in reads if not read.answer.done()]
        for first in range(0, len(wanted), READS_MERGED_MAX):
            lot = wanted[first : first + READS_MERGED_MAX]

            def answered(found: Sequence[Znode | CoordinationError], lot: Sequence[_Read] = lot) -> None:
                for read, outcome in zip(lot, found, strict=True):
                    _settle(read.answer, outcome)

            self._send([read.path for read in lot], answered)


@dataclass(frozen=True, slots=True)
class _Write:
    operations: Sequence[Operation]
    size: int
    outcome: asyncio.Future[Results]


class MergedWrites:
    """`multi`s. `send` asks for one, and calls back with its results or its error. `operations_max`: of
    several callers in one."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        send: Callable[[Sequence[Operation], Carried], None],
        operations_max: int = OPERATIONS_MERGED_MAX,
    ) -> None:
        self._send = send
        self._operations_max = operations_max
        self._turn: Turn[_Write] = Turn(loop, self._send_all)

    def multi(self, operations: Sequence[Operation], outcome: asyncio.Future[Results]) -> None:
        self._turn.add(_Write(operations, sum(map(operation_size, operations)), outcome))

    def _send_all(self, writes: list[_Write]) -> None:
        for lot in _lots(writes, self._operations_max):
            self._send_lot(lot)

    def _send_lot(self, asked: Sequence[_Write]) -> None:
        """Sends it without those that gave up meanwhile."""
        lot = [write for write in asked if not write.outcome.done()]
        if not lot:
            return

        def carried(results: Results | CoordinationError) -> None:
            if isinstance(results, MultiFailed):
                self._refused(lot, results)
            elif isinstance(results, CoordinationError):
                for write in lot:
                    _settle(write.outcome, _again(results))
            else:
                _share(lot, results)

        self._send([operation for write in lot for operation in write.operations], carried)

    def _refused(self, lot: Sequence[_Write], failed: MultiFailed) -> None:
        if len(lot) == 1:
            _settle(lot[0].outcome, failed)
            return
        culprit, operations = 0, failed.index
        while operations >= len(lot[culprit].operations):
            operations -= len(lot[culprit].operations)
            culprit += 1
        others = [*lot[:culprit], *lot[culprit + 1 :]]
        half = (len(others) + 1) // 2
        self._send_lot(others[:half])
        self._send_lot(others[half:])
        self._send_lot([lot[culprit]])


def _lots(writes: Iterable[_Write], operations_max: int) -> Iterator[list[_Write]]:
    """Neighbours that fit into one `multi`."""
    lot: list[_Write] = []
    size = operations = 0
    for write in writes:
        size += write.size
        operations += len(write.operations)
        if lot and (size > MULTI_BYTES_MAX or operations > operations_max):
            yield lot
            lot, size, operations = [], write.size, len(write.operations)
        lot.append(write)
    if lot:
        yield lot


def _share(lot: Sequence[_Write], results: Results) -> None:
    first = 0
    for write in lot:
        end = first + len(write.operations)
        _settle(write.outcome, results[first:end])
        first = end


def _settle(future: asyncio.Future[T], outcome: T | CoordinationError) -> None:
    if future.done():
        return
    if isinstance(outcome, CoordinationError):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


def _again(error: CoordinationError) -> CoordinationError:
    """An error of the same kind for another caller: each has its own traceback."""
    return type(error)(error.message)
