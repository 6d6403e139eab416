"""After the faults: waits until the cluster is whole again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from strandline.client.admin.admin import Admin, TopicDescription
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
    while missing := await _missing(stage, host):
        stage.awaited = missing
        await host.clock.sleep(LOOK_S)


async def _missing(stage: Stage, host: Host) -> str:
    try:
        async with Admin(stage.cluster.bootstrap, host=host) as admin:
            return first_missing(await admin.describe_topics())
    except StrandlineError as error:
        return repr(error)


def first_missing(topics: Iterable[TopicDescription]) -> str:
    """The first thing that these topics lack; empty if they lack nothing."""
    for topic in topics:
        for each in topic.partitions:
            name = f"{topic.name}-{each.partition}"
            if each.leader < 0:
                return f"{name} has no leader"
            if set(each.isr) != set(each.replicas):
                return f"{name} has replicas {list(each.replicas)} and of them in sync {list(each.isr)}"
            if each.high_watermark is None:
                return f"the leader of {name} does not answer"
    return ""
