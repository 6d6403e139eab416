"""Watches the deadlines of reassignments: each that passes is recorded once, and some moves are taken back.

The mark in the reassignment's znode and the event are one write (CORRECTNESS Q5). A controller that ends
before it takes a move back leaves that to the next one, which reads the mark.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from functools import partial

import structlog

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.facts import read_reassignment
from strandline.adapters.zookeeper.layout import reassignment_znodes
from strandline.controller.core.reassignment import TakeBackOverdue
from strandline.controller.core.survey import Survey, SurveyedPartition
from strandline.controller.core.upkeep.deadlines import explained, overdue, waits_for
from strandline.controller.replicas.reassignment import Reassignments
from strandline.controller.term.term import Term
from strandline.ids import TopicPartition
from strandline.ports import BadVersion, MultiFailed, NoNode, SetData
from strandline.serving.asked import doing_for
from strandline.vocabulary.metadata import Reassignment
from strandline.vocabulary.reassignment_events import reassignment_overdue
from strandline.vocabulary.state_changes import AskedBy

logger = structlog.get_logger(__name__)


class Deadlines:
    """The deadlines during one controller epoch."""

    def __init__(self, term: Term, reassignments: Reassignments) -> None:
        self._term = term
        self._reassignments = reassignments

    async def step(self, survey: Survey) -> None:
        """Acts on the deadlines that have passed. Raises Deposed."""
        ending: defaultdict[AskedBy | None, list[TakeBackOverdue]] = defaultdict(list)
        for partition in overdue(survey, self._term.clock.wall_ms()):
            wanted = partition.reassignment
            assert wanted is not None and wanted.deadline is not None, partition
            if not wanted.is_overdue:
                await self._mark(survey, partition, wanted)
            if wanted.deadline.cancels:
                ending[wanted.by].append(TakeBackOverdue(partition.name, ()))
        for by, moves in ending.items():
            with doing_for(by):
                outcomes = await self._reassignments.ask(moves)
            for outcome in outcomes:
                if outcome.error is not None:
                    logger.info("not taken back", partition=str(outcome.name), reason=outcome.error.message)

    async def _mark(self, survey: Survey, partition: SurveyedPartition, surveyed: Reassignment) -> None:
        name = partition.name
        found = await read_reassignment(self._term.session, *name)
        if found is None or found.value != surveyed:
            return  # it has ended, or there is another; the next survey shows it
        path = znodes.reassigned(*name)
        assert surveyed.deadline is not None
        marked = replace(surveyed, deadline=replace(surveyed.deadline, passed=True))
        reason = explained(surveyed, waits_for(survey, partition))
        event = reassignment_overdue(
            partition.topic,
            partition.key,
            surveyed,
            partition.state,
            at_ms=self._term.clock.wall_ms(),
            reason=reason,
        )
        kept = self._term.unrecorded.keeping([event])
        write = SetData(path, reassignment_znodes.dump_reassignment(marked), found.version)
        incarnation = znodes.of_incarnation(surveyed.topic_id)
        try:
            await self._term.session.write([write, incarnation, *kept], partial(self._stands, name, marked))
        except MultiFailed as failed:
            if not isinstance(failed.cause, BadVersion | NoNode):
                raise
            return  # as above
        self._term.unrecorded.written(kept)
        logger.warning("reassignment overdue", partition=str(name), reason=reason)

    async def _stands(self, name: TopicPartition, marked: Reassignment) -> bool:
        found = await read_reassignment(self._term.session, *name)
        return found is not None and found.value == marked
