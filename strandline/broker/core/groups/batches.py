"""Writes the records of one call in as many batches as they need: a large commit exceeds one batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from strandline.broker.core.groups.turn import Turn
from strandline.config.limits import KIB, RECORDS_BYTES_MAX
from strandline.errors import StrandlineError
from strandline.ids import TopicPartition
from strandline.records import Headers

Records = Mapping[TopicPartition, tuple[bytes, bytes | None]]

BATCH_BYTES_MAX: Final = RECORDS_BYTES_MAX - 4 * KIB
"""The bytes of records that fit a batch, however they compress, without its own fields."""

RECORD_BYTES: Final = 64
"""An upper bound of a record's bytes in a batch, besides its key and value."""


@dataclass(slots=True)
class BatchedWrite:
    """The batches of one call. All are handed over in one turn: what a fence admitted must not be written
    later.

    `each` is called for each batch with its write, its partitions and its error; `done` after the last, with
    all errors and whether anything was written.
    """

    each: Callable[[int, list[TopicPartition], StrandlineError | None], None]
    done: Callable[[list[StrandlineError], bool], None]
    left: int = 0
    written: int = 0
    errors: list[StrandlineError] = field(default_factory=list)

    def append(
        self, turn: Turn, records: Records, headers: Mapping[TopicPartition, Headers] | None = None
    ) -> None:
        batches = list(_split(records))
        self.left = len(batches)
        for names in batches:
            self._append_one(turn, records, names, headers or {})

    def _append_one(
        self,
        turn: Turn,
        records: Records,
        names: list[TopicPartition],
        headers: Mapping[TopicPartition, Headers],
    ) -> None:
        turn.append(
            tuple(records[name] for name in names),
            lambda write_id, error: self._settle(write_id, names, error),
            tuple(headers[name] for name in names) if headers else (),
        )

    def _settle(self, write_id: int, names: list[TopicPartition], error: StrandlineError | None) -> None:
        self.left -= 1
        if error is None:
            self.written += 1
        else:
            self.errors.append(error)
        self.each(write_id, names, error)
        if not self.left:
            self.done(self.errors, self.written > 0)


def _split(records: Records) -> Iterator[list[TopicPartition]]:
    names: list[TopicPartition] = []
    total = 0
    for name, (key, value) in records.items():
        size = len(key) + len(value or b"") + RECORD_BYTES
        if names and total + size > BATCH_BYTES_MAX:
            yield names
            names, total = [], 0
        names.append(name)
        total += size
    yield names
