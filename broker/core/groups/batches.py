"""Records of one call, written in as many batches as they need: a large commit is more than a batch holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Generic

from strandline.broker.core.groups.effects import Token
from strandline.broker.core.groups.turn import Desk
from strandline.config import KIB, RECORDS_BYTES_MAX
from strandline.errors import StrandlineError
from strandline.ids import TopicPartition

Records = Mapping[TopicPartition, tuple[bytes, bytes | None]]

BATCH_BYTES_MAX: Final = RECORDS_BYTES_MAX - 4 * KIB
"""What fits a batch, less its own fields, however it compresses."""

RECORD_BYTES: Final = 32
"""What a record of a batch has beside its key and value, generously."""


@dataclass(slots=True)
class InBatches(Generic[Token]):
    """All batches are handed over in one turn: what was let in by a fence must not be written later.

    `each` is told of each batch: its write, its partitions and its error; `done`, after the last, of the
    errors there were and whether anything was written.
    """

    each: Callable[[int, list[TopicPartition], StrandlineError | None], None]
    done: Callable[[list[StrandlineError], bool], None]
    left: int = 0
    written: int = 0
    errors: list[StrandlineError] = field(default_factory=list)

    def append(self, desk: Desk[Token], records: Records) -> None:
        batches = list(_split(records))
        self.left = len(batches)
        for names in batches:
            self._append_one(desk, records, names)

    def _append_one(self, desk: Desk[Token], records: Records, names: list[TopicPartition]) -> None:
        desk.append(
            tuple(records[name] for name in names),
            lambda write_id, error: self._settle(write_id, names, error),
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
