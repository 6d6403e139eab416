"""The cluster as its active controller sees it."""

from __future__ import annotations

from controller.answers import BrokerDescription, ClusterDescription
from controller.core.queues import backlog
from controller.surveying import read_drains, read_queue
from controller.term import Term
from strandline.adapters import znodes


async def describe_cluster(term: Term) -> ClusterDescription:
    """Every broker that is alive or has a queue, with what waits in that."""
    brokers = await term.brokers()
    drains = await read_drains(term.session)
    cluster_id = znodes.load_cluster_id((await term.session.get(znodes.CLUSTER_ID)).data)
    described = []
    for broker in sorted(brokers.known):
        registration = brokers.live.get(broker)
        queue = await read_queue(term.session, broker)
        described.append(BrokerDescription(broker, registration, backlog(queue or ()), broker in drains))
    return ClusterDescription(cluster_id, term.endpoint, described)
