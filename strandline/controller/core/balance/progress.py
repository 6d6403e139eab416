"""The next moves of a balance under way, and how far it is: from the present state of its partitions.

So any controller can continue it. A move begins only from the replicas that it was planned for. A partition
that was deleted or that others moved is skipped, since the plan does not know it as it is now; so is one that
would get a replica on a broker whose replicas are drained. A move that has ended leaves the balance, which
counts it and keeps the reason of one that was skipped: what becomes of its partition later changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Final

from strandline.config.limits import BALANCE_REASONS_BYTES_MAX
from strandline.controller.core.broker_list import listed
from strandline.controller.core.survey import Survey, SurveyedPartition
from strandline.controller.core.upkeep.deadlines import waits_for
from strandline.ids import BrokerId
from strandline.report.text.counts import counted
from strandline.vocabulary.admin import BalanceDescription
from strandline.vocabulary.metadata import Balance, BalanceMove, BalanceState

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
    CHANGED = auto()
    """Skipped: others have changed the partition."""


@dataclass(frozen=True, slots=True)
class BalanceStep:
    """The moves that have not ended, by what they do now."""

    moving: Sequence[BalanceMove]
    waiting: Sequence[BalanceMove]
    """They can begin, or cannot now."""
    begin: Sequence[BalanceMove]
    """Those of them that begin now, if nothing holds the balance."""
    done: int
    """The moves that are complete."""
    skipped: Sequence[str]
    """A reason for each move that is skipped."""
    problems: Sequence[str]
    """Why others do not get on."""
    in_doubt: Sequence[BalanceMove]
    """Those that are skipped because others have changed their partitions. A survey that is older than the
    plan looks like that, too; and so does one that is torn, since it reads reassignments before replicas: a
    move that began in between has more replicas, and no reassignment."""


def next_step(moves: Sequence[BalanceMove], survey: Survey, *, moving_max: int) -> BalanceStep:
    """At most `moving_max` partitions of the cluster move replicas at a time, also by drains and by hand."""
    found = {each.name: each for each in survey.partitions}
    hosts = {host.id for host in survey.hosts if not survey.is_drained(host.id)}
    room = moving_max - sum(each.reassignment is not None for each in survey.partitions)
    by_stage: dict[_Stage, list[BalanceMove]] = {stage: [] for stage in _Stage}
    skipped: list[str] = []
    problems: list[str] = []
    for move in moves:
        stage, reason = _stage(move, found.get(move.name), survey, hosts)
        by_stage[stage].append(move)
        if stage in (_Stage.SKIPPED, _Stage.CHANGED):
            skipped.append(reason)
        elif reason and len(problems) < PROBLEMS_MAX:
            problems.append(reason)
    return BalanceStep(
        by_stage[_Stage.MOVING],
        [*by_stage[_Stage.WAITING], *by_stage[_Stage.HELD]],
        by_stage[_Stage.WAITING][: max(0, room)],
        len(by_stage[_Stage.DONE]),
        skipped,
        problems,
        by_stage[_Stage.CHANGED],
    )


def settled(balance: Balance, step: BalanceStep) -> Balance:
    """The balance without the moves that have ended, which it counts. One that is under way is over without
    moves; of one that was cancelled those go, too, that have not begun."""
    state = balance.state
    moves = step.moving
    if state.is_under_way:
        moves = sorted([*step.moving, *step.waiting], key=lambda move: move.turn)
        state = state if moves else BalanceState.COMPLETED
    return replace(
        balance,
        state=state,
        moves=tuple(moves),
        done=balance.done + step.done,
        skipped=balance.skipped + len(step.skipped),
        reasons=_kept(balance.reasons, step.skipped),
    )


def describe(now: Balance, step: BalanceStep, held_by: Collection[BrokerId]) -> BalanceDescription:
    """How far a balance is that was `settled` with this step. Brokers in `held_by` have moves of drains."""
    problems: list[str] = []
    if now.state.is_under_way:
        if held_by and step.waiting:
            problems.append(
                f"no move begins while the drain of broker {listed(held_by)} moves leaderships or replicas"
            )
        problems += step.problems
    because = [*now.reasons[:PROBLEMS_MAX]]
    if left_out := now.skipped - len(because):
        because.append(f"{counted(left_out, 'more move')} {'was' if left_out == 1 else 'were'} skipped")
    return BalanceDescription(
        now.state,
        now.at_ms,
        now.throttle_bytes_per_s,
        now.count,
        now.done,
        len(step.moving),
        now.skipped,
        tuple(problems),
        tuple(because),
    )


def _kept(reasons: Sequence[str], further: Iterable[str]) -> tuple[str, ...]:
    """As many of them as have room, in order."""
    kept = list(reasons)
    room = BALANCE_REASONS_BYTES_MAX - sum(len(each.encode()) + 3 for each in kept)
    for each in further:
        room -= len(each.encode()) + 3  # quotes and a comma
        if room < 0:
            break
        kept.append(each)
    return tuple(kept)


def _stage(
    move: BalanceMove, now: SurveyedPartition | None, survey: Survey, hosts: Collection[BrokerId]
) -> tuple[_Stage, str]:
    """The stage of a move, and a reason if it is not as planned."""
    if survey.topics.get(move.name.topic) != move.topic_id:
        return _Stage.CHANGED, f"{move.name} was deleted"
    if now is None:
        return _Stage.HELD, f"{move.name} waits: it is being deleted, or ZooKeeper has it damaged"
    if now.reassignment is not None:
        return _moving(move, now, survey)
    if now.assigned == move.after:
        return _Stage.DONE, ""
    if now.assigned != move.before:
        return _Stage.CHANGED, f"{move.name} was moved to {listed(now.assigned)} by others"
    if emptied := [broker for broker in move.added if survey.is_emptied(broker)]:
        return _Stage.SKIPPED, f"{move.name} stays: the replicas of broker {listed(emptied)} are drained"
    if absent := [broker for broker in move.added if broker not in hosts]:
        why = f"broker {listed(absent)} can get no replicas now: it is not alive, about to stop, or drained"
        return _Stage.HELD, f"{move.name} waits: {why}"
    if not survey.may_be_led(now):
        return _Stage.HELD, f"{move.name} waits: no broker that is alive can lead it"
    return _Stage.WAITING, ""


def _moving(move: BalanceMove, now: SurveyedPartition, survey: Survey) -> tuple[_Stage, str]:
    if now.wanted != move.after:
        return _Stage.HELD, f"{move.name} is being moved to {listed(now.wanted)} by others"
    if any(broker not in survey.live for broker in move.added) or not survey.may_be_led(now):
        return _Stage.MOVING, f"{move.name} waits: {waits_for(survey, now)}"
    return _Stage.MOVING, ""
