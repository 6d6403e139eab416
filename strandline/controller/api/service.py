"""Handles admin requests without gRPC: checks their values, and has the active term do what they ask for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from strandline.adapters.system.crash_points import defect_point
from strandline.controller.activity import Activity
from strandline.controller.core.topics import check_new_partitions, check_partitions_asked, check_request
from strandline.controller.leadership.preferred import elect_preferred
from strandline.controller.leadership.unclean import elect_unclean
from strandline.controller.replicas.forgetting import forget_broker
from strandline.controller.security.acls import AclRequests
from strandline.controller.upkeep.description import describe_cluster
from strandline.errors import InvalidRequest, SecurityDisabled, StrandlineError
from strandline.ids import BrokerId, TopicPartition
from strandline.security.acls import AclBinding, AclFilter
from strandline.security.login.credentials import UserChange
from strandline.security.quotas.model import EntityQuotas, QuotaAlteration, QuotaFilter
from strandline.vocabulary.admin import (
    NO_DEADLINE,
    AclResult,
    AlterTopic,
    BalanceAction,
    BalanceDescription,
    BalancePlan,
    BrokerCheck,
    ClusterDescription,
    DeletedAcls,
    DrainBroker,
    DrainProgress,
    ElectUnclean,
    ForgottenBroker,
    NewTopic,
    OngoingReassignment,
    PartitionResult,
    QuotaResult,
    Reassign,
    StartBalance,
    TopicResult,
    UncleanElection,
    UserDescription,
    UserResult,
)
from strandline.vocabulary.configs.groups import AlterGroupConfigs, GroupConfigResult, GroupConfigs

REASSIGNMENT_TIMEOUT_MS_MAX: Final = 2**31 - 1


class AdminService:
    """Handles the requests. All methods may run concurrently. One that returns no outcome for each entry
    raises NotController and OutcomeUnknown, too; those about ACLs raise SecurityDisabled."""

    def __init__(self, activity: Activity) -> None:
        self._activity = activity

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False, internal: bool = False
    ) -> list[TopicResult]:
        """Returns one outcome a topic, in order: its id (none with `validate_only`), or the error.
        TopicAlreadyExists comes with the id of the existing topic.

        `internal` allows the system's own names. Raises InvalidRequest for too many topics or partitions at
        once.
        """
        defect_point("controller.create_topics")
        names = [new.name for new in topics]
        repeated = check_request(names)
        check_new_partitions(topics)
        try:
            with self._activity.acting() as active:
                return await active.topics.create(topics, repeated, validate_only, internal)
        except StrandlineError as error:
            return [TopicResult(name, error) for name in names]

    async def delete_topics(self, names: Sequence[str], topic_ids: Sequence[str] = ()) -> list[TopicResult]:
        """Returns one outcome a name, in order. Raises InvalidRequest for too many names at once, and for ids
        that are not as many."""
        repeated = check_request(names)
        if topic_ids and len(topic_ids) != len(names):
            raise InvalidRequest(f"{len(topic_ids)} ids for {len(names)} topics")
        try:
            with self._activity.acting() as active:
                return await active.topics.delete(names, topic_ids, repeated)
        except StrandlineError as error:
            return [TopicResult(name, error) for name in names]

    async def alter_topic(self, alteration: AlterTopic) -> None:
        """Raises UnknownTopicOrPartition, InvalidConfig, InvalidPartitions, InvalidReplicaAssignment,
        InvalidReplicationFactor, InvalidTopic, InvalidRequest."""
        with self._activity.acting() as active:
            await active.topics.alter(alteration)

    async def reassign(self, asked: Reassign) -> list[PartitionResult]:
        """Returns one outcome a partition, in order. Without an error, its reassignment is under way or
        unnecessary.

        Raises InvalidRequest for too many partitions at once, a throttle below zero, or a timeout that is
        none.
        """
        names = [move.name for move in asked.partitions]
        repeated = check_partitions_asked(names)
        if asked.throttle_bytes_per_s < 0:
            raise InvalidRequest(
                f"throttle_bytes_per_s = {asked.throttle_bytes_per_s}: give 0 (none) or more"
            )
        if not NO_DEADLINE <= asked.timeout_ms <= REASSIGNMENT_TIMEOUT_MS_MAX:
            raise InvalidRequest(
                f"timeout_ms = {asked.timeout_ms}: give {NO_DEADLINE} (none), 0 (the controller's), or up to "
                f"{REASSIGNMENT_TIMEOUT_MS_MAX}",
                limit=REASSIGNMENT_TIMEOUT_MS_MAX,
            )
        try:
            with self._activity.acting() as active:
                return await active.reassignments.ask(
                    asked.partitions,
                    repeated,
                    throttle_bytes_per_s=asked.throttle_bytes_per_s,
                    validate_only=asked.validate_only,
                    timeout_ms=asked.timeout_ms,
                    cancel_at_deadline=asked.cancel_at_deadline,
                )
        except StrandlineError as error:
            return [PartitionResult(name, error) for name in names]

    async def list_reassignments(self) -> list[OngoingReassignment]:
        with self._activity.acting() as active:
            return await active.reassignments.ongoing()

    async def elect_preferred(self, names: Sequence[TopicPartition]) -> list[PartitionResult]:
        """Returns one outcome for each named partition. Without names, for each that another broker than the
        preferred one leads.

        Raises InvalidRequest for too many partitions at once.
        """
        repeated = check_partitions_asked(names)
        with self._activity.acting() as active:
            return await elect_preferred(active.term, names, repeated)

    async def elect_unclean(self, asked: ElectUnclean) -> list[UncleanElection]:
        """Returns one outcome for each named partition. Without names, for each that has no leader.

        Raises InvalidRequest for too many partitions at once and for ids that are not as many.
        """
        repeated = check_partitions_asked(asked.partitions)
        if asked.topic_ids and len(asked.topic_ids) != len(asked.partitions):
            raise InvalidRequest(f"{len(asked.topic_ids)} ids for {len(asked.partitions)} partitions")
        with self._activity.acting() as active:
            return await elect_unclean(active.term, asked, repeated)

    async def drain_broker(self, asked: DrainBroker) -> DrainProgress:
        """Returns what the broker still has. The drain continues in the background; the same request again
        reports progress.

        Raises InvalidRequest.
        """
        broker = BrokerId(asked.broker)
        with self._activity.acting() as active:
            upkeep = active.upkeep
            return await (upkeep.undo_drain(broker) if asked.undo else upkeep.drain(broker, asked))

    async def forget_broker(self, broker: int) -> ForgottenBroker:
        """Forgets a broker that will not return. Raises InvalidRequest if it is alive or has replicas."""
        with self._activity.acting() as active:
            return await forget_broker(active.term, BrokerId(broker))

    async def balance(self, asked: StartBalance) -> BalancePlan:
        """Returns the moves of the balance, which begin in the background unless it only validates.

        Raises InvalidRequest, UnknownTopicOrPartition.
        """
        if asked.throttle_bytes_per_s < 0:
            raise InvalidRequest(f"throttle_bytes_per_s {asked.throttle_bytes_per_s} is negative")
        for each in asked.sizes:
            if each.bytes < 0:
                raise InvalidRequest(f"the size of {each.name}, {each.bytes} bytes, is negative")
        with self._activity.acting() as active:
            return await active.upkeep.balance(asked)

    async def describe_balance(self) -> BalanceDescription:
        """The balance under way, or the last one."""
        with self._activity.acting() as active:
            return await active.upkeep.describe_balance()

    async def alter_balance(self, action: BalanceAction) -> BalanceDescription:
        """Raises InvalidRequest if no balance is under way."""
        with self._activity.acting() as active:
            return await active.upkeep.alter_balance(action)

    async def check_broker(self, broker: int, *, end_drain: bool = False) -> BrokerCheck:
        """Returns if the broker is caught up and may be stopped. With `end_drain`, a ready broker that
        restarted since its leaderships were drained may lead again."""
        with self._activity.acting() as active:
            return await active.upkeep.check(BrokerId(broker), end_drain=end_drain)

    async def describe_cluster(self) -> ClusterDescription:
        with self._activity.acting() as active:
            return await describe_cluster(active.term)

    async def create_acls(self, bindings: Sequence[AclBinding]) -> list[AclResult]:
        """Returns one outcome an ACL, in order. Raises SecurityDisabled."""
        with self._acls() as acls:
            return await acls.create(bindings)

    async def delete_acls(self, filters: Sequence[AclFilter]) -> list[DeletedAcls]:
        """Returns for each filter what it matched. Raises SecurityDisabled."""
        with self._acls() as acls:
            return await acls.delete(filters)

    async def describe_acls(self, wanted: AclFilter) -> list[AclBinding]:
        with self._acls() as acls:
            return await acls.describe(wanted)

    async def alter_users(self, changes: Sequence[UserChange]) -> list[UserResult]:
        """Returns one outcome a user."""
        with self._activity.acting() as active:
            return await active.users.alter(changes)

    async def describe_users(self, names: Sequence[str]) -> list[UserDescription]:
        """These users, or all of them."""
        with self._activity.acting() as active:
            return await active.users.describe(names)

    @contextmanager
    def _acls(self) -> Iterator[AclRequests]:
        """Raises SecurityDisabled, NotController."""
        if self._activity.authorizer.rules is None:
            raise SecurityDisabled("the cluster has no authorizer: set authorizer = acl to use ACLs")
        with self._activity.acting() as active:
            yield active.acls

    async def alter_client_quotas(
        self, alterations: Sequence[QuotaAlteration], *, validate_only: bool = False
    ) -> list[QuotaResult]:
        """Returns one outcome an entity, in order."""
        with self._activity.acting() as active:
            return await active.quotas.alter(alterations, validate_only=validate_only)

    async def describe_client_quotas(self, wanted: QuotaFilter) -> list[EntityQuotas]:
        with self._activity.acting() as active:
            return await active.quotas.describe(wanted)

    async def alter_group_configs(self, asked: AlterGroupConfigs) -> list[GroupConfigResult]:
        """Returns one outcome a group, in order."""
        with self._activity.acting() as active:
            return await active.group_configs.alter(asked.alterations, validate_only=asked.validate_only)

    async def describe_group_configs(self, groups: Sequence[str]) -> list[GroupConfigs]:
        """These groups, or all that have configs of their own."""
        with self._activity.acting() as active:
            return await active.group_configs.describe(groups)
