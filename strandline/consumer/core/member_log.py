"""Texts about a group member for the log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from strandline.consumer.core.leader_plan import Consensus, PlanReport
from strandline.consumer.core.member_effects import Level, LogLine
from strandline.consumer.core.ownership import Received
from strandline.vocabulary.groups import Joined

NAMES_MAX: Final = 5
"""More names than this are counted instead."""


def few(names: Sequence[str]) -> str:
    """The first names, and the number of the others."""
    if not names:
        return "nothing"
    more = f" and {len(names) - NAMES_MAX} more" if len(names) > NAMES_MAX else ""
    return ", ".join(names[:NAMES_MAX]) + more


def cause_of(answer: Joined) -> str:
    """Why a generation began, which member caused it, and which one leads it."""
    by = f" (caused by {answer.caused_by})" if answer.caused_by else ""
    return f": {answer.reason or 'no reason given'}{by}; {answer.leader} leads"


def change_of(received: Received) -> str:
    """Summary of what an assignment changes."""
    added, removed = len(received.added), len(received.removed)
    return f"{added} added, {removed} to be revoked, {received.kept} kept"


def plan_lines(member: str, report: PlanReport) -> list[LogLine]:
    """What a leader's plan does with partitions that have owners, if it is worth a line."""
    if report.consensus is Consensus.MIXED:
        return [LogLine(Level.WARNING, f"{member}: {report}")]
    return [LogLine(Level.INFO, f"{member}: {report}")] if report.revoked else []
