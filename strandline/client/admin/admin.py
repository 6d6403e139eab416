"""The admin client for topics, groups, brokers and replicas."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from typing import Any

from strandline.adapters.codecs.admin import ALTER_TOPIC, CREATE_TOPICS, DELETE_TOPICS
from strandline.adapters.codecs.log import DESCRIBE_REPLICAS
from strandline.adapters.system_host import client_host
from strandline.client import arguments
from strandline.client.admin.acls import AclAdmin
from strandline.client.admin.balance import BalanceAdmin
from strandline.client.admin.brokers import BrokerAdmin
from strandline.client.admin.configs import GroupConfigAdmin, QuotaAdmin
from strandline.client.admin.groups import GroupAdmin, GroupDescription
from strandline.client.admin.new_topics import until_led
from strandline.client.admin.placement import LEADERS_WAIT_MS, PlacementAdmin
from strandline.client.admin.refusals import raise_first
from strandline.client.admin.state_changes import StateChangesReading
from strandline.client.admin.state_changes import query as state_changes_query
from strandline.client.admin.topics import TopicDescription, described, is_of_another_epoch
from strandline.client.admin.transactions import (
    HangingTransactions,
    TransactionAdmin,
    TransactionDescription,
)
from strandline.client.admin.users import UserAdmin
from strandline.client.client import Client
from strandline.client.cluster import TOPIC_WAIT_MS
from strandline.client.controller_link import ControllerLink
from strandline.client.leaders import Questions, ask_leaders
from strandline.client.offsets import Found, list_epoch_ends, list_offsets
from strandline.client.retry import Tries
from strandline.config.client import ClientSettings
from strandline.config.limits import PARTITIONS_DESCRIBED_MAX
from strandline.config.load import load
from strandline.errors import (
    StrandlineError,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from strandline.host import Host
from strandline.ids import NO_BROKER, NO_TOPIC_ID, TopicId, TopicPartition
from strandline.ports import Method, Request, Response
from strandline.vocabulary.admin import AlterTopic, CreateTopics, DeleteTopics, NewTopic, TopicResult
from strandline.vocabulary.groups import CommittedOffset, ListedGroup
from strandline.vocabulary.log import (
    LATEST,
    DescribedReplicas,
    ListedEpochEnd,
    MetadataAnswer,
    MetadataQuery,
    ReplicasQuery,
)
from strandline.vocabulary.log_position import LogPosition
from strandline.vocabulary.metadata import ClusterMetadata
from strandline.vocabulary.state_changes import StateChangeEvent
from strandline.vocabulary.transactions import ListedTransaction, LogTransactions

logger = logging.getLogger(__name__)


class Admin(
    AclAdmin,
    BalanceAdmin,
    BrokerAdmin,
    GroupConfigAdmin,
    PlacementAdmin,
    QuotaAdmin,
    UserAdmin,
    Client[ClientSettings],
):
    """Manages topics, groups, transactions, brokers, replicas, ACLs and users.

    `bootstrap` and `settings` (ClientSettings) as for a producer. It finds the active controller, also after
    another one has taken over.
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        *,
        host: Host | None = None,
        **settings: Any,
    ) -> None:
        given = load(ClientSettings, **settings)
        host = client_host(given, host)
        super().__init__("admin", bootstrap, given, host.transport(None), host.clock)
        self._host = host
        self._groups = GroupAdmin(self._cluster, self._settings, self._transport, self._clock)
        self._transactions = TransactionAdmin(self._cluster, self._settings, self._transport, self._clock)
        self._controller = ControllerLink(
            self._controller_known, settings=self._settings, transport=self._transport, clock=self._clock
        )

    # --- topics ------------------------------------------------------------------------------

    async def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int = 1,
        config: Mapping[str, str] | None = None,
        *,
        wait: bool = True,
    ) -> TopicId:
        """Create one topic and, unless `wait` is false, wait until each partition has a leader.

        Returns the topic's id. Raises the controller's refusal (TopicAlreadyExists,
        InvalidReplicationFactor, InvalidConfig, …), RequestTimedOut, and UnknownTopicOrPartition if it is
        deleted meanwhile.
        """
        created = await self.create_topics(
            [NewTopic(name, partitions, replication_factor, dict(config or {}))], wait=wait
        )
        return created[name]

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False, wait: bool = True
    ) -> dict[str, TopicId]:
        """Create topics. Returns their ids by name. Doubts about named replicas, such as brokers that are not
        alive, are warnings in the log.

        Raises the first refusal, with the others as notes, once the other topics exist.
        """
        results = await self._ask_controller(CREATE_TOPICS, CreateTopics(topics, validate_only))
        for result in results:
            for warning in result.warnings:
                logger.warning("%s", warning)
        created = {result.topic: TopicId(result.topic_id) for result in results if result.error is None}
        if wait and created and not validate_only:
            await self._wait_until_led(created)
        raise_first((each.topic, each.error) for each in results)
        return created

    async def delete_topics(self, topics: Sequence[str] | Mapping[str, TopicId]) -> None:
        """Delete topics with their records; with ids, only those that still have them: a topic that was
        created anew under the name stays. Raises the first refusal, with the others as notes."""
        ids = [topics[name] for name in topics] if isinstance(topics, Mapping) else []
        results = await self._ask_controller(DELETE_TOPICS, DeleteTopics(list(topics), ids))
        raise_first((each.topic, each.error) for each in results)

    async def alter_topic(
        self,
        topic: str,
        *,
        set: Mapping[str, str] | None = None,
        unset: Sequence[str] = (),
        partitions: int | None = None,
        assignments: Sequence[Sequence[int]] = (),
        validate_only: bool = False,
        topic_id: TopicId = NO_TOPIC_ID,
    ) -> None:
        """Change a topic's config, with Kafka's names, or raise its number of partitions.

        `assignments` names the replicas of each new partition, in order. Groups, and producers that choose no
        partition, use new partitions as soon as they notice them; the records of a key may go to another
        partition from then on. The change is written on return; each broker reads it a moment later, and
        until then describes the topic as it was. With `validate_only` nothing changes: it only raises. With a
        `topic_id` a topic with another id stays as it is: it was made anew.

        Raises UnknownTopicOrPartition, InvalidConfig, InvalidPartitions, InvalidReplicaAssignment, ….
        """
        size = 0
        if partitions is not None:
            size = arguments.whole("partitions", partitions, 1, arguments.INT32_MAX)
        wanted = AlterTopic(
            topic,
            dict(set or {}),
            tuple(unset),
            size,
            tuple(map(tuple, assignments)),
            bool(validate_only),
            topic_id,
        )
        await self._ask_controller(ALTER_TOPIC, wanted)

    async def list_topics(self) -> list[str]:
        """The names of all topics, in order."""
        return sorted(topic.name for topic in (await self.metadata()).topics)

    async def describe_topics(
        self, topics: Sequence[str] | None = None, *, replicas: bool = False
    ) -> list[TopicDescription]:
        """These topics, or all, with the leaders' high watermarks and log ends; with `replicas` also how far
        each replica is.

        Raises UnknownTopicOrPartition.
        """
        tries = Tries(self._settings, self._clock, TOPIC_WAIT_MS / 1000)
        while True:
            metadata = await self.metadata(topics)
            led = {
                TopicPartition(topic.name, p.partition): p
                for topic in metadata.topics
                for p in topic.partitions
                if p.leader != NO_BROKER
            }
            answers = await self._ask_leaders(led, replicas=replicas)
            # Leaders change, and topics are made anew, between the two: then both are asked again.
            if tries.over or not any(is_of_another_epoch(answers[name], p) for name, p in led.items()):
                break
            await tries.pause()
        alive = {broker.id for broker in metadata.brokers}
        return [described(topic, alive, answers) for topic in metadata.topics]

    async def _ask_leaders(
        self, names: Iterable[TopicPartition], *, replicas: bool
    ) -> Mapping[TopicPartition, object]:
        """How far these partitions are, or the last error, within a moment."""
        if replicas:
            return await self._describe_replicas(names, LEADERS_WAIT_MS / 1_000)
        wanted = dict.fromkeys(names, LATEST)
        return await list_offsets(
            self._cluster, wanted, self._settings, self._clock, timeout_s=LEADERS_WAIT_MS / 1_000
        )

    async def describe_replicas(
        self, partitions: Iterable[TopicPartition], *, wait_ms: int | None = None
    ) -> dict[TopicPartition, DescribedReplicas | StrandlineError]:
        """How far the replicas of these partitions are: offsets, bytes and time up to the leader's log end.

        As each partition's leader knows it, or the last error within `wait_ms`; None: the request timeout.
        """
        self._scope.check()
        return await self._describe_replicas(arguments.partitions(partitions), self._wait_s(wait_ms))

    def _wait_s(self, wait_ms: int | None) -> float:
        if wait_ms is None:
            return self._cluster.request_timeout_s
        return arguments.whole("wait_ms", wait_ms, 0, arguments.INT32_MAX) / 1000

    async def _describe_replicas(
        self, names: Iterable[TopicPartition], timeout_s: float
    ) -> dict[TopicPartition, DescribedReplicas | StrandlineError]:
        queries = {name: ReplicasQuery(name) for name in names}
        questions = Questions(DESCRIBE_REPLICAS, queries, PARTITIONS_DESCRIBED_MAX)
        return await ask_leaders(self._cluster, questions, self._settings, self._clock, timeout_s=timeout_s)

    async def metadata(self, topics: Sequence[str] | None = None) -> ClusterMetadata:
        """The brokers, the controller and these topics (None: all), as one broker knows them. While brokers
        cannot read them from ZooKeeper they are asked again, for `request_timeout_ms`.

        Raises UnknownTopicOrPartition, BrokerNotAvailable.
        """
        self._scope.check()
        tries = Tries(self._settings, self._clock, TOPIC_WAIT_MS / 1000)
        while True:
            answer = await self._cluster.told(lambda: self._ask(MetadataQuery(tuple(topics or ()))))
            if not answer.errors:
                return answer.cluster
            error = next(iter(answer.errors.values()))
            # The broker has synced with ZooKeeper: it is certain that the topic does not exist.
            if isinstance(error, UnknownTopicOrPartition) or not error.retriable or tries.over:
                raise error
            await tries.pause()

    def state_changes(
        self,
        brokers: Iterable[int] = (),
        topic: str | None = None,
        partition: int | None = None,
        *,
        follow: bool = False,
        since_ms: int = 0,
    ) -> AsyncGenerator[StateChangeEvent, None]:
        """The state changes of replicas and partitions: of these brokers, or all; of one topic or partition.

        Yields each step once, in recorded order. Without `follow` it ends with the last present step;
        `since_ms` (milliseconds since 1970) leaves out earlier steps. A caller that stops early has to close
        the generator (`contextlib.aclosing`). Raises InvalidRequest, NotController, ThrottlingQuotaExceeded.
        """
        self._scope.check()
        asked = state_changes_query(brokers, topic, partition, follow=follow, since_ms=since_ms)
        return StateChangesReading(
            asked, self._controller.reach, self._settings, self._transport, self._clock
        ).events()

    # --- groups ------------------------------------------------------------------------------

    async def list_groups(self) -> list[ListedGroup]:
        """The groups of all live brokers, by name. Raises BrokerNotAvailable if one does not answer."""
        self._scope.check()
        return await self._groups.list_all()

    async def describe_group(self, group: str) -> GroupDescription:
        """A group's state, members, last rebalance and coordinator. Raises GroupIdNotFound."""
        self._scope.check()
        return await self._groups.describe(arguments.text("group", group))

    async def delete_group(self, group: str) -> None:
        """Delete a group and its offsets. Raises GroupIdNotFound, NonEmptyGroup."""
        self._scope.check()
        await self._groups.delete(arguments.text("group", group))

    async def group_offsets(self, group: str) -> dict[TopicPartition, CommittedOffset]:
        """The committed offsets of a group, by partition; empty for an unknown group."""
        self._scope.check()
        return await self._groups.offsets(arguments.text("group", group))

    async def alter_group_offsets(
        self, group: str, offsets: Mapping[TopicPartition, int | LogPosition]
    ) -> None:
        """Set the committed offsets of a group without members, which is created if it is unknown.

        A plain offset is one of the topic as it is now; a position is refused if its topic was made anew.
        Raises NonEmptyGroup, which names the members, UnknownTopicOrPartition, UnknownTopicId,
        InvalidRequest.
        """
        self._scope.check()
        await self._groups.alter_offsets(arguments.text("group", group), arguments.offsets(offsets))

    # --- transactions ------------------------------------------------------------------------

    async def list_transactions(self) -> list[ListedTransaction]:
        """The transactional ids of all coordinators that the caller may see, by name. Raises
        CoordinatorNotAvailable, CoordinatorLoading or BrokerNotAvailable if one is missing."""
        self._scope.check()
        return await self._transactions.list_all()

    async def describe_transaction(self, transactional_id: str) -> TransactionDescription:
        """A transactional id's state, producer, partitions and coordinator. Raises
        TransactionalIdNotFound."""
        self._scope.check()
        return await self._transactions.describe(arguments.text("transactional_id", transactional_id))

    async def abort_transaction(self, transactional_id: str) -> None:
        """Abort the open transaction of an id, and fence its producer, which has to initialize again. Raises
        TransactionalIdNotFound, InvalidTransactionState if none is open."""
        self._scope.check()
        await self._transactions.abort(arguments.text("transactional_id", transactional_id))

    async def open_transactions(
        self, partitions: Iterable[TopicPartition], *, wait_ms: int | None = None
    ) -> dict[TopicPartition, LogTransactions | StrandlineError]:
        """The transactions that are open in the logs of these partitions, as their leaders know them, or the
        last error within `wait_ms`; None: the request timeout."""
        self._scope.check()
        names = arguments.partitions(partitions)
        return await self._transactions.in_logs(names, self._wait_s(wait_ms))

    async def hanging_transactions(self, partitions: Iterable[TopicPartition]) -> HangingTransactions:
        """Transactions that are open in these logs, and that no coordinator ends: readers of committed
        records wait there until they are aborted.

        The caller has to have DESCRIBE on every transactional id: one that it may not see seems to hang.
        Raises as `list_transactions`.
        """
        self._scope.check()
        return await self._transactions.hanging(arguments.partitions(partitions))

    async def abort_hanging_transaction(self, partition: TopicPartition, first_offset: int) -> None:
        """Write an abort marker for a hanging transaction, which begins at this offset. Raises
        InvalidTransactionState if there is none, and as `hanging_transactions`."""
        self._scope.check()
        (name,) = arguments.partitions([partition])
        offset = arguments.whole("first_offset", first_offset, 0, arguments.INT64_MAX)
        await self._transactions.abort_hanging(name, offset)

    # --- offsets -----------------------------------------------------------------------------

    async def list_offsets(self, wanted: Mapping[TopicPartition, int]) -> Found:
        """For each partition the offset of a timestamp (milliseconds; -1: the high watermark, -2: the log's
        start), or the last error within the request timeout."""
        self._scope.check()
        return await list_offsets(
            self._cluster,
            wanted,
            self._settings,
            self._clock,
            timeout_s=self._cluster.request_timeout_s,
        )

    async def list_epoch_ends(
        self, epochs: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, ListedEpochEnd | StrandlineError]:
        """For each partition where a leader epoch ends (KIP-320), or the last error within the request
        timeout."""
        self._scope.check()
        timeout_s = self._cluster.request_timeout_s
        return await list_epoch_ends(self._cluster, epochs, self._settings, self._clock, timeout_s=timeout_s)

    # --- the controller ----------------------------------------------------------------------

    async def _ask(self, query: MetadataQuery) -> MetadataAnswer:
        answer = await self._cluster.ask(query)
        self._controller.learn(answer.cluster)
        return answer

    async def _controller_known(self) -> ClusterMetadata:
        return (await self._cluster.ask(MetadataQuery(None))).cluster

    async def _ask_controller(self, method: Method[Request, Response], request: Request) -> Response:
        """Call the active controller once. Raises as `ControllerLink.call`."""
        self._scope.check()
        return await self._controller.call(method, request)

    async def _wait_until_led(self, created: Mapping[str, TopicId]) -> None:
        """Return once every partition has a leader. Raises RequestTimedOut, UnknownTopicOrPartition."""
        tries = Tries(self._settings, self._clock, self._cluster.request_timeout_s)
        await until_led(created, self._ask, self._check_exist, tries, self._clock)

    async def _check_exist(self, created: Mapping[str, TopicId]) -> None:
        """Ask the controller for new topics that a broker does not know, since the broker may not know them
        yet. Raises UnknownTopicOrPartition for deleted ones."""
        again = CreateTopics([NewTopic(name) for name in created], validate_only=True)
        try:
            results = await self._ask_controller(CREATE_TOPICS, again)
        except StrandlineError as error:
            logger.info("it is unknown whether the new topics still exist: %s", error.message)
            return
        deleted = [result.topic for result in results if _is_gone(result, created[result.topic])]
        if deleted:
            raise UnknownTopicOrPartition(
                f"created, but deleted while their partitions had no leader yet: {', '.join(deleted[:10])}"
            )


def _is_gone(result: TopicResult, topic_id: TopicId) -> bool:
    """True if a topic of this name could be created, or exists with another id."""
    if isinstance(result.error, TopicAlreadyExists):
        return result.topic_id not in ("", topic_id)
    return result.error is None
