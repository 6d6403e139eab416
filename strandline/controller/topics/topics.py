"""The active controller's requests about topics: creates, alters and deletes them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat

import structlog

from strandline.controller.core.cluster import PlacedTopic
from strandline.controller.core.doubts import doubts
from strandline.controller.core.topics import Brokers, TopicPlan, plan_topic
from strandline.controller.term.results import for_user
from strandline.controller.term.term import Term
from strandline.controller.topics.alteration import alter_config, check_alteration
from strandline.controller.topics.creation import NewIncarnation, create_topics
from strandline.controller.topics.deletion import read_deletions, remove_topics
from strandline.controller.topics.growth import Growth
from strandline.controller.topics.marking import MarkedTopic, mark_for_deletion
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
        return await self._create(planned, brokers)

    async def delete(
        self, names: Sequence[str], topic_ids: Sequence[str], repeated: Collection[str]
    ) -> list[TopicResult]:
        """Returns one outcome a name, in order. Without an error the topic is gone, and its name is free."""
        errors: dict[str, StrandlineError] = {}
        wanted: dict[str, str] = {}
        for name, wanted_id in zip(names, topic_ids or repeat(""), strict=False):
            if name in repeated:
                errors[name] = InvalidRequest(f"topic {name!r} stands more than once in the request")
            elif name.startswith(INTERNAL_PREFIX):
                errors[name] = InvalidTopic(f"topic {name!r} is the system's own: it cannot be deleted")
            else:
                wanted[name] = wanted_id
        ids: dict[str, TopicId] = {}
        if wanted:
            try:
                marked, unmarked = await mark_for_deletion(self._term, wanted)
            except StrandlineError as error:
                marked, unmarked = [], dict.fromkeys(wanted, error)
            errors |= unmarked
            errors |= await self._remove(marked)
            ids = {each.name: each.topic_id for each in marked}
        return [
            TopicResult(name, for_user(errors[name]))
            if name in errors
            else TopicResult(name, topic_id=ids[name])
            for name in names
        ]

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

        found = await read_deletions(self._term.session)
        left = [marked for marked in found if marked.topic_id not in self._under_way]
        for name, topic_id, _ in left:
            logger.info("going on with a deletion", topic=name, topic_id=topic_id)
        for name, error in (await self._remove(left)).items():
            if not isinstance(error, OutcomeUnknown):
                raise error
            logger.warning("deletion not finished yet", topic=name, reason=error.message)

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

    async def _create(
        self, planned: Sequence[_Creation | TopicResult], brokers: Brokers
    ) -> list[TopicResult]:
        """The outcomes of these, in order."""
        asked = [NewIncarnation(each.plan, each.topic_id) for each in planned if isinstance(each, _Creation)]
        errors: dict[TopicId, StrandlineError] = {}
        try:
            if asked:
                errors = await create_topics(self._term, asked, brokers)
        except StrandlineError as error:
            errors = {each.topic_id: error for each in asked}
        finally:
            self._under_way.difference_update(each.topic_id for each in asked)
        return [each if isinstance(each, TopicResult) else self._outcome(each, errors) for each in planned]

    def _outcome(self, created: _Creation, errors: Mapping[TopicId, StrandlineError]) -> TopicResult:
        name, topic_id = created.plan.name, created.topic_id
        if (error := errors.get(topic_id)) is not None:
            self._term.picture.remove(name, topic_id)
            return TopicResult(name, for_user(error))
        partitions = len(created.plan.assignments)
        logger.info("topic created", topic=name, topic_id=topic_id, partitions=partitions)
        return TopicResult(name, topic_id=topic_id, warnings=created.warnings)

    async def _remove(self, topics: Sequence[MarkedTopic]) -> dict[str, StrandlineError]:
        """Removes these marked topics. Returns the errors of those that are not removed, by name."""
        ids = {each.topic_id for each in topics}
        self._under_way |= ids
        try:
            errors = await remove_topics(self._term, topics)
        finally:
            self._under_way -= ids
        return {each.name: error for each, error in errors.items()}
