"""What became of a request to the controller, in its own types; `wire` turns them into protobuf."""

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
    """What became of one topic of a request."""

    topic: str
    error: StrandlineError | None = None
    topic_id: TopicId | None = None


@dataclass(frozen=True, slots=True)
class PartitionOutcome:
    """What became of one partition of a request."""

    name: TopicPartition
    error: StrandlineError | None = None


@dataclass(frozen=True, slots=True)
class UncleanOutcome:
    """What became of one partition of a request for unclean elections. Without an error there is a plan."""

    name: TopicPartition
    error: StrandlineError | None = None
    plan: UncleanPlan | None = None


@dataclass(frozen=True, slots=True)
class Ongoing:
    """A partition whose replicas move, and who is in sync by now."""

    name: TopicPartition
    wanted: Reassignment
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BrokerDescription:
    """A broker that is alive, or was once and has a queue: without a registration it is gone."""

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
    """NotController says that nothing of a whole request was done, which nobody knows half way."""
    if isinstance(error, NotController | SessionEnded):
        return OutcomeUnknown(f"{error.message}: look what became of it, and ask the next controller")
    return error
