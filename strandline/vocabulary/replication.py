"""Values that a follower and a leader exchange on a replication stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from strandline.errors import StrandlineError
from strandline.ids import BrokerEpoch, BrokerId, PartitionKey


@dataclass(frozen=True, slots=True)
class Hello:
    """The first message of a stream: the follower, its life, and the leader and cluster that it wants."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    leader_id: BrokerId
    cluster_id: str
    beats: bool = False
    """The follower sends a message at least every 300 ms, also while it is busy."""


@dataclass(frozen=True, slots=True)
class Subscribe:
    """See `Subscribe` in proto/strandline/rpc/replication.proto."""

    subscription_id: int
    topic: str
    key: PartitionKey
    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int


class FollowerMessage(NamedTuple):
    """One message of a follower. Only the first one of a stream has to have `hello`."""

    hello: Hello | None
    subscribe: Sequence[Subscribe]
    progress: Sequence[tuple[int, int]]
    """Subscription ids, with the ends of the follower's logs."""
    unsubscribe: Sequence[int]
    acknowledged: int
    hold_copies_ms: int = 0
    """For how long the leader shall send no copies."""


class Push(NamedTuple):
    """Data or an event of one subscription; with `error` or `diverging` the subscription has ended."""

    subscription_id: int
    high_watermark: int = -1
    log_start_offset: int = 0
    records: bytes = b""
    error: StrandlineError | None = None
    diverging: tuple[int, int] | None = None
    """(epoch, end offset)"""
    copy: bool = False
    """Whether the records are a copy: for a replica that a reassignment adds, and far from the log's end."""
    kept_from: int = 0
    """Compaction keeps tombstones and markers from here on: a replica that is away may lack them."""


LeaderMessage = tuple[int, list[Push]]
"""One message of a leader: its sequence number, and its pushes. Without pushes it is a beat: from the first
one on, a message comes at least every 200 ms."""


@dataclass(frozen=True, slots=True)
class SilenceQuestion:
    """Names the life of a broker, to ask another one whether it hears it."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
