"""The history of a producer's transactions: each record has the outcome of its transaction."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from strandline.errors import ErrorCode, Outcome
from strandline_lab.chaos.history_lines import HistoryLines

Source = tuple[str, int, int]
"""Topic, partition and offset of an input. Those of a partition come in the order of their offsets."""


class TransactionLines:
    """Writes down what a producer sends in its transactions. A record is acknowledged once its transaction is
    committed, and refused for good once that will not be committed.

    The line of a record that is sent also has the number of its transaction, and the input that it was made
    from, if any.
    """

    def __init__(self, lines: HistoryLines, value_prefix: str) -> None:
        self._lines = lines
        self._prefix = value_prefix
        self._records = itertools.count()
        self._transaction = -1
        self._places: dict[int, tuple[int, int]] = {}
        """Partition and offset of each record of the open transaction, (-1, -1) before it is delivered."""

    def begin(self) -> None:
        self._transaction += 1
        self._places = {}

    def sent(self, source: Source | None = None) -> tuple[int, bytes]:
        """The number and the value of a record that is about to be sent."""
        record = next(self._records)
        value = f"{self._prefix}{record}".encode()
        self._places[record] = (-1, -1)
        made_from = {} if source is None else {"source": source}
        self._lines.sent(record, None, value, transaction=self._transaction, **made_from)
        return record, value

    def delivered(self, record: int, partition: int, offset: int) -> None:
        """A leader has the record: that promises nothing yet."""
        if record in self._places:
            self._places[record] = partition, offset

    def committed(self) -> None:
        for record, (partition, offset) in self._places.items():
            self._lines.acked(record, max(partition, 0), offset)

    def aborted(self) -> None:
        """Nothing of the transaction may be seen: it was aborted, or its producer will not commit it."""
        for record in self._places:
            self._lines.failed(
                record, int(ErrorCode.TRANSACTION_ABORTABLE), "aborted", Outcome.FATAL, "not committed"
            )

    def unknown(self, error: BaseException) -> None:
        """The producer cannot learn if the transaction was committed."""
        for record in self._places:
            code = int(ErrorCode.UNKNOWN_SERVER_ERROR)
            self._lines.failed(record, code, type(error).__name__, Outcome.UNKNOWN, str(error))


def ends_of(sources: Sequence[Source]) -> dict[tuple[str, int], int]:
    """The offset at which a group goes on, by topic and partition, once it has processed these."""
    return {(topic, partition): offset + 1 for topic, partition, offset in sources}


class First:
    """What a member was given of its partitions, without what it reads again after an abort. Pure."""

    def __init__(self) -> None:
        self._next: dict[int, int] = {}

    def assigned(self, partitions: Iterable[int]) -> None:
        for partition in partitions:
            self._next.pop(partition, None)

    def is_first(self, partition: int, offset: int) -> bool:
        """True the first time, within one assignment."""
        first = offset >= self._next.get(partition, 0)
        if first:
            self._next[partition] = offset + 1
        return first
