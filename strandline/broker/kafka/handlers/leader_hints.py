"""Names the leader to a client that asked a broker which does not lead."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final

from strandline.broker.kafka.addresses import kafka_address
from strandline.broker.kafka.wire.leaders import CurrentLeader
from strandline.broker.kafka.wire.metadata import BrokerAddress
from strandline.errors import ErrorCode, LeaderHint
from strandline.ids import BrokerId, TopicPartition
from strandline.ports import Listener
from strandline.vocabulary.metadata import Registration

_CODES: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
"""The errors after which a client looks for the leader."""


class LeaderHints:
    """The leaders that this broker knows."""

    def __init__(
        self,
        known: Callable[[TopicPartition], LeaderHint | None],
        live: Callable[[], Mapping[BrokerId, Registration]],
        suspected: Callable[[], Collection[BrokerId]],
    ) -> None:
        """`known`: the leader of a partition, if it is another broker."""
        self._known = known
        self._live = live
        self._suspected = suspected

    def of(self, name: TopicPartition, code: int, to: Listener) -> tuple[CurrentLeader, BrokerAddress] | None:
        """The leader and its address for clients of that listener; None if the error is another, or the
        leader is not known, or cannot be reached."""
        hint = self._known(name) if code in _CODES else None
        if hint is None or hint.broker_id in self._suspected():
            return None
        registration = self._live().get(BrokerId(hint.broker_id))
        address = None if registration is None else kafka_address(registration.endpoint, to)
        return None if address is None else (CurrentLeader(hint.broker_id, hint.leader_epoch), address)
