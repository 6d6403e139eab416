"""Writes the records of one call in as many batches as they need: a large commit exceeds one batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from strandline.broker.core.groups.state.group import Group
from strandline.broker.core.groups.state.turn import Turn
from strandline.broker.core.groups.stored import Encoded, StoredRecord
from strandline.config.limits import KIB, RECORDS_BYTES_MAX
from strandline.errors import StrandlineError
from strandline.ids import TopicPartition
from strandline.vocabulary.log import Transactional

Records = Mapping[TopicPartition, StoredRecord]

BATCH_BYTES_MAX: Final = RECORDS_BYTES_MAX - 4 * KIB
"""The bytes of records that fit a batch, however they compress, without its own fields."""

RECORD_BYTES: Final = 64
"""An upper bound of a record's bytes in a batch, besides its key and value."""


@dataclass(slots=True)
class BatchedWrite:
    """The batches of one call. All are handed over in one turn: what a fence admitted must not be written
    later.

    `each` is called for each batch with its partitions and its error, after its records were replayed; `done`
    after the last, with all errors and whether anything was written.
    """

    each: Callable[[list[TopicPartition], StrandlineError | None], None]
    done: Callable[[list[StrandlineError], bool], None]
    left: int = 0
    written: int = 0
    errors: list[StrandlineError] = field(default_factory=list)

    def append(
        self, turn: Turn, group: Group, records: Records, transaction: Transactional | None = None
    ) -> None:
        encoded = {name: record.encoded() for name, record in records.items()}
        batches = list(_split(encoded))
        self.left = len(batches)
        for names in batches:
            turn.append(
                group,
                tuple(records[name] for name in names),
                partial(self._settled, names),
                [encoded[name] for name in names],
                transaction,
            )

    def _settled(self, names: list[TopicPartition], write_id: int, error: StrandlineError | None) -> None:
        self.left -= 1
        if error is None:
            self.written += 1
        else:
            self.errors.append(error)
        self.each(names, error)
        if not self.left:
            self.done(self.errors, self.written > 0)


def _split(encoded: Mapping[TopicPartition, Encoded]) -> Iterator[list[TopicPartition]]:
    names: list[TopicPartition] = []
    total = 0
    for name, (key, value, _) in encoded.items():
        size = len(key) + len(value or b"") + RECORD_BYTES
        if names and total + size > BATCH_BYTES_MAX:
            yield names
            names, total = [], 0
        names.append(name)
        total += size
    yield names
