"""The effects that only coordinators of transactions have: markers and events."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from strandline.broker.core.coordinators.effects import Answer, Append, Failed
from strandline.ids import TopicPartition
from strandline.vocabulary.log import ProducerIdentity


@dataclass(frozen=True, slots=True)
class SendMarkers:
    """End the transaction in the logs of these partitions, and call `marked` for each whose marker is below
    the high watermark, or which no longer exists.

    The driver tries until it is done, or the coordinator is unloaded. `producer` has the epoch that the
    markers have: a raised one, or that of the transaction itself after a commit or abort by an older client.
    A transaction ends before the next one of its id can begin, so that one of an id is sent at a time.
    """

    transactional_id: str
    producer: ProducerIdentity
    commit: bool
    partitions: frozenset[TopicPartition]


class EventKind(Enum):
    """What happened to a transaction, in the words of the timeline."""

    BEGUN = "transaction_begun"
    COMMITTING = "transaction_committing"
    ABORTING = "transaction_aborting"
    COMPLETED = "transaction_completed"


class AbortReason(Enum):
    ASKED = "its producer asked"
    TIMEOUT = "its timeout came"
    FENCED = "another producer took its transactional id"
    ADMINISTRATOR = "an administrator asked"


@dataclass(frozen=True, slots=True)
class TransactionEvent:
    """One event of a transaction; `at_ms` is the wall clock of the coordinator.

    `producer` wrote the transaction; once it is ending, it has the epoch of the markers. `reason` is for
    ABORTING; `partitions` are those at that time, for COMPLETED those that were marked.
    """

    kind: EventKind
    transactional_id: str
    producer: ProducerIdentity
    at_ms: int
    partitions: frozenset[TopicPartition]
    reason: AbortReason | None = None


@dataclass(frozen=True, slots=True)
class Publish:
    """Add the event to the events topic. Nothing waits for it."""

    event: TransactionEvent


Effect = Answer[Any] | Append | SendMarkers | Publish | Failed
