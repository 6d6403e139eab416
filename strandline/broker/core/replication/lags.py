"""How far the replicas of a led partition are, as far as the leader knows: for people, for metrics, and for
compaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from strandline.broker.core.replication.copy_rate import CopyRates
from strandline.broker.core.replication.isr import Progress
from strandline.broker.core.replication.leader_partition import LeaderPartition
from strandline.config.limits import REASSIGNMENT_NEAR_BYTES
from strandline.ids import BrokerId, Offset
from strandline.vocabulary.log import UNKNOWN, ReplicaProgress
from strandline.vocabulary.metadata import throttled_ms


def replica_lags(
    core: LeaderPartition[Any],
    log_end: int,
    bytes_near: Callable[[int], int],
    now: float,
    rates: CopyRates | None = None,
    near_bytes: int = REASSIGNMENT_NEAR_BYTES,
) -> tuple[ReplicaProgress, ...]:
    """The replicas in the order of their assignment, then members of the ISR that are assigned no longer.

    `log_end`: the end of the leader's log, also of records that wait for a sync. `bytes_near`: about the
    bytes from an offset to that end; it is asked only for replicas that are behind. `rates`: those of copies;
    closer to the end than `near_bytes` no throttle holds them back.
    """
    assignment = core.assignment
    wanted, target = assignment.reassignment, assignment.target
    added, throttle = ((), 0) if wanted is None else (wanted.adding, wanted.throttle_bytes_per_s)
    in_sync = [member.broker for member in core.isr.members]
    others = [broker for broker in in_sync if broker not in assignment.replicas]
    copied = [broker for broker in added if broker not in in_sync]

    def lag_of(broker: BrokerId) -> ReplicaProgress:
        adding, removing = broker in added and broker in target, broker not in target
        if broker == core.me:
            return ReplicaProgress(broker, True, True, adding, removing, log_end, 0, 0, 0)
        progress = core.progress_of(broker)
        if progress is None:
            return ReplicaProgress(broker, broker in in_sync, False, adding, removing)
        end = progress.log_end_offset
        lag = UNKNOWN if end < 0 else max(0, log_end - end)
        lag_bytes = bytes_near(end) if lag > 0 else lag
        bytes_per_s, ms_left = UNKNOWN, UNKNOWN
        if rates is not None and broker not in in_sync and not removing:
            bytes_per_s, ms_left = _copying(rates, broker, lag_bytes, bytes_near, now)
            if ms_left != UNKNOWN and throttle and broker in copied:
                # A copy that begins is faster than its throttle, and the last seconds may have had another.
                # The copies share it; the others may lack as much.
                lacking, copies = len(copied) * lag_bytes, len(copied)
                ms_left = max(ms_left, throttled_ms(lacking, throttle, copies=copies, near_bytes=near_bytes))
        return ReplicaProgress(
            broker,
            in_sync=broker in in_sync,
            fetching=progress.broker_epoch is not None,
            adding=adding,
            removing=removing,
            log_end_offset=end,
            lag=lag,
            lag_bytes=lag_bytes,
            lag_ms=_behind_ms(progress, now),
            bytes_per_s=bytes_per_s,
            ms_left=ms_left,
        )

    return tuple([lag_of(broker) for broker in (*assignment.replicas, *others)])


def _copying(
    rates: CopyRates, broker: BrokerId, lag_bytes: int, bytes_near: Callable[[int], int], now: float
) -> tuple[int, int]:
    """(bytes a second, milliseconds until it has all at this pace) of a copy."""
    offset = rates.offset(broker)
    pace = None if offset is None else rates.pace(broker, bytes_near(offset), now)
    if pace is None:
        return UNKNOWN, UNKNOWN
    if lag_bytes < 0 or pace.closing_per_s <= 0:
        return int(pace.bytes_per_s), UNKNOWN
    return int(pace.bytes_per_s), int(lag_bytes / pace.closing_per_s * 1000)


def _behind_ms(progress: Progress, now: float) -> int:
    return 0 if progress.behind_since is None else max(0, int((now - progress.behind_since) * 1000))


def kept_from(core: LeaderPartition[Any]) -> Offset:
    """From here on compaction keeps tombstones and markers: some replica that is not in sync may lack them.
    One that has not fetched in this epoch may lack everything."""
    end = core.high_watermark
    for broker in core.assignment.replicas:
        if broker != core.me and broker not in core.isr:
            end = min(end, max(Offset(0), core.follower_end(broker)))
    return end
