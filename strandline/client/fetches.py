"""What is fetched from brokers, in the readers' own types; `fetch_wire` turns them into protobuf and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from strandline.errors import StrandlineError
from strandline.ids import TopicPartition


@dataclass(frozen=True, slots=True)
class Wanted:
    """A partition's part of a fetch."""

    name: TopicPartition
    offset: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class FetchPlan:
    """What to ask one broker for; `number` is the request's correlation id."""

    number: int
    broker: int
    wanted: tuple[Wanted, ...]


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """A plan with the bounds of its answer."""

    plan: FetchPlan
    wait_ms: int
    bytes_min: int
    bytes_max: int
    partition_bytes_max: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What a broker says of one partition. `high_watermark` is -1 while it does not know it."""

    name: TopicPartition
    error: StrandlineError | None
    high_watermark: int
    log_start_offset: int
    records: bytes


@dataclass(frozen=True, slots=True)
class FetchResponse:
    """What came for the plan with this number."""

    number: int
    answers: Sequence[Answer]
