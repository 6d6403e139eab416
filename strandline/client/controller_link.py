"""The link to the active controller: finds it, and finds the next one after it."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from strandline.client.addresses import reaching
from strandline.client.retry import Tries
from strandline.client.waits import NOTICE_AFTER_S, WAITS_LOGGER
from strandline.config.client import ClientSettings
from strandline.errors import BrokerNotAvailable, NotController, OutcomeUnknown
from strandline.ports import Clock, Method, Request, Response, Transport
from strandline.vocabulary.admin import PartitionResult, TopicResult
from strandline.vocabulary.metadata import ClusterMetadata, Endpoint

waits = logging.getLogger(WAITS_LOGGER)

T = TypeVar("T")


class ControllerLink:
    """Calls the active controller. All methods may run concurrently."""

    def __init__(
        self,
        find: Callable[[], Awaitable[ClusterMetadata]],
        *,
        settings: ClientSettings,
        transport: Transport,
        clock: Clock,
        wait_s: float | None = None,
    ) -> None:
        """`find` says which controller is active, as far as a broker knows. `wait_s` limits the search for
        one; None: the request timeout, which limits each call in any case."""
        self._find = find
        self._settings = settings
        self._transport = transport
        self._clock = clock
        self._timeout_s = settings.request_timeout_ms / 1000
        self._wait_s = self._timeout_s if wait_s is None else wait_s
        self._controller: Endpoint | None = None
        self._unknown = ""

    def learn(self, cluster: ClusterMetadata) -> None:
        """Takes the controller from a broker's answer to another question."""
        self._controller = cluster.controller
        self._unknown = cluster.controller_unknown

    async def call(self, method: Method[Request, Response], request: Request) -> Response:
        """The controller's answer. A refusal of a single topic or partition is a result in it.

        Raises as `reach`, and the controller's refusal of the whole request.
        """
        return await self.reach(lambda controller: self._call(controller, method, request))

    async def reach(self, ask: Callable[[Endpoint], Awaitable[T]]) -> T:
        """Finds the active controller, and calls `ask` with it.

        Retries only if the request was certainly not carried out. Raises NotController if no controller is
        found in time, OutcomeUnknown, and what `find` and `ask` raise.
        """
        tries = Tries(self._settings, self._clock, self._wait_s)
        notice_at = self._clock.monotonic() + NOTICE_AFTER_S
        noticed = followed = False
        while True:
            reason = ""
            try:
                if self._controller is None:
                    self.learn(await self._find())
                if self._controller is not None:
                    return await ask(self._controller)
                reason = self._unknown or "no broker knows of one; is a controller running?"
            except OutcomeUnknown:
                self._controller = None  # the next call may find another one
                raise
            except (NotController, BrokerNotAvailable) as error:
                hint, reason = error.leader, error.message
                self._controller = None
                if hint is not None:
                    self._controller = Endpoint(hint.broker_id, hint.host, hint.port)
                    if not followed:  # a second hint may point back to where the first one came from
                        followed = True
                        continue
            if tries.over:
                raise NotController(f"no active controller within {self._wait_s:.1f} s: {reason}")
            if not noticed and self._clock.monotonic() >= notice_at:
                noticed = True
                waits.warning("waiting up to %.0f s for an active controller: %s", self._wait_s, reason)
            await tries.pause()

    async def _call(
        self, controller: Endpoint, method: Method[Request, Response], request: Request
    ) -> Response:
        """Raises NotController if a result in the answer has it: then nothing was done."""
        with reaching("controller", controller):
            response = await self._transport.call(
                controller.address, method, request, timeout_s=self._timeout_s
            )
        if isinstance(response, list | tuple):
            for result in response:
                if isinstance(result, TopicResult | PartitionResult) and isinstance(
                    result.error, NotController
                ):
                    raise result.error
        return response
