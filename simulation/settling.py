"""After the faults: waits until the cluster is whole again."""

from __future__ import annotations

from typing import Final

from strandline.client.admin.admin import Admin
from strandline.errors import StrandlineError
from strandline.host import Host
from strandline.simulation.stage import Stage

NOTICE_S: Final = 3.0
"""Until a broker that was paused has noticed that others lead: before, it may describe an old state."""
LOOK_S: Final = 0.5


async def until_settled(stage: Stage) -> None:
    """Return once each partition of each topic has a leader, and all of its replicas are in sync."""
    client = stage.client("settling")
    await client.run(_until_settled(stage, client.host))
    client.kill()


async def _until_settled(stage: Stage, host: Host) -> None:
    await host.clock.sleep(NOTICE_S)
    while not await _is_settled(stage, host):
        await host.clock.sleep(LOOK_S)


async def _is_settled(stage: Stage, host: Host) -> bool:
    try:
        async with Admin(stage.cluster.bootstrap, host=host) as admin:
            topics = await admin.describe_topics()
    except StrandlineError:
        return False
    return all(
        each.leader >= 0 and set(each.isr) == set(each.replicas) and each.high_watermark is not None
        for topic in topics
        for each in topic.partitions
    )
