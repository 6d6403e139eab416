"""The settings of one group member, and the requests that it builds from them and its current state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from strandline.config.consumer import ConsumerSettings
from strandline.consumer.core.assignors.assignor import Assignor, user_data_of
from strandline.consumer.core.ownership import Ownership, Partitions
from strandline.vocabulary.groups import (
    NO_GENERATION,
    GroupProtocol,
    JoinGroup,
    LeaveGroup,
    LeavingMember,
    OwnershipChange,
    OwnershipKind,
    ReportOwnership,
    SyncGroup,
)
from strandline.vocabulary.parsing.consumer_protocol import (
    COOPERATIVE_STICKY,
    DRAFT_VERSION,
    EAGER_VERSION,
    RELEASED_VERSION,
    Subscription,
    generation_data,
)

PROTOCOL_TYPE: Final = "consumer"


@dataclass(frozen=True, slots=True)
class MemberSettings:
    """`cooperative`: KIP-429's protocol; otherwise everything is revoked before each join."""

    group: str
    cooperative: bool
    session_timeout_ms: int
    rebalance_timeout_ms: int
    instance: str | None = None
    client_id: str = ""

    @classmethod
    def of(cls, group: str, settings: ConsumerSettings) -> MemberSettings:
        return cls(
            group,
            settings.rebalance_protocol == "cooperative",
            settings.session_timeout_ms,
            settings.max_poll_interval_ms,
            settings.group_instance_id,
            settings.client_id,
        )

    def join(
        self,
        member: str,
        topics: tuple[str, ...],
        owned: Ownership,
        assignors: Iterable[Assignor],
        reason: str,
    ) -> JoinGroup:
        """One protocol for each assignor. An eager member claims no partitions, in no generation: the
        coordinator does not rebalance for bytes that are the same."""
        claims, generation = (owned.all, owned.generation) if self.cooperative else ((), NO_GENERATION)
        protocols = tuple(
            GroupProtocol(assignor.name, self._subscription(assignor, topics, claims, generation).encode())
            for assignor in assignors
        )
        return JoinGroup(
            self.group,
            member,
            self.session_timeout_ms,
            self.rebalance_timeout_ms,
            PROTOCOL_TYPE,
            protocols,
            self.instance,
            self.client_id,
            reason,
        )

    def _subscription(
        self, assignor: Assignor, topics: tuple[str, ...], claims: Partitions, generation: int
    ) -> Subscription:
        user_data = user_data_of(assignor)
        if assignor.name == COOPERATIVE_STICKY:
            user_data = user_data or generation_data(generation)
            return Subscription(RELEASED_VERSION, topics, claims, generation, user_data)
        version = DRAFT_VERSION if self.cooperative else EAGER_VERSION
        return Subscription(version, topics, claims, generation, user_data)

    def sync(
        self, member: str, generation: int, protocol: str, assignments: Mapping[str, bytes]
    ) -> SyncGroup:
        return SyncGroup(self.group, member, generation, PROTOCOL_TYPE, protocol, assignments, self.instance)

    def farewell(self, member: str, reason: str) -> LeaveGroup:
        return LeaveGroup(self.group, (LeavingMember(member, None, reason),))

    def report(
        self,
        member: str,
        generation: int,
        kind: OwnershipKind,
        partitions: Partitions,
        reason: str,
        now_ms: int,
    ) -> ReportOwnership:
        change = OwnershipChange(kind, partitions, now_ms, generation, reason)
        return ReportOwnership(self.group, member, generation, (change,))
