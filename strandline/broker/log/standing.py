"""Whether this broker still leads a partition, where an answer depends on it (CORRECTNESS E1)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final

from strandline.broker.replicas.leadership import Leadership
from strandline.broker.replicas.manager import ReplicaManager
from strandline.errors import NotLeaderOrFollower, StrandlineError
from strandline.ids import TopicPartition
from strandline.tasks import pipelined

QUESTIONS_IN_FLIGHT_MAX: Final = 64
"""Partitions of one request for which followers are asked at the same time whether their leader stands."""


class Standing:
    """Asks the followers of this broker's partitions, and ZooKeeper if they are silent."""

    def __init__(self, manager: ReplicaManager, holds_lease: Callable[[], bool]) -> None:
        self._manager = manager
        self._holds_lease = holds_lease

    # --- acknowledgements of the leader alone ------------------------------------------------

    async def unsure(self, partitions: Iterable[TopicPartition]) -> frozenset[TopicPartition]:
        """Returns those of these partitions that another broker may lead by now, as far as this broker can
        find out.

        Called before the leader alone acknowledges (acks 0 and 1). It costs nothing while the followers
        acknowledge what they receive, and a round trip to them or to ZooKeeper if they have been silent.
        """
        asked = {name: leadership for name in partitions if (leadership := self._uncertain(name))}
        sure = await pipelined(Leadership.assured, asked.values(), in_flight_max=QUESTIONS_IN_FLIGHT_MAX)
        return frozenset(name for name, is_sure in zip(asked, sure, strict=True) if not is_sure)

    def certain(self, partitions: Iterable[TopicPartition]) -> bool:
        """True if `unsure` would return none of these partitions at once."""
        return not any(map(self._uncertain, partitions))

    def _uncertain(self, name: TopicPartition) -> Leadership | None:
        """The leadership of the partition, if the followers have to be asked whether it stands."""
        try:
            leadership = self._manager.named(*name).led()
        except StrandlineError:
            return None  # `produce` answers with the error
        return None if not self._holds_lease() or leadership.certain() else leadership

    # --- ends of the log ---------------------------------------------------------------------

    async def replaced(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, StrandlineError]:
        """Those of these partitions that another broker may lead by now, with the error for the client.

        Called before a client learns that its position is outside the log, or where an epoch ended: a
        successor may have committed more. The client would take what it has read for truncated, and go on
        elsewhere.
        """
        if not partitions:
            return {}
        errors = await pipelined(self._error, partitions, in_flight_max=QUESTIONS_IN_FLIGHT_MAX)
        return {name: each for name, each in zip(partitions, errors, strict=True) if each is not None}

    async def _error(self, name: TopicPartition) -> StrandlineError | None:
        replica = None
        try:
            replica = self._manager.named(*name)
            if self._holds_lease() and await replica.led().assured():
                return None
            raise NotLeaderOrFollower(f"{name}: another broker may lead it by now")
        except StrandlineError as error:
            return error if replica is None else self._manager.with_hint(error, replica)
