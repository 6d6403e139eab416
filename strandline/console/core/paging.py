"""Lists in pages. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

ItemT = TypeVar("ItemT")


@dataclass(frozen=True, slots=True)
class Page(Generic[ItemT]):
    """A part of a list. Pages are counted from 1; an empty list has one."""

    items: tuple[ItemT, ...]
    number: int
    pages: int
    first: int
    """The place of the first item in the list, from 1; 0 if there is none."""
    total: int

    @property
    def last(self) -> int:
        """The place of the last item."""
        return self.first + len(self.items) - 1 if self.items else 0

    @property
    def before(self) -> int | None:
        """The number of the page before this one."""
        return self.number - 1 if self.number > 1 else None

    @property
    def after(self) -> int | None:
        """The number of the page after this one."""
        return self.number + 1 if self.number < self.pages else None


def page(items: Sequence[ItemT], number: int, size: int) -> Page[ItemT]:
    """The page of this number, or the last one if there are fewer.

    >>> page("abcdefg", 2, 3).items, page("abcdefg", 9, 3).items, page("", 1, 3).pages
    (('d', 'e', 'f'), ('g',), 1)
    """
    pages = max(1, -(-len(items) // size))
    number = min(max(1, number), pages)
    start = (number - 1) * size
    shown = tuple(items[start : start + size])
    return Page(shown, number, pages, start + 1 if shown else 0, len(items))
