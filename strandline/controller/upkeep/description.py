"""Describes the cluster as its active controller sees it."""

from __future__ import annotations

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.facts import read_drains
from strandline.controller.core.upkeep.queues import backlog
from strandline.controller.term.surveying import read_queue
from strandline.controller.term.term import Term
from strandline.vocabulary.admin import BrokerDescription, ClusterDescription
from strandline.vocabulary.metadata import Endpoint, Registration
from strandline.vocabulary.state_changes import ANY_LIFE


async def describe_cluster(term: Term) -> ClusterDescription:
    """All brokers that are alive or have a queue, each with the contents of its queue."""
    brokers = await term.brokers()
    drains = await read_drains(term.session)
    cluster_id = znodes.load_cluster_id((await term.session.get(znodes.CLUSTER_ID)).data)
    described = []
    for broker in sorted(brokers.known):
        queued = backlog(await read_queue(term.session, broker) or ())
        registration = brokers.live.get(broker) or Registration(Endpoint(broker, "", 0), ANY_LIFE)
        described.append(
            BrokerDescription(
                registration.endpoint,
                registration.epoch,
                registration.shutting_down,
                queued.requests,
                queued.oldest_at_ms,
                alive=broker in brokers.live,
                drained=broker in drains,
            )
        )
    return ClusterDescription(cluster_id, term.endpoint, tuple(described))
