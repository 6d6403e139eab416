"""Waits for a reassignment, and says what it waits for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from strandline.cli.cluster.moves import copied_text
from strandline.cli.shell.waits import Waits
from strandline.errors import OutcomeUnknown, RequestTimedOut
from strandline.ids import NO_BROKER, TopicPartition

if TYPE_CHECKING:
    from strandline import Admin
    from strandline.vocabulary.admin import OngoingReassignment

LOOK_AGAIN_S: Final = 0.2
SETTLE_S_MAX: Final = 5.0
"""Time after a reassignment until the broker that is asked knows its result."""


class Settling:
    """The wait for one partition to have the replicas `target`. `note` writes a line."""

    def __init__(
        self, admin: Admin, where: TopicPartition, target: tuple[int, ...], note: Callable[[str], None]
    ) -> None:
        from strandline.adapters.system.clock import SystemClock

        self._admin = admin
        self._where = where
        self._target = target
        self._note = note
        self._clock = SystemClock()
        self._waits = Waits(note, self._clock)
        self._last: OngoingReassignment | None = None
        """The reassignment to `target` as it was last seen."""
        self._copied = ""
        """How far its copies were when they were last asked for."""

    async def moved(self, *, cancels: bool) -> Sequence[int]:
        """Returns the replicas once the move is complete, and brokers show it. `cancels`: it is taken back at
        its deadline.

        Raises RequestTimedOut once it is overdue, OutcomeUnknown if the partition gets other replicas; both
        with the reason.
        """
        while (moving := await ongoing(self._admin, self._where)) is not None:
            if moving.reverting:
                raise await self._taken_back(moving.original, cancels=cancels)
            if moving.replicas != self._target:
                raise OutcomeUnknown(
                    f"{self._where} does not move to {listed(self._target)}: a later request took its place, "
                    f"and it moves to {listed(moving.replicas)}"
                )
            if moving.overdue:
                then = "; it is taken back" if cancels else ""
                raise RequestTimedOut(f"overdue: {await self._waiting(moving)}{then}")
            await self._look_on(moving)
        replicas = await self._shown()
        if replicas != self._target:
            raise await self._taken_back(replicas, cancels=cancels)
        return replicas

    async def cancelled(self) -> Sequence[int]:
        """Returns the replicas once the partition goes nowhere, and brokers show it. Raises OutcomeUnknown if
        it has others than `target`, empty: than those that it had before."""
        while (moving := await ongoing(self._admin, self._where)) is not None:
            self._target = moving.original
            await self._look_on(moving)
        replicas = await self._shown()
        if self._target and replicas != self._target:
            raise OutcomeUnknown(
                f"{self._where} did not go back to {listed(self._target)}: a later request took its place, "
                f"and its replicas are {listed(replicas)}"
            )
        return replicas

    async def _look_on(self, moving: OngoingReassignment) -> None:
        """Shows how far it is, and rests."""
        if self._last is None or moving.isr != self._last.isr:
            self._note(f"{self._where}: in sync are {listed(moving.isr)}")
        self._last = moving
        if self._waits.due:
            self._waits.show(await self._waiting(moving))
        await self._clock.sleep(LOOK_AGAIN_S)

    async def _shown(self) -> Sequence[int]:
        """The replicas that brokers show: `target`, or others after SETTLE_S_MAX."""
        deadline = self._clock.monotonic() + SETTLE_S_MAX
        while True:
            replicas, _, _ = await self._seen()
            if replicas == self._target or not self._target or self._clock.monotonic() >= deadline:
                return replicas
            await self._clock.sleep(LOOK_AGAIN_S)

    async def _taken_back(
        self, replicas: Sequence[int], *, cancels: bool
    ) -> OutcomeUnknown | RequestTimedOut:
        """The error for a move that was not completed. It says what it waited for, as it was last seen."""
        from strandline.vocabulary.admin import OngoingReassignment

        now, isr, leader = await self._seen()
        last = self._last
        too_late = cancels and (last is None or last.deadline_at_ms <= self._clock.wall_ms())
        if last is None:  # it was over before the first look
            last = OngoingReassignment(self._where, tuple(now), self._target, isr, 0, reverting=False)
        why = waiting_for(last, await self._alive(), leader, self._copied, is_over=True)
        if too_late:
            return RequestTimedOut(f"overdue, and taken back to {listed(replicas)}: {why}")
        return OutcomeUnknown(
            f"{self._where} does not move to {listed(self._target)}: that was taken back, by --cancel, at "
            "its deadline or by another client, or a later request took its place; its replicas are "
            f"{listed(replicas)}; last seen: {why}"
        )

    async def _waiting(self, moving: OngoingReassignment) -> str:
        """Describes what it waits for. Raises as the controller's answer does."""
        from strandline.client.admin.moves import reassignment_progress
        from strandline.client.admin.placement import LEADERS_WAIT_MS

        answers = await self._admin.describe_replicas([self._where], wait_ms=LEADERS_WAIT_MS)
        self._copied = copied_text(reassignment_progress(moving, answers.get(self._where)))
        _, _, leader = await self._seen()
        return waiting_for(moving, await self._alive(), leader, self._copied)

    async def _seen(self) -> tuple[Sequence[int], tuple[int, ...], int]:
        """The replicas, the in-sync ones and the leader, as a broker shows them."""
        (topic,) = (await self._admin.metadata([self._where.topic])).topics
        partition = topic.partitions[self._where.partition]
        return partition.replicas, tuple(partition.isr), partition.leader

    async def _alive(self) -> set[int]:
        return {each.endpoint.id for each in (await self._admin.describe_cluster()).brokers if each.alive}


async def ongoing(admin: Admin, where: TopicPartition) -> OngoingReassignment | None:
    """The reassignment of a partition that is under way."""
    return next((each for each in await admin.list_reassignments() if each.name == where), None)


def waiting_for(
    moving: OngoingReassignment,
    alive: Collection[int],
    leader: int,
    copied: str = "",
    *,
    is_over: bool = False,
) -> str:
    """The reason why a reassignment is not complete, as far as brokers and controller report it.

    `copied` says how far the copies are. `is_over`: it was taken back.
    """
    target = moving.original if moving.reverting else moving.replicas
    if leader == NO_BROKER:
        dead = [broker for broker in moving.isr if broker not in alive]
        in_sync = listed(moving.isr)
        why = f": in sync were {in_sync}, not alive of these are {listed(dead)}"
        if not dead:
            why = f": broker {in_sync} was in sync and is alive; its log says why it does not lead"
        return f"{moving.name}: waiting for a leader{why}"
    missing = [broker for broker in target if broker not in moving.isr]
    if dead := [broker for broker in missing if broker not in alive]:
        advice = "" if is_over else ": start it, name other replicas, or take the move back with --cancel"
        return f"{moving.name}: waiting for broker {listed(dead)}, not alive{advice}"
    if missing:
        throttle = moving.throttle_bytes_per_s
        limit = f", at most {throttle} bytes a second" if throttle else ""
        so_far = f": {copied}" if copied else ""
        return f"{moving.name}: waiting for broker {listed(missing)} to have all records{limit}{so_far}"
    leaving = [broker for broker in moving.isr if broker not in target and broker != leader]
    if leaving:
        return f"{moving.name}: waiting for broker {listed(leaving)} to close its replica"
    return f"{moving.name}: waiting for its leader, broker {leader}, to write the end"


def listed(brokers: Iterable[int]) -> str:
    """Their ids, separated by commas."""
    return ",".join(map(str, brokers)) or "none"
