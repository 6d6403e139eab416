"""A controller on a transport in memory, which answers as the test says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from strandline.adapters.asked_for import asked_for
from strandline.client.controller_link import ControllerLink
from strandline.config.client import ClientSettings
from strandline.errors import BrokerNotAvailable
from strandline.ports import Method, Request, Response, Stream
from strandline.security.audit.entry import Source
from strandline.vocabulary.metadata import ClusterMetadata, Endpoint
from tests.broker.support.replicas import CLOCK

CONTROLLER = Endpoint(1, "controller", 1)


class MemoryController:
    """Keeps what it was asked for: (RPC, request), and for which callers."""

    def __init__(self, answer: Callable[[Any], Any]) -> None:
        self.asked: list[tuple[str, Any]] = []
        self.callers: list[Source | None] = []
        self._answer = answer
        self.link = ControllerLink(
            self._find, settings=ClientSettings(), transport=self, clock=CLOCK, wait_s=0
        )

    async def _find(self) -> ClusterMetadata:
        return ClusterMetadata("c", (), CONTROLLER, ())

    async def call(
        self, address: str, method: Method[Request, Response], request: Request, *, timeout_s: float
    ) -> Response:
        self.callers.append(asked_for())
        self.asked.append((method.path.rpartition("/")[2], request))
        answer: Any = self._answer(request)
        return answer  # type: ignore[no-any-return]  # the method's own

    async def open(
        self, address: str, method: Method[Request, Response], *, timeout_s: float
    ) -> Stream[Request, Response]:
        raise BrokerNotAvailable(f"{address} takes no streams")

    async def close(self) -> None:
        self.asked.clear()


def no_replica(*_: object) -> bool:
    """A broker without replicas: it does not know what is led."""
    return False
