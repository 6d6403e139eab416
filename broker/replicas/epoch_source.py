"""Takes leader epochs from `/epoch`: each higher than every one that was taken or is known (CORRECTNESS E17).

An epoch is a base, which is the znode's data, plus the version that a compare-and-set of the znode returns.
Bases only rise, so epochs of one znode are given once, in order. Empty data is a base of 0: the version alone
is the epoch, as it always was before a ZooKeeper was set back.

A ZooKeeper that was restored from a backup has a version below epochs that logs know. A broker that joins
raises the base above all that its logs know, and each claim above what it was decided on. What lies between
is remembered: a replica whose last epoch was given in the time that ZooKeeper lost is no stray, whatever
ZooKeeper says of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import structlog

from strandline.adapters.zookeeper import znodes
from strandline.broker.replicas.replica import Replica
from strandline.ids import NO_EPOCH, LeaderEpoch
from strandline.ports import BadVersion, Coordination

logger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class EpochNode:
    """`/epoch` as it was read."""

    epochs: znodes.Epochs
    version: int

    @property
    def latest(self) -> LeaderEpoch:
        """The last epoch that was taken."""
        return LeaderEpoch(self.epochs.base + self.version)


def known_epoch(replicas: Iterable[Replica]) -> LeaderEpoch:
    """The highest epoch that any of these, or its log, knows."""
    return max(
        (LeaderEpoch(max(each.leader_epoch, each.log.epochs.latest)) for each in replicas), default=NO_EPOCH
    )


async def read_epoch(session: Coordination) -> EpochNode:
    """Raises NoNode, ConnectionLost, ValueError."""
    node = await session.get(znodes.EPOCH)
    return EpochNode(znodes.load_epochs(node.data), node.version)


async def take_epoch(session: Coordination, known: LeaderEpoch) -> LeaderEpoch:
    """An epoch above `known` that nobody else has or gets. Raises ConnectionLost; then none was taken here,
    though one may be lost."""
    while True:
        found = await read_epoch(session)
        raised = _above(found, known)
        try:
            version = await session.set(znodes.EPOCH, znodes.dump_epochs(raised), version=found.version)
        except BadVersion:
            continue  # another broker took one
        return LeaderEpoch(raised.base + version)


async def raise_epoch(session: Coordination, known: LeaderEpoch) -> None:
    """Have every epoch from now on above `known`. Raises ConnectionLost."""
    if known > (await read_epoch(session)).latest:
        await take_epoch(session, known)


def _above(found: EpochNode, known: LeaderEpoch) -> znodes.Epochs:
    """What to write so that the epoch that the write takes is above `known`."""
    if known <= found.latest:
        return found.epochs
    logger.error(
        "ZooKeeper was set back: epochs go on above those that are known here",
        epoch=found.latest,
        known=known,
    )
    lost = found.epochs.lost
    first = found.latest + 1 if lost is None else min(lost[0], found.latest + 1)
    return znodes.Epochs(known - found.version, (first, max(known, NO_EPOCH if lost is None else lost[1])))
