"""Takes leader epochs from `/epoch`: each is higher than all that were taken or are known (CORRECTNESS E17).

An epoch is the sum of a base (the znode's data) and the version that a compare-and-set of the znode returns.
Bases only rise, so the epochs of one znode are unique and ascending. Empty data is a base of 0: then the
version alone is the epoch.

A ZooKeeper that was restored from a backup has a version below epochs that logs know. A broker that joins
raises the base above all that its logs know, and each claim raises it above the epochs that it was decided
on. The znode keeps the range in between: a replica whose last epoch is in it is not treated as stray,
although ZooKeeper does not know that epoch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import structlog

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.set_back import SetBack
from strandline.broker.replicas.replica import Replica
from strandline.ids import NO_EPOCH, LeaderEpoch
from strandline.ports import BadVersion, Coordination, NoNode

logger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class EpochNode:
    """The content of `/epoch` as it was read."""

    epochs: znodes.Epochs
    version: int

    @property
    def latest(self) -> LeaderEpoch:
        """The last epoch that was taken."""
        return LeaderEpoch(self.epochs.base + self.version)


def known_epoch(replicas: Iterable[Replica]) -> LeaderEpoch:
    """The highest epoch that any of these replicas, or its log, knows."""
    return max(
        (LeaderEpoch(max(each.leader_epoch, each.log.epochs.latest)) for each in replicas), default=NO_EPOCH
    )


async def read_epoch(session: Coordination) -> EpochNode:
    """Reads `/epoch`. Raises NoNode, ConnectionLost, ValueError."""
    node = await session.get(znodes.EPOCH)
    return EpochNode(znodes.load_epochs(node.data), node.version)


async def take_epoch(session: Coordination, known: LeaderEpoch) -> LeaderEpoch:
    """Takes a new, unique epoch above `known`. Raises ConnectionLost; then the caller has none, though one
    may be used up."""
    while True:
        found = await read_epoch(session)
        raised = _above(found, known)
        try:
            version = await session.set(znodes.EPOCH, znodes.dump_epochs(raised), version=found.version)
        except BadVersion:
            continue  # another broker took one
        return LeaderEpoch(raised.base + version)


async def raise_epoch(session: Coordination, known: LeaderEpoch) -> None:
    """Makes all later epochs higher than `known`. Raises ConnectionLost."""
    if known > (await read_epoch(session)).latest:
        await take_epoch(session, known)


async def compare_epoch(session: Coordination, known: LeaderEpoch) -> None:
    """Raises SetBack if ZooKeeper has given out fewer epochs than are known here; ConnectionLost."""
    await session.sync()
    try:
        latest = (await read_epoch(session)).latest
    except NoNode:
        latest = NO_EPOCH
    if latest < known:
        logger.error(
            "ZooKeeper was set back: this broker starts anew with what it holds now",
            epoch=latest,
            known=known,
        )
        raise SetBack(f"ZooKeeper has given out epochs up to {latest}, and {known} is known here")


def _above(found: EpochNode, known: LeaderEpoch) -> znodes.Epochs:
    """The data to write so that the write's own epoch is above `known`."""
    if known <= found.latest:
        return found.epochs
    logger.error(
        "ZooKeeper was set back: epochs continue above those that are known here",
        epoch=found.latest,
        known=known,
    )
    lost = found.epochs.lost
    first = found.latest + 1 if lost is None else min(lost[0], found.latest + 1)
    return znodes.Epochs(known - found.version, (first, max(known, NO_EPOCH if lost is None else lost[1])))
