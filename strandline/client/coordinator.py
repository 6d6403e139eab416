"""Finds the broker that coordinates a group or a transactional id, and finds it again when that moves."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from operator import attrgetter
from typing import Final, TypeVar

from strandline.adapters.codecs.groups import FIND_COORDINATOR
from strandline.client.addresses import reaching
from strandline.client.cluster import Cluster
from strandline.client.retry import retry
from strandline.config.client import ClientSettings
from strandline.errors import (
    BrokerNotAvailable,
    CoordinatorLoading,
    CoordinatorNotAvailable,
    NotCoordinator,
    OutcomeUnknown,
    RequestTimedOut,
    StrandlineError,
)
from strandline.ports import Clock, Method, Request, Response, Transport
from strandline.vocabulary.metadata import Endpoint

logger = logging.getLogger(__name__)

T = TypeVar("T")

PASSING: Final = (
    CoordinatorLoading,
    NotCoordinator,
    CoordinatorNotAvailable,
    BrokerNotAvailable,
    OutcomeUnknown,
    RequestTimedOut,
)
"""Temporary errors: a coordinator moves, dies, or reads its log. After the last two the call may have been
carried out: its connection broke, or its records are not committed yet."""


class Coordinator:
    """Finds and calls the coordinator of one group, or of what else `find` finds it for."""

    def __init__(
        self,
        name: str,
        *,
        cluster: Cluster,
        transport: Transport,
        settings: ClientSettings,
        clock: Clock,
        find: Method[str, Endpoint] = FIND_COORDINATOR,
        kind: str = "group",
    ) -> None:
        """`kind`: what has this name, for logs and errors."""
        self.name = name
        self._find = find
        self._kind = kind
        self._cluster = cluster
        self._transport = transport
        self._settings = settings
        self._clock = clock
        self._known: Endpoint | None = None
        self._finding = asyncio.Lock()

    async def find(self, *, tries_max: int | None = None) -> Endpoint:
        """The coordinator. Without `tries_max` the search ends only when it is found.

        Raises an error that is not retriable, and the last one after `tries_max` tries.
        """
        async with self._finding:
            if self._known is None:
                self._known = await retry(
                    lambda: self._cluster.call_any(self._find, self.name),
                    f"{self._kind} {self.name} has no coordinator yet",
                    settings=self._settings,
                    clock=self._clock,
                    tries_max=tries_max,
                )
            return self._known

    async def ask(
        self, method: Method[Request, Response], request: Request, what: str, *, limit_s: float
    ) -> Response:
        """The answer to a request that may be sent again: see `asked`."""
        return await self.asked(lambda: self.call(method, request), what, limit_s=limit_s)

    async def asked(
        self,
        ask: Callable[[], Awaitable[T]],
        what: str,
        *,
        limit_s: float,
        retriable: Callable[[StrandlineError], bool] = attrgetter("retriable"),
    ) -> T:
        """The result of `ask`, which calls the coordinator, and is called again while it raises a retriable
        error; `what` is logged then. Raises an error that is not retriable, and the last one when `limit_s`
        is up."""
        errors: list[StrandlineError] = []
        try:
            async with asyncio.timeout(limit_s):
                return await retry(
                    ask,
                    f"{self._kind} {self.name}: {what}",
                    settings=self._settings,
                    clock=self._clock,
                    limit_s=limit_s,
                    retriable=retriable,
                    on_retry=errors.append,
                )
        except TimeoutError:
            raise errors[-1] if errors else no_answer(self._kind, self.name, limit_s) from None

    async def answer(
        self,
        method: Method[Request, Response],
        request: Request,
        on_retry: Callable[[StrandlineError], object] | None = None,
    ) -> tuple[Response, Endpoint]:
        """The coordinator's answer, and the coordinator, for administrators: repeated after PASSING errors.

        `on_retry` gets the error of each try that another one follows. Raises CoordinatorNotAvailable
        with the last error after the request timeout.
        """

        async def ask() -> tuple[Response, Endpoint]:
            known = await self.find(tries_max=1)
            return await self.call_at(known, method, request), known

        limit_s = self._cluster.request_timeout_s
        try:
            return await retry(
                ask,
                f"{self._kind} {self.name} waits for its coordinator",
                settings=self._settings,
                clock=self._clock,
                limit_s=limit_s,
                retriable=lambda error: isinstance(error, PASSING),
                on_retry=on_retry,
            )
        except PASSING as error:
            raise CoordinatorNotAvailable(
                f"{self._kind} {self.name!r} has no coordinator that answers within {limit_s:.1f} s: "
                f"{error.message}"
            ) from error

    async def call(
        self, method: Method[Request, Response], request: Request, *, timeout_s: float | None = None
    ) -> Response:
        """Find the coordinator and call it once. Raises as `call_at`."""
        return await self.call_at(await self.find(), method, request, timeout_s=timeout_s)

    async def call_at(
        self,
        known: Endpoint,
        method: Method[Request, Response],
        request: Request,
        *,
        timeout_s: float | None = None,
    ) -> Response:
        """Call the coordinator that `find` returned, by default within the request timeout.

        Raises the error that it answers, BrokerNotAvailable, or OutcomeUnknown. After an error that means
        that the coordinator is lost, the next `find` searches again.
        """
        limit_s = self._cluster.request_timeout_s if timeout_s is None else timeout_s
        with self.watching(known), reaching("coordinator", known):
            return await self._transport.call(known.address, method, request, timeout_s=limit_s)

    @contextmanager
    def watching(self, known: Endpoint) -> Iterator[None]:
        """Wraps a call to the coordinator, and forgets it if the call's error means that it is lost."""
        try:
            yield
        except (NotCoordinator, CoordinatorNotAvailable, BrokerNotAvailable, OutcomeUnknown) as error:
            self.lost(known, error)
            raise

    def lost(self, known: Endpoint | None, error: StrandlineError) -> None:
        """Forget this coordinator, unless another one is known by now. `error` may point to the next one."""
        if known is not None and known == self._known:
            logger.info(
                "%s %s: its coordinator, broker %d, is lost: %s", self._kind, self.name, known.id, error
            )
            hint = error.leader
            self._known = None if hint is None else Endpoint(hint.broker_id, hint.host, hint.port)

    def lost_at(self, address: str, error: StrandlineError) -> None:
        """As `lost`, for the coordinator at this address."""
        if self._known is not None and self._known.address == address:
            self.lost(self._known, error)


def no_answer(kind: str, name: str, timeout_s: float) -> CoordinatorNotAvailable:
    """The error for a timeout before any call has failed."""
    return CoordinatorNotAvailable(f"{kind} {name}: no answer from a coordinator within {timeout_s:.1f} s")
