"""The `isr` znode of a partition with the trail of its changes, and the events that are not recorded yet."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

import structlog

from strandline.adapters.zookeeper.znodes import dump, isr, reading
from strandline.ids import NO_EPOCH, BrokerEpoch, LeaderEpoch
from strandline.vocabulary.metadata import IsrMember, LogCondition, LogStatement, PartitionState
from strandline.vocabulary.parsing.typed_json import INT32_MAX, broker_number, integer, text
from strandline.vocabulary.state_changes import StateChangeEvent, dump_event, load_event

logger = structlog.get_logger(__name__)

ISRS_KNOWN_MAX: Final = 256
"""Decoded `isr` znodes that are kept, of some kilobytes each."""


def dump_isr(state: PartitionState) -> bytes:
    fields: dict[str, Any] = {
        "leader": state.leader,
        "epoch": state.leader_epoch,
        "isr": [[member.broker, member.broker_epoch] for member in state.isr],
    }
    if state.trail:
        fields["trail"] = [dump_event(event) for event in state.trail]
    if state.statements:
        fields["statements"] = [
            [
                s.broker,
                s.broker_epoch,
                s.condition.value,
                s.last_epoch,
                s.log_start,
                s.log_end,
                s.high_watermark,
            ]
            for s in state.statements
        ]
    if state.lossy_epoch != NO_EPOCH:
        fields["lossy_epoch"] = state.lossy_epoch
    return dump(fields)


@lru_cache(ISRS_KNOWN_MAX)
def load_isr(name: str, number: int, data: bytes) -> PartitionState:
    """The same bytes are read again and again: most of their decoding is that of the trail."""
    path = isr(name, number)
    with reading(path, data) as raw:
        trail = raw.get("trail")
        state = PartitionState(
            broker_number(raw["leader"]),
            LeaderEpoch(integer(raw["epoch"], most=INT32_MAX)),
            tuple(IsrMember(broker_number(b), BrokerEpoch(integer(e))) for b, e in raw["isr"]),
            statements=tuple(_statement(*each) for each in raw.get("statements", ())),
            lossy_epoch=LeaderEpoch(integer(raw.get("lossy_epoch", NO_EPOCH), most=INT32_MAX)),
        )
    return replace(state, trail=_load_trail(path, trail)) if trail else state


def _statement(
    broker_id: Any, life: Any, condition: Any, last_epoch: Any, start: Any, end: Any, watermark: Any
) -> LogStatement:
    return LogStatement(
        broker_number(broker_id),
        BrokerEpoch(integer(life)),
        LogCondition(text(condition)),
        integer(last_epoch, most=INT32_MAX),
        integer(start),
        integer(end),
        integer(watermark),
    )


def _load_trail(path: str, raw: Any) -> tuple[StateChangeEvent, ...]:
    """Skips what is no event, or an event of a later version: no election may fail because of a record."""
    events = []
    for fields in raw if isinstance(raw, list) else [raw]:
        try:
            events.append(load_event(fields))
        except ValueError as error:
            logger.error("not an event: it will not be recorded", path=path, reason=str(error))
    return tuple(events)


def dump_unrecorded(events: Iterable[StateChangeEvent]) -> bytes:
    return dump([dump_event(event) for event in events])


def load_unrecorded(path: str, data: bytes) -> tuple[StateChangeEvent, ...]:
    with reading(path, data) as raw:
        return _load_trail(path, raw)
