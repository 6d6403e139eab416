"""State changes as lines for people, after the list in seed 002."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime
from typing import Final

from strandline.state_changes import Command, Happening, RequestState, StateChangeEvent

CONTROLLER: Final = -1


def line_of(event: StateChangeEvent, today: date) -> str:
    """When it happened, by this machine's clock and zone, and what."""
    at = datetime.fromtimestamp(event.at_ms / 1000)
    time = at.isoformat(" ", timespec="milliseconds")
    if at.date() == today:
        time = at.time().isoformat(timespec="milliseconds")
    reason = f": {event.reason}" if event.reason else ""
    return f"{time}  {_what(event)}, at epoch {event.epoch}{reason}"


def _what(event: StateChangeEvent) -> str:
    name = f"{event.topic}-{event.key.partition}"
    if isinstance(event.command, Command):
        return _step(event, event.command, name)
    match event.command:
        case Happening.ELECT_LEADER:
            how = "elected uncleanly, records may be lost," if event.unclean else "elected"
            return f"leader, broker {event.broker}, {how} for {name}{_isr(event)}"
        case Happening.RESIGN_LEADER:
            return f"leader, broker {event.broker}, resigned from {name}{_isr(event)}"
        case Happening.CHANGE_ISR:
            changes = [f"{_ids(event.left)} left"] * bool(event.left)
            changes += [f"{_ids(event.joined)} joined"] * bool(event.joined)
            changed = f": {', '.join(changes)}" if changes else ""
            return f"leader, broker {event.broker}, changed the ISR of {name}{changed}{_isr(event)}"
        case Happening.REASSIGN:
            return f"{_reassigner(event)}, {event.state.value} the reassignment of {name}{_replicas(event)}"
        case Happening.TRUNCATE:
            lost = f", {event.lost} committed records of it are lost" if event.lost else ""
            return f"follower, broker {event.broker}, cut {name} from {event.first} to {event.end}{lost}"
        case Happening.DELETE_STRAY:
            return f"broker {event.broker}, removed the stray replica of {name}"


def _step(event: StateChangeEvent, command: Command, name: str) -> str:
    """One step of a request: from whom to whom."""
    requester = event.requester
    by_controller = requester is None or requester == CONTROLLER
    if event.state is RequestState.REQUESTED:
        who = "controller" if by_controller else f"leader, broker {requester}"
        return f"{who}, requested {command.value} of {name} to broker {event.broker}"
    whom = "the controller" if by_controller else f"leader {requester}"
    return f"follower, broker {event.broker}, {event.state.value} {command.value} of {name} from {whom}"


def _reassigner(event: StateChangeEvent) -> str:
    if event.state is RequestState.REQUESTED and event.requester in (None, CONTROLLER):
        return "controller"
    return f"leader, broker {event.broker}"


def _isr(event: StateChangeEvent) -> str:
    return "" if event.isr is None else f", ISR {_ids(event.isr) or 'empty'}"


def _replicas(event: StateChangeEvent) -> str:
    return f" to {_ids(event.replicas)}" if event.replicas else ""


def _ids(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers))
