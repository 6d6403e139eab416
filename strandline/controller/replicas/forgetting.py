"""Forgets a broker that will not return: its queues and its drain go, and what it was asked for has failed.

The requests end first, a few in a `multi`, which also keeps their events until they are recorded. Then one
`multi` removes all that ZooKeeper has of the broker. If the controller dies in between, the same request to
the next one continues. A broker that returns afterwards registers as a new one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import structlog

from strandline.adapters.system.crash_points import crash_point
from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.layout import queue_znodes
from strandline.controller.core.forgetting import Ending, check_forgettable, endings
from strandline.controller.term.surveying import read_queue, read_survey
from strandline.controller.term.term import Term
from strandline.errors import OutcomeUnknown
from strandline.ids import BrokerId
from strandline.ports import (
    BadVersion,
    Create,
    Delete,
    MultiFailed,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    SetData,
)
from strandline.serving.asked import asked_by
from strandline.vocabulary.admin import ForgottenBroker

logger = structlog.get_logger(__name__)

ATTEMPTS_MAX: Final = 20
"""Attempts. Each fails only if another writer changed the broker's queues or its drain in between."""

NOTICES_AT_ONCE_MAX: Final = 1_000


async def forget_broker(term: Term, broker: BrokerId) -> ForgottenBroker:
    """Forgets it. Raises InvalidRequest if it is alive or has replicas. It is no error if it is not known."""
    requests = 0
    for _ in range(ATTEMPTS_MAX):
        brokers = await term.brokers()
        if broker not in brokers.known:
            return ForgottenBroker(was_known=False, requests=requests)
        # The queue is read first: a request that is written with a replica is then not ended without it.
        entries = await read_queue(term.session, broker) or ()
        check_forgettable(await read_survey(term.session, brokers), broker)
        try:
            for group in endings(entries, broker, term.clock.wall_ms(), asked_by()):
                requests += await _end(term, broker, group)
            await _remove(term, broker)
        except MultiFailed as failed:
            if not isinstance(failed.cause, BadVersion | NoNode | NodeExists | NotEmpty):
                raise
            logger.info("another acts on what is to be forgotten", broker=broker, reason=str(failed))
            continue
        term.forget(broker)
        logger.info("broker forgotten", broker=broker, requests=requests)
        return ForgottenBroker(was_known=True, requests=requests)
    raise OutcomeUnknown(f"what ZooKeeper has of broker {broker} was changed by others, again and again")


async def _end(term: Term, broker: BrokerId, group: Sequence[Ending]) -> int:
    """Ends these requests. Returns how many have failed so. Raises MultiFailed."""
    operations = [_written(broker, each) for each in group]
    events = [event for each in group for event in each.events]
    kept = term.unrecorded.keeping(events)
    await term.session.write([*operations, *kept], partial(_stands, term, operations[0]))
    crash_point("controller.forget.ended")
    term.unrecorded.written(kept)
    return sum(each.failed for each in group)


def _written(broker: BrokerId, each: Ending) -> SetData | Delete:
    path = f"{znodes.state_queue(broker)}/{each.entry}"
    if each.rest:
        return SetData(path, queue_znodes.dump_state_changes(each.rest), each.version)
    return Delete(path, each.version)


async def _stands(term: Term, operation: SetData | Delete) -> bool:
    try:
        node = await term.session.get(operation.path)
    except NoNode:
        return isinstance(operation, Delete)
    return isinstance(operation, SetData) and node.data == operation.data


async def _remove(term: Term, broker: BrokerId) -> None:
    """Removes both queues, which have to be empty, and the drain. Raises MultiFailed, also if the broker has
    registered meanwhile: its registration cannot be created then."""
    session, notices = term.session, znodes.elections(broker)
    registration, queue, drain = znodes.broker(broker), znodes.state_queue(broker), znodes.drain(broker)
    folder = await session.exists(notices)
    waiting = [] if folder is None else await session.children(notices)
    while len(waiting) > NOTICES_AT_ONCE_MAX:
        part, waiting = waiting[:NOTICES_AT_ONCE_MAX], waiting[NOTICES_AT_ONCE_MAX:]
        await session.write(
            [Delete(f"{notices}/{each}") for each in part], partial(session.is_absent, f"{notices}/{part[0]}")
        )
    operations: list[Operation] = [Create(registration), Delete(registration)]
    operations += [Delete(f"{notices}/{each}") for each in waiting]
    operations += [Delete(notices)] if folder is not None else []
    operations += [Delete(drain)] if await session.exists(drain) is not None else []
    crash_point("controller.forget.before_removal")
    await session.write([*operations, Delete(queue)], partial(session.is_absent, queue))
    crash_point("controller.forget.removed")
