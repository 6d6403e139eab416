"""Runs the compactions of a broker's logs, one at a time; leaders and followers each compact their own."""

from __future__ import annotations

from typing import Final

import structlog

from strandline.broker.core.replication.lags import kept_from
from strandline.broker.core.replication.replica_states import ReplicaState
from strandline.broker.replicas.manager import ReplicaManager
from strandline.broker.replicas.replica import Replica
from strandline.broker.storage.compaction.rewrite import Abandoned, Compaction, Replacement
from strandline.errors import CorruptMessage, StorageBusy, StorageFailed

logger = structlog.get_logger(__name__)

LOOK_AGAIN_S: Final = 0.01
"""Pause before an install that collided with a flush is tried again."""


async def compact_logs(manager: ReplicaManager) -> None:
    """The compaction task. It compacts one log at a time, so the memory for keys is needed only once."""
    while True:
        await manager.clock.sleep(manager.settings.compaction_check_ms / 1000)
        for replica in manager:
            if replica.config.compacts:
                await _compact(manager, replica)


async def _compact(manager: ReplicaManager, replica: Replica) -> None:
    """Runs the passes that the log's keys need. An error outside the log leaves the log unchanged."""
    try:
        again = False
        while (compaction := _begin(manager, replica, continued=again)) is not None:
            await _run(manager, replica, compaction)
            if compaction.complete:
                break
            again = True
    except Abandoned:
        logger.info("compaction abandoned: the log was cut or closed", partition=str(replica.name))
    except (OSError, CorruptMessage, StorageBusy) as error:
        # No data is lost: the disk may have room again, and readers of the log find damage.
        logger.error("compaction failed", partition=str(replica.name), reason=str(error))
    except StorageFailed:
        return  # the log's fence has reported it


def _begin(manager: ReplicaManager, replica: Replica, *, continued: bool) -> Compaction | None:
    if replica.log.failed is not None or replica.state not in (ReplicaState.LEADER, ReplicaState.FOLLOWER):
        return None
    return replica.log.begin_compaction(
        now_ms=manager.retention.now_ms(),
        high_watermark=replica.high_watermark,
        map_bytes=manager.settings.compaction_map_bytes,
        kept_from=replica.kept_from if replica.leadership is None else kept_from(replica.leadership.core),
        kept_ms_max=manager.settings.compaction_absence_ms_max,
        continued=continued,
    )


async def _run(manager: ReplicaManager, replica: Replica, compaction: Compaction) -> None:
    clock, threads, log = manager.clock, manager.host.threads, replica.log
    began, size, segments = clock.monotonic(), log.size_bytes, log.segment_count
    group: Replacement | None = None
    try:
        await threads.run(compaction.read_keys)
        while (group := await threads.run(compaction.write_group)) is not None:
            while not log.compactor.install(compaction, group):
                await clock.sleep(LOOK_AGAIN_S)
        await threads.run(log.compactor.finish, compaction)
    except BaseException:
        compaction.cancel()  # asks a thread that still runs to end soon
        if group is not None:
            compaction.discard(group)
        raise
    logger.info(
        "compacted",
        partition=str(replica.name),
        clean_offset=compaction.end,
        freed_bytes=size - log.size_bytes,
        segments_before=segments,
        segments=log.segment_count,
        seconds=round(clock.monotonic() - began, 3),
    )
