"""Finds out whether a broker is caught up and may be stopped, by fresh reads from ZooKeeper."""

from __future__ import annotations

from strandline.controller.core.readiness import check_broker
from strandline.controller.core.upkeep.queues import backlog
from strandline.controller.term.surveying import read_queue, read_survey
from strandline.controller.term.term import Term
from strandline.ids import BrokerId
from strandline.vocabulary.admin import BrokerCheck


async def read_readiness(term: Term, broker: BrokerId) -> BrokerCheck:
    """Reads the queue first, so that the survey shows the results of its requests."""
    brokers = await term.brokers()
    unended = backlog(await read_queue(term.session, broker) or ()).requests
    return check_broker(await read_survey(term.session, brokers), broker, unended)
