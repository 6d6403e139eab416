"""Runs the active controller's background work in rounds: drains, balances, repairs, deadlines, and queues of
dead brokers.

A round reads the whole cluster, and the time until the next one is a multiple of its duration. So upkeep
takes only a small part of the controller's time, however many partitions there are. While a drain or a
balance is under way, its steps in between read only what moves: many moves do not each cost a reading of the
cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace
from functools import partial
from typing import Final

import structlog

from strandline.controller.core.survey import Survey
from strandline.controller.replicas.balance import Balances
from strandline.controller.replicas.deadlines import Deadlines
from strandline.controller.replicas.drains import Drains
from strandline.controller.replicas.readiness import read_readiness
from strandline.controller.replicas.reassignment import Reassignments
from strandline.controller.term.fenced_session import Deposed
from strandline.controller.term.surveying import read_queue, read_survey, read_survey_again
from strandline.controller.term.term import Term
from strandline.controller.upkeep.health import ClusterHealth
from strandline.controller.upkeep.queues import DeadQueues
from strandline.controller.upkeep.recent_survey import RecentSurvey
from strandline.controller.upkeep.repairs import Repairs
from strandline.errors import StrandlineError
from strandline.ids import BrokerId, TopicPartition
from strandline.ports import SessionEnded
from strandline.vocabulary.admin import (
    BalanceAction,
    BalanceDescription,
    BalancePlan,
    BrokerCheck,
    DrainBroker,
    DrainProgress,
    StartBalance,
)

logger = structlog.get_logger(__name__)

REST_FACTOR: Final = 10
"""The rest after a round is at least this multiple of the round's duration."""

REST_S_MAX: Final = 30.0
"""The longest rest: a round that waited for ZooKeeper took long for no reason."""

BUSY_REST_FACTOR: Final = 2
BUSY_REST_S: Final = 0.5
"""The shortest rest between two steps of a drain or a balance."""


class Upkeep:
    """The background work of one epoch. `run` is its task."""

    def __init__(self, term: Term, reassignments: Reassignments) -> None:
        self.health = ClusterHealth(term)
        self._term = term
        self._surveys = RecentSurvey(self._read, self._read_again, term.clock)
        self._drains = Drains(term, reassignments)
        self._deadlines = Deadlines(term, reassignments)
        self._balances = Balances(term, reassignments)
        self._repairs = Repairs(term)
        self._queues = DeadQueues(term)
        self._asked = asyncio.Event()
        """Set when a drain or a balance was requested or altered: the rest ends."""
        self._changed: frozenset[TopicPartition] = frozenset()
        """The partitions that the last step of drains and balances asked to change."""
        self._yielding = False
        """Whether that step asked leaders to hand over. One that could not has to be asked again."""

    @property
    def balance_seen(self) -> BalanceDescription | None:
        """How far the balance was at its last step; None before the first one."""
        return self._balances.seen

    async def run(self) -> None:
        """Runs until cancelled. Raises Deposed, SessionEnded."""
        clock = self._term.clock
        while True:
            began = clock.monotonic()
            self._asked.clear()
            survey = await self._look()
            took = clock.monotonic() - began  # without the waits for leaders that hand over
            rest = max(self._term.settings.reconcile_ms / 1000, min(took * REST_FACTOR, REST_S_MAX))
            due = clock.monotonic() + rest
            if survey is not None and await self._move(survey):
                await self._keep_moving(survey, due)
            await self._rest(due - clock.monotonic())

    async def _keep_moving(self, last: Survey, due: float) -> None:
        """Takes a further step of drains and balances whenever something has changed since the `last` one, or
        leaders may not have handed over, until none can follow, the next round is `due`, or there is a
        request."""
        clock, took = self._term.clock, 0.0
        while True:
            await self._rest(max(BUSY_REST_S, took * BUSY_REST_FACTOR))
            if self._asked.is_set() or clock.monotonic() >= due:
                return
            began = clock.monotonic()
            survey = await self._attempt(partial(self._surveys.again, self._changed))
            took = clock.monotonic() - began
            if survey is None:
                return
            if (survey != last or self._yielding) and not await self._move(survey):
                return
            last = survey

    async def _rest(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._asked.wait()
        except TimeoutError:
            return

    async def _look(self) -> Survey | None:
        """Surveys the cluster and repairs it."""

        async def look() -> Survey:
            survey = await self.survey()
            queues = {broker: await read_queue(self._term.session, broker) or [] for broker in survey.live}
            await self.health.look(survey, queues)
            await self._repairs.step(survey, queues)
            await self._queues.tidy(survey)
            await self._deadlines.step(survey)
            return survey

        return await self._attempt(look)

    async def _attempt(self, read: Callable[[], Awaitable[Survey]]) -> Survey | None:
        """None after a failure, which is tried again in the next round."""
        try:
            return await read()
        except (Deposed, SessionEnded):
            raise
        except StrandlineError as error:
            logger.warning("a round of upkeep was cut short", reason=str(error))
            return None

    async def _move(self, survey: Survey) -> bool:
        """Takes the next step of the balance, which begins nothing while drains have moves, and then of each
        drain: what the balance has completed counts, also if a drain moves it on. Returns True if one of them
        continues."""
        try:
            plan = self._drains.plan(survey)
            drained = {move.partition.name for move in plan.replicas}
            drained |= {move.partition.name for move in plan.leaderships}
            balancing = await self._balances.step(survey, plan.busy)
            draining = await self._drains.step(survey, plan)
            self._changed, self._yielding = self._balances.begun | drained, bool(plan.leaderships)
            return draining or balancing
        except (Deposed, SessionEnded):
            raise
        except StrandlineError as error:
            logger.warning("a step of a drain or a balance was cut short", reason=str(error))
            return False

    async def survey(self) -> Survey:
        """The cluster as it is now."""
        return await self._surveys.now()

    async def _read(self) -> Survey:
        return await read_survey(self._term.session, await self._term.brokers())

    async def _read_again(self, last: Survey, changed: Collection[TopicPartition]) -> Survey:
        return await read_survey_again(self._term.session, await self._term.brokers(), last, changed)

    # --- requests ------------------------------------------------------------------------------

    async def drain(self, broker: BrokerId, asked: DrainBroker) -> DrainProgress:
        """Starts a drain, or reports its progress. Raises InvalidRequest.

        The command repeats its request until nothing is left: the next step is not sooner for that, and in a
        large cluster the answer is that of the last survey that knows of the drain, until nothing is left.
        """
        changed = await self._drains.begin(broker, asked)
        try:
            if not changed:
                recent = await self._surveys.recent()
                seen = recent.drains.get(broker)
                changed = seen is None or seen.replicas < asked.replicas  # an answer was lost
                known = None if changed else self._drains.progress(recent, broker)
                if known is not None and known.leaderships + known.replicas > 0:
                    return known
            return self._drains.progress(await self.survey(), broker)
        finally:
            if changed:
                self._asked.set()

    async def check(self, broker: BrokerId, *, end_drain: bool) -> BrokerCheck:
        """Returns if the broker is ready. With `end_drain`, a ready broker that has restarted since its drain
        may lead again."""
        found = await read_readiness(self._term, broker)
        if not end_drain or not found.is_ready_but_for_permanent:
            return found
        return replace(found, drain_ended=await self._drains.end_if_back(broker))

    async def undo_drain(self, broker: BrokerId) -> DrainProgress:
        """Undoes a drain. Returns what the broker then has."""
        await self._drains.undo(broker)
        return self._drains.progress(await self.survey(), broker)

    async def balance(self, asked: StartBalance) -> BalancePlan:
        """Plans a balance and, unless it only validates, starts it. Raises InvalidRequest,
        UnknownTopicOrPartition, OutcomeUnknown."""
        plan = await self._balances.plan(asked, await self.survey())
        if not asked.validate_only:
            await self._balances.begin(plan, asked.throttle_bytes_per_s)
            self._asked.set()
        return plan

    async def describe_balance(self) -> BalanceDescription:
        survey = await self._surveys.recent()
        return await self._balances.describe(survey, self._drains.plan(survey).busy)

    async def alter_balance(self, action: BalanceAction) -> BalanceDescription:
        """Pauses, resumes or cancels the balance. Raises InvalidRequest, OutcomeUnknown."""
        survey = await self._surveys.recent()
        described = await self._balances.alter(action, survey, self._drains.plan(survey).busy)
        self._asked.set()
        return described
