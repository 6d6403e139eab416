"""The application's listener for changes of its assignment, and the calls to it."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextvars import ContextVar
from typing import Final

from strandline.errors import InvalidRequest
from strandline.ids import TopicId, TopicPartition
from strandline.tasks import caller_is_cancelled

logger = logging.getLogger(__name__)

SLOW_S: Final = 10.0
"""A listener that takes longer is named in the log: the rebalance waits for it."""


class RebalanceListener:
    """Override what you need, as a plain or as an async function.

    The consumer calls them on its event loop, one after the other. An error of a listener is logged, and
    raised by the next get call; the rebalance continues. A call that takes longer than
    `max_poll_interval_ms`, or than ten seconds while the consumer closes, is cancelled.
    """

    def on_assigned(self, added: set[TopicPartition]) -> Awaitable[None] | None:
        """This consumer has these partitions now. It fetches them once this returns, from the position of a
        `seek` made here.

        Called with an empty set, too, when a rebalance adds nothing.
        """
        return None

    def on_revoked(self, removed: set[TopicPartition]) -> Awaitable[None] | None:
        """This consumer releases these partitions. They are still its own until this returns, so a commit is
        in time."""
        return None

    def on_lost(self, lost: set[TopicPartition]) -> Awaitable[None] | None:
        """Another consumer may already have these partitions. It is too late to commit: only release what
        belongs to them."""
        return None

    def on_topic_recreated(self, topic: str, before: TopicId, now: TopicId) -> Awaitable[None] | None:
        """The topic was deleted, and another one has its name, while this consumer has partitions of it. They
        are read from their first records, and do not wait for this call: drop what was made of the old ones.
        """
        return None


class _Call:
    """Identifies one call of a listener's function."""


_within: ContextVar[frozenset[_Call]] = ContextVar("_within", default=frozenset())
"""The calls that the current code runs in. A task that a listener starts inherits them."""


class Listening:
    """Calls the listener, if there is one: one function at a time, and each with a time limit.

    `on_error` gets what a call raises.
    """

    def __init__(self, on_error: Callable[[Exception], None], *, limit_s: float) -> None:
        self._on_error = on_error
        self._limit_s = limit_s
        self._running: _Call | None = None
        self._limit: asyncio.Timeout | None = None
        """The time limit of the running call."""
        self._turn = asyncio.Lock()
        self.listener: RebalanceListener | None = None

    @property
    def inside(self) -> bool:
        """True in a call of the listener, and in tasks that it started, until it returns."""
        return self._running is not None and self._running in _within.get()

    def check_outside(self, what: str) -> None:
        """Raises InvalidRequest within the listener: `what` would wait for the end of this very call."""
        if self.inside:
            raise InvalidRequest(
                f"a listener cannot {what}: that waits until the listener has returned. Tell the task that "
                f"reads to do so"
            )

    def shorten(self, limit_s: float) -> None:
        """Lower the time limit of each later call, and of the running one from now on."""
        self._limit_s = min(self._limit_s, limit_s)
        limit = self._limit
        if limit is not None and not limit.expired() and (ends_at := limit.when()) is not None:
            limit.reschedule(min(ends_at, asyncio.get_running_loop().time() + self._limit_s))

    async def assigned(self, added: Iterable[TopicPartition]) -> None:
        await self._call("on_assigned", set(added))

    async def revoked(self, removed: Iterable[TopicPartition]) -> None:
        await self._call("on_revoked", set(removed))

    async def lost(self, lost: Iterable[TopicPartition]) -> None:
        await self._call("on_lost", set(lost))

    async def recreated(self, topic: str, before: TopicId, now: TopicId) -> None:
        await self._call("on_topic_recreated", topic, before, now)

    async def _call(self, name: str, *given: object) -> None:
        async with self._turn:
            if self.listener is not None:
                await self._run(
                    f"{type(self.listener).__qualname__}.{name}", getattr(self.listener, name), given
                )

    async def _run(
        self, what: str, function: Callable[..., Awaitable[None] | None], given: tuple[object, ...]
    ) -> None:
        slow = asyncio.get_running_loop().call_later(SLOW_S, _warn, what)
        self._running = call = _Call()
        before = _within.set(_within.get() | {call})
        limit = asyncio.timeout(self._limit_s)
        try:
            async with limit:
                self._limit = limit
                result = function(*given)
                if inspect.isawaitable(result):
                    await result
        except Exception as error:  # no error may skip what follows (CORRECTNESS G10)
            if limit.expired():
                logger.warning("the listener's %s is cancelled after %.0f s", what, self._limit_s)
                self._on_error(
                    TimeoutError(f"the listener's {what} did not return within {self._limit_s:.0f} s")
                )
            else:
                logger.exception("the listener's %s failed", what)
                self._on_error(error)
        except asyncio.CancelledError:
            if caller_is_cancelled():
                raise  # it is the consumer that ends
            logger.exception("the listener's %s waited for what was cancelled", what)
            self._on_error(RuntimeError(f"the listener's {what} waited for what was cancelled"))
        finally:
            _within.reset(before)
            self._running = self._limit = None
            slow.cancel()


def _warn(name: str) -> None:
    logger.warning("the listener's %s has been running for %.0f s; the rebalance waits for it", name, SLOW_S)
