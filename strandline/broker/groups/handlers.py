"""A broker's operations for groups, in the values of `vocabulary/groups.py`: no gRPC here, so that another
listener can call them.

A request goes to the partition of `__consumer_offsets` that its group belongs to. If another broker
leads that, the answer is NotCoordinator, and names it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Final, Protocol
from uuid import UUID

from strandline.adapters.patterns import matching, pattern_of
from strandline.broker.coordinators.finding import CoordinatorFinder
from strandline.broker.core.consumer_groups.topics import Topic
from strandline.broker.core.groups.limits import check_group
from strandline.broker.core.groups.requests import (
    Commit,
    ConsumerBeats,
    DeleteGroup,
    DeleteOffsets,
    DescribeConsumers,
    DescribeGroup,
    Join,
    ListGroups,
    NoteTopics,
    Report,
    UnknownTopics,
    as_request,
)
from strandline.broker.core.groups.state.present_topics import PresentTopics
from strandline.broker.groups.coordinators import Coordinators, subscribed_now
from strandline.broker.groups.describing import as_group
from strandline.broker.groups.partition import GROUPS, GroupPartition
from strandline.broker.metadata.cluster_view import ClusterView
from strandline.broker.metadata.internal_topics import InternalTopics, offsets_topic
from strandline.broker.replicas.manager import ReplicaManager
from strandline.config.limits import GROUP_ID_LENGTH_MAX
from strandline.config.services.broker import BrokerSettings
from strandline.errors import (
    CoordinatorLoading,
    CoordinatorNotAvailable,
    GroupIdNotFound,
    StrandlineError,
)
from strandline.ids import NO_TOPIC_ID, OFFSETS_TOPIC, TopicId, TopicPartition
from strandline.ports import Caller
from strandline.security.access import Access
from strandline.security.principal import Principal
from strandline.security.rights import (
    DELETE_GROUP,
    DESCRIBE_CLUSTER,
    DESCRIBE_GROUP,
    DESCRIBE_TOPIC,
    READ_GROUP,
    READ_TOPIC,
    WRITE_TRANSACTIONAL_ID,
    Right,
)
from strandline.serving.unfinished import unfinished_noted
from strandline.tasks import Slices
from strandline.vocabulary.asks import Answered, Asks
from strandline.vocabulary.groups import (
    ConsumerBeat,
    ConsumerHeartbeat,
    DescribedConsumerGroup,
    DescribedGroup,
    FetchedOffsets,
    Heartbeat,
    JoinAnswer,
    JoinGroup,
    LeaveGroup,
    LeftMember,
    ListedGroup,
    OffsetCommit,
    OffsetFetch,
    OffsetResults,
    OwnershipKind,
    ReportOwnership,
    ReportTasks,
    SyncGroup,
)
from strandline.vocabulary.log import ProducerIdentity, Transactional
from strandline.vocabulary.log_position import is_foreign
from strandline.vocabulary.metadata import Endpoint
from strandline.vocabulary.parsing.typed_json import INT32_MAX
from strandline.vocabulary.transactions import PartitionResults, TxnOffsetCommit

_UUID_LENGTH: Final = 36


class TransactionAdmission(Protocol):
    """Asks the coordinators of transactions."""

    async def admit(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        partitions: Collection[TopicPartition],
        *,
        add: bool,
    ) -> PartitionResults:
        """For each partition None if the producer may append to it in its open transaction, or why not.
        `add`: adds those that are not in it."""


class GroupHandlers:
    """Every method raises NotCoordinator, CoordinatorLoading, CoordinatorNotAvailable and InvalidGroupId,
    and the coordinator's refusals."""

    def __init__(
        self,
        manager: ReplicaManager,
        view: ClusterView,
        coordinators: Coordinators,
        topics: InternalTopics,
        settings: BrokerSettings,
        access: Access,
        admission: TransactionAdmission,
    ) -> None:
        self._access = access
        self._admission = admission
        self._manager = manager
        self._view = view
        self._coordinators = coordinators
        self._finder = CoordinatorFinder(GROUPS, manager, view, coordinators, topics, offsets_topic(settings))
        self._partitions_max = settings.offsets_per_commit_max

    # --- finding the coordinator -------------------------------------------------------------

    async def find_coordinator(self, group: str, caller: Caller) -> Endpoint:
        """The broker that leads the group's partition; the first call creates the topic."""
        (found,) = await self.find_coordinators([group], caller)
        if isinstance(found, StrandlineError):
            raise found
        return found

    async def find_coordinators(
        self, groups: Iterable[str], caller: Caller
    ) -> list[Endpoint | StrandlineError]:
        """For each group, the broker that leads its partition, or why there is none."""

        def check(group: str) -> None:
            if group:
                check_group(group)  # as in Kafka, one without a name is refused by its coordinator
            self._access.check(caller, DESCRIBE_GROUP, group)

        return await self._finder.find_all(groups, check)

    async def place(self, group: str) -> TopicPartition:
        """The partition that has the group's offsets: a transaction with some of these has it among its
        partitions. Raises CoordinatorNotAvailable."""
        return await self._finder.place(group)

    async def _ask(self, asked: Asks[Answered], by: Principal | None = None) -> Answered:
        """`by`: the caller, to whom the members in the request have to belong."""
        group = as_request(asked).group
        check_group(group)
        partition = await self._finder.here(group)
        return await partition.ask(asked, by)

    def _as_member(self, caller: Caller, group: str) -> Principal | None:
        """The caller as the owner of members. Raises GroupAuthorizationFailed."""
        self._access.check(caller, READ_GROUP, group)
        return self._access.owner(caller)

    # --- membership --------------------------------------------------------------------------

    async def join(self, request: JoinGroup, caller: Caller) -> JoinAnswer:
        """Held until the group's next generation begins."""
        name = request.instance or request.client_id or "member"
        unique = UUID(hex=self._manager.host.new_id())
        new_member = f"{name[: GROUP_ID_LENGTH_MAX - _UUID_LENGTH - 1]}-{unique}"
        by = self._as_member(caller, request.group)
        check_group(request.group)
        partition = await self._finder.here(request.group)
        topics = await self._subscribed(partition.needed_for(request))
        return await partition.ask(Join(request, new_member, caller.host, topics), by)

    async def sync(self, request: SyncGroup, caller: Caller) -> bytes:
        """Held until the leader's assignment is written."""
        by = self._as_member(caller, request.group)
        if request.assignments:
            await self._note_topics(request.group)
        return await self._ask(request, by)

    async def _note_topics(self, group: str) -> None:
        """Before the members get an assignment, note the topics that they ask for from now on. What ZooKeeper
        does not show now is noted with a later assignment."""
        unknown = await self._ask(UnknownTopics(group))
        if unknown is None:
            return
        # No partition has that number, so each topic is read again; the last one is for the latest epoch.
        look = [TopicPartition(topic, INT32_MAX) for topic in unknown]
        now = await self._view.topics_now([*look, TopicPartition(OFFSETS_TOPIC, 0)])
        counts = {topic: now.found[topic].partitions for topic in unknown & now.found.keys()}
        absent = {topic: 0 for topic in unknown if now.has_no(topic)}
        present = PresentTopics(now.ids, now.above_epochs, now.latest_epoch, counts | absent)
        await self._ask(NoteTopics(group, present))

    async def heartbeat(self, request: Heartbeat, caller: Caller) -> None:
        """Held until a rebalance begins, or for as long as the request says."""
        await self._ask(request, self._as_member(caller, request.group))

    async def consumer_heartbeat(self, request: ConsumerHeartbeat, caller: Caller) -> ConsumerBeat:
        """A heartbeat of a member whose coordinator assigns. Raises TopicAuthorizationFailed if it subscribes
        to a topic that it may not see."""
        by = self._as_member(caller, request.group)
        topics = request.topics or ()
        for refusal in self.refusals(caller, DESCRIBE_TOPIC, _partitions(topics)).values():
            raise refusal
        check_group(request.group)
        partition = await self._finder.here(request.group)
        chosen = await self._chosen(partition, request, caller)
        by_pattern = chain.from_iterable(chosen.values())
        seen = await self._subscribed(dict.fromkeys([*topics, *by_pattern, *partition.unseen(request.group)]))
        return await partition.ask(ConsumerBeats(request, caller.host, seen, chosen), by)

    async def _chosen(
        self, partition: GroupPartition, request: ConsumerHeartbeat, caller: Caller
    ) -> dict[str, tuple[str, ...]]:
        """The topics that the member's pattern chooses, of those that the caller may see; nothing if it was
        evaluated with the present topics already. Raises InvalidRegularExpression,
        CoordinatorNotAvailable."""
        known = partition.pattern_of(request.group, request.member)
        pattern = known if request.pattern is None else request.pattern
        if not pattern or request.epoch < 0:
            return {}
        pattern_of(pattern)  # refused before anything is read for it
        before = partition.evaluated(request.group, pattern)
        if pattern != known or before is None:
            self._coordinators.take_names(await self._view.all_topics())
        names = self._coordinators.topic_names
        if pattern == known and before is names:
            return {}
        found = await self._manager.host.threads.run(matching, pattern, names)
        visible, slices = list[str](), Slices(self._manager.clock)
        for name in found:
            if slices.used_up:
                await slices.next()
            if self._access.allowed(caller, DESCRIBE_TOPIC, name):
                visible.append(name)
        partition.note_evaluated(request.group, pattern, names)
        return {pattern: tuple(visible)}

    async def _subscribed(self, topics: Collection[str]) -> dict[str, Topic | None]:
        """Raises CoordinatorNotAvailable while ZooKeeper does not show one of them."""
        if not topics:
            return {}
        now = await self._view.topics_now(_partitions(topics))
        seen = subscribed_now(topics, now)
        unseen = next((topic for topic in topics if topic not in seen), None)
        if unseen is not None:
            raise CoordinatorNotAvailable(f"topic {unseen} cannot be read from ZooKeeper now; ask again soon")
        return seen

    def new_member_id(self) -> str:
        """For clients that make none."""
        return str(UUID(hex=self._manager.host.new_id()))

    async def leave(self, request: LeaveGroup, caller: Caller) -> Sequence[LeftMember]:
        """Members leave by their own caller, or by one that may delete the whole group."""
        if self._access.allowed(caller, DELETE_GROUP, request.group):
            return await self._ask(request)
        return await self._ask(request, self._as_member(caller, request.group))

    # --- offsets -----------------------------------------------------------------------------

    async def commit(
        self,
        request: OffsetCommit,
        caller: Caller,
        *,
        any_offset: bool = False,
        knows_epochs: bool = True,
    ) -> OffsetResults:
        """Answered once the offsets are committed to the log (G12). Those of partitions that do not exist are
        refused one by one, as Kafka does. The last two: see `Commit`."""
        by = self._as_member(caller, request.group)
        request, refused = self._readable(request, caller)
        if refused and not request.offsets:
            return refused
        missing, present = await self._present(request.offsets)
        commit = Commit(request, missing, present, any_offset, knows_epochs)
        answer = await self._ask(commit, by)
        return {**answer, **refused}

    async def commit_in_transaction(self, request: TxnOffsetCommit, caller: Caller) -> OffsetResults:
        """As `commit`, for when the transaction is committed; the coordinator of that is asked first. Members
        are not compared with the caller: a producer may have another principal than its consumer.

        The guard is read before the question: an answer from before the transaction's end is not taken for
        one to the next transaction of the producer (KIP-890). Raises TransactionalIdAuthorizationFailed, and
        the refusals of the transaction's coordinator.
        """
        asked, producer = request.commit, request.producer
        self._access.check(caller, WRITE_TRANSACTIONAL_ID, request.transactional_id)
        self._access.check(caller, READ_GROUP, asked.group)
        asked, refused = self._readable(asked, caller)
        if not asked.offsets:
            return refused
        check_group(asked.group)
        partition = await self._finder.here(asked.group)
        partition.check()
        guard = None if request.add else partition.guard(producer.producer_id)
        transaction = Transactional(producer, guard)
        await self._admit(request, TopicPartition(OFFSETS_TOPIC, partition.number))
        commit = Commit(asked, *await self._present(asked.offsets), transaction=transaction)
        answer = await partition.ask(commit)
        return {**answer, **refused}

    async def _admit(self, request: TxnOffsetCommit, place: TopicPartition) -> None:
        """Raises the refusal of the transaction's coordinator. One that another try may change becomes
        CoordinatorLoading: clients ask this broker again, and do not look for the group's coordinator."""
        answers = await self._admission.admit(
            request.transactional_id, request.producer, [place], add=request.add
        )
        error = answers[place]
        if error is not None:
            raise CoordinatorLoading(error.message) if error.retriable else error

    def _readable(
        self, request: OffsetCommit, caller: Caller
    ) -> tuple[OffsetCommit, dict[TopicPartition, StrandlineError]]:
        """The offsets of topics that the caller may read, and the refusals of the others."""
        refused = self.refusals(caller, READ_TOPIC, request.offsets)
        if refused:
            offsets = {name: each for name, each in request.offsets.items() if name not in refused}
            request = replace(request, offsets=offsets)
        return request, refused

    async def fetch_offsets(self, request: OffsetFetch, caller: Caller) -> FetchedOffsets:
        """Raises TopicAuthorizationFailed for a partition that is named and may not be seen. Without names,
        only what may be seen is in the answer."""
        self._access.check(caller, DESCRIBE_GROUP, request.group)
        for refusal in self.refusals(caller, DESCRIBE_TOPIC, request.partitions or ()).values():
            raise refusal
        answer = await self._of_present_topics(await self._ask(request))
        if request.partitions is not None:
            return answer
        refused = self.refusals(caller, DESCRIBE_TOPIC, answer)
        return FetchedOffsets(
            {k: each for k, each in answer.items() if each is not None and k not in refused},
            unstable=answer.unstable - self.refusals(caller, DESCRIBE_TOPIC, answer.unstable).keys(),
        )

    async def _present(self, names: Collection[TopicPartition]) -> tuple[Set[TopicPartition], PresentTopics]:
        """The partitions that do not exist, and the topics as they are; nothing is known of too many: the
        coordinator refuses those anyway.

        The look begins after the commit arrived. A client that has read what was made anew since cannot have
        sent it, so what is written later has the id that the client means.
        """
        if len(names) > self._partitions_max:
            return frozenset(), PresentTopics()
        now = await self._view.topics_now(names)
        return now.missing(names), PresentTopics(now.ids, now.above_epochs, now.latest_epoch)

    async def _of_present_topics(self, found: FetchedOffsets) -> FetchedOffsets:
        """A commit of a topic that was deleted counts as absent, though another topic has its name now. The
        look begins after the commits were read, so the id that it finds is not older than they."""
        known = [name for name, each in found.items() if each is not None and each.topic_id]
        if not known:
            return found
        now = await self._view.topics_now(known)
        present = {
            name: None if each is not None and is_foreign(each.topic_id, now.id_of(name.topic)) else each
            for name, each in found.items()
        }
        return FetchedOffsets(present, found.read_since, found.unstable)

    async def names_of(
        self, ids: Collection[TopicId], right: Right, group: str, caller: Caller
    ) -> Mapping[TopicId, str | None]:
        """The names of the topics with these ids; None: no topic has it. Nothing of an id whose name is not
        known while ZooKeeper does not answer. Raises GroupAuthorizationFailed without this right to the
        group: reading is for callers that have it."""
        self._access.check(caller, right, group)
        return await self._view.names.of(ids)

    async def ids_of(self, topics: Collection[str]) -> Mapping[str, TopicId]:
        """The ids of those of these topics that exist. Raises CoordinatorNotAvailable while ZooKeeper does
        not show them."""
        now = await self._view.topics_now(_partitions(topics))
        if any(now.id_of(topic) == NO_TOPIC_ID for topic in topics):
            raise CoordinatorNotAvailable("topics cannot be read from ZooKeeper now; ask again soon")
        return now.ids

    def refusals(
        self, caller: Caller, right: Right, names: Collection[TopicPartition]
    ) -> dict[TopicPartition, StrandlineError]:
        """The refusals of those partitions to whose topic the caller does not have the right."""
        return self._access.split(caller, right, list(names), lambda name: name.topic).refusals

    async def _missing(self, names: Collection[TopicPartition]) -> Set[TopicPartition]:
        """The partitions that do not exist; none if there are too many: the coordinator refuses those
        anyway."""
        if len(names) > self._partitions_max:
            return frozenset()
        return await self._view.missing(names)

    # --- ownership and administration --------------------------------------------------------

    async def report(self, request: ReportOwnership, caller: Caller) -> None:
        by = self._as_member(caller, request.group)
        taken = [
            name
            for change in request.changes
            if change.kind is OwnershipKind.ASSIGNED
            for name in change.partitions
        ]
        missing = await self._missing(taken)
        await self._ask(Report(request, missing), by)

    async def report_tasks(self, request: ReportTasks, caller: Caller) -> None:
        await self._ask(request, self._as_member(caller, request.group))

    async def list_groups(self, request: None, caller: Caller) -> Sequence[ListedGroup]:
        """The groups whose coordinator is this broker and which the caller may see; all of them, or
        CoordinatorLoading."""
        partitions = list(self._coordinators)
        for partition in partitions:
            partition.check()
        groups: list[ListedGroup] = []
        for partition in partitions:
            listed = await partition.ask(ListGroups())
            groups += listed
        if self._access.allowed(caller, DESCRIBE_CLUSTER):
            return groups
        visible, slices = list[ListedGroup](), Slices(self._manager.clock)
        for each in groups:
            if slices.used_up:
                await slices.next()
            if self._access.allowed(caller, DESCRIBE_GROUP, each.group):
                visible.append(each)
        return visible

    async def describe(self, group: str, caller: Caller) -> DescribedGroup:
        """A group with a leader. Raises GroupIdNotFound for another one, as Kafka does."""
        self._access.check(caller, DESCRIBE_GROUP, group)
        return await self._ask(DescribeGroup(group))

    async def describe_any(self, group: str, caller: Caller) -> DescribedGroup:
        """A group with a leader, or one whose coordinator assigns. Raises GroupIdNotFound."""
        try:
            return await self.describe(group, caller)
        except GroupIdNotFound as unknown:
            try:
                return as_group(await self._ask(DescribeConsumers(group)))
            except GroupIdNotFound:
                raise unknown from None

    async def describe_consumers(self, group: str, caller: Caller) -> DescribedConsumerGroup:
        """A group whose coordinator assigns. Raises TopicAuthorizationFailed if it reads a topic that the
        caller may not see."""
        self._access.check(caller, DESCRIBE_GROUP, group)
        found = await self._ask(DescribeConsumers(group))
        topics = {topic for member in found.members for topic in member.topics} | set(found.names.values())
        for refusal in self.refusals(caller, DESCRIBE_TOPIC, _partitions(sorted(topics))).values():
            raise refusal
        return found

    async def delete(self, group: str, caller: Caller) -> None:
        self._access.check(caller, DELETE_GROUP, group)
        noted = partial(self._access.changed, caller, DELETE_GROUP, group)
        with unfinished_noted(noted):
            await self._ask(DeleteGroup(group))
        noted()

    async def delete_offsets(
        self, group: str, partitions: Collection[TopicPartition], caller: Caller
    ) -> OffsetResults:
        """Removes single offsets, of topics that no member reads; answered once that is committed to the
        log."""
        self._access.check(caller, DELETE_GROUP, group)
        refused = self.refusals(caller, READ_TOPIC, partitions)
        allowed = [name for name in partitions if name not in refused] if refused else partitions
        if refused and not allowed:
            return refused
        missing = await self._missing(allowed)
        names = [str(name) for name in allowed]
        noted = partial(self._access.changed, caller, DELETE_GROUP, group, offsets_of=names)
        with unfinished_noted(noted):
            answer = await self._ask(DeleteOffsets(group, allowed, missing))
        deleted = [str(name) for name, error in answer.items() if error is None]
        if deleted:
            self._access.changed(caller, DELETE_GROUP, group, offsets_of=deleted)
        return {**answer, **refused}


def _partitions(topics: Iterable[str]) -> list[TopicPartition]:
    """One of each topic."""
    return [TopicPartition(topic, 0) for topic in topics]
