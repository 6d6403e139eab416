"""Reads the existing topics and their partition counts, for a group.

Brokers learn of a topic one after the other, and one of them may be a moment behind. So that a group does not
rebalance for that, a topic counts as deleted, or as smaller than before, only after GONE_AFTER_S.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import sha256
from typing import Final

from strandline.client.cluster import Cluster
from strandline.ids import INTERNAL_PREFIX
from strandline.ports import Clock

GONE_AFTER_S: Final = 1.5


def name_of(pattern: re.Pattern[str]) -> str:
    """The name under which the coordinator keeps the pattern: the same in every process."""
    return sha256(f"{pattern.flags} {pattern.pattern}".encode()).hexdigest()


class Topics:
    """One consumer's view of the topics. Every read raises StrandlineError if no broker answers."""

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._known: dict[str, int] = {}
        self._missed_at: dict[str, float] = {}

    async def counts(self, names: Iterable[str]) -> dict[str, int]:
        """The partition count of each topic; 0 for one that does not exist."""
        wanted = sorted(names)
        if not wanted:
            return {}
        found = await self._cluster.partition_counts(wanted)
        return {name: self._saw(name, found.get(name, 0)) for name in wanted}

    async def matching(self, pattern: re.Pattern[str]) -> set[str]:
        """The topics whose whole name matches, without the internal ones."""
        found = await self._cluster.partition_counts(())
        names = (name for name in sorted({*found, *self._known}) if not name.startswith(INTERNAL_PREFIX))
        matching = [name for name in names if pattern.fullmatch(name)]
        return {name for name in matching if self._saw(name, found.get(name, 0))}

    def settled(self, names: Iterable[str]) -> bool:
        """False while one of these does not exist, or seems to have fewer partitions."""
        return all(self._known.get(name) and name not in self._missed_at for name in names)

    def _saw(self, name: str, partitions: int) -> int:
        known = self._known.get(name, 0)
        if partitions < known:
            now = self._clock.monotonic()
            if now - self._missed_at.setdefault(name, now) < GONE_AFTER_S:
                return known
        self._missed_at.pop(name, None)
        self._known[name] = partitions
        return partitions
