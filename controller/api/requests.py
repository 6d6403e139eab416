"""Requests of the service `Admin` that have more than one part, in the controller's own types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from strandline.controller.core.reassignment import Move
from strandline.controller.core.topics import NewTopic
from strandline.ids import TopicPartition


@dataclass(frozen=True, slots=True)
class CreateTopics:
    topics: Sequence[NewTopic]
    validate_only: bool
    internal: bool
    """True to allow the system's own names; only members of the cluster may ask for them."""


@dataclass(frozen=True, slots=True)
class Reassign:
    moves: Sequence[Move]
    throttle_bytes_per_s: int
    validate_only: bool


@dataclass(frozen=True, slots=True)
class ElectUnclean:
    names: Sequence[TopicPartition]
    validate_only: bool


@dataclass(frozen=True, slots=True)
class DrainBroker:
    broker: int
    replicas: bool
    undo: bool
    throttle_bytes_per_s: int


@dataclass(frozen=True, slots=True)
class CheckBroker:
    broker: int
    end_drain: bool
