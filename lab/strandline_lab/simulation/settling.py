"""After the faults: waits until the cluster is whole again.

A loss of power, or a disk with errors, may take what a topic's replicas did not sync, and no rule then allows
one of them to lead (E2, E3, E14). Such a partition waits for an operator, who is played here. Topics that
sync each record must heal without one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from strandline.client.admin.admin import Admin
from strandline.client.admin.topics import TopicDescription
from strandline.errors import StrandlineError
from strandline.host import Host
from strandline.ids import TopicPartition
from strandline_lab.core.settled import first_missing
from strandline_lab.simulation.stage import SYNCED, Stage

NOTICE_S: Final = 3.0
"""Until a broker that was paused has noticed that others lead: before, it may describe an old state."""
LOOK_S: Final = 0.5
OPERATOR_S: Final = 30.0
"""Until an operator elects a leader that may lack records."""


async def until_settled(stage: Stage) -> None:
    """Return once each partition of each topic has a leader, and all of its replicas are in sync."""
    client = stage.client("settling")
    await client.run(_until_settled(stage, client.host))
    client.kill()


async def _until_settled(stage: Stage, host: Host) -> None:
    await host.clock.sleep(NOTICE_S)
    operator_s = stage.now_s + OPERATOR_S
    while missing := await _missing(stage, host, by_operator=stage.now_s >= operator_s):
        stage.awaited = missing
        await host.clock.sleep(LOOK_S)


async def _missing(stage: Stage, host: Host, *, by_operator: bool) -> str:
    try:
        async with Admin(stage.cluster.bootstrap, host=host) as admin:
            topics = await admin.describe_topics()
            if by_operator and stage.disks_failed and (waiting := unsynced_without_leader(topics)):
                await admin.elect_unclean(waiting)
            return first_missing(topics)
    except StrandlineError as error:
        return repr(error)


def unsynced_without_leader(topics: Iterable[TopicDescription]) -> list[TopicPartition]:
    """The partitions without a leader, of topics whose records may be acknowledged before they are synced."""
    return [
        TopicPartition(topic.name, each.partition)
        for topic in topics
        if not SYNCED.items() <= topic.config.items()
        for each in topic.partitions
        if each.leader < 0
    ]
