"""A broker's link to the active controller, for requests that the broker makes or passes on."""

from __future__ import annotations

from typing import Final

from strandline.broker.metadata.cluster_view import ClusterView
from strandline.client.controller_link import ControllerLink
from strandline.config.client import ClientSettings
from strandline.ports import Clock, Transport
from strandline.vocabulary.metadata import ClusterMetadata

TIMEOUT_MS: Final = 10_000
ADMIN_TIMEOUT_MS: Final = 60_000
"""For requests of administrators, whose clients say how long they wait."""
WAIT_S: Final = 1.0
"""How long a broker looks for an active controller. The request that needs one is sent again later."""


def controller_link(
    view: ClusterView, transport: Transport, clock: Clock, *, timeout_ms: int = TIMEOUT_MS
) -> ControllerLink:
    """The link to the controller that ZooKeeper names."""

    async def find() -> ClusterMetadata:
        cluster, _ = await view.describe((), omit_topics=True)
        return cluster

    settings = ClientSettings(request_timeout_ms=timeout_ms)
    return ControllerLink(find, settings=settings, transport=transport, clock=clock, wait_s=WAIT_S)
