"""State changes: the requests that are queued for brokers, and the recorded events.

A **request** asks one broker to start, close or delete one replica. Its states (Kafka's design V2):

    requested ─► received ─► completed
      │            ├─────► superseded   a later epoch, incarnation or request replaces it
      │            └─────► failed       it was tried and could not be done; a reason is given
      ├──────────────────► superseded
      └──────────────────► failed       its broker is gone, and the request cannot be kept any longer

The last three are ends. A request has exactly one end: it is decided by a compare-and-set on the
znode that queues the request, and stays there until `__state_changes` has its records.

An **event** is one record of the internal topic `__state_changes`: a step of a request, or an event
that no request caused, such as an election. docs/run/state-changes.md has the schema. A writer that
does not know whether its record was written may write it twice; both records have the same
`identity`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from strandline import states
from strandline.ids import (
    NO_BROKER,
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    PartitionId,
    PartitionKey,
    TopicId,
)
from strandline.vocabulary.parsing.typed_json import (
    INT32_MAX,
    UnreadableJson,
    broker_number,
    broker_numbers,
    integer,
    parse,
    text,
    unreadable_as,
)

ANY_LIFE: Final = BrokerEpoch(-1)
"""As a request's `broker_epoch`: any registration of the broker may execute it. The broker was dead
at the time of the request."""


class Command(Enum):
    """The action that a state-change request asks of a broker (Kafka's designs V2 and V3)."""

    START_REPLICA = "start-replica"
    """Host this replica, and follow the leader."""
    CLOSE_REPLICA = "close-replica"
    """Stop fetching and serving; the log stays on disk."""
    DELETE_REPLICA = "delete-replica"
    """Delete this incarnation of the replica."""


class RequestState(Enum):
    REQUESTED = "requested"
    RECEIVED = "received"
    COMPLETED = "completed"
    SUPERSEDED = "superseded"
    FAILED = "failed"


_S = RequestState

LEGAL: Final[Mapping[RequestState, frozenset[RequestState]]] = {
    _S.REQUESTED: frozenset({_S.RECEIVED, _S.SUPERSEDED, _S.FAILED}),
    _S.RECEIVED: frozenset({_S.COMPLETED, _S.SUPERSEDED, _S.FAILED}),
    _S.COMPLETED: frozenset(),
    _S.SUPERSEDED: frozenset(),
    _S.FAILED: frozenset(),
}

ENDS: Final = frozenset(state for state, following in LEGAL.items() if not following)


def transition(subject: object, current: RequestState, wanted: RequestState) -> RequestState:
    """Returns `wanted` if it may follow `current`. Raises IllegalTransition with the values."""
    return states.transition(f"request {subject}", current, wanted, LEGAL)


@dataclass(frozen=True, slots=True)
class End:
    """How a request ended; kept in the znode that queues the request until it is recorded."""

    state: RequestState
    at_ms: int
    received_at_ms: int = -1
    """When the broker received the request; -1 if it never did."""
    reason: str = ""

    def __post_init__(self) -> None:
        assert self.state in ENDS, self.state


@dataclass(frozen=True, slots=True)
class AskedBy:
    """Who asked for a change: a principal, and the address that it asked from."""

    principal: str
    address: str


def dump_asked_by(by: AskedBy) -> dict[str, str]:
    return {"principal": by.principal, "address": by.address}


def load_asked_by(raw: Any) -> AskedBy | None:
    """None: no caller is named. Raises ValueError, TypeError or KeyError for anything but a caller."""
    return None if raw is None else AskedBy(text(raw["principal"]), text(raw["address"]))


@dataclass(frozen=True, slots=True)
class StateChange:
    """One request in a broker's queue; a znode holds a list of requests.

    `leader_epoch` and the topic id fence it: a request with an older one is superseded, never
    executed (CORRECTNESS Q1). `requester` is a broker id, or -1 for the controller. `broker_epoch`
    is the registration of the broker that the requester knew: an earlier one does not execute the
    request (CORRECTNESS E4), a later one does.
    """

    request_id: str
    command: Command
    topic: str
    key: PartitionKey
    leader_epoch: LeaderEpoch
    requester: BrokerId
    at_ms: int
    broker_epoch: BrokerEpoch = ANY_LIFE
    reason: str = ""
    """Why it was requested, for human readers."""
    end: End | None = None
    by: AskedBy | None = None
    """The caller that asked for the change of which it is a part; None: no caller did."""


# --- events ---------------------------------------------------------------------------------


class ChangeKind(Enum):
    """The kinds of events besides the three commands. Each is recorded once it has happened."""

    ELECT_LEADER = "elect-leader"
    """`broker` was elected leader of `epoch`; `reason` says why there was no leader."""
    RESIGN_LEADER = "resign-leader"
    """`broker` gave up the leadership of `epoch`; `reason` says why."""
    CHANGE_ISR = "change-isr"
    """The leader `broker` changed the ISR: `left` and `joined`."""
    REASSIGN = "reassign-replicas"
    """AR changes: state requested at the request, completed or superseded (cancelled) at the end."""
    OVERDUE = "reassignment-overdue"
    """The deadline of a reassignment has passed: it goes on, unless its request said otherwise."""
    TRUNCATE = "truncate-log"
    """The replica on `broker` truncated `first`..`end`; `lost` of these records had been committed."""
    DELETE_STRAY = "delete-stray"
    """`broker` found a replica that is not assigned to it, and removed it."""


@dataclass(frozen=True, slots=True)
class StateChangeEvent:
    """One record of `__state_changes`. Fields that do not apply keep their defaults and are left
    out of the JSON."""

    id: str
    """The request's id; without a request it is derived from the event's facts, so that a repeated
    record has the same id."""
    command: Command | ChangeKind
    state: RequestState
    topic: str
    key: PartitionKey
    broker: BrokerId
    """The broker that the event is about: the one asked, elected, or truncated."""
    epoch: LeaderEpoch
    at_ms: int
    requester: BrokerId | None = None
    """The requester; -1 for the controller, None if there is no request."""
    reason: str = ""
    isr: tuple[BrokerId, ...] | None = None
    left: tuple[BrokerId, ...] = ()
    joined: tuple[BrokerId, ...] = ()
    replicas: tuple[BrokerId, ...] = ()
    unclean: bool = False
    """For an election: the winner was not in sync, committed records may be lost."""
    first: int | None = None
    end: int | None = None
    lost: int | None = None
    by: AskedBy | None = None
    """The caller that asked for the change; None: no caller did, or the record is older than this field."""

    @property
    def identity(self) -> tuple[str, str]:
        """Two records with the same identity describe the same step; the first one read counts."""
        return self.id, self.state.value


# --- lives of partitions ---------------------------------------------------------------------

TOPIC_CREATED: Final = "topic created"
PARTITIONS_ADDED: Final = "partitions added"
TOPIC_DELETED: Final = "topic deleted"
PARTITIONS_NOT_ADDED: Final = "partitions not added"
"""Taken back, since not all could be added."""


class LifeChange(Enum):
    """What becomes of a partition."""

    CREATED = "created"
    DELETED = "deleted"


_REASONS: Final = {
    (Command.START_REPLICA, TOPIC_CREATED): LifeChange.CREATED,
    (Command.START_REPLICA, PARTITIONS_ADDED): LifeChange.CREATED,
    (Command.DELETE_REPLICA, TOPIC_DELETED): LifeChange.DELETED,
    (Command.DELETE_REPLICA, PARTITIONS_NOT_ADDED): LifeChange.DELETED,
}


def life_change(event: StateChangeEvent) -> LifeChange | None:
    """What a request of the controller says of the whole partition; None if it is about one replica only."""
    if event.state is not RequestState.REQUESTED or event.requester != NO_BROKER:
        return None
    if not isinstance(event.command, Command):
        return None
    return _REASONS.get((event.command, event.reason))


# --- records ------------------------------------------------------------------------------------

VERSION: Final = 1
"""The version of the schema. A new field does not change it: readers skip unknown fields."""
_ENCODER: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)
"""`json.dumps` would make one for each event."""

_COMMANDS: Final[Mapping[str, Command | ChangeKind]] = {each.value: each for each in (*Command, *ChangeKind)}


def dump_event(event: StateChangeEvent) -> dict[str, Any]:
    """The JSON object of an event; field names are those of the command line (`strandline state-changes`)."""
    fields: dict[str, Any] = {
        "version": VERSION,
        "id": event.id,
        "command": event.command.value,
        "topic": event.topic,
        "topic_id": event.key.topic_id,
        "partition": event.key.partition,
        "broker": event.broker,
        "epoch": event.epoch,
        "state": event.state.value,
        "at": event.at_ms,
    }
    for name, number in (
        ("requester", event.requester), ("first", event.first), ("end", event.end), ("lost", event.lost),
    ):  # fmt: skip
        if number is not None:
            fields[name] = number
    if event.reason:
        fields["reason"] = event.reason
    if event.isr is not None:
        fields["isr"] = list(event.isr)
    for name, brokers in (("left", event.left), ("joined", event.joined), ("replicas", event.replicas)):
        if brokers:
            fields[name] = list(brokers)
    if event.unclean:
        fields["unclean"] = True
    if event.by is not None:
        fields["by"] = dump_asked_by(event.by)
    return fields


class NotAStateChange(UnreadableJson):
    """The JSON is no event of this or a later version."""


def load_event(fields: Any) -> StateChangeEvent:
    """Raises NotAStateChange (a ValueError) for JSON that is no event of this or a later version."""
    with unreadable_as(NotAStateChange, "a state change", fields):
        isr = fields.get("isr")
        requester = fields.get("requester")
        partition = PartitionId(integer(fields["partition"], least=0, most=INT32_MAX))
        return StateChangeEvent(
            id=text(fields["id"]),
            command=_COMMANDS[fields["command"]],
            state=RequestState(fields["state"]),
            topic=text(fields["topic"]),
            key=PartitionKey(TopicId(text(fields["topic_id"])), partition),
            broker=broker_number(fields["broker"]),
            epoch=LeaderEpoch(integer(fields["epoch"], most=INT32_MAX)),
            at_ms=integer(fields["at"]),
            requester=None if requester is None else broker_number(requester),
            reason=text(fields.get("reason", "")),
            isr=None if isr is None else broker_numbers(isr),
            left=broker_numbers(fields.get("left", ())),
            joined=broker_numbers(fields.get("joined", ())),
            replicas=broker_numbers(fields.get("replicas", ())),
            unclean=bool(fields.get("unclean", False)),
            first=_offset(fields.get("first")),
            end=_offset(fields.get("end")),
            lost=_offset(fields.get("lost")),
            by=load_asked_by(fields.get("by")),
        )


def _offset(raw: Any) -> int | None:
    return None if raw is None else integer(raw)


def event_key(event: StateChangeEvent) -> bytes:
    """The partition by name, so that all its events are in one partition of the topic."""
    return f"{event.topic}-{event.key.partition}".encode()


def event_value(event: StateChangeEvent) -> bytes:
    return _ENCODER.encode(dump_event(event)).encode()


def parse_event(value: bytes | None) -> StateChangeEvent:
    """Raises NotAStateChange, which is a ValueError."""
    with unreadable_as(NotAStateChange, "a state change", value):
        fields = parse(value or b"")
    return load_event(fields)


def life_of(change: StateChange, broker: BrokerId) -> list[StateChangeEvent]:
    """The events of a request in the queue of `broker`, up to its current state."""

    def event(state: RequestState, at_ms: int, reason: str) -> StateChangeEvent:
        return StateChangeEvent(
            id=change.request_id,
            command=change.command,
            state=state,
            topic=change.topic,
            key=change.key,
            broker=broker,
            epoch=change.leader_epoch,
            at_ms=at_ms,
            requester=change.requester,
            reason=reason,
            by=change.by,
        )

    steps = [event(RequestState.REQUESTED, change.at_ms, change.reason)]
    if (end := change.end) is not None:
        if end.received_at_ms >= 0:
            steps.append(event(RequestState.RECEIVED, end.received_at_ms, ""))
        steps.append(event(end.state, end.at_ms, end.reason))
    return steps
