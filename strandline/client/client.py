"""The base of every client: its settings, clock, transport, view of the cluster, and tasks."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Generic, TypeVar

from strandline.client.cluster import Cluster
from strandline.client.scope import Scope, Startable
from strandline.config.client import ClientSettings
from strandline.ports import Clock, Transport

logger = logging.getLogger(__name__)

SettingsT = TypeVar("SettingsT", bound=ClientSettings)


class Client(Startable, Generic[SettingsT]):
    """A connection to one cluster, which is started and stopped once.

    A subclass starts its own parts after `super().start()`, and ends them around `super().stop()`. `what` is
    the client's name in logs and errors. `stop` closes the transport.
    """

    def __init__(
        self,
        what: str,
        bootstrap: str | Sequence[str],
        settings: SettingsT,
        transport: Transport,
        clock: Clock,
    ) -> None:
        self._what = what
        self._settings = settings
        self._clock = clock
        self._transport = transport
        self._cluster = Cluster(bootstrap, settings, self._transport, self._clock)
        self._scope = Scope(what, self._failed)

    async def start(self) -> None:
        """Connects only with the first request. Raises InvalidRequest if it was started before."""
        await self._scope.start()
        self._cluster.run(self._scope)

    async def stop(self) -> None:
        """End every task, then close the transport. May be called again."""
        try:
            await self._scope.stop()
        finally:
            await self._transport.close()

    def _failed(self, error: BaseException) -> None:
        """A task failed unexpectedly: all others have ended. Wake everything that waits for them."""
        logger.error("the %s failed", self._what, exc_info=error)
