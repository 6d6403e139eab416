"""What the accumulator decides, for the driver to carry out in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic

from strandline.errors import MessageTooLarge, StrandlineError
from strandline.producer.core.batch import Batch, PartitionQueue, Ticket


@dataclass(frozen=True, slots=True)
class Acknowledged(Generic[Ticket]):
    """The batch is appended. `base_offset` is -1 if it is unknown (acks=0, an old duplicate)."""

    batch: Batch[Ticket]
    base_offset: int


@dataclass(frozen=True, slots=True)
class Failed(Generic[Ticket]):
    batch: Batch[Ticket]
    error: StrandlineError


@dataclass(frozen=True, slots=True)
class Send(Generic[Ticket]):
    """The partition may have something to send to its leader."""

    queue: PartitionQueue[Ticket]


@dataclass(frozen=True, slots=True)
class DelaySend(Generic[Ticket]):
    """Call `backed_off` with this pause's number after `seconds`."""

    queue: PartitionQueue[Ticket]
    pause: int
    seconds: float


@dataclass(frozen=True, slots=True)
class DoubtLeader(Generic[Ticket]):
    """The known leader did not accept a batch: another broker may lead. `error` may name it."""

    queue: PartitionQueue[Ticket]
    error: StrandlineError


@dataclass(frozen=True, slots=True)
class Divide(Generic[Ticket]):
    """The topic takes no batch as large as this: call `divided`, or `indivisible` if its records have to stay
    together. `error` may have the limit, in bytes."""

    batch: Batch[Ticket]
    error: MessageTooLarge


@dataclass(frozen=True, slots=True)
class Renew(Generic[Ticket]):
    """The partition needs another producer id: call `renewed`."""

    queue: PartitionQueue[Ticket]


Effect = (
    Acknowledged[Ticket]
    | Failed[Ticket]
    | Send[Ticket]
    | DelaySend[Ticket]
    | DoubtLeader[Ticket]
    | Divide[Ticket]
    | Renew[Ticket]
)
