"""The cluster as its active controller sees it."""

from __future__ import annotations

from controller.answers import BrokerDescription, ClusterDescription
from controller.reading import count_requests
from controller.term import Term
from strandline.adapters import znodes


async def describe_cluster(term: Term) -> ClusterDescription:
    """Every live broker, with the length of its queue."""
    live = (await term.brokers()).live
    cluster_id = (await term.session.get(znodes.CLUSTER_ID)).data.decode()
    brokers = [
        BrokerDescription(registration, await count_requests(term.session, broker))
        for broker, registration in sorted(live.items())
    ]
    return ClusterDescription(cluster_id, term.endpoint, brokers)
