"""Answers CreateTopics, DeleteTopics and CreatePartitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import TypeVar

from strandline.broker.kafka.call import Call
from strandline.broker.kafka.configs.described import topic_configs
from strandline.broker.kafka.configs.given import topic_config
from strandline.broker.kafka.errors import KafkaCode, code_of, message_of
from strandline.broker.kafka.handlers.controller import ControllerFor, Deadline, check_count
from strandline.broker.kafka.handlers.new_topics import Leaders, Made, TopicDefaults
from strandline.broker.kafka.wire.admin.topic_changes import (
    DEFAULT,
    CreatedConfig,
    CreatedTopic,
    CreatePartitionsAnswer,
    CreatePartitionsRequest,
    CreateTopicsAnswer,
    CreateTopicsRequest,
    DeletedTopic,
    DeleteTopicsAnswer,
    DeleteTopicsRequest,
    GivenReplicas,
    GrownTopic,
    TopicGrowth,
    UnwantedTopic,
    WantedTopic,
)
from strandline.broker.kafka.wire.metadata import NO_TOPIC_ID
from strandline.broker.metadata.topic_outlines import TopicOutline, TopicOutlines
from strandline.config.limits import PARTITIONS_PER_TOPIC_MAX
from strandline.errors import (
    ErrorCode,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidRequest,
    LeaderNotAvailable,
    RequestTimedOut,
    StrandlineError,
    ThrottlingQuotaExceeded,
    UnknownTopicOrPartition,
)
from strandline.ids import INTERNAL_PREFIX, TopicId
from strandline.ports import Caller, Clock
from strandline.security.access import Access
from strandline.security.quotas.model import Quota
from strandline.security.rights import DELETE_TOPIC, DESCRIBE_TOPIC_CONFIGS
from strandline.security.topic_changes import alteration_refusal, creation_refusal
from strandline.tasks import in_slices
from strandline.vocabulary.admin import AlterTopic, DeleteTopics, NewTopic, TopicResult

T = TypeVar("T")
Named = TypeVar("Named", WantedTopic, TopicGrowth)


class TopicsApi:
    """These APIs, for all connections of one broker."""

    def __init__(
        self,
        controller: ControllerFor,
        outlines: TopicOutlines,
        leaders: Leaders,
        defaults: TopicDefaults,
        access: Access,
        clock: Clock,
    ) -> None:
        self._access = access
        self._controller = controller
        self._outlines = outlines
        self._leaders = leaders
        self._defaults = defaults
        self._clock = clock

    # --- CreateTopics ------------------------------------------------------------------------

    async def create(self, request: CreateTopicsRequest, call: Call) -> CreateTopicsAnswer:
        """Answers when the new topics are led, or at the client's timeout."""
        deadline = Deadline(self._clock, request.timeout_ms)
        try:
            check_count(request.topics)
        except InvalidRequest as many:
            refused = [CreatedTopic(each.name, code_of(many), many.message) for each in request.topics]
            return CreateTopicsAnswer(tuple(refused))
        times = Counter(each.name for each in request.topics)

        def new_topic(topic: WantedTopic) -> NewTopic:
            made = self._new_topic(call.caller, topic)
            _check_once(topic.name, times)
            return made

        topics = _each_once(request.topics)
        wanted = await in_slices(partial(_or_refused, new_topic), topics, self._clock)
        new = [each for each in wanted if isinstance(each, NewTopic)]
        by_default = {each.name for each in request.topics if each.replication_factor == DEFAULT}
        found = await self._controller(call.caller).create(
            new, deadline, validate_only=request.validate_only, by_default=by_default
        )
        asked = iter(found)
        results = [next(asked)[1] if isinstance(each, NewTopic) else each for each in wanted]
        _wait_for_quota(call, results)
        by_name = {each.name: each for each, _ in found}
        created = {
            each.topic: Made(each.topic_id, _partitions(by_name[each.topic]))
            for each in results
            if each.error is None
        }
        if not request.validate_only:
            results = await self._once_led(results, created, deadline)

        def answer(result: TopicResult) -> CreatedTopic:
            created = _created(result, by_name.get(result.topic))
            if created.error or self._access.allowed(call.caller, DESCRIBE_TOPIC_CONFIGS, result.topic):
                return created
            code = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            return CreatedTopic(created.name, topic_id=created.topic_id, config_error=code, configs=None)

        return CreateTopicsAnswer(tuple(await in_slices(answer, results, self._clock)))

    def _new_topic(self, caller: Caller, wanted: WantedTopic) -> NewTopic:
        """Raises TopicAuthorizationFailed, InvalidConfig, InvalidReplicaAssignment, InvalidRequest."""
        if (refusal := creation_refusal(self._access, caller, wanted.name)) is not None:
            raise refusal
        config = topic_config(tuple(dict(wanted.configs).items()))  # as from Kafka, the last of a name counts
        if not wanted.assignments:
            partitions, replication_factor = wanted.partitions, wanted.replication_factor
            if partitions == DEFAULT:
                partitions = self._defaults.partitions
            if replication_factor == DEFAULT:
                replication_factor = self._defaults.replication_factor
            return NewTopic(wanted.name, partitions, replication_factor, config)
        if (wanted.partitions, wanted.replication_factor) != (DEFAULT, DEFAULT):
            raise InvalidRequest(
                f"topic {wanted.name!r}: give either replicas, or numbers of partitions and replicas"
            )
        return NewTopic(wanted.name, 0, config=config, assignments=_in_order(wanted))

    # --- DeleteTopics ------------------------------------------------------------------------

    async def delete(self, request: DeleteTopicsRequest, call: Call) -> DeleteTopicsAnswer:
        """Answers when the topics are gone and their names are free, or at the client's timeout."""
        deadline = Deadline(self._clock, request.timeout_ms)
        ids = {each.topic_id for each in request.topics if each.name is None}
        try:
            check_count(request.topics)
            names = await self._outlines.names_of(ids, deadline.left_s) if ids else {}
            own = {name for each in request.topics if (name := each.name or "").startswith(INTERNAL_PREFIX)}
            internal = await self._outlines.read(own, deadline.left_s) if own else {}
        except (InvalidRequest, LeaderNotAvailable) as error:
            code = code_of(error)
            refused = [DeletedTopic(*each, code, error.message) for each in request.topics]
            return DeleteTopicsAnswer(tuple(refused))
        # An id is passed on, since the name may be that of a later topic when the request arrives.
        wanted = [
            (each.name, "") if each.name is not None else (names.get(each.topic_id), each.topic_id)
            for each in request.topics
        ]
        unallowed = self._access.refusals(call.caller, DELETE_TOPIC, (name for name, _ in wanted if name))
        for name in own - internal.keys():
            unallowed.setdefault(name, UnknownTopicOrPartition(f"topic {name!r} does not exist"))
        for each in request.topics:
            if each.name is not None and each.topic_id != NO_TOPIC_ID:
                unallowed.setdefault(
                    each.name, InvalidRequest("a topic by its name or by its id, not by both")
                )
        times = Counter(name or topic_id for name, topic_id in wanted)
        # A topic that stands there twice, be it by name and by id, is refused, once for each of them.
        distinct = dict(zip(request.topics, wanted, strict=True))
        known = [
            (name, topic_id)
            for name, topic_id in distinct.values()
            if name is not None and name not in unallowed and times[name] == 1
        ]
        deletion = DeleteTopics([name for name, _ in known], [topic_id for _, topic_id in known])
        deleted = await self._controller(call.caller).delete(deletion, deadline)
        _wait_for_quota(call, deleted)
        results = iter(deleted)
        return DeleteTopicsAnswer(
            tuple(
                _asked_twice(asked)
                if times[name or topic_id] > 1 and name not in unallowed
                else _no_such_id(asked)
                if name is None
                else _refused(asked, unallowed[name])
                if name in unallowed
                else _deleted(next(results), asked)
                for asked, (name, topic_id) in distinct.items()
            )
        )

    # --- CreatePartitions --------------------------------------------------------------------

    async def grow(self, request: CreatePartitionsRequest, call: Call) -> CreatePartitionsAnswer:
        """Answers when the new partitions are led, or at the client's timeout. As with Kafka, a topic that
        has the partitions already is refused."""
        deadline = Deadline(self._clock, request.timeout_ms)
        try:
            check_count(request.topics)
            outlines = await self._outlines.read((each.name for each in request.topics), deadline.left_s)
        except (InvalidRequest, LeaderNotAvailable) as error:
            refused = [GrownTopic(each.name, code_of(error), error.message) for each in request.topics]
            return CreatePartitionsAnswer(tuple(refused))
        times = Counter(each.name for each in request.topics)

        def alteration(topic: TopicGrowth) -> AlterTopic:
            refusal = alteration_refusal(
                self._access, call.caller, topic.name, configs=False, partitions=True
            )
            if refusal is not None:
                raise refusal
            _check_once(topic.name, times)
            return _alteration(topic, outlines.get(topic.name), request.validate_only)

        wanted = await in_slices(partial(_or_refused, alteration), _each_once(request.topics), self._clock)
        alterations = [each for each in wanted if isinstance(each, AlterTopic)]
        asked = iter(await self._controller(call.caller).alter(alterations, deadline))
        results = [next(asked) if isinstance(each, AlterTopic) else each for each in wanted]
        _wait_for_quota(call, results)
        totals = {each.name: each.total for each in request.topics}
        grown = {
            each.topic: Made(outlines[each.topic].topic_id, totals[each.topic])
            for each in results
            if each.error is None
        }
        if not request.validate_only:
            results = await self._once_led(results, grown, deadline)
        return CreatePartitionsAnswer(tuple(_grown(each, totals[each.topic]) for each in results))

    async def _once_led(
        self, results: list[TopicResult], made: Mapping[str, Made], deadline: Deadline
    ) -> list[TopicResult]:
        """The results, once all partitions are led. Those that are not in time are said to have timed out."""
        unled = await self._leaders.wait(made, deadline)
        late = "the partitions are there, and not all of them are led yet"
        return [
            replace(each, error=RequestTimedOut(f"topic {each.topic!r}: {late}"))
            if each.topic in unled and each.error is None
            else each
            for each in results
        ]


def _each_once(topics: Iterable[Named]) -> list[Named]:
    """The first entry of each name: as from Kafka, a name has one answer."""
    first: dict[str, Named] = {}
    for topic in topics:
        first.setdefault(topic.name, topic)
    return list(first.values())


def _check_once(name: str, times: Mapping[str, int]) -> None:
    """Raises InvalidRequest for a name that the request has more than once."""
    if times[name] > 1:
        raise _named_twice(name)


def _named_twice(name: str) -> InvalidRequest:
    return InvalidRequest(f"topic {name!r} stands more than once in the request")


def _wait_for_quota(call: Call, results: Iterable[TopicResult]) -> None:
    """The client waits if the controller refused a topic for its quota, and its answer says for how long: a
    client that repeats the request by itself does so no earlier."""
    errors = [each.error for each in results if isinstance(each.error, ThrottlingQuotaExceeded)]
    wait_ms = max((error.retry_after_ms or 0 for error in errors), default=0)
    if wait_ms and call.bill is not None:
        call.bill.wait(Quota.CONTROLLER_MUTATION_RATE, wait_ms / 1000)


def _or_refused(make: Callable[[Named], T], topic: Named) -> T | TopicResult:
    try:
        return make(topic)
    except StrandlineError as error:
        return TopicResult(topic.name, error)


def _in_order(wanted: WantedTopic) -> list[tuple[int, ...]]:
    """Raises InvalidReplicaAssignment."""
    given: Mapping[int, GivenReplicas] = {each.partition: each for each in wanted.assignments}
    if sorted(given) != list(range(len(wanted.assignments))):
        raise InvalidReplicaAssignment(
            f"topic {wanted.name!r}: replicas are not given for partition 0 and each one after it, once"
        )
    return [given[number].brokers for number in range(len(given))]


def _partitions(new: NewTopic) -> int:
    return len(new.assignments) or new.partitions


def _created(result: TopicResult, new: NewTopic | None) -> CreatedTopic:
    if result.error is not None or new is None:
        return CreatedTopic(result.topic, error=code_of(result.error), message=message_of(result.error))
    first, partitions = new.assignments[:1], _partitions(new)
    replication_factor = len(first[0]) if first else new.replication_factor
    topic_id = TopicId(result.topic_id or NO_TOPIC_ID)
    outline = TopicOutline(new.name, topic_id, partitions, replication_factor, new.config)
    configs = tuple(
        CreatedConfig(each.name, each.value, each.read_only, each.source) for each in topic_configs(outline)
    )
    return CreatedTopic(
        new.name,
        topic_id=topic_id,
        partitions=partitions,
        replication_factor=replication_factor,
        configs=configs,
    )


def _no_such_id(asked: UnwantedTopic) -> DeletedTopic:
    if asked.topic_id == NO_TOPIC_ID:
        return DeletedTopic(None, error=int(ErrorCode.INVALID_REQUEST), message="neither a name nor an id")
    code = int(ErrorCode.UNKNOWN_TOPIC_ID)
    return DeletedTopic(None, asked.topic_id, code, f"no topic has the id {asked.topic_id}")


def _refused(asked: UnwantedTopic, error: StrandlineError) -> DeletedTopic:
    """For an id its name stays hidden."""
    message = error.message if asked.name is not None else "no right to delete the topic with this id"
    return DeletedTopic(asked.name, asked.topic_id, code_of(error), message)


def _asked_twice(asked: UnwantedTopic) -> DeletedTopic:
    error = _named_twice(asked.topic_id if asked.name is None else asked.name)
    return DeletedTopic(asked.name, asked.topic_id, code_of(error), error.message)


def _deleted(result: TopicResult, asked: UnwantedTopic) -> DeletedTopic:
    topic_id = result.topic_id or asked.topic_id
    return DeletedTopic(result.topic, topic_id, code_of(result.error), message_of(result.error))


def _grown(result: TopicResult, total: int) -> GrownTopic:
    """As from Kafka, without a text about a topic that is not there. There, too many partitions offend a
    policy."""
    error, code = result.error, code_of(result.error)
    if total > PARTITIONS_PER_TOPIC_MAX and isinstance(error, InvalidPartitions):
        code = int(KafkaCode.POLICY_VIOLATION)
    unknown = isinstance(error, UnknownTopicOrPartition)
    return GrownTopic(result.topic, code, None if unknown else message_of(error))


def _alteration(topic: TopicGrowth, outline: TopicOutline | None, validate_only: bool) -> AlterTopic:
    """Raises UnknownTopicOrPartition, InvalidPartitions."""
    if outline is None:
        raise UnknownTopicOrPartition(f"topic {topic.name!r} does not exist")
    if topic.total == outline.partitions:
        raise InvalidPartitions(f"topic {topic.name!r} has {topic.total} partitions already")
    if topic.total < 1:
        raise InvalidPartitions(f"topic {topic.name!r}: {topic.total} partitions")
    return AlterTopic(
        topic.name, partitions=topic.total, assignments=topic.assignments or (), validate_only=validate_only
    )
