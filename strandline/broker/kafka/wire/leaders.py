"""Who leads now, in answers that refuse a request because of it (KIP-951).

A client goes to the new leader at once, without asking for metadata. Both are tagged fields, so clients that
do not know them skip them.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from strandline.broker.kafka.wire.metadata import ADDRESS, BrokerAddress
from strandline.broker.kafka.wire.table.rows import INT32, Array, Struct


class CurrentLeader(NamedTuple):
    broker: int
    leader_epoch: int


CURRENT_LEADER: Final = Struct(CurrentLeader, INT32("leader_id", "broker"), INT32("leader_epoch"))
ENDPOINTS: Final = Array(Struct(BrokerAddress, *ADDRESS))
"""The addresses of the leaders that an answer names."""
