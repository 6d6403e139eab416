"""Formats a list of brokers for refusals and problems."""

from __future__ import annotations

from collections.abc import Iterable

from strandline.ids import BrokerId


def listed(brokers: Iterable[BrokerId]) -> str:
    """`1, 2, 3`, or `none`."""
    return ", ".join(map(str, sorted(brokers))) or "none"
