"""A replication stream: messages in order, read whenever the walk lets them be read, perhaps never."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from strandline.ids import BrokerEpoch, BrokerId
from tests.simulation.memory_log import Record

if TYPE_CHECKING:
    from tests.simulation.leading import ModelLeadership


@dataclass(frozen=True, slots=True)
class Subscribe:
    id: int
    epoch: int
    fetch_offset: int
    last_epoch: int
    checked: bool = True
    """False in a walk that breaks a rule: the leader is not to compare the logs."""


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    id: int


@dataclass(frozen=True, slots=True)
class Progress:
    id: int
    end: int


@dataclass(frozen=True, slots=True)
class Push:
    """News of one subscription, as `Push` of the leader's end has it; `refused` stands for its error."""

    id: int
    high_watermark: int = -1
    base: int = 0
    records: tuple[Record, ...] = ()
    refused: str = ""
    diverging: tuple[int, int] | None = None


@dataclass(slots=True)
class Subscription:
    """The leader's side of one flow."""

    id: int
    leadership: ModelLeadership
    sent: int
    sent_watermark: int = -1


@dataclass(slots=True)
class Stream:
    """One connection from a follower's process to a leader's. Either end may learn late that it broke."""

    follower: BrokerId
    life: BrokerEpoch
    """The life that the follower said hello in."""
    leader: BrokerId
    up: deque[Subscribe | Unsubscribe | Progress] = field(default_factory=deque)
    down: deque[Push] = field(default_factory=deque)
    open_below: bool = True
    """The follower's end."""
    open_above: bool = True
    """The leader's end."""
    clogged: bool = False
    """Nothing gets through for now, in neither direction: other streams overtake it."""
    subscriptions: dict[int, Subscription] = field(default_factory=dict)
    endings: list[Push] = field(default_factory=list)
