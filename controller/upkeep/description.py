"""Describes the cluster as its active controller sees it."""

from __future__ import annotations

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.facts import read_drains
from strandline.controller.core.upkeep.queues import backlog
from strandline.controller.term.results import BrokerDescription, ClusterDescription
from strandline.controller.term.surveying import read_queue
from strandline.controller.term.term import Term


async def describe_cluster(term: Term) -> ClusterDescription:
    """All brokers that are alive or have a queue, each with the contents of its queue."""
    brokers = await term.brokers()
    drains = await read_drains(term.session)
    cluster_id = znodes.load_cluster_id((await term.session.get(znodes.CLUSTER_ID)).data)
    described = []
    for broker in sorted(brokers.known):
        registration = brokers.live.get(broker)
        queue = await read_queue(term.session, broker)
        described.append(BrokerDescription(broker, registration, backlog(queue or ()), broker in drains))
    return ClusterDescription(cluster_id, term.endpoint, described)
