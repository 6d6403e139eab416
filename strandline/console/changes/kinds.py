"""Every kind of change, by the name that forms use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from strandline.console.changes.change import Kind
from strandline.console.changes.groups import DeleteGroup, ResetOffsets
from strandline.console.changes.records import SendRecord
from strandline.console.changes.replicas import (
    AlterBalance,
    CancelMoves,
    DrainBroker,
    ElectPreferred,
    Reassign,
    StartBalance,
    ThrottleMoves,
    UndrainBroker,
)
from strandline.console.changes.topics import AlterTopic, CreateTopic, DeleteTopic, GrowTopic

KINDS: Final[Mapping[str, Kind]] = {
    "create-topic": CreateTopic.read,
    "alter-topic": AlterTopic.read,
    "grow-topic": GrowTopic.read,
    "delete-topic": DeleteTopic.read,
    "reassign": Reassign.read,
    "cancel-moves": CancelMoves.read,
    "throttle-moves": ThrottleMoves.read,
    "balance": StartBalance.read,
    "alter-balance": AlterBalance.read,
    "drain-broker": DrainBroker.read,
    "undrain-broker": UndrainBroker.read,
    "elect-preferred": ElectPreferred.read,
    "reset-offsets": ResetOffsets.read,
    "delete-group": DeleteGroup.read,
    "send-record": SendRecord.read,
}
