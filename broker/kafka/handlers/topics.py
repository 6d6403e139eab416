"""Answers CreateTopics."""

from __future__ import annotations

from collections.abc import Mapping

from strandline.broker.kafka.call import Call
from strandline.broker.kafka.configs.given import topic_config
from strandline.broker.kafka.errors import code_of
from strandline.broker.kafka.handlers.controller import ControllerRequests, Deadline
from strandline.broker.kafka.handlers.new_topics import Leaders, TopicDefaults
from strandline.broker.kafka.wire.admin.topic_changes import (
    DEFAULT,
    CreatedTopic,
    CreateTopicsAnswer,
    CreateTopicsRequest,
    GivenReplicas,
    WantedTopic,
)
from strandline.broker.kafka.wire.metadata import NO_TOPIC_ID
from strandline.errors import InvalidReplicaAssignment, InvalidRequest, RequestTimedOut, StrandlineError
from strandline.ports import Clock
from strandline.tasks import Slices
from strandline.vocabulary.admin import NewTopic, TopicResult


class TopicsApi:
    """These APIs, for all connections of one broker."""

    def __init__(
        self, controller: ControllerRequests, leaders: Leaders, defaults: TopicDefaults, clock: Clock
    ) -> None:
        self._controller = controller
        self._leaders = leaders
        self._defaults = defaults
        self._clock = clock

    # --- CreateTopics ------------------------------------------------------------------------

    async def create(self, request: CreateTopicsRequest, call: Call) -> CreateTopicsAnswer:
        """Answers when the new topics are led, or at the client's timeout."""
        deadline = Deadline(self._clock, request.timeout_ms)
        slices, wanted = Slices(self._clock), list[NewTopic | TopicResult]()
        for topic in request.topics:
            if slices.used_up:
                await slices.next()
            try:
                wanted.append(self._new_topic(topic))
            except StrandlineError as error:
                wanted.append(TopicResult(topic.name, error))
        new = [each for each in wanted if isinstance(each, NewTopic)]
        asked = iter(await self._controller.create(new, deadline, validate_only=request.validate_only))
        results = [next(asked) if isinstance(each, NewTopic) else each for each in wanted]
        created = {each.topic: each.topic_id for each in results if each.error is None}
        unled = set() if request.validate_only else await self._leaders.wait(created, deadline)
        return CreateTopicsAnswer(tuple(_created(each, each.topic in unled) for each in results))

    def _new_topic(self, wanted: WantedTopic) -> NewTopic:
        """Raises InvalidConfig, InvalidReplicaAssignment, InvalidRequest."""
        config = topic_config(wanted.configs)
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


def _in_order(wanted: WantedTopic) -> list[tuple[int, ...]]:
    """Raises InvalidReplicaAssignment."""
    given: Mapping[int, GivenReplicas] = {each.partition: each for each in wanted.assignments}
    if sorted(given) != list(range(len(wanted.assignments))):
        raise InvalidReplicaAssignment(
            f"topic {wanted.name!r}: replicas are not given for partition 0 and each one after it, once"
        )
    return [given[number].brokers for number in range(len(given))]


def _created(result: TopicResult, is_unled: bool) -> CreatedTopic:
    error = result.error
    if is_unled:
        error = RequestTimedOut(
            f"topic {result.topic!r} is created, and has no leader for each partition yet"
        )
    if error is not None:
        return CreatedTopic(result.topic, code_of(error), error.message)
    return CreatedTopic(result.topic, topic_id=result.topic_id or NO_TOPIC_ID)
