"""Facts of the cluster that several parts share. Frozen: a change is a new value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from strandline.ids import NO_BROKER, NO_EPOCH, BrokerEpoch, BrokerId, LeaderEpoch, TopicId


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a broker or controller answers."""

    id: int
    host: str
    port: int
    rack: str = ""

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Registration:
    """A live broker, as `/brokers/ids/[id]` has it."""

    endpoint: Endpoint
    epoch: BrokerEpoch
    shutting_down: bool = False

    @property
    def id(self) -> BrokerId:
        return BrokerId(self.endpoint.id)


@dataclass(frozen=True, slots=True)
class IsrMember:
    """A member of the ISR and the life (broker epoch) in which it joined (CORRECTNESS E2, I6)."""

    broker: BrokerId
    broker_epoch: BrokerEpoch


@dataclass(frozen=True, slots=True)
class PartitionState:
    """What `…/isr` holds. Every write is a compare-and-set on the znode's version."""

    leader: BrokerId
    leader_epoch: LeaderEpoch
    isr: tuple[IsrMember, ...]

    @property
    def isr_ids(self) -> tuple[BrokerId, ...]:
        return tuple(member.broker for member in self.isr)

    def __contains__(self, broker: object) -> bool:
        return any(member.broker == broker for member in self.isr)


NEVER_LED = PartitionState(NO_BROKER, NO_EPOCH, ())


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """What a client knows of a partition."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """What a client knows of a topic."""

    name: str
    topic_id: TopicId
    partitions: tuple[PartitionMetadata, ...]
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    """What a client knows of the cluster."""

    cluster_id: str
    brokers: tuple[Endpoint, ...]
    controller: Endpoint | None
    topics: tuple[TopicMetadata, ...]
