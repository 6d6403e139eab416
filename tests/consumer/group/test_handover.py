"""Partitions that come and go at the same time: in order, each notified once, and not after it was lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from strandline.consumer.core.member_effects import Assign, Lose, Revoke
from strandline.consumer.group.commits import Commits, Identity
from strandline.consumer.group.handover import Handover
from strandline.consumer.group.listener import Listening, RebalanceListener
from strandline.errors import IllegalGeneration
from strandline.ids import TopicPartition
from tests.consumer.brokers import Parts
from tests.waiting import DEADLINE_S

A, B = TopicPartition("t", 0), TopicPartition("t", 1)

Within = Callable[[], Awaitable[None]]


class Group(Parts):
    """A handover with a listener that records its calls, and the partitions that are readable then."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.owned: set[TopicPartition] = set()
        self.called: list[tuple[str, set[TopicPartition]]] = []
        self.within: dict[str, Within] = {}
        self.committed: list[dict[TopicPartition, int]] = []
        self.brokers.answers["OffsetCommit"] = self._commit
        self.listening = Listening(self.delivery.raise_next, limit_s=60)
        self.listening.listener = self._listener()
        self.handover = Handover(
            reader=self.reader,
            delivery=self.delivery,
            commits=Commits(
                self.coordinator,
                reader=self.reader,
                delivery=self.delivery,
                identity=lambda: Identity("m", 1),
                on_refused=lambda identity, error: False,
                in_listener=lambda: self.listening.inside,
                settings=self.settings,
                clock=self.clock,
            ),
            listening=self.listening,
            settings=self.settings,
            owned=lambda: frozenset(self.owned),
        )

    def _commit(self, request: Any) -> Any:
        self.committed.append({name: entry.offset for name, entry in request.offsets.items()})
        return dict.fromkeys(request.offsets)

    def _listener(self) -> RebalanceListener:
        group = self

        class Writes(RebalanceListener):
            async def on_assigned(self, added: set[TopicPartition]) -> None:
                await group.hear("assigned", added)

            async def on_revoked(self, removed: set[TopicPartition]) -> None:
                await group.hear("revoked", removed)

            async def on_lost(self, lost: set[TopicPartition]) -> None:
                await group.hear("lost", lost)

        return Writes()

    async def hear(self, kind: str, partitions: set[TopicPartition]) -> None:
        self.called.append((kind, partitions))
        assert not self.readable & partitions, f"{kind} while it is read"
        if kind in self.within:
            await self.within[kind]()

    @property
    def readable(self) -> set[TopicPartition]:
        return {state.name for state in self.reader.positions if state.readable}

    async def take(self, *names: TopicPartition) -> None:
        """These are assigned, and stand at 0."""
        self.owned |= set(names)
        await self.handover.assign(Assign(names, tuple(sorted(self.owned)), 1))
        for name in names:
            self.reader.positions.seek(name, 0)

    def decide(self, effect: Revoke | Lose) -> None:
        """As the membership does: at once."""
        if isinstance(effect, Lose):
            self.owned -= set(effect.partitions)
        self.handover.prepare(effect)


async def test_a_revoked_partition_is_drained_committed_reported_and_released() -> None:
    """(G6) and from the moment of the decision nothing of it is handed out."""
    async with Group() as group, asyncio.TaskGroup() as tasks:
        await group.take(A, B)
        assert group.readable == {A, B}
        group.arrive(A, 3)
        _ = await group.delivery.getmany((), 0, 2)
        revoke = Revoke(1, (A,), "moves")
        group.decide(revoke)
        assert group.readable == {B}
        running = tasks.create_task(group.handover.revoke(revoke))
        await asyncio.sleep(0)
        assert group.committed == [] and group.called == [("assigned", {A, B})]
        assert await group.delivery.getmany((), 0, None) == {}
        assert await running
        assert group.committed == [{A: 2}]
        assert group.called[1:] == [("revoked", {A})]
        assert [state.name for state in group.reader.positions] == [B]


async def test_partitions_lost_while_they_are_drained_are_lost_and_not_revoked() -> None:
    """Nothing is committed, records in hand are not waited for, and buffered ones are dropped (G9)."""
    async with Group() as group, asyncio.TaskGroup() as tasks:
        await group.take(A)
        group.arrive(A, 3)
        _ = await group.delivery.getmany((), 0, None)
        revoke, lose = Revoke(1, (A,), "moves"), Lose((A,), "expelled")
        group.decide(revoke)
        running = tasks.create_task(group.handover.revoke(revoke))
        await asyncio.sleep(0)
        group.decide(lose)
        assert group.readable == set() and not list(group.reader.positions)
        assert not await running
        await group.handover.lose(lose)
        assert group.committed == []
        assert group.called == [("assigned", {A}), ("lost", {A})]


async def test_partitions_whose_records_stay_in_hand_too_long_are_lost_and_not_revoked() -> None:
    """(G6) A member that was paused wakes up after the group has removed it. The processed records are
    committed if the group still takes that. An application that closes gives its partitions up in order."""
    for closing, heard in ((False, "lost"), (True, "revoked")):
        async with Group(max_poll_interval_ms=20) as group:
            await group.take(A)
            group.arrive(A, 3)
            _ = await group.delivery.getmany((), 0, 1)
            _ = await group.delivery.getmany((), 0, 1)
            revoke = Revoke(1, (A,), "moves")
            group.decide(revoke)
            if closing:
                group.delivery.abandon()
            assert await group.handover.revoke(revoke)
            assert group.committed == [{A: 1}]
            assert group.called == [("assigned", {A}), (heard, {A})]
            assert not list(group.reader.positions)


async def test_partitions_lost_within_on_revoked_are_not_reported_twice() -> None:
    async with Group() as group:
        await group.take(A)
        lose = Lose((A,), "expelled")

        async def expelled() -> None:
            group.decide(lose)

        group.within["revoked"] = expelled
        revoke = Revoke(1, (A,), "moves")
        group.decide(revoke)
        assert await group.handover.revoke(revoke)
        await group.handover.lose(lose)
        assert group.called == [("assigned", {A}), ("revoked", {A})]


async def test_partitions_lost_before_their_assignment_was_reported_are_never_reported() -> None:
    async with Group() as group:
        group.owned |= {A}
        group.decide(Lose((A,), "expelled"))
        await group.handover.assign(Assign((A,), (A,), 1))
        await group.handover.lose(Lose((A,), "expelled"))
        assert group.called == [] and not list(group.reader.positions)


async def test_partitions_lost_within_on_assigned_are_not_read() -> None:
    async with Group() as group:
        lose = Lose((A, B), "expelled")

        async def expelled() -> None:
            group.decide(lose)

        group.within["assigned"] = expelled
        group.owned |= {A, B}
        await group.handover.assign(Assign((A, B), (A, B), 1))
        assert group.readable == set()
        await group.handover.lose(lose)
        assert group.called == [("assigned", {A, B}), ("lost", {A, B})]
        del group.within["assigned"]
        await group.take(A)
        assert group.readable == {A}, "what comes again is read again"


async def test_partitions_that_leave_before_they_were_reported_are_not_read_in_between() -> None:
    async with Group() as group:
        revoke = Revoke(1, (A,), "moves on")

        async def on_the_way() -> None:
            group.decide(revoke)

        group.within["assigned"] = on_the_way
        group.owned |= {A, B}
        await group.handover.assign(Assign((A, B), (A, B), 1))
        assert group.readable == {B}
        assert await group.handover.revoke(revoke)
        assert [kind for kind, _ in group.called] == ["assigned", "revoked"]


async def test_a_commit_that_fails_is_reported_and_does_not_keep_the_group_waiting() -> None:
    """(G7, G12) on_revoked comes all the same, and the next get call raises what the commit was refused with:
    once."""
    async with Group() as group:
        await group.take(A)
        group.brokers.answers["OffsetCommit"] = lambda _: IllegalGeneration("too late")
        revoke = Revoke(1, (A,), "moves")
        group.decide(revoke)
        assert await group.handover.revoke(revoke)
        assert group.called[-1] == ("revoked", {A})
        with pytest.raises(IllegalGeneration):
            _ = await group.delivery.getmany((), 0, None)
        assert await group.delivery.getmany((), 0, None) == {}


async def test_with_nothing_in_hand_nothing_is_waited_for() -> None:
    async with Group() as group:
        await group.take(A)
        group.arrive(A, 3)
        revoke = Revoke(1, (A,), "moves")
        group.decide(revoke)
        async with asyncio.timeout(DEADLINE_S):
            assert await group.handover.revoke(revoke)
        assert group.committed == [{A: 0}], "what was fetched and never handed out is for the next owner"
