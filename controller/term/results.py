"""The results of controller requests, in its own types; `wire` turns them into protobuf."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from strandline.controller.core.unclean import UncleanPlan
from strandline.controller.core.upkeep.queues import Backlog
from strandline.errors import NotController, OutcomeUnknown, StrandlineError
from strandline.ids import BrokerId, TopicId, TopicPartition
from strandline.ports import SessionEnded
from strandline.vocabulary.metadata import Endpoint, Reassignment, Registration


@dataclass(frozen=True, slots=True)
class TopicOutcome:
    """The result for one topic of a request."""

    topic: str
    error: StrandlineError | None = None
    topic_id: TopicId | None = None


@dataclass(frozen=True, slots=True)
class PartitionOutcome:
    """The result for one partition of a request."""

    name: TopicPartition
    error: StrandlineError | None = None


@dataclass(frozen=True, slots=True)
class UncleanOutcome:
    """The result for one partition of a request for unclean elections. Without an error there is a plan."""

    name: TopicPartition
    error: StrandlineError | None = None
    plan: UncleanPlan | None = None


@dataclass(frozen=True, slots=True)
class Ongoing:
    """A partition whose replicas move, and its present ISR."""

    name: TopicPartition
    wanted: Reassignment
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BrokerDescription:
    """A broker that is alive, or has a queue. It is not alive if it has no registration."""

    broker: BrokerId
    registration: Registration | None
    backlog: Backlog
    drained: bool


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    cluster_id: str
    controller: Endpoint
    brokers: Sequence[BrokerDescription]


def for_user(error: StrandlineError) -> StrandlineError:
    """The error for a client. NotController would mean that the request had no effect, which is unknown once
    it has begun."""
    if isinstance(error, NotController | SessionEnded):
        return OutcomeUnknown(f"{error.message}: look what became of it, and ask the next controller")
    return error
