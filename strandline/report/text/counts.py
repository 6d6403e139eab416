"""Numbers of things, in words."""

from __future__ import annotations


def counted(number: int, one: str, several: str = "") -> str:
    """A number with its noun; `several` is the plural, by default `one` with an s.

    >>> counted(1, "move"), counted(0, "move"), counted(2, "process", "processes")
    ('1 move', '0 moves', '2 processes')
    """
    return f"{number} {one if number == 1 else several or f'{one}s'}"
