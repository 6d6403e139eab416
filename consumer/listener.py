"""What an application hears of its partitions' coming and going, and how it is told."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from strandline.ids import TopicPartition

logger = logging.getLogger(__name__)

SLOW_S: Final = 10.0
"""A listener that takes longer is named in the log: the rebalance waits for it."""


class RebalanceListener:
    """Override what you need, as a plain or as an async function.

    They are called on the consumer's event loop, one after the other. What one raises is logged, and raised
    by the next get call; the rebalance goes on.
    """

    def on_assigned(self, added: set[TopicPartition]) -> Awaitable[None] | None:
        """These are this consumer's now; fetching them begins when this returns. A `seek` here counts.

        Called with an empty set too, when a rebalance gave a consumer nothing.
        """
        return None

    def on_revoked(self, removed: set[TopicPartition]) -> Awaitable[None] | None:
        """These are given up in order: still this consumer's until this returns, so a commit is in time."""
        return None

    def on_lost(self, lost: set[TopicPartition]) -> Awaitable[None] | None:
        """These may be somebody else's already: too late to commit, only to let go of what hangs on them."""
        return None


class Listening:
    """Calls the listener, if there is one; never two of its functions at a time."""

    def __init__(self, tell: Callable[[Exception], None]) -> None:
        self._tell = tell
        self.listener: RebalanceListener | None = None

    async def assigned(self, added: Iterable[TopicPartition]) -> None:
        if self.listener is not None:
            await self._call("on_assigned", self.listener.on_assigned, set(added))

    async def revoked(self, removed: Iterable[TopicPartition]) -> None:
        if self.listener is not None:
            await self._call("on_revoked", self.listener.on_revoked, set(removed))

    async def lost(self, lost: Iterable[TopicPartition]) -> None:
        if self.listener is not None:
            await self._call("on_lost", self.listener.on_lost, set(lost))

    async def _call(
        self,
        name: str,
        function: Callable[[set[TopicPartition]], Awaitable[None] | None],
        partitions: set[TopicPartition],
    ) -> None:
        slow = asyncio.get_running_loop().call_later(SLOW_S, _warn, name)
        try:
            result = function(partitions)
            if inspect.isawaitable(result):
                await result
        except Exception as error:  # whatever it is, nothing else may be skipped for it (CORRECTNESS G10)
            logger.exception("the listener's %s failed for %d partitions", name, len(partitions))
            self._tell(error)
        finally:
            slow.cancel()


def _warn(name: str) -> None:
    logger.warning("the listener's %s has been running for %.0f s; the rebalance waits for it", name, SLOW_S)
