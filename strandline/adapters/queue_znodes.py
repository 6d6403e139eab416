"""What waits in a broker's two queues in ZooKeeper: state-change requests, and notices of elections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from strandline.adapters.znodes import dump, load
from strandline.ids import NO_BROKER, BrokerEpoch, BrokerId, LeaderEpoch, PartitionId, PartitionKey, TopicId
from strandline.state_changes import Command, End, RequestState, StateChange


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
    return fields


def load_state_changes(data: bytes) -> list[StateChange]:
    """Raises ValueError."""
    raw = load("state-change request", data)
    try:
        return [
            StateChange(
                item["id"],
                Command(item["command"]),
                item["topic"],
                PartitionKey(TopicId(item["topic_id"]), PartitionId(item["partition"])),
                LeaderEpoch(item["epoch"]),
                BrokerId(item["requester"]),
                item["at"],
                BrokerEpoch(item["broker_epoch"]),
                item.get("reason", ""),
                _end(item["end"]) if "end" in item else None,
            )
            for item in raw
        ]
    except (KeyError, TypeError) as error:
        raise ValueError(f"a state-change request lacks {error}: {data[:200]!r}") from error


def _end(raw: Sequence[Any]) -> End:
    state, at_ms, received_at_ms, reason = raw
    return End(RequestState(state), at_ms, received_at_ms, reason)


@dataclass(frozen=True, slots=True)
class ElectionNotice:
    """`/brokers/elections/[id]/…`: a word about leadership, which waits behind no request.

    Without `give_to`: this partition has no leader now, you are next. With it: you lead this partition in
    `leader_epoch`; hand it over to `give_to`. `unclean`: this partition has no leader now, and an operator
    wants you to lead although committed records are lost by it.
    """

    topic: str
    key: PartitionKey
    leader_epoch: LeaderEpoch
    """Epoch of the leader that stepped down, or is to."""
    give_to: BrokerId = NO_BROKER
    reason: str = ""
    """Why, for people: it goes into the record of the election."""
    unclean: bool = False


def dump_notices(notices: Sequence[ElectionNotice]) -> bytes:
    return dump(
        [
            [n.topic, n.key.topic_id, n.key.partition, n.leader_epoch, n.give_to, n.reason]
            + ([True] if n.unclean else [])
            for n in notices
        ]
    )


def load_notices(data: bytes) -> list[ElectionNotice]:
    """Raises ValueError."""
    raw = load("election notice", data)
    try:
        return [
            ElectionNotice(
                name,
                PartitionKey(TopicId(tid), PartitionId(number)),
                LeaderEpoch(epoch),
                BrokerId(give_to),
                reason,
                unclean == [True],
            )
            for name, tid, number, epoch, give_to, reason, *unclean in raw
        ]
    except (TypeError, ValueError) as error:
        raise ValueError(f"an election notice is malformed: {data[:200]!r}") from error
