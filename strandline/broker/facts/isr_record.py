"""Reads the `isr` znode after all pending writes."""

from __future__ import annotations

from typing import Final

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.layout import isr_znodes
from strandline.adapters.zookeeper.unreadable import UnreadableLog
from strandline.ids import TopicPartition
from strandline.ports import Clock, ConnectionLost, Coordination, NoNode
from strandline.vocabulary.metadata import PartitionState

LOOK_AGAIN_S: Final = 0.05
"""Pause before a write with an unknown outcome is looked up again."""
UNREADABLE_LOOK_AGAIN_S: Final = 1.0


async def read_isr(
    session: Coordination, clock: Clock, name: TopicPartition
) -> tuple[PartitionState | None, int]:
    """Returns (state, version); the state is None if the partition is gone. Waits while the connection is
    lost or the znode is unreadable: until an operator repairs it, nothing is decided about the ISR, and
    nothing is written over it."""
    path, unreadable = znodes.isr(name.topic, name.partition), UnreadableLog()
    while True:
        try:
            await session.sync(path)
            znode = await session.get(path)
            return isr_znodes.load_isr(name.topic, name.partition, znode.data), znode.version
        except NoNode:
            return None, 0
        except ConnectionLost:
            await clock.sleep(LOOK_AGAIN_S)
        except znodes.UnreadableZnode as error:
            unreadable.report(error)
            await clock.sleep(UNREADABLE_LOOK_AGAIN_S)
