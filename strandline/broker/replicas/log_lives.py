"""Opens logs, and determines which lives of this broker each log counts for (CORRECTNESS E2, E3)."""

from __future__ import annotations

from pathlib import Path

import structlog

from strandline.broker.replicas.replica import Replica
from strandline.broker.storage.log import PartitionLog
from strandline.broker.storage.state_files.data_folder import DataFolder
from strandline.broker.storage.state_files.partition_folder import VERSION, Description
from strandline.config.services.broker import BrokerSettings
from strandline.errors import StorageFailed
from strandline.ids import BrokerEpoch, TopicPartition
from strandline.ports import Clock, Files
from strandline.vocabulary.metadata import IsrMember, LogCondition, LogStatement, PartitionState
from strandline.vocabulary.topic_config import TopicConfig

logger = structlog.get_logger(__name__)


def open_log(
    name: TopicPartition,
    path: Path,
    config: TopicConfig,
    settings: BrokerSettings,
    clock: Clock,
    files: Files,
    *,
    clean: bool,
    new: bool = False,
    power_lost: bool,
) -> PartitionLog:
    """Opens a log, or begins a `new` one in a folder that was just made. `power_lost`: what the last life did
    not sync may be lost. Raises StorageBusy."""
    log = PartitionLog.open(
        path,
        config,
        clock=clock,
        clean=clean,
        new=new,
        power_lost=power_lost,
        files=files,
        producers_max=settings.producers_per_partition_max,
        producer_expiry_ms=settings.producer_expiry_ms,
    )
    if log.corrupt is not None:
        logger.error("a log is damaged: this replica will not lead", partition=str(name), reason=log.corrupt)
    return log


def judge_made(log: PartitionLog, folder: DataFolder) -> None:
    """A log that begins in this life, or whose folder lost its description, counts for no earlier life.

    Raises StorageFailed.
    """
    before = folder.life_before
    if not log.provenance.anchored:
        log.provenance.begin_after(before)
    elif before is not None:
        log.provenance.mark_unsure(before)


def judge_found(found: Description, log: PartitionLog, folder: DataFolder, watermark: int) -> bool:
    """Judges a log that an earlier life left, before this life begins in it. False if that is impossible,
    since the log has failed: if it is opened again, it counts for no earlier life.

    After a power loss, unsynced data of the earlier life may be gone: such a log counts for no earlier life.
    A log whose data counted only after a sync is whole if it reaches the last known HW.
    """
    name = found.name
    if not log.provenance.anchored and found.version == VERSION:
        log.provenance.begin_after(folder.last_life)  # all of the log is gone, or it never began
    if not folder.power_lost or folder.last_life is None:
        return True
    if log.failed is not None:
        folder.keep_power_loss()
        return False
    if log.provenance.survives_power_loss and log.log_end_offset >= watermark:
        return True
    logger.warning(
        "power was lost: the end of this log may be missing",
        partition=str(name),
        log_end=log.log_end_offset,
        high_watermark_known=watermark,
    )
    try:
        log.provenance.mark_unsure(folder.last_life)
    except StorageFailed as error:
        logger.error("a replica failed", partition=str(name), reason=error.message)
        folder.keep_power_loss()
        return False
    return True


def lives_present(folder: DataFolder, log: PartitionLog) -> frozenset[BrokerEpoch]:
    """The lives of this broker in which this very log was here."""
    return folder.lives_after(log.provenance.absent_through)


def lives_counted(folder: DataFolder, log: PartitionLog) -> frozenset[BrokerEpoch]:
    """The lives of this broker since which no counted record of this log was lost."""
    return lives_present(folder, log) & folder.lives_after(log.provenance.unsure_through)


def statement(folder: DataFolder, replica: Replica, state: PartitionState, me: IsrMember) -> LogStatement:
    """States what this replica has, for replicas that cannot lead without a loss either."""
    log = replica.log
    joined = next((m.broker_epoch for m in state.isr if m.broker == me.broker), None)
    if not replica.whole:
        condition = LogCondition.DAMAGED
    elif joined is None:
        condition = LogCondition.OUTSIDE
    elif joined in lives_present(folder, log):
        condition = LogCondition.UNSURE
    else:
        condition = LogCondition.ABSENT
    watermark = max(replica.high_watermark, replica.watermark_known)
    return LogStatement(
        me.broker,
        me.broker_epoch,
        condition,
        log.last_epoch,
        log.log_start_offset,
        log.log_end_offset,
        watermark,
    )
