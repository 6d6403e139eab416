"""Sizes as people read them."""

from __future__ import annotations

from typing import Final

_UNITS: Final = ("kB", "MB", "GB", "TB")


def size(count: int) -> str:
    """A number of bytes, in units of a thousand.

    >>> size(999), size(4_096), size(1_500_000)
    ('999 B', '4.1 kB', '1.5 MB')
    """
    if count < 1_000:
        return f"{count} B"
    shown = float(count)
    for unit in _UNITS:
        shown /= 1_000
        if shown < 999.95 or unit == _UNITS[-1]:
            break
    return f"{shown:.1f} {unit}"
