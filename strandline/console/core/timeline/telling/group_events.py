"""An event of a group as one sentence. Names and reasons are text, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from strandline.console.core.timeline.facts.group_events import partitions_of, text_of, whole
from strandline.report.text.durations import age
from strandline.report.text.partition_names import compact
from strandline.vocabulary.groups import CONSUMER

NAMED_MAX: Final = 500
OF_A_REBALANCE: Final = frozenset(
    {"rebalance_started", "generation_started", "generation_stable", "generation_ended"}
)
"""Events that are about all members of a group."""


def sentence(event: Mapping[str, Any]) -> str:
    """What happened, and why."""
    reason = text_of(event, "reason")
    return f"{_what(event)}{f': {reason}' if reason else ''}."


def cause(event: Mapping[str, Any]) -> str:
    """Why it happened, and which member caused it; empty if the event does not say."""
    by = text_of(event, "caused_by")
    return " ".join(filter(None, [text_of(event, "reason"), f"(caused by {by})" if by else ""]))


def _what(event: Mapping[str, Any]) -> str:
    group, generation = event["group"], event["generation"]
    member = f"Member {text_of(event, 'member') or 'of no name'}"
    task = text_of(event, "task") or "a task"
    assigns = text_of(event, "type") == CONSUMER
    match event["event"]:
        case kind if assigns and kind in OF_A_REBALANCE:
            return _of_an_epoch(kind, group, generation, text_of(event, "caused_by"))
        case "revoking":
            return f"{member} is to give up {_partitions(event)}, and others wait for it"
        case "rebalance_started":
            by = text_of(event, "caused_by")
            return f"Group {group} rebalances{f' because of {by}' if by else ''}"
        case "generation_started":
            return f"Generation {generation} of group {group} has begun: all its members have joined"
        case "generation_stable":
            return f"Generation {generation} of group {group} has its assignment"
        case "generation_ended":
            return f"Generation {generation} of group {group} has ended"
        case "member_joined":
            return f"{member} joined group {group}"
        case "member_left":
            return f"{member} left group {group}"
        case "assigned":
            return f"{member} took {_partitions(event)}"
        case "revoked":
            return f"{member} gave up {_partitions(event)}"
        case "lost":
            return f"{member} lost {_partitions(event)}"
        case "task_learning":
            return f"{member} begins to learn {task}, to take it over{_figures(event)}"
        case "task_progress":
            return f"{member} restored more of {task}{_figures(event)}"
        case "task_ready":
            return f"{member} is ready to take {task} over{_figures(event)}"
        case "task_running":
            return f"{member} runs {task}"
        case "task_restoring":
            return f"{member} owns {task} and restores its state first{_figures(event)}"
        case "task_suspended":
            return f"{member} stopped {task} and keeps its state"
        case "task_closed":
            return f"{member} closed {task}"
        case "task_standby":
            return f"{member} keeps a copy of {task}"
        case other:
            return f"{other} in group {group}, generation {generation}"


def _of_an_epoch(kind: str, group: str, epoch: int, by: str) -> str:
    """Of a group whose coordinator assigns."""
    match kind:
        case "rebalance_started":
            return f"Epoch {epoch} of group {group} begins{f' because of {by}' if by else ''}"
        case "generation_started":
            return f"Epoch {epoch} of group {group} has its target: members go there one by one"
        case "generation_stable":
            return f"Group {group} is stable: each member has reached epoch {epoch}"
    return f"Epoch {epoch} of group {group} has no members"


def _partitions(event: Mapping[str, Any]) -> str:
    said = compact(partitions_of(event))
    if said == "-":
        return "no partitions"
    return said if len(said) <= NAMED_MAX else f"{said[:NAMED_MAX]}…"


def _figures(event: Mapping[str, Any]) -> str:
    lag, remaining_ms = whole(event.get("lag")), whole(event.get("remaining_ms"))
    said = [f"{lag:,} records to go"] * (lag >= 0) + [f"about {age(remaining_ms)} left"] * (remaining_ms >= 0)
    return f", {', '.join(said)}" if said else ""
