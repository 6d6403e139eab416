"""The settings of a member whose coordinator assigns, and the heartbeat that says all of them."""

from __future__ import annotations

from dataclasses import dataclass

from strandline.config.consumer import ConsumerSettings
from strandline.ids import PartitionKey
from strandline.vocabulary.groups import LEAVES, LEAVES_FOR_A_WHILE, ConsumerHeartbeat


@dataclass(frozen=True, slots=True)
class AssignedSettings:
    """`assignor`: that of the coordinator which the member asks for; None: the coordinator chooses."""

    group: str
    rebalance_timeout_ms: int
    instance: str | None = None
    assignor: str | None = None
    client_id: str = ""

    @classmethod
    def of(cls, group: str, settings: ConsumerSettings) -> AssignedSettings:
        return cls(
            group,
            settings.max_poll_interval_ms,
            settings.group_instance_id,
            settings.group_remote_assignor,
            settings.client_id,
        )

    def heartbeat(
        self, member: str, epoch: int, topics: tuple[str, ...], owned: tuple[PartitionKey, ...]
    ) -> ConsumerHeartbeat:
        return ConsumerHeartbeat(
            self.group,
            member,
            epoch,
            self.instance,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            topics=topics,
            assignor=self.assignor,
            owned=owned,
            client_id=self.client_id,
        )

    def farewell(self, member: str) -> ConsumerHeartbeat:
        """Takes the member out of its group; the place of an instance is kept for its session timeout."""
        epoch = LEAVES if self.instance is None else LEAVES_FOR_A_WHILE
        return ConsumerHeartbeat(self.group, member, epoch, self.instance)
