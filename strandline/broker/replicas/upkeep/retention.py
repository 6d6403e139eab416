"""Periodic work on a broker's logs: retention, and syncs that no request waits for."""

from __future__ import annotations

import asyncio

import structlog

from strandline.broker.core.replication.replica_states import ReplicaState
from strandline.broker.replicas.manager import ReplicaManager
from strandline.broker.replicas.replica import Replica
from strandline.errors import StorageBusy, StorageFailed

logger = structlog.get_logger(__name__)


async def apply_retention(manager: ReplicaManager) -> None:
    """The retention task: leaders delete segments that are too old or exceed the size, never at or above the
    HW (H9).

    Ages are measured by `RetentionClock`, so a jump of the wall clock does not delete segments at once.
    """
    while True:
        await manager.clock.sleep(manager.settings.retention_check_ms / 1000)
        try:
            await manager.host.threads.run(manager.retention.save, manager.retention.now_ms())
        except OSError as error:
            logger.error("retention's time was not written down", reason=str(error))
        for replica in manager:
            if replica.log.failed is None and replica.state is ReplicaState.LEADER:
                _retain(manager, replica)
            await asyncio.sleep(0)  # give way to requests


def _retain(manager: ReplicaManager, replica: Replica) -> None:
    try:
        now_ms, start = manager.retention.now_ms(), replica.log.log_start_offset
        if replica.log.apply_retention(now_ms=now_ms, high_watermark=replica.high_watermark) != start:
            replica.announce()  # fetch sessions tell their clients
    except StorageBusy as error:
        _later(replica, error)
    except StorageFailed:
        return  # the log's fence has reported it


async def flush_aged(manager: ReplicaManager) -> None:
    """The flush task. Syncs logs for `flush.ms`; closed segments, so that a recovery scans only the last one;
    and idle logs, so that a power loss takes nothing from them."""
    while True:
        await manager.clock.sleep(manager.settings.flush_check_ms / 1000)
        now = manager.clock.monotonic()
        for replica in manager:
            log = replica.log
            if manager.get(replica.key) is not replica:
                continue  # closed or deleted while another one was synced
            if log.failed is None and (
                log.needs_flush(now) or log.has_unflushed_segments or log.is_at_rest(now)
            ):
                try:
                    await manager.host.threads.run(log.flush)
                except StorageBusy as error:
                    _later(replica, error)
                except StorageFailed:
                    continue  # the log's fence has reported it


def _later(replica: Replica, error: StorageBusy) -> None:
    logger.warning("housekeeping put off", partition=str(replica.name), reason=error.message)
