"""Tickets report the end of a batch to the futures of its records, to its own, or to that of a bulk."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from strandline.errors import Outcome, StrandlineError
from strandline.ids import UNKNOWN_OFFSET, TopicPartition


class RecordMetadata(NamedTuple):
    """The position of a record in the log. `offset` is -1 where it is unknown: with acks=0, or if the broker
    knew only that a late repeat was in the log."""

    topic: str
    partition: int
    offset: int


class BatchMetadata(NamedTuple):
    """The position of a batch: `record_count` records from `base_offset` on (-1: see RecordMetadata)."""

    topic: str
    partition: int
    base_offset: int
    record_count: int


class BulkMetadata(NamedTuple):
    """The positions of the records of one `send_many`, batch by batch, in the order of the values."""

    topic: str
    record_count: int
    batches: tuple[BatchMetadata, ...]


class BulkSendFailed(StrandlineError):
    """Some batches of one `send_many` were acknowledged, others were not.

    `acknowledged` has the acknowledged ones, `errors` the errors of the others, each with its own outcome.
    """

    outcome = Outcome.UNKNOWN

    def __init__(self, acknowledged: tuple[BatchMetadata, ...], errors: tuple[StrandlineError, ...]) -> None:
        super().__init__(
            f"{len(errors)} of {len(errors) + len(acknowledged)} batches failed, "
            f"the first of them: {errors[0].message}"
        )
        self.acknowledged = acknowledged
        self.errors = errors


class Ticket(Protocol):
    """One of the two is called, once."""

    def acknowledge(self, name: TopicPartition, base_offset: int, record_count: int) -> None: ...

    def fail(self, error: StrandlineError) -> None: ...


def _fail(future: asyncio.Future[object], error: StrandlineError) -> None:
    """The producer has logged the failure: asyncio must not warn of it again if no task waits for it."""
    if not future.done():
        future.set_exception(error)
        future.exception()


class RecordTicket:
    """The end of a batch whose records were sent one by one, and the futures that are in use."""

    __slots__ = ("_end", "_futures", "_name")

    def __init__(self, name: TopicPartition) -> None:
        self._name = name
        self._end: int | StrandlineError | None = None
        self._futures: dict[int, asyncio.Future[RecordMetadata]] = {}

    def acknowledge(self, name: TopicPartition, base_offset: int, record_count: int) -> None:
        self._end = base_offset
        for index, future in self._futures.items():
            if not future.done():
                future.set_result(self._metadata(base_offset, index))
        self._futures.clear()

    def fail(self, error: StrandlineError) -> None:
        self._end = error
        for future in self._futures.values():
            _fail(future, error)  # type: ignore[arg-type]
        self._futures.clear()

    def future(self, index: int) -> asyncio.Future[RecordMetadata]:
        """The future of the record at this index of the batch."""
        future = self._futures.get(index)
        if future is None:
            future = asyncio.get_running_loop().create_future()
            if self._end is None:
                self._futures[index] = future
            elif isinstance(self._end, StrandlineError):
                _fail(future, self._end)  # type: ignore[arg-type]
            else:
                future.set_result(self._metadata(self._end, index))
        return future

    def _metadata(self, base_offset: int, index: int) -> RecordMetadata:
        offset = UNKNOWN_OFFSET if base_offset < 0 else base_offset + index
        return RecordMetadata(*self._name, offset)


@dataclass(slots=True)
class BatchTicket:
    """One future for one batch."""

    future: asyncio.Future[BatchMetadata]

    def acknowledge(self, name: TopicPartition, base_offset: int, record_count: int) -> None:
        if not self.future.done():
            self.future.set_result(BatchMetadata(*name, base_offset, record_count))

    def fail(self, error: StrandlineError) -> None:
        _fail(self.future, error)  # type: ignore[arg-type]


@dataclass(slots=True)
class Bulk:
    """One future for all batches of a `send_many`. It ends with the last of them."""

    topic: str
    record_count: int
    future: asyncio.Future[BulkMetadata]
    ends: list[BatchMetadata | StrandlineError | None] = field(default_factory=list)
    left: int = 0
    complete: bool = False

    def part(self) -> BulkTicket:
        """The ticket of one more batch."""
        self.ends.append(None)
        self.left += 1
        return BulkTicket(self, len(self.ends) - 1)

    def close(self) -> None:
        """There are no further batches."""
        self.complete = True
        self._end()

    def settle(self, index: int, end: BatchMetadata | StrandlineError) -> None:
        self.ends[index] = end
        self.left -= 1
        self._end()

    def _end(self) -> None:
        if self.left or not self.complete or self.future.done():
            return
        acknowledged = tuple(end for end in self.ends if isinstance(end, BatchMetadata))
        errors = tuple(end for end in self.ends if isinstance(end, StrandlineError))
        if not errors:
            self.future.set_result(BulkMetadata(self.topic, self.record_count, acknowledged))
        elif not acknowledged and len({error.outcome for error in errors}) == 1:
            _fail(self.future, errors[0])  # type: ignore[arg-type]
        else:
            _fail(self.future, BulkSendFailed(acknowledged, errors))  # type: ignore[arg-type]


@dataclass(slots=True)
class BulkTicket:
    """One batch of a bulk."""

    bulk: Bulk
    index: int

    def acknowledge(self, name: TopicPartition, base_offset: int, record_count: int) -> None:
        self.bulk.settle(self.index, BatchMetadata(*name, base_offset, record_count))

    def fail(self, error: StrandlineError) -> None:
        self.bulk.settle(self.index, error)
