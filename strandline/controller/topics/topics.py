"""The active controller's requests about topics: creates, alters and deletes them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat

import structlog

from strandline.config.limits import TOPIC_CHANGES_IN_FLIGHT_MAX
from strandline.controller.core.cluster import PlacedTopic
from strandline.controller.core.doubts import doubts
from strandline.controller.core.topics import Brokers, TopicPlan, plan_topic
from strandline.controller.term.results import for_user
from strandline.controller.term.term import Term
from strandline.controller.topics.alteration import alter_config, check_alteration
from strandline.controller.topics.creation import create_topic
from strandline.controller.topics.deletion import mark_for_deletion, read_deletions, remove_topic
from strandline.controller.topics.growth import Growth
from strandline.controller.topics.mutations import count_mutations
from strandline.errors import (
    InvalidReplicaAssignment,
    InvalidRequest,
    InvalidTopic,
    OutcomeUnknown,
    StrandlineError,
    TopicAlreadyExists,
)
from strandline.ids import INTERNAL_PREFIX, TopicId
from strandline.tasks import pipelined
from strandline.vocabulary.admin import AlterTopic, NewTopic, TopicResult

logger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Creation:
    plan: TopicPlan
    topic_id: TopicId
    warnings: Sequence[str]


class Topics:
    """The topic requests of one epoch."""

    def __init__(self, term: Term) -> None:
        self._term = term
        self._under_way: set[TopicId] = set()
        """Topics that a request is creating or deleting; their markers are not leftovers."""
        self.growth = Growth(term)

    async def create(
        self, topics: Sequence[NewTopic], repeated: Collection[str], validate_only: bool, internal: bool
    ) -> list[TopicResult]:
        """Returns one outcome a topic, in order. An error in one topic does not affect the others."""
        brokers = await self._term.brokers()
        # No await until the last plan: each plan counts the replicas that those before it placed.
        planned = [self._plan(new, brokers, repeated, validate_only, internal) for new in topics]
        work = partial(self._create, brokers=brokers)
        return await pipelined(work, planned, in_flight_max=TOPIC_CHANGES_IN_FLIGHT_MAX)

    async def delete(
        self, names: Sequence[str], topic_ids: Sequence[str], repeated: Collection[str]
    ) -> list[TopicResult]:
        """Returns one outcome a name, in order. Without an error the topic is gone, and its name is free."""

        async def delete(named: tuple[str, str]) -> TopicResult:
            return await self._delete(*named, repeated)

        named = zip(names, topic_ids or repeat(""), strict=False)
        return await pipelined(delete, named, in_flight_max=TOPIC_CHANGES_IN_FLIGHT_MAX)

    async def alter(self, alteration: AlterTopic) -> None:
        """Alters the config first, then the partition count. Checks both before any write; with
        `validate_only` writes nothing.

        Raises UnknownTopicOrPartition, InvalidConfig, InvalidRequest, ThrottlingQuotaExceeded, and what
        `Growth.grow` raises.
        """
        name, partitions = alteration.topic, alteration.partitions
        if alteration.assignments and not partitions:
            raise InvalidReplicaAssignment(
                f"topic {name!r}: assignments are given, but not how many partitions there are to be"
            )
        added = await self.growth.check(alteration) if partitions else 0
        if added and not alteration.validate_only:
            count_mutations(name, added)
        if alteration.set or alteration.unset or not partitions:
            alter = check_alteration if alteration.validate_only else alter_config
            await alter(self._term, alteration)
        if alteration.validate_only:
            return
        if partitions:
            await self.growth.grow(alteration)

    async def resume(self) -> None:
        """Continues unfinished work of earlier requests: deletions, creations and additions."""
        await self.growth.resume()

        async def resume(marked: tuple[str, TopicId]) -> None:
            name, topic_id = marked
            if topic_id in self._under_way:
                return
            logger.info("going on with a deletion", topic=name, topic_id=topic_id)
            try:
                await self._remove(name, topic_id)
            except OutcomeUnknown as error:
                logger.warning("deletion not finished yet", topic=name, reason=error.message)

        left = await read_deletions(self._term.session)
        await pipelined(resume, left, in_flight_max=TOPIC_CHANGES_IN_FLIGHT_MAX)

    # --- carrying them out ---------------------------------------------------------------------

    def _plan(
        self,
        new: NewTopic,
        brokers: Brokers,
        repeated: Collection[str],
        validate_only: bool,
        internal: bool,
    ) -> _Creation | TopicResult:
        picture = self._term.picture
        try:
            if new.name in repeated:
                raise InvalidRequest(f"topic {new.name!r} stands more than once in the request")
            plan = plan_topic(new, brokers, picture, internal=internal)
            if not validate_only:
                count_mutations(new.name, len(plan.assignments))
        except TopicAlreadyExists as error:
            return TopicResult(new.name, error, picture.topic_id(new.name) or "")
        except StrandlineError as error:
            return TopicResult(new.name, error)
        warnings = [
            doubt
            for number, replicas in enumerate(plan.assignments if new.assignments else ())
            for doubt in doubts(f"{new.name}-{number}", replicas, brokers)
        ]
        if validate_only:
            return TopicResult(new.name, warnings=warnings)
        topic_id = TopicId(self._term.new_id())
        picture.add(plan.name, PlacedTopic(topic_id, plan.assignments))
        self._under_way.add(topic_id)
        return _Creation(plan, topic_id, warnings)

    async def _create(self, planned: _Creation | TopicResult, brokers: Brokers) -> TopicResult:
        if isinstance(planned, TopicResult):
            return planned
        name, topic_id = planned.plan.name, planned.topic_id
        try:
            await create_topic(self._term, planned.plan, topic_id, brokers)
        except StrandlineError as error:
            self._term.picture.remove(name, topic_id)
            return TopicResult(name, for_user(error))
        finally:
            self._under_way.discard(topic_id)
        logger.info("topic created", topic=name, topic_id=topic_id, partitions=len(planned.plan.assignments))
        return TopicResult(name, topic_id=topic_id, warnings=planned.warnings)

    async def _delete(self, name: str, wanted_id: str, repeated: Collection[str]) -> TopicResult:
        try:
            if name in repeated:
                raise InvalidRequest(f"topic {name!r} stands more than once in the request")
            if name.startswith(INTERNAL_PREFIX):
                raise InvalidTopic(f"topic {name!r} is the system's own: it cannot be deleted")
            topic_id = await mark_for_deletion(self._term.session, name, wanted_id)
            await self._remove(name, topic_id)
        except StrandlineError as error:
            return TopicResult(name, for_user(error))
        return TopicResult(name, topic_id=topic_id)

    async def _remove(self, name: str, topic_id: TopicId) -> None:
        self._under_way.add(topic_id)
        try:
            await remove_topic(self._term, name, topic_id)
        finally:
            self._under_way.discard(topic_id)
        self._term.picture.remove(name, topic_id)
        logger.info("topic deleted", topic=name, topic_id=topic_id)
