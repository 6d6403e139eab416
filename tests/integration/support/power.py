"""Loss of power, as far as one machine can play it: the process dies, what was not synced is gone from its
files, and the kernel that starts next has another boot id (CORRECTNESS E2, E3)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from uuid import uuid4

from strandline.adapters.system.files import SYSTEM_FILES
from strandline.broker.storage.inspect import dump
from strandline.broker.storage.state_files.log_state import LogState
from strandline.local.cluster import LocalCluster
from tests.integration.support.harness import Harness, Topic


async def lose_power(topic: Topic, broker: int, *, kept: float) -> dict[str, Any]:
    """Kill the broker and tear this part of the topic's unsynced batches off its logs' ends.

    Returns the settings with which it comes back after the boot.
    """
    cluster = topic.local.cluster
    await cluster.kill_broker(broker)
    for number, replicas in enumerate(topic.assignment):
        if broker in replicas:
            tear(topic.folder(broker, number), kept=kept)
    return _boots_again(cluster, broker)


async def lose_power_everywhere(harness: Harness) -> dict[int, dict[str, Any]]:
    """Kill all brokers at once; returns the settings with which each comes back. The caller decides what
    to tear."""
    cluster = harness.cluster
    async with asyncio.TaskGroup() as kills:
        for broker in cluster.broker_ids:
            kills.create_task(cluster.kill_broker(broker))
    return {broker: _boots_again(cluster, broker) for broker in cluster.broker_ids}


def _boots_again(cluster: LocalCluster, broker: int) -> dict[str, Any]:
    boot_id_file = cluster.data_dir(broker).with_name(f"boot-id-{broker}")
    boot_id_file.write_text(str(uuid4()))
    return {"boot_id_file": boot_id_file}


def tear(folder: Path, *, kept: float) -> int | None:
    """Cut a log in the middle of an unsynced batch; the offset lost first, None if all was synced."""
    state = LogState.load(folder, files=SYSTEM_FILES) or LogState()
    if state.synced_only:
        return None
    unsynced = [
        batch for batch in dump(folder, files=SYSTEM_FILES) if batch.base_offset >= state.recovery_point
    ]
    if not unsynced:
        return None
    torn = unsynced[min(int(len(unsynced) * kept), len(unsynced) - 1)]
    with Path(torn.file).open("r+b") as segment:
        segment.truncate(torn.position + torn.size // 2)
    for later in {batch.file for batch in unsynced} - {torn.file}:
        if later > torn.file:
            Path(later).unlink()
    return torn.base_offset
