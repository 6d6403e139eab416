"""Parses whole numbers in decimal notation."""

from __future__ import annotations


def decimal(text: str) -> int | None:
    """The number, or None. Rejects other notations that Python accepts, such as `1_0` and other scripts."""
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdecimal() and len(digits) <= 20 else None
