"""Repairs problems that have persisted for a while (CORRECTNESS E8): by notices to brokers, or by removing
leftovers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import structlog

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.facts import read_reassignment, read_topic
from strandline.adapters.zookeeper.layout.queue_znodes import ElectionNotice
from strandline.controller.core.survey import StandingReassignment, Survey, SurveyedPartition
from strandline.controller.core.upkeep.queues import QueueEntry, waiting_keys
from strandline.controller.core.upkeep.repairs import (
    CallElection,
    DropNotices,
    DropReassignment,
    Repair,
    RepairPlanner,
    StartReplica,
)
from strandline.controller.term.notices import leave_notices
from strandline.controller.term.term import Term
from strandline.controller.term.writes import Step, Subject, requests
from strandline.ids import BrokerId, PartitionKey
from strandline.ports import BadVersion, Delete, MultiFailed, NoNode, NotEmpty, Operation
from strandline.vocabulary.state_changes import Command

logger = structlog.get_logger(__name__)

REMOVED_AT_ONCE_MAX: Final = 1_000
"""Deletions in one `multi`."""


class Repairs:
    """The repairs of one epoch."""

    def __init__(self, term: Term) -> None:
        self._term = term
        self._planner = RepairPlanner(term.settings.mend_after_ms)

    async def step(self, survey: Survey, queues: Mapping[BrokerId, Sequence[QueueEntry]]) -> None:
        """Makes the repairs that are due. `queues` are those of live brokers; dead ones get no request.

        Raises Deposed.
        """
        now_ms = int(self._term.clock.monotonic() * 1000)
        queued = {broker: waiting_keys(entries) for broker, entries in queues.items()}
        mends = self._planner.plan(survey, queued, now_ms)
        elections = [mend for mend in mends if isinstance(mend, CallElection)]
        await self._call_elections(elections)
        await self._start_replicas([mend for mend in mends if isinstance(mend, StartReplica)])
        for mend in mends:
            await self._drop(mend)

    async def _call_elections(self, mends: Sequence[CallElection]) -> None:
        for mend in mends:
            logger.warning(
                "repair: no broker leads, though a replica could",
                partition=str(mend.partition),
                broker=mend.broker,
                epoch=mend.partition.state.leader_epoch,
            )
        notices: defaultdict[BrokerId, list[ElectionNotice]] = defaultdict(list)
        for mend in mends:
            notices[mend.broker].append(_notice(mend.partition))
        await leave_notices(self._term.session, notices)

    async def _start_replicas(self, mends: Sequence[StartReplica]) -> None:
        """Sends requests to read again, which change nothing for a replica that runs already."""
        brokers: dict[PartitionKey, list[BrokerId]] = {}
        partitions = {mend.partition.key: mend.partition for mend in mends}
        for mend in mends:
            logger.warning(
                "repair: an assigned replica is not in sync, and has no request",
                partition=str(mend.partition),
                broker=mend.broker,
            )
            brokers.setdefault(mend.partition.key, []).append(mend.broker)
        stamp = self._term.stamp()
        steps = []
        for key, partition in partitions.items():
            subject = Subject(partition.topic, key, partition.state.leader_epoch)
            asked = requests(Command.START_REPLICA, subject, brokers[key], stamp, "it looks not started")
            steps.append(Step((), asked))
        if steps:
            for multi in self._term.pack(steps):
                await self._term.ask_once(multi)

    # --- leftovers -----------------------------------------------------------------------------

    async def _drop(self, mend: Repair) -> None:
        match mend:
            case DropReassignment(standing):
                if await self._remove(await self._drops(standing)):
                    await self._remove([Delete(znodes.reassigned_topic(standing.topic))])
                    logger.warning(
                        "repair: a reassignment of a topic that is gone",
                        partition=f"{standing.topic}-{standing.partition}",
                        topic_id=standing.topic_id,
                    )
            case DropNotices(broker, count):
                logger.info("repair: election notices of a dead broker", broker=broker, znodes=count)
                await self._drop_notices(broker)
            case _:
                return

    async def _drops(self, standing: StandingReassignment) -> Sequence[Operation]:
        """The operations that drop this leftover; none if by now its place has the move of a topic that has
        the name since then: its versions begin again. While the present topic is there, no other znode takes
        that place, so that is checked in the same write."""
        session, path = self._term.session, znodes.reassigned(standing.topic, standing.partition)
        present = await read_topic(session, standing.topic)
        now = await read_reassignment(session, standing.topic, standing.partition)
        if now is None or now.value.topic_id != standing.topic_id:
            return ()
        fence = [] if present is None else [znodes.of_incarnation(present.value.topic_id)]
        return (Delete(path, standing.version), *fence)

    async def _drop_notices(self, broker: BrokerId) -> None:
        folder = znodes.elections(broker)
        notices = sorted(await self._term.session.children(folder))
        for start in range(0, len(notices), REMOVED_AT_ONCE_MAX):
            part = notices[start : start + REMOVED_AT_ONCE_MAX]
            await self._remove([Delete(f"{folder}/{notice}") for notice in part])

    async def _remove(self, deletes: Sequence[Operation]) -> bool:
        """Returns False if there are none, if the nodes were removed or changed by another writer, or have
        more children."""
        if not deletes:
            return False
        try:
            session = self._term.session
            await session.write(deletes, partial(session.is_absent, deletes[0].path))
        except MultiFailed as failed:
            if not isinstance(failed.cause, BadVersion | NoNode | NotEmpty):
                raise
            return False
        return True


def _notice(partition: SurveyedPartition) -> ElectionNotice:
    return ElectionNotice(
        partition.topic, partition.key, partition.state.leader_epoch, reason="found without a leader"
    )
