"""Encodes the znodes of a broker's two queues: state-change requests, and election notices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from strandline.adapters.zookeeper.znodes import dump, reading
from strandline.ids import NO_BROKER, BrokerEpoch, BrokerId, LeaderEpoch, PartitionId, PartitionKey, TopicId
from strandline.vocabulary.parsing.typed_json import INT32_MAX, broker_number, integer, text
from strandline.vocabulary.state_changes import (
    AskedBy,
    Command,
    End,
    RequestState,
    StateChange,
    dump_asked_by,
    load_asked_by,
)


def dump_state_changes(changes: Sequence[StateChange]) -> bytes:
    return dump([_request(change) for change in changes])


def _request(change: StateChange) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "id": change.request_id,
        "command": change.command.value,
        "topic": change.topic,
        "topic_id": change.key.topic_id,
        "partition": change.key.partition,
        "epoch": change.leader_epoch,
        "requester": change.requester,
        "at": change.at_ms,
        "broker_epoch": change.broker_epoch,
    }
    if change.reason:
        fields["reason"] = change.reason
    if (end := change.end) is not None:
        fields["end"] = [end.state.value, end.at_ms, end.received_at_ms, end.reason]
    if change.by is not None:
        fields["by"] = dump_asked_by(change.by)
    return fields


def load_state_changes(data: bytes) -> list[StateChange]:
    """Raises UnreadableZnode."""
    with reading("a state-change request", data) as raw:
        return [
            StateChange(
                text(item["id"]),
                Command(item["command"]),
                text(item["topic"]),
                _key(item["topic_id"], item["partition"]),
                _epoch(item["epoch"]),
                broker_number(item["requester"]),
                integer(item["at"]),
                BrokerEpoch(integer(item["broker_epoch"])),
                text(item.get("reason", "")),
                _end(item["end"]) if "end" in item else None,
                load_asked_by(item.get("by")),
            )
            for item in raw
        ]


def _end(raw: Sequence[Any]) -> End:
    state, at_ms, received_at_ms, reason = raw
    return End(RequestState(state), integer(at_ms), integer(received_at_ms), text(reason))


def _key(topic_id: Any, partition: Any) -> PartitionKey:
    return PartitionKey(TopicId(text(topic_id)), PartitionId(integer(partition, least=0, most=INT32_MAX)))


def _epoch(raw: Any) -> LeaderEpoch:
    return LeaderEpoch(integer(raw, most=INT32_MAX))


@dataclass(frozen=True, slots=True)
class ElectionNotice:
    """`/brokers/elections/[id]/…`: a notice about leadership, which does not wait behind queued
    requests.

    Without `give_to`: the partition has no leader now, and this broker is the next candidate. With
    it: this broker leads the partition in `leader_epoch` and is asked to hand it over to `give_to`.
    `unclean`: the partition has no leader now, and an operator wants this broker to lead although
    committed records are lost by it.
    """

    topic: str
    key: PartitionKey
    leader_epoch: LeaderEpoch
    """Epoch of the leader that stepped down, or is asked to."""
    give_to: BrokerId = NO_BROKER
    reason: str = ""
    """The reason for people; it goes into the record of the election."""
    unclean: bool = False
    by: AskedBy | None = None
    """The caller that asked for it; None: no caller did."""


def dump_notices(notices: Sequence[ElectionNotice]) -> bytes:
    return dump(
        [
            [n.topic, n.key.topic_id, n.key.partition, n.leader_epoch, n.give_to, n.reason, *_more(n)]
            for n in notices
        ]
    )


def _more(notice: ElectionNotice) -> list[Any]:
    """The fields that most notices leave out, at the end."""
    if notice.by is not None:
        return [notice.unclean, dump_asked_by(notice.by)]
    return [True] if notice.unclean else []


def load_notices(data: bytes) -> list[ElectionNotice]:
    """Raises UnreadableZnode."""
    with reading("an election notice", data) as raw:
        return [
            ElectionNotice(
                text(name),
                _key(topic_id, number),
                _epoch(epoch),
                broker_number(give_to),
                text(reason),
                more[:1] == [True],
                load_asked_by(more[1] if len(more) > 1 else None),
            )
            for name, topic_id, number, epoch, give_to, reason, *more in raw
        ]
