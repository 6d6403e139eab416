"""The next moves of a balance under way, and how far it is: both from the present state of its partitions.

So any controller can continue it. A move begins only from the replicas that it was planned for. A partition
that was deleted or that others moved is skipped: the plan does not know it as it is now.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from strandline.controller.core.broker_list import listed
from strandline.controller.core.survey import Survey, SurveyedPartition
from strandline.ids import BrokerId
from strandline.vocabulary.metadata import BalanceMove

PROBLEMS_MAX: Final = 100
"""Problems that are described."""


class _Stage(Enum):
    DONE = auto()
    MOVING = auto()
    WAITING = auto()
    """It can begin."""
    HELD = auto()
    """It cannot begin now."""
    SKIPPED = auto()


@dataclass(frozen=True, slots=True)
class BalanceStep:
    """The moves to begin now, and how many are in which stage before that."""

    begin: Sequence[BalanceMove]
    done: int
    moving: int
    skipped: int
    problems: Sequence[str]
    is_over: bool
    """True if no move is left."""


def next_step(moves: Sequence[BalanceMove], survey: Survey, *, moving_max: int) -> BalanceStep:
    """At most `moving_max` partitions of the cluster move replicas at a time, also by drains and by hand."""
    found = {each.name: each for each in survey.partitions}
    hosts = {host.id for host in survey.hosts}
    room = moving_max - sum(each.reassignment is not None for each in survey.partitions)
    numbers = dict.fromkeys(_Stage, 0)
    begin: list[BalanceMove] = []
    problems: list[str] = []
    for move in moves:
        stage, problem = _stage(move, found.get(move.name), survey, hosts)
        numbers[stage] += 1
        if problem and len(problems) < PROBLEMS_MAX:
            problems.append(problem)
        if stage is _Stage.WAITING and len(begin) < room:
            begin.append(move)
    left = numbers[_Stage.MOVING] + numbers[_Stage.WAITING] + numbers[_Stage.HELD]
    return BalanceStep(
        begin,
        numbers[_Stage.DONE],
        numbers[_Stage.MOVING],
        numbers[_Stage.SKIPPED],
        problems,
        is_over=left == 0,
    )


def _stage(
    move: BalanceMove, now: SurveyedPartition | None, survey: Survey, hosts: Collection[BrokerId]
) -> tuple[_Stage, str]:
    """The stage of a move, and a reason if it is not as planned."""
    if now is None or now.key.topic_id != move.topic_id:
        return _Stage.SKIPPED, f"{move.name} was deleted"
    if now.reassignment is not None:
        return _moving(move, now, survey)
    if now.assigned == move.after:
        return _Stage.DONE, ""
    if now.assigned != move.before:
        return _Stage.SKIPPED, f"{move.name} was moved to {listed(now.assigned)} by others"
    if absent := [broker for broker in move.added if broker not in hosts]:
        why = f"broker {listed(absent)} can get no replicas now: it is not alive, about to stop, or drained"
        return _Stage.HELD, f"{move.name} waits: {why}"
    if not survey.may_be_led(now):
        return _Stage.HELD, f"{move.name} waits: no broker that is alive can lead it"
    return _Stage.WAITING, ""


def _moving(move: BalanceMove, now: SurveyedPartition, survey: Survey) -> tuple[_Stage, str]:
    if now.wanted != move.after:
        return _Stage.HELD, f"{move.name} is being moved to {listed(now.wanted)} by others"
    if dead := [broker for broker in move.added if broker not in survey.live]:
        return _Stage.MOVING, f"{move.name} waits for broker {listed(dead)}, which is not alive"
    return _Stage.MOVING, ""
