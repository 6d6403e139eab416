"""Whole numbers as people write them."""

from __future__ import annotations


def decimal(text: str) -> int | None:
    """The number, None if it is none. Of what Python would take besides, `1_0` and other scripts, nothing."""
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdecimal() and len(digits) <= 20 else None
