"""Tickets report the end of a batch to the futures of its records, to its own, or to that of a bulk."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import itemgetter
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
    """One of the three is called, once."""

    def acknowledge(self, name: TopicPartition, base_offset: int, record_count: int) -> None: ...

    def fail(self, error: StrandlineError) -> None: ...

    def divide(self, counts: Sequence[int]) -> Sequence[Ticket] | None:
        """The tickets of batches that have these counts of the records, in order. None: one batch has to have
        them all; nothing has changed."""


def _fail(future: asyncio.Future[object], error: StrandlineError) -> None:
    """The producer has logged the failure: asyncio must not warn of it again if no task waits for it."""
    if not future.done():
        future.set_exception(error)
        future.exception()


class RecordTicket:
    """The end of a batch whose records were sent one by one, and the futures that are in use."""

    __slots__ = ("_end", "_futures", "_name", "_parts")

    def __init__(self, name: TopicPartition) -> None:
        self._name = name
        self._end: int | StrandlineError | None = None
        self._futures: dict[int, asyncio.Future[RecordMetadata]] = {}
        self._parts: tuple[list[int], list[RecordTicket]] | None = None
        """Where each part begins, and its ticket, once the batch is divided."""

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

    def divide(self, counts: Sequence[int]) -> Sequence[RecordTicket]:
        starts = [0, *accumulate(counts[:-1])]
        parts = [RecordTicket(self._name) for _ in counts]
        self._parts = starts, parts
        for index, future in self._futures.items():
            at = bisect_right(starts, index) - 1
            parts[at]._futures[index - starts[at]] = future
        self._futures.clear()
        return parts

    def future(self, index: int) -> asyncio.Future[RecordMetadata]:
        """The future of the record at this index of the batch."""
        if self._parts is not None:
            starts, parts = self._parts
            at = bisect_right(starts, index) - 1
            return parts[at].future(index - starts[at])
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

    def divide(self, counts: Sequence[int]) -> None:
        return None


Place = tuple[int, ...]
"""Where a batch stands in a bulk: its number; of a part, the number of the divided batch, then its own."""


@dataclass(slots=True)
class Bulk:
    """One future for all batches of a `send_many`. It ends with the last of them."""

    topic: str
    record_count: int
    future: asyncio.Future[BulkMetadata]
    ends: dict[Place, BatchMetadata | StrandlineError | None] = field(default_factory=dict)
    count: int = 0
    """Of batches, before any was divided."""
    left: int = 0
    complete: bool = False

    def part(self) -> BulkTicket:
        """The ticket of one more batch."""
        self.count += 1
        return self._ticket((self.count,))

    def divide(self, place: Place, count: int) -> list[BulkTicket]:
        """The tickets of the parts of a batch, in place of its own."""
        del self.ends[place]
        self.left -= 1
        return [self._ticket((*place, number)) for number in range(count)]

    def _ticket(self, place: Place) -> BulkTicket:
        self.ends[place] = None
        self.left += 1
        return BulkTicket(self, place)

    def close(self) -> None:
        """There are no further batches."""
        self.complete = True
        self._end()

    def settle(self, place: Place, end: BatchMetadata | StrandlineError) -> None:
        self.ends[place] = end
        self.left -= 1
        self._end()

    def _end(self) -> None:
        if self.left or not self.complete or self.future.done():
            return
        ends = [end for _, end in sorted(self.ends.items(), key=itemgetter(0))]
        acknowledged = tuple(end for end in ends if isinstance(end, BatchMetadata))
        errors = tuple(end for end in ends if isinstance(end, StrandlineError))
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
    place: Place

    def acknowledge(self, name: TopicPartition, base_offset: int, record_count: int) -> None:
        self.bulk.settle(self.place, BatchMetadata(*name, base_offset, record_count))

    def fail(self, error: StrandlineError) -> None:
        self.bulk.settle(self.place, error)

    def divide(self, counts: Sequence[int]) -> Sequence[BulkTicket]:
        return self.bulk.divide(self.place, len(counts))
