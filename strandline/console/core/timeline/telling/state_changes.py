"""A state change as one sentence, and what it changed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from strandline.vocabulary.reassignment_events import CANCELLED, is_cancelled
from strandline.vocabulary.state_changes import (
    AskedBy,
    ChangeKind,
    Command,
    LifeChange,
    RequestState,
    StateChangeEvent,
    life_change,
)

CONTROLLER: Final = -1
_TO_DO: Final = {
    Command.START_REPLICA: "to host {} and follow its leader",
    Command.CLOSE_REPLICA: "to stop following {}; the log stays",
    Command.DELETE_REPLICA: "to delete its replica of {}",
}
_DONE: Final = {
    Command.START_REPLICA: "hosts {} and follows its leader",
    Command.CLOSE_REPLICA: "has stopped following {}; the log stays",
    Command.DELETE_REPLICA: "has deleted its replica of {}",
}


def sentence(event: StateChangeEvent) -> str:
    """What happened, and why."""
    reason = event.reason
    if is_cancelled(event):
        reason = reason.removeprefix(CANCELLED).removeprefix(", ")
    why = f": {reason}" if reason else ""
    return f"{_what(event)}{why}{_lost(event)}{_isr(event)}."


def cause(event: StateChangeEvent) -> str:
    """Why it happened, and who asked for it; empty if the event does not say."""
    return " ".join(filter(None, [event.reason, f"({asked(event.by)})" if event.by else ""]))


def asked(by: AskedBy) -> str:
    """Who asked for a change."""
    return f"asked for by {by.principal} from {by.address}"


def change(event: StateChangeEvent) -> tuple[dict[str, Any], dict[str, Any]]:
    """What was before and what is after, as far as the event itself says it."""
    match event.command:
        case ChangeKind.ELECT_LEADER:
            return {}, {"leader": event.broker, "epoch": event.epoch, "isr": _list(event.isr)}
        case ChangeKind.RESIGN_LEADER:
            after = {"leader": None, "epoch": event.epoch, "isr": _list(event.isr)}
            return {"leader": event.broker, "epoch": event.epoch}, after
        case ChangeKind.CHANGE_ISR:
            if event.isr is None:
                return {}, {}
            before = [broker for broker in event.isr if broker not in event.joined]
            return {"isr": sorted({*before, *event.left})}, {"isr": list(event.isr)}
        case ChangeKind.TRUNCATE if event.state is RequestState.COMPLETED:
            return {"end": event.end}, {"end": event.first}
        case ChangeKind.REASSIGN:
            return {}, {"state": event.state.value, "replicas": list(event.replicas)}
        case _:
            return {}, {"state": event.state.value}


def _what(event: StateChangeEvent) -> str:
    name, broker = f"{event.topic}-{event.key.partition}", f"Broker {event.broker}"
    if isinstance(event.command, Command):
        return _request(event, event.command, name)
    match event.command:
        case ChangeKind.ELECT_LEADER:
            how = " although it may lack committed records" if event.unclean else ""
            return f"{broker} leads {name} at epoch {event.epoch}{how}"
        case ChangeKind.RESIGN_LEADER:
            return f"{broker} gave up the leadership of {name} at epoch {event.epoch}"
        case ChangeKind.CHANGE_ISR:
            return f"{_isr_change(event)} of {name}, as its leader, broker {event.broker}, decided"
        case ChangeKind.REASSIGN:
            return _reassignment(event, name)
        case ChangeKind.OVERDUE:
            return f"The reassignment of {name} to {_ids(event.replicas)} is overdue"
        case ChangeKind.TRUNCATE if event.state is RequestState.FAILED:
            return f"{broker} refused to cut its log of {name} from {event.first} to {event.end}"
        case ChangeKind.TRUNCATE:
            return f"{broker} cut its log of {name} from {event.first} to {event.end}"
        case ChangeKind.DELETE_STRAY:
            return f"{broker} removed a replica of {name} that is not assigned to it"


def _request(event: StateChangeEvent, command: Command, name: str) -> str:
    whom = "The controller" if event.requester in (None, CONTROLLER) else f"Broker {event.requester}"
    broker = f"Broker {event.broker}"
    match event.state:
        case RequestState.REQUESTED if (life := life_change(event)) is not None:
            asked = "host it" if life is LifeChange.CREATED else "delete its replica"
            became = f"{life.value} (topic id {event.key.topic_id})"
            return f"{name} was {became}, and broker {event.broker} asked to {asked}"
        case RequestState.REQUESTED:
            return f"{whom} asked broker {event.broker} {_TO_DO[command].format(name)}"
        case RequestState.RECEIVED:
            return f"{broker} took up the request {_TO_DO[command].format(name)}"
        case RequestState.COMPLETED:
            return f"{broker} {_DONE[command].format(name)}"
        case RequestState.SUPERSEDED:
            return f"The request to broker {event.broker} {_TO_DO[command].format(name)} was superseded"
        case RequestState.FAILED:
            return f"The request to broker {event.broker} {_TO_DO[command].format(name)} failed"


def _isr_change(event: StateChangeEvent) -> str:
    left, joined = _brokers(event.left), _brokers(event.joined)
    if left and joined:
        return f"{left} left and {joined[0].lower()}{joined[1:]} joined the ISR"
    return f"{left} left the ISR" if left else f"{joined} joined the ISR" if joined else "Nobody left the ISR"


def _reassignment(event: StateChangeEvent, name: str) -> str:
    match event.state:
        case RequestState.REQUESTED:
            return f"The replicas of {name} will be on brokers {_ids(event.replicas)}"
        case RequestState.COMPLETED:
            return f"The replicas of {name} are on brokers {_ids(event.replicas)} now"
        case state:
            where = f"its replicas are on brokers {_ids(event.replicas)}"
            ended = CANCELLED if is_cancelled(event) else state.value
            return f"The reassignment of {name} was {ended}: {where}"


def _lost(event: StateChangeEvent) -> str:
    """The records that were lost, if any."""
    if not event.lost:
        return "; records may be lost" if event.unclean else ""
    where = "" if event.first is None else f" from {event.first} on"
    return f"; {event.lost:,} committed {'record is' if event.lost == 1 else 'records are'} lost{where}"


def _isr(event: StateChangeEvent) -> str:
    """The replicas that are in sync after a change of them."""
    if event.isr is None or event.command not in (ChangeKind.CHANGE_ISR, ChangeKind.REASSIGN):
        return ""
    return f"; in sync are {_ids(event.isr) or 'none'}"


def _brokers(brokers: tuple[int, ...]) -> str:
    return f"{'Broker' if len(brokers) == 1 else 'Brokers'} {_ids(brokers)}" if brokers else ""


def _ids(brokers: Iterable[int]) -> str:
    return ", ".join(map(str, brokers))


def _list(brokers: tuple[int, ...] | None) -> list[int] | None:
    return None if brokers is None else list(brokers)
