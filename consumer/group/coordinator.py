"""The way to the broker that coordinates the group: found by asking, and asked for anew when it moves."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager

from strandline.client.backoff import backoff_s
from strandline.client.cluster import Cluster
from strandline.client.wire.groups import FIND_COORDINATOR
from strandline.config import ConsumerSettings
from strandline.errors import (
    BrokerNotAvailable,
    CoordinatorNotAvailable,
    NotCoordinator,
    OutcomeUnknown,
    StrandlineError,
)
from strandline.ports import Clock, Method, Request, Response, Transport
from strandline.vocabulary.metadata import Endpoint

logger = logging.getLogger(__name__)


class Coordinator:
    """One group's."""

    def __init__(
        self,
        group: str,
        *,
        cluster: Cluster,
        transport: Transport,
        settings: ConsumerSettings,
        clock: Clock,
    ) -> None:
        self.group = group
        self._cluster = cluster
        self._transport = transport
        self._settings = settings
        self._clock = clock
        self._known: Endpoint | None = None
        self._finding = asyncio.Lock()

    def lost(self, known: Endpoint | None, error: StrandlineError) -> None:
        """This one did not answer, or is it no longer: look for another, unless that has been done since."""
        if known is not None and known == self._known:
            logger.info("group %s: its coordinator, broker %d, is lost: %s", self.group, known.id, error)
            self._known = None

    def lost_at(self, address: str, error: StrandlineError) -> None:
        """The same, of who was asked by address."""
        if self._known is not None and self._known.address == address:
            self.lost(self._known, error)

    async def find(self) -> Endpoint:
        """The coordinator, looked for until it is found. Raises what makes looking hopeless."""
        attempt = 0
        async with self._finding:
            while self._known is None:
                try:
                    found = await self._cluster.call_any(FIND_COORDINATOR, self.group)
                except StrandlineError as error:
                    if not error.retriable:
                        raise
                    attempt += 1
                    level = logging.INFO if attempt == 1 else logging.DEBUG
                    logger.log(level, "group %s has no coordinator yet: %s", self.group, error)
                    await self._clock.sleep(backoff_s(self._settings, attempt))
                else:
                    self._known = found
            return self._known

    async def call(
        self, method: Method[Request, Response], request: Request, *, timeout_s: float | None = None
    ) -> Response:
        """One try. Raises what the coordinator answers, and what keeps it from answering; then the next
        call looks for it first."""
        known = await self.find()
        limit_s = self._cluster.request_timeout_s if timeout_s is None else timeout_s
        with self.watching(known):
            return await self._transport.call(known.address, method, request, timeout_s=limit_s)

    @contextmanager
    def watching(self, known: Endpoint) -> Iterator[None]:
        """Around a call to the coordinator: an error that says so means that it is lost."""
        try:
            yield
        except (NotCoordinator, CoordinatorNotAvailable, BrokerNotAvailable, OutcomeUnknown) as error:
            self.lost(known, error)
            raise


def no_answer(group: str, timeout_s: float) -> CoordinatorNotAvailable:
    """What is raised when the time is up and nobody has refused anything yet."""
    return CoordinatorNotAvailable(f"group {group}: no answer from a coordinator within {timeout_s:.1f} s")
