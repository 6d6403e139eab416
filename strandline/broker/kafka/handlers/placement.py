"""Passes ElectLeaders, AlterPartitionReassignments, ListPartitionReassignments and UnregisterBroker on to the
active controller."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from strandline.adapters.codecs.admin import (
    ELECT_PREFERRED,
    ELECT_UNCLEAN,
    FORGET_BROKER,
    LIST_REASSIGNMENTS,
    REASSIGN,
)
from strandline.broker.kafka.call import Call
from strandline.broker.kafka.errors import KafkaCode, code_of, message_of
from strandline.broker.kafka.handlers.controller import ControllerFor, Deadline
from strandline.broker.kafka.wire.admin.cluster import UnregisterBrokerAnswer, UnregisterBrokerRequest
from strandline.broker.kafka.wire.admin.placement import (
    PREFERRED,
    UNCLEAN,
    ElectLeadersRequest,
    ListReassignmentsAnswer,
    ListReassignmentsRequest,
    MovingPartition,
    PartitionOutcome,
    PlacementAnswer,
    ReassignRequest,
)
from strandline.broker.kafka.wire.topics import Topics, answering, by_topic, each_partition, names_of
from strandline.errors import (
    InvalidReplicaAssignment,
    InvalidRequest,
    NoReassignmentInProgress,
    StrandlineError,
)
from strandline.ids import TopicPartition
from strandline.ports import Clock
from strandline.security.access import Access
from strandline.security.rights import ALTER_CLUSTER, DESCRIBE_CLUSTER
from strandline.vocabulary.admin import (
    ElectUnclean,
    ForgetBroker,
    OngoingReassignment,
    PartitionReassignment,
    PartitionResult,
    Reassign,
    UncleanElection,
)

Results = Sequence[PartitionResult] | Sequence[UncleanElection]


class PlacementApi:
    """These APIs, for all connections of one broker."""

    def __init__(self, controller: ControllerFor, access: Access, clock: Clock) -> None:
        self._access = access
        self._controller = controller
        self._clock = clock

    async def elect(self, request: ElectLeadersRequest, call: Call) -> PlacementAnswer:
        """Answered once the leaders lead, or the controller has waited long enough. Without names, only
        partitions that another broker leads are in the answer; for unclean elections, those without a
        leader."""
        names = None
        if request.topics is not None:
            names = list(names_of(request.topics))
        if (refusal := self._access.refusal(call.caller, ALTER_CLUSTER)) is not None:
            return _refused(names or [], refusal)
        if names is not None and not names:
            # To the controller, no names are all.
            return PlacementAnswer(answering(request.topics or (), ()))
        try:
            deadline = Deadline(self._clock, request.timeout_ms)
            results = await self._elected(list(dict.fromkeys(names or ())), request.kind, call, deadline)
        except StrandlineError as error:
            return _refused(names or [], error)
        if request.topics is None:
            return PlacementAnswer(_outcomes(results))
        found = {each.name: _outcome(each) for each in results}
        return PlacementAnswer(answering(request.topics, (found[name] for name in names or ())))

    async def _elected(
        self, names: list[TopicPartition], kind: int, call: Call, deadline: Deadline
    ) -> Results:
        controller = self._controller(call.caller)
        if kind == PREFERRED:
            return await controller.ask(ELECT_PREFERRED, names, deadline)
        if kind == UNCLEAN:
            return await controller.ask(ELECT_UNCLEAN, ElectUnclean(names), deadline)
        raise InvalidRequest(f"election type {kind} is not known: 0 is preferred, 1 is unclean")

    async def reassign(self, request: ReassignRequest, call: Call) -> PlacementAnswer:
        """Answered once the moves have begun, or are taken back."""
        return (await self._reassigned(request, call))._replace(may_resize=request.may_resize)

    async def _reassigned(self, request: ReassignRequest, call: Call) -> PlacementAnswer:
        wanted = [
            (TopicPartition(topic, asked.partition), asked.replicas)
            for topic, asked in each_partition(request.topics)
        ]
        if (refusal := self._access.refusal(call.caller, ALTER_CLUSTER)) is not None:
            return _refused([name for name, _ in wanted], refusal)
        results: dict[TopicPartition, PartitionResult] = {}
        moves: list[PartitionReassignment] = []
        times = Counter(name for name, _ in wanted)
        for name, replicas in wanted:
            if times[name] > 1:
                twice = InvalidRequest(f"partition {name} stands more than once in the request")
                results[name] = PartitionResult(name, twice)
            elif replicas == ():  # to the controller, no replicas are a cancellation
                none = InvalidReplicaAssignment(f"{name}: the list of replicas is empty; null takes back")
                results[name] = PartitionResult(name, none)
            else:
                moves.append(PartitionReassignment(name, replicas or (), keep_size=not request.may_resize))
        deadline = Deadline(self._clock, request.timeout_ms)
        try:
            controller = self._controller(call.caller)
            found = await controller.ask(REASSIGN, Reassign(moves), deadline) if moves else ()
        except StrandlineError as error:
            return _refused([name for name, _ in wanted], error)
        results |= {result.name: result for result in found}
        each = (_outcome(results[name]) for name, _ in wanted)
        return PlacementAnswer(answering(request.topics, each), message=None if request.topics else "")

    async def reassignments(self, request: ListReassignmentsRequest, call: Call) -> ListReassignmentsAnswer:
        """Those in progress, of the named partitions or of all."""
        deadline = Deadline(self._clock, request.timeout_ms)
        try:
            self._access.check(call.caller, DESCRIBE_CLUSTER)
            ongoing = await self._controller(call.caller).ask(LIST_REASSIGNMENTS, None, deadline)
        except StrandlineError as error:
            return ListReassignmentsAnswer((), code_of(error), error.message)
        if request.topics is not None:
            named = set(names_of(request.topics))
            ongoing = [each for each in ongoing if each.name in named]
        return ListReassignmentsAnswer(by_topic((each.name.topic, _moving(each)) for each in ongoing))

    async def unregister(self, request: UnregisterBrokerRequest, call: Call) -> UnregisterBrokerAnswer:
        """Forgets a broker that is down and has no replicas. With Kafka one that is alive goes too."""
        try:
            self._access.check(call.caller, ALTER_CLUSTER)
            broker = ForgetBroker(request.broker)
            found = await self._controller(call.caller).ask(FORGET_BROKER, broker, Deadline(self._clock))
        except StrandlineError as error:
            return UnregisterBrokerAnswer(code_of(error), error.message)
        if found.was_known:
            return UnregisterBrokerAnswer()
        unknown = f"broker {request.broker} is not known"
        return UnregisterBrokerAnswer(int(KafkaCode.BROKER_ID_NOT_REGISTERED), unknown)


def _refused(names: Sequence[TopicPartition], error: StrandlineError) -> PlacementAnswer:
    """Says it for each partition too: version 0 of ElectLeaders has no other place."""
    outcomes = _outcomes([PartitionResult(name, error) for name in names])
    return PlacementAnswer(outcomes, code_of(error), error.message)


def _outcomes(results: Results) -> Topics[PartitionOutcome]:
    return by_topic((result.name.topic, _outcome(result)) for result in results)


def _outcome(result: PartitionResult | UncleanElection) -> PartitionOutcome:
    """As from Kafka, without a text about nothing to cancel."""
    message = None if isinstance(result.error, NoReassignmentInProgress) else message_of(result.error)
    return PartitionOutcome(result.name.partition, code_of(result.error), message)


def _moving(move: OngoingReassignment) -> MovingPartition:
    """A cancelled one goes back: it adds none, and removes what it had added."""
    added = tuple(broker for broker in move.replicas if broker not in move.original)
    removed = tuple(broker for broker in move.original if broker not in move.replicas)
    adding, removing = ((), added) if move.reverting else (added, removed)
    return MovingPartition(move.name.partition, move.original + added, adding, removing)
