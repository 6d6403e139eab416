"""Drains a broker: moves its leaderships to other brokers, and its replicas too if requested.

A drain is a znode. Each active controller continues it until the broker has nothing left. Leaderships move in
batches; replicas move by a bounded number of reassignments at a time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Final

import structlog

from strandline.adapters.system.crash_points import crash_point
from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.facts import read_drains
from strandline.adapters.zookeeper.layout import drain_znodes
from strandline.controller.core.broker_list import listed
from strandline.controller.core.drains import (
    DrainPlan,
    LeadershipMove,
    ReplicaMove,
    ended_by_restart,
    plan_drains,
)
from strandline.controller.core.reassignment import MoveFrom
from strandline.controller.core.survey import Survey
from strandline.controller.core.topics import Brokers
from strandline.controller.leadership.transfer import Yielding, yield_leaderships
from strandline.controller.replicas.reassignment import Reassignments
from strandline.controller.term.term import Term
from strandline.errors import InvalidRequest, OutcomeUnknown
from strandline.ids import BrokerId
from strandline.ports import BadVersion, Create, Delete, MultiFailed, NodeExists, NoNode, SetData, Znode
from strandline.serving.asked import asked_by, doing_for
from strandline.vocabulary.admin import DrainBroker, DrainProgress, PartitionReassignment
from strandline.vocabulary.metadata import Drain
from strandline.vocabulary.state_changes import ANY_LIFE, AskedBy

logger = structlog.get_logger(__name__)

LEADERSHIPS_AT_ONCE_MAX: Final = 50
"""Leaderships in a batch; the next batch follows when this one has moved."""

YIELD_WAIT_S: Final = 3.0
"""Time to wait for a batch. Leaderships that have not moved by then are requested again in the next round."""

ATTEMPTS_MAX: Final = 20
"""Attempts at a write. Each fails only if another request changed the same broker's drain in between."""

THROTTLES_MAX: Final = 16
"""Earlier throttles that a drain remembers, so that its moves under way get the present one."""

REASON: Final = "drain"


class Drains:
    """The drains of one controller epoch."""

    def __init__(self, term: Term, reassignments: Reassignments) -> None:
        self._term = term
        self._reassignments = reassignments

    # --- requests ------------------------------------------------------------------------------

    async def begin(self, broker: BrokerId, asked: DrainBroker) -> bool:
        """Starts a drain: from now on the broker gets no leadership (and, with `replicas`, no replica).
        Returns True if this changed something. Raises InvalidRequest.

        The same request again changes nothing. A request that adds replicas or changes the throttle does; a
        new throttle also applies to the moves under way. Of a drain until the next restart and one without
        that end, the latter stands.
        """
        for _ in range(ATTEMPTS_MAX):
            brokers = await self._term.brokers()
            node = await self._term.session.exists(znodes.drain(broker))
            standing = (await read_drains(self._term.session)).get(broker)
            wanted = _wanted(broker, brokers, standing, asked)
            if wanted == standing:
                return False
            if await self._write(broker, wanted, node):
                return True
        raise OutcomeUnknown(f"the drain of broker {broker} was changed by others, again and again")

    async def undo(self, broker: BrokerId) -> None:
        """Undoes a drain. Moves that have begun continue. It is no error if there is no drain."""
        path = znodes.drain(broker)
        if await self._term.session.is_absent(path):
            return
        try:
            await self._term.session.write([Delete(path)], partial(self._term.session.is_absent, path))
        except MultiFailed as failed:
            if not isinstance(failed.cause, NoNode):
                raise
        logger.info("drain taken back", broker=broker)

    async def end_if_back(self, broker: BrokerId) -> bool:
        """Ends a drain of leaderships if its broker has registered again since (in another life)."""
        path = znodes.drain(broker)
        registration = (await self._term.brokers()).live.get(broker)
        node = await self._term.session.exists(path)
        drain = (await read_drains(self._term.session)).get(broker)
        if registration is None or node is None or drain is None:
            return False
        if drain.replicas or drain.broker_epoch == registration.epoch:
            return False
        try:
            await self._term.session.write(
                [Delete(path, node.version)], partial(self._term.session.is_absent, path)
            )
        except MultiFailed as failed:
            if not isinstance(failed.cause, BadVersion | NoNode):
                raise
            return False  # it was requested again meanwhile, or undone
        logger.info("drain ends: its broker is back", broker=broker, life=registration.epoch)
        return True

    async def _write(self, broker: BrokerId, wanted: Drain, before: Znode | None) -> bool:
        """Writes the drain over the znode that there was `before` the standing drain was read. Returns False
        if another writer changed it since."""
        path, data = znodes.drain(broker), drain_znodes.dump_drain(wanted)
        write = Create(path, data) if before is None else SetData(path, data, before.version)

        async def stands() -> bool:
            return (await read_drains(self._term.session)).get(broker) == wanted

        try:
            await self._term.session.write([write], stands)
        except MultiFailed as failed:
            if not isinstance(failed.cause, BadVersion | NodeExists | NoNode):
                raise
            return False
        logger.info("drain begins", broker=broker, replicas=wanted.replicas)
        crash_point("controller.drain.written")
        return True

    # --- carrying it out -----------------------------------------------------------------------

    def plan(self, survey: Survey) -> DrainPlan:
        return plan_drains(survey, moving_max=self._term.settings.reassignments_in_flight_max)

    def progress(self, survey: Survey, broker: BrokerId) -> DrainProgress:
        """What the broker still has."""
        found = self.plan(survey).progress.get(broker)
        if found is not None:
            return found
        leads = sum(
            partition.state.leader == broker and survey.is_led(partition) for partition in survey.partitions
        )
        has = sum(broker in partition.assigned for partition in survey.partitions)
        return DrainProgress(leads, has, ())

    async def step(self, survey: Survey, plan: DrainPlan) -> bool:
        """Ends drains whose brokers were restarted, or moves what can move now by this plan for the survey.
        Returns True if more can be done soon. Raises Deposed."""
        if [broker for broker in ended_by_restart(survey) if await self.end_if_back(broker)]:
            return True  # the next survey knows
        begun = await self._move_replicas(plan.replicas)
        await self._move_leaderships(plan.leaderships)
        return begun or bool(plan.leaving or plan.leaderships)

    async def _move_leaderships(self, moves: Sequence[LeadershipMove]) -> None:
        moved = 0
        for start in range(0, len(moves), LEADERSHIPS_AT_ONCE_MAX):
            batch = [_yielding(move) for move in moves[start : start + LEADERSHIPS_AT_ONCE_MAX]]
            left = await yield_leaderships(self._term, batch, REASON, wait_s=YIELD_WAIT_S)
            moved += len(batch) - len(left)
            if left:
                names = ", ".join(f"{each.topic}-{each.key.partition}" for each in left[:10])
                logger.warning("leaderships have not moved", count=len(left), partitions=names)
            if len(left) == len(batch):
                break  # this leader cannot hand over now; the rest of upkeep does not wait for it
        if moves:
            logger.info("drain moved leaderships", moved=moved, wanted=len(moves))

    async def _move_replicas(self, moves: Sequence[ReplicaMove]) -> bool:
        asked: defaultdict[tuple[int, AskedBy | None], list[PartitionReassignment]] = defaultdict(list)
        for move in moves:
            asked[move.throttle_bytes_per_s, move.by].append(_reassignment(move))
        begun = 0
        for (throttle_bytes_per_s, by), wanted in asked.items():
            with doing_for(by):
                outcomes = await self._reassignments.ask(
                    wanted, throttle_bytes_per_s=throttle_bytes_per_s, cause=REASON
                )
            for outcome in outcomes:
                if outcome.error is None:
                    begun += 1
                else:
                    logger.warning(
                        "drain cannot reassign", partition=str(outcome.name), reason=outcome.error.message
                    )
        if moves:
            logger.info("drain moves replicas", begun=begun, wanted=len(moves))
        return begun > 0


def _wanted(broker: BrokerId, brokers: Brokers, standing: Drain | None, asked: DrainBroker) -> Drain:
    """The drain to write. Raises InvalidRequest."""
    replicas, throttle_bytes_per_s = asked.replicas, asked.throttle_bytes_per_s
    registration = brokers.live.get(broker)
    if broker not in brokers.known:
        raise InvalidRequest(f"broker {broker} is not known; known are {listed(brokers.known)}")
    if throttle_bytes_per_s < 0:
        raise InvalidRequest(f"throttle_bytes_per_s {throttle_bytes_per_s} is negative")
    if replicas and asked.until_restart:
        raise InvalidRequest("a drain of replicas does not end with a restart: leave out until_restart")
    if standing is not None and standing.replicas and not replicas:
        raise InvalidRequest(
            f"broker {broker} is being drained of its replicas too; take that back first (--undo)"
        )
    if registration is None and standing is None and not replicas:
        raise InvalidRequest(f"broker {broker} is not alive: it leads nothing that could be moved")
    if registration is not None:
        life = registration.epoch
    else:
        life = ANY_LIFE if standing is None else standing.broker_epoch
    if not replicas:
        until_restart = asked.until_restart and (standing is None or standing.until_restart)
        return Drain(life, replicas, by=asked_by(), until_restart=until_restart)
    earlier = () if standing is None or not standing.replicas else _throttles(standing)
    kept = [each for each in dict.fromkeys(earlier) if each != throttle_bytes_per_s]
    return Drain(life, replicas, throttle_bytes_per_s, tuple(kept[-THROTTLES_MAX:]), asked_by())


def _reassignment(move: ReplicaMove) -> PartitionReassignment:
    """A new one only from the replicas that were surveyed: those of a survey that is torn may be more."""
    partition = move.partition
    if partition.reassignment is not None:
        return PartitionReassignment(partition.name, move.replicas)
    return MoveFrom(partition.name, move.replicas, topic_id=partition.key.topic_id, before=partition.assigned)


def _throttles(drain: Drain) -> tuple[int, ...]:
    """All throttles that the drain ever had, the present one last."""
    return (*drain.earlier_throttles, drain.throttle_bytes_per_s)


def _yielding(move: LeadershipMove) -> Yielding:
    partition = move.partition
    state = partition.state
    return Yielding(partition.topic, partition.key, state.leader, state.leader_epoch, move.give_to, move.by)
