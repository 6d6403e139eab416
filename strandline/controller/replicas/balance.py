"""Balances the brokers: keeps a plan in a znode, and begins its moves, a bounded number at a time.

The znode has everything that a later controller needs to continue: the moves that have not ended, from which
replicas to which, the numbers of those that have, the throttle, and the state. What the moves do follows from
the partitions themselves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

import structlog

from strandline.adapters.system.crash_points import crash_point
from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.facts import Fact, read_balance
from strandline.adapters.zookeeper.layout import balance_znodes
from strandline.config.limits import ZOOKEEPER_READS_IN_FLIGHT_MAX
from strandline.controller.core.balance.planning import plan_balance
from strandline.controller.core.balance.progress import BalanceStep, describe, next_step, settled
from strandline.controller.core.reassignment import MoveFrom, TakeBackTo
from strandline.controller.core.survey import Survey
from strandline.controller.replicas.reassignment import Reassignments
from strandline.controller.term.placements import read_whole
from strandline.controller.term.reading import read_topic
from strandline.controller.term.term import Term
from strandline.errors import InvalidRequest, OutcomeUnknown
from strandline.ids import BrokerId, TopicPartition
from strandline.ports import BadVersion, Create, MultiFailed, NodeExists, NoNode, SetData
from strandline.serving.asked import asked_by, doing_for
from strandline.tasks import pipelined
from strandline.vocabulary.admin import BalanceAction, BalanceDescription, BalancePlan, StartBalance
from strandline.vocabulary.metadata import Balance, BalanceMove, BalanceState

logger = structlog.get_logger(__name__)

CAUSE: Final = "balance"
NO_BALANCE: Final = Balance(BalanceState.NONE, (), 0)


class Balances:
    """The balances of one controller epoch. One is under way at a time."""

    def __init__(self, term: Term, reassignments: Reassignments) -> None:
        self._term = term
        self._reassignments = reassignments
        self._changes = asyncio.Lock()
        """Held from the read of the znode to what follows from it: after a pause no move begins."""
        self.seen: BalanceDescription | None = None
        """How far the balance was at the last step; None before the first one."""
        self.begun: frozenset[TopicPartition] = frozenset()
        """The partitions whose moves the last step asked for."""

    # --- requests ------------------------------------------------------------------------------

    async def plan(self, asked: StartBalance, survey: Survey) -> BalancePlan:
        """What a balance would do now. Raises InvalidRequest, UnknownTopicOrPartition."""
        deleted = await self._term.session.children(znodes.DELETE_TOPICS)
        brokers = [BrokerId(each) for each in asked.brokers]
        sizes = {each.name: each.bytes for each in asked.sizes}
        plan = plan_balance(survey, brokers=brokers, topics=asked.topics, deleted=deleted, sizes=sizes)
        moves = tuple(balance_znodes.fitting(plan.moves))
        return replace(plan, moves=moves, left_out=plan.left_out + len(plan.moves) - len(moves))

    async def begin(self, plan: BalancePlan, throttle_bytes_per_s: int) -> None:
        """Starts this balance, unless it has no moves. Raises InvalidRequest if another is under way,
        OutcomeUnknown."""
        async with self._changes:
            standing = await read_balance(self._term.session)
            if standing is not None and standing.value.state.is_under_way:
                raise InvalidRequest(
                    f"a balance of {standing.value.count} moves is {standing.value.state}: "
                    f"{'resume it' if standing.value.state is BalanceState.PAUSED else 'wait for its end'}, "
                    "or cancel it (`strandline cluster balance --cancel`)"
                )
            if not plan.moves:
                return
            wanted = Balance(
                BalanceState.RUNNING,
                plan.moves,
                len(plan.moves),
                throttle_bytes_per_s,
                self._term.clock.wall_ms(),
                by=asked_by(),
            )
            await self._write(wanted, standing)
            crash_point("controller.balance.written")
        logger.info("balance begins", moves=len(plan.moves), copies=plan.copies)

    async def describe(self, survey: Survey, held_by: Collection[BrokerId]) -> BalanceDescription:
        """How far the balance is. Brokers in `held_by` have moves of drains."""
        found = await read_balance(self._term.session)
        balance = NO_BALANCE if found is None else found.value
        step = await self._step(balance, survey)
        return describe(settled(balance, step), step, held_by)

    async def alter(
        self, action: BalanceAction, survey: Survey, held_by: Collection[BrokerId]
    ) -> BalanceDescription:
        """Pauses, resumes or cancels the balance. The same request again changes nothing. Raises
        InvalidRequest if no balance is under way, OutcomeUnknown."""
        async with self._changes:
            standing = await read_balance(self._term.session)
            balance = NO_BALANCE if standing is None else standing.value
            wanted = _altered(balance, action)
            if wanted != balance:
                await self._write(wanted, standing)
                logger.info("balance changed", state=wanted.state.value)
            if action is BalanceAction.REVERT:
                await self._take_back(wanted.moves)
        step = await self._step(wanted, survey)
        return describe(settled(wanted, step), step, held_by)

    async def _take_back(self, moves: Sequence[BalanceMove]) -> None:
        """Cancels those of these moves that are under way."""
        targets = {move.name: move.after for move in moves}
        moving = [
            TakeBackTo(each.name, (), target=targets[each.name], cause=CAUSE)
            for each in await self._reassignments.ongoing()
            if targets.get(each.name) == each.replicas and not each.reverting
        ]
        for outcome in await self._reassignments.ask(moving):
            if outcome.error is not None:
                logger.warning("not taken back", partition=str(outcome.name), reason=outcome.error.message)

    # --- carrying it out -----------------------------------------------------------------------

    async def step(self, survey: Survey, held_by: Collection[BrokerId]) -> bool:
        """Keeps what has ended, and begins what can move now, unless paused or held by drains of these
        brokers. Returns True if more can move soon. Raises Deposed."""
        self.begun = frozenset()
        async with self._changes:
            standing = await read_balance(self._term.session)
            balance = NO_BALANCE if standing is None else standing.value
            step = await self._step(balance, survey)
            now = settled(balance, step)
            self.seen = describe(now, step, held_by)
            if now != balance:
                await self._write(now, standing)
            if not now.state.is_under_way:
                if balance.state.is_under_way:
                    logger.info("balance is complete", done=now.done, skipped=now.skipped)
                return False
            if held_by or now.state is BalanceState.PAUSED:
                return bool(step.moving)
            return await self._move(now, step.begin) or bool(step.moving)

    async def _move(self, balance: Balance, moves: Sequence[BalanceMove]) -> bool:
        if not moves:
            return False
        self.begun = frozenset(move.name for move in moves)
        asked = [
            MoveFrom(move.name, move.after, topic_id=move.topic_id, before=move.before) for move in moves
        ]
        with doing_for(balance.by):
            outcomes = await self._reassignments.ask(
                asked, throttle_bytes_per_s=balance.throttle_bytes_per_s, cause=CAUSE
            )
        crash_point("controller.balance.moved")
        refused = {outcome.name: outcome.error for outcome in outcomes if outcome.error is not None}
        for name, error in refused.items():
            logger.warning("balance cannot move", partition=str(name), reason=error.message)
        logger.info("balance moves replicas", begun=len(moves) - len(refused), wanted=len(moves))
        return len(refused) < len(moves)

    async def _step(self, balance: Balance, survey: Survey) -> BalanceStep:
        """The step that follows from this survey. A move is skipped only if it still has to be when its
        partition is read again: the survey may be older than the plan, or torn."""
        moving_max = self._term.settings.reassignments_in_flight_max
        step = next_step(balance.moves, survey, moving_max=moving_max)
        if step.in_doubt:
            survey = await self._read_again(survey, step.in_doubt)
            step = next_step(balance.moves, survey, moving_max=moving_max)
        return step

    async def _read_again(self, survey: Survey, moves: Sequence[BalanceMove]) -> Survey:
        """The survey with the present replicas of the partitions of these moves."""
        session = self._term.session
        topics = dict(survey.topics)
        partitions = {each.name: each for each in survey.partitions}

        async def read(move: BalanceMove) -> None:
            node = await read_topic(session, move.name.topic)
            found = await read_whole(session, *move.name)
            surveyed = partitions.pop(move.name, None)
            if node is None or node.topic_id != move.topic_id:
                topics.pop(move.name.topic, None)
                return
            topics[move.name.topic] = node.topic_id
            if surveyed is not None and found is not None:
                assigned, wanted = found
                ours = wanted is not None and wanted.topic_id == move.topic_id
                partitions[move.name] = replace(
                    surveyed, assigned=assigned, reassignment=wanted if ours else None
                )

        await pipelined(read, moves, in_flight_max=ZOOKEEPER_READS_IN_FLIGHT_MAX)
        return replace(survey, topics=topics, partitions=list(partitions.values()))

    async def _write(self, wanted: Balance, standing: Fact[Balance] | None) -> None:
        """Raises OutcomeUnknown if another writer was faster."""
        data = balance_znodes.dump_balance(wanted)
        found = await self._term.session.exists(znodes.BALANCE) if standing is None else standing
        write = (
            Create(znodes.BALANCE, data) if found is None else SetData(znodes.BALANCE, data, found.version)
        )

        async def stands() -> bool:
            found = await read_balance(self._term.session)
            return found is not None and found.value == wanted

        try:
            await self._term.session.write([write], stands)
        except MultiFailed as failed:
            if not isinstance(failed.cause, BadVersion | NodeExists | NoNode):
                raise
            raise OutcomeUnknown(
                "the balance was changed by others at the same time: look what it is"
            ) from None


def _altered(balance: Balance, action: BalanceAction) -> Balance:
    """Raises InvalidRequest if it is not under way."""
    ends = action in (BalanceAction.CANCEL, BalanceAction.REVERT)
    if ends and balance.state is BalanceState.CANCELLED:
        return balance
    if not balance.state.is_under_way:
        raise InvalidRequest("no balance is under way")
    if ends:
        return replace(balance, state=BalanceState.CANCELLED)
    paused = action is BalanceAction.PAUSE
    return replace(balance, state=BalanceState.PAUSED if paused else BalanceState.RUNNING)
