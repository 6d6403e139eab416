"""Which brokers are being drained: read when somebody is about to be named, never watched."""

from __future__ import annotations

from functools import partial

import structlog

from strandline.adapters.zookeeper import znodes
from strandline.config import ZOOKEEPER_READS_IN_FLIGHT_MAX
from strandline.ids import BrokerId
from strandline.ports import Coordination, NoNode
from strandline.tasks import pipelined
from strandline.vocabulary.metadata import Drain

logger = structlog.get_logger(__name__)


async def drained_brokers(session: Coordination) -> frozenset[BrokerId]:
    """Those that are to lead nothing. Raises ConnectionLost."""
    try:
        listed = await session.children(znodes.DRAINS)
    except NoNode:
        return frozenset()
    brokers = znodes.broker_ids(listed)
    drains = await pipelined(partial(_read, session), brokers, in_flight_max=ZOOKEEPER_READS_IN_FLIGHT_MAX)
    return frozenset(broker for broker, drain in zip(brokers, drains, strict=True) if drain is not None)


async def _read(session: Coordination, broker: BrokerId) -> Drain | None:
    try:
        return znodes.load_drain(broker, (await session.get(znodes.drain(broker))).data)
    except NoNode:
        return None
    except ValueError as error:
        logger.error("not a drain", broker=broker, reason=str(error))
        return None
