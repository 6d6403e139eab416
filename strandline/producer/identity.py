"""Gets the producer ids of an idempotent producer."""

from __future__ import annotations

from strandline.adapters.codecs.log import INIT_PRODUCER_ID
from strandline.client.cluster import Cluster
from strandline.client.retry import retry
from strandline.config.producer import ProducerSettings
from strandline.ports import Clock
from strandline.vocabulary.log import ProducerIdentity


async def new_identity(
    cluster: Cluster, settings: ProducerSettings, clock: Clock, limit_s: float = float("inf")
) -> ProducerIdentity:
    """Ask within `limit_s` until a broker assigns a producer id. Raises BrokerNotAvailable."""
    return await retry(
        lambda: cluster.call_any(INIT_PRODUCER_ID, None),
        "no producer id yet",
        settings=settings,
        clock=clock,
        limit_s=limit_s,
    )
