"""Formats state changes as lines for people, after the list in Kafka's design V2."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from typing import Final

from strandline.adapters.telemetry.terminal import printable
from strandline.report.text.times import time_of
from strandline.vocabulary.state_changes import ChangeKind, Command, RequestState, StateChangeEvent

CONTROLLER: Final = -1


def line_of(event: StateChangeEvent, today: date) -> str:
    """The line of an event: its time, by this machine's clock and zone, and what happened."""
    reason = f": {event.reason}" if event.reason else ""
    epoch = f", at epoch {event.epoch}" if event.epoch >= 0 else ""
    by = f" (for {printable(event.by.principal)} from {printable(event.by.address)})" if event.by else ""
    return f"{time_of(event.at_ms, today)}  {_what(event)}{epoch}{reason}{by}"


def _what(event: StateChangeEvent) -> str:
    name = f"{event.topic}-{event.key.partition}"
    if isinstance(event.command, Command):
        return _step(event, event.command, name)
    match event.command:
        case ChangeKind.ELECT_LEADER:
            how = "elected uncleanly, records may be lost," if event.unclean else "elected"
            return f"leader, broker {event.broker}, {how} for {name}{_isr(event)}"
        case ChangeKind.RESIGN_LEADER:
            return f"leader, broker {event.broker}, resigned from {name}{_isr(event)}"
        case ChangeKind.CHANGE_ISR:
            changes = [f"{_ids(event.left)} left"] * bool(event.left)
            changes += [f"{_ids(event.joined)} joined"] * bool(event.joined)
            changed = f": {', '.join(changes)}" if changes else ""
            return f"leader, broker {event.broker}, changed the ISR of {name}{changed}{_isr(event)}"
        case ChangeKind.REASSIGN:
            return _reassignment(event, name)
        case ChangeKind.OVERDUE:
            return f"controller, found the reassignment of {name} to {_ids(event.replicas)} overdue"
        case ChangeKind.TRUNCATE:
            did = "refused to cut" if event.state is RequestState.FAILED else "cut"
            lost = f", {event.lost} of these had been committed" if event.lost else ""
            return f"follower, broker {event.broker}, {did} {name} from {event.first} to {event.end}{lost}"
        case ChangeKind.DELETE_STRAY:
            return f"broker {event.broker}, removed the stray replica of {name}"


def _step(event: StateChangeEvent, command: Command, name: str) -> str:
    """Formats one step of a request."""
    requester = event.requester
    by_controller = requester is None or requester == CONTROLLER
    if event.state is RequestState.REQUESTED:
        who = "controller" if by_controller else f"leader, broker {requester}"
        return f"{who}, requested {command.value} of {name} to broker {event.broker}"
    whom = "the controller" if by_controller else f"leader {requester}"
    return f"follower, broker {event.broker}, {event.state.value} {command.value} of {name} from {whom}"


def _reassignment(event: StateChangeEvent, name: str) -> str:
    leader = f"leader, broker {event.broker}"
    replicas = _ids(event.replicas)
    match event.state:
        case RequestState.REQUESTED:
            who = leader if event.requester not in (None, CONTROLLER) else "controller"
            return f"{who}, requested reassignment of {name} to {replicas}"
        case RequestState.SUPERSEDED:
            return f"{leader}, ended a reassignment of {name} otherwise, replicas {replicas}"
        case state:
            return f"{leader}, {state.value} reassignment of {name} to {replicas}{_isr(event)}"


def _isr(event: StateChangeEvent) -> str:
    return "" if event.isr is None else f", ISR {_ids(event.isr) or 'empty'}"


def _ids(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers))
