"""Handles admin requests without gRPC: checks them, and passes them on if this controller is active."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from strandline.adapters.system.crash_points import defect_point
from strandline.controller.active import ActiveController
from strandline.controller.activity import Activity
from strandline.controller.core.topics import check_new_partitions, check_partitions_asked, check_request
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

REASSIGNMENT_TIMEOUT_MS_MAX: Final = 2**31 - 1


class AdminService:
    """Handles the requests. All methods may run concurrently."""

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
        return await self._for_each(
            names,
            lambda active: active.create_topics(
                topics, repeated, validate_only=validate_only, internal=internal
            ),
        )

    async def delete_topics(self, names: Sequence[str], topic_ids: Sequence[str] = ()) -> list[TopicResult]:
        """Returns one outcome a name, in order. Raises InvalidRequest for too many names at once, and for ids
        that are not as many."""
        repeated = check_request(names)
        if topic_ids and len(topic_ids) != len(names):
            raise InvalidRequest(f"{len(topic_ids)} ids for {len(names)} topics")
        return await self._for_each(names, lambda active: active.delete_topics(names, topic_ids, repeated))

    async def alter_topic(self, alteration: AlterTopic) -> None:
        """Raises UnknownTopicOrPartition, InvalidConfig, InvalidPartitions, InvalidReplicaAssignment,
        InvalidReplicationFactor, InvalidTopic, InvalidRequest, NotController, OutcomeUnknown."""
        await self._active().alter_topic(alteration)

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
            return await self._active().reassign(asked, repeated)
        except StrandlineError as error:
            return [PartitionResult(name, error) for name in names]

    async def list_reassignments(self) -> list[OngoingReassignment]:
        """Raises NotController, OutcomeUnknown."""
        return await self._active().list_reassignments()

    async def elect_preferred(self, names: Sequence[TopicPartition]) -> list[PartitionResult]:
        """Returns one outcome for each named partition. Without names, for each that another broker than the
        preferred one leads.

        Raises InvalidRequest for too many partitions at once, NotController, OutcomeUnknown.
        """
        repeated = check_partitions_asked(names)
        return await self._active().elect_preferred(names, repeated)

    async def elect_unclean(self, asked: ElectUnclean) -> list[UncleanElection]:
        """Returns one outcome for each named partition. Without names, for each that has no leader.

        Raises InvalidRequest for too many partitions at once and for ids that are not as many, NotController,
        OutcomeUnknown.
        """
        repeated = check_partitions_asked(asked.partitions)
        if asked.topic_ids and len(asked.topic_ids) != len(asked.partitions):
            raise InvalidRequest(f"{len(asked.topic_ids)} ids for {len(asked.partitions)} partitions")
        return await self._active().elect_unclean(asked, repeated)

    async def drain_broker(self, asked: DrainBroker) -> DrainProgress:
        """Returns what the broker still has. The drain continues in the background; the same request again
        reports progress.

        Raises InvalidRequest, NotController, OutcomeUnknown.
        """
        return await self._active().drain_broker(asked)

    async def forget_broker(self, broker: int) -> ForgottenBroker:
        """Forgets a broker that will not return. Raises InvalidRequest if it is alive or has replicas,
        NotController, OutcomeUnknown."""
        return await self._active().forget_broker(BrokerId(broker))

    async def balance(self, asked: StartBalance) -> BalancePlan:
        """Returns the moves of the balance, which begin in the background unless it only validates.

        Raises InvalidRequest, UnknownTopicOrPartition, NotController, OutcomeUnknown.
        """
        if asked.throttle_bytes_per_s < 0:
            raise InvalidRequest(f"throttle_bytes_per_s {asked.throttle_bytes_per_s} is negative")
        for each in asked.sizes:
            if each.bytes < 0:
                raise InvalidRequest(f"the size of {each.name}, {each.bytes} bytes, is negative")
        return await self._active().balance(asked)

    async def describe_balance(self) -> BalanceDescription:
        """The balance under way, or the last one. Raises NotController, OutcomeUnknown."""
        return await self._active().describe_balance()

    async def alter_balance(self, action: BalanceAction) -> BalanceDescription:
        """Raises InvalidRequest if no balance is under way, NotController, OutcomeUnknown."""
        return await self._active().alter_balance(action)

    async def check_broker(self, broker: int, *, end_drain: bool = False) -> BrokerCheck:
        """Returns if the broker is caught up and may be stopped. With `end_drain`, a ready broker that
        restarted since its leaderships were drained may lead again. Raises NotController, OutcomeUnknown."""
        return await self._active().check_broker(BrokerId(broker), end_drain=end_drain)

    async def describe_cluster(self) -> ClusterDescription:
        """Raises NotController, OutcomeUnknown."""
        return await self._active().describe_cluster()

    async def create_acls(self, bindings: Sequence[AclBinding]) -> list[AclResult]:
        """Returns one outcome an ACL, in order. Raises SecurityDisabled, NotController, OutcomeUnknown."""
        return await self._with_acls().create_acls(bindings)

    async def delete_acls(self, filters: Sequence[AclFilter]) -> list[DeletedAcls]:
        """Returns for each filter what it matched. Raises SecurityDisabled, NotController, OutcomeUnknown."""
        return await self._with_acls().delete_acls(filters)

    async def describe_acls(self, wanted: AclFilter) -> list[AclBinding]:
        """Raises SecurityDisabled, NotController, OutcomeUnknown."""
        return await self._with_acls().describe_acls(wanted)

    async def alter_users(self, changes: Sequence[UserChange]) -> list[UserResult]:
        """Returns one outcome a user. Raises NotController, OutcomeUnknown."""
        return await self._active().alter_users(changes)

    async def describe_users(self, names: Sequence[str]) -> list[UserDescription]:
        """These users, or all of them. Raises NotController, OutcomeUnknown."""
        return await self._active().describe_users(names)

    def _with_acls(self) -> ActiveController:
        if self._activity.authorizer.rules is None:
            raise SecurityDisabled("the cluster has no authorizer: set authorizer = acl to use ACLs")
        return self._active()

    async def alter_client_quotas(
        self, alterations: Sequence[QuotaAlteration], *, validate_only: bool = False
    ) -> list[QuotaResult]:
        """Returns one outcome an entity, in order. Raises NotController, OutcomeUnknown."""
        return await self._active().alter_client_quotas(alterations, validate_only=validate_only)

    async def describe_client_quotas(self, wanted: QuotaFilter) -> list[EntityQuotas]:
        """Raises NotController, OutcomeUnknown."""
        return await self._active().describe_client_quotas(wanted)

    async def _for_each(
        self,
        names: Sequence[str],
        ask: Callable[[ActiveController], Awaitable[list[TopicResult]]],
    ) -> list[TopicResult]:
        """Carries out a request for topics. An error of the whole request is the outcome of each of its
        topics."""
        try:
            return await ask(self._active())
        except StrandlineError as error:
            return [TopicResult(name, error) for name in names]

    def _active(self) -> ActiveController:
        """The active controller's services. Raises NotController, which names the active controller if it is
        known."""
        return self._activity.require()
