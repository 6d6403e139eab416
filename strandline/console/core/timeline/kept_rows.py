"""All rows of one kind, in their order, up to a limit."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from typing import Any, Final, Generic, TypeVar

from strandline.console.core.timeline.rows import BrokerRow, GroupRow, PartitionRow, TaskRow

ROWS_MAX: Final = 50_000
"""Rows of one kind. Events of further ones are left out, and counted."""

RowT = TypeVar("RowT", PartitionRow, BrokerRow, GroupRow, TaskRow)


class KeptRows(Generic[RowT]):
    """Rows by their keys."""

    def __init__(self, new: Callable[..., RowT], most: int = ROWS_MAX) -> None:
        self._new: Callable[..., RowT] = new
        self._most = most
        self._rows: dict[Any, RowT] = {}
        self._keys: list[Any] = []
        self.left_out = 0

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[RowT]:
        """In the order of keys. A row that is dropped meanwhile is passed over."""
        for key in self._keys.copy():
            if (row := self._rows.get(key)) is not None:
                yield row

    def of(self, key: Any, *names: Any) -> RowT | None:
        """The row of a key, which is made if it is new; None beyond the limit."""
        row = self._rows.get(key)
        if row is None:
            if len(self._rows) >= self._most:
                self.left_out += 1
                return None
            row = self._rows[key] = self._new(*names)
            insort(self._keys, key)
        return row

    def get(self, key: Any) -> RowT | None:
        return self._rows.get(key)

    def drop(self, row: RowT) -> None:
        if self._rows.pop(row.key, None) is not None:
            del self._keys[bisect_left(self._keys, row.key)]
