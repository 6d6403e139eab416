"""A member's effects, as lines of a transcript."""

from __future__ import annotations

from collections.abc import Iterable

from strandline.consumer.core.member_effects import (
    Assign,
    DelayJoin,
    Effect,
    Fatal,
    FindCoordinator,
    LogLine,
    Lose,
    NeedMetadata,
    Report,
    Revoke,
    Say,
    SendFarewell,
    SendJoin,
    SendLeave,
    SendSync,
    StartHeartbeat,
    StopHeartbeat,
)
from strandline.ids import TopicPartition


def spoken(effect: Effect) -> str:
    """An effect in a line of a transcript."""
    match effect:
        case SendJoin(_, request):
            return f"join as {request.member or '(new)'}: {request.reason}"
        case SendSync(_, sync):
            return f"sync generation {sync.generation}" + (" as leader" if sync.assignments else "")
        case SendLeave(leave):
            return f"leave as {leave.members[0].member}: {leave.members[0].reason}"
        case Assign(added, owned, _):
            return f"on_assigned({named(added)}), owns {named(owned)}"
        case Revoke(_, partitions, reason):
            return f"drain, commit, on_revoked({named(partitions)}): {reason}"
        case Lose(partitions, reason):
            return f"on_lost({named(partitions)}): {reason}"
        case LogLine(level, text):
            return f"{level.value}: {text}"
        case FindCoordinator(reason):
            return f"find the coordinator: {reason}"
        case NeedMetadata(_, topics):
            return f"look up {' '.join(topics)}"
        case StartHeartbeat(member, generation):
            return f"heartbeat as {member} in generation {generation}"
        case StopHeartbeat():
            return "stop heartbeats"
        case DelayJoin(_, attempt):
            return f"pause {attempt}"
        case Report(report):
            change = report.changes[0]
            return f"report {change.kind.value} {named(change.partitions)}"
        case Fatal(error):
            return f"fatal: {error.message}"
        case Say() | SendFarewell():
            raise AssertionError(f"{effect} is of a member whose coordinator assigns")


def named(partitions: Iterable[TopicPartition]) -> str:
    return " ".join(f"{topic}{number}" for topic, number in sorted(partitions)) or "nothing"
