"""Issues ids for idempotent producers: each id once, and unpredictable.

An id is the only credential of a producer. With consecutive ids, any client could guess the ids of others and
use up their sequence numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from strandline.adapters.zookeeper import znodes
from strandline.errors import CoordinationError, LeaderNotAvailable
from strandline.ports import Coordination

BLOCK_IDS: Final = 2**31
"""Ids in a block. ZooKeeper counts blocks in 31 bits, so an id has 62."""

DRAWN_IDS: Final = 1_000
"""Ids that are drawn from a block and issued before the next block is taken."""


class ProducerIds:
    """Issues the ids of one broker. `random` must be unpredictable; `coordination` is None while there is no
    session."""

    def __init__(self, coordination: Callable[[], Coordination | None], random: Random) -> None:
        self._coordination = coordination
        self._random = random
        self._drawn: list[int] = []

    async def new(self) -> int:
        """Returns an id that no other producer of this cluster has. Raises LeaderNotAvailable."""
        while not self._drawn:
            session = self._coordination()
            if session is None:
                raise LeaderNotAvailable("this broker has no ZooKeeper session right now; ask another")
            try:
                # Each unconditional write gets its own version, which identifies the block.
                block = await session.set(znodes.PRODUCER_IDS, b"")
            except CoordinationError as error:
                raise LeaderNotAvailable(f"no producer ids without ZooKeeper: {error}") from error
            # Ids that a concurrent call drew meanwhile are kept.
            self._drawn += self._random.sample(range(block * BLOCK_IDS, (block + 1) * BLOCK_IDS), DRAWN_IDS)
        return self._drawn.pop()
