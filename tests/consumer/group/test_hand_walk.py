"""Members at random, as applications drive them: by hand or not, with timeouts, in tasks, expelled.

Several consumers without their membership (`Parts`) share a log and a table of committed offsets. Partitions
move from one to another, members are expelled, commits are refused, and meanwhile each application asks,
works and commits in its own manner. The same walk with the old rule, that a commit ends the work on a record,
finds a violation: so the walk would notice.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from random import Random
from typing import Any, Final

import pytest

from strandline.client.reading.records import ConsumerRecord
from strandline.consumer.core.member_effects import Assign, Lose, Revoke
from strandline.consumer.group.commits import Commits, Identity
from strandline.consumer.group.handover import Handover
from strandline.consumer.group.listener import Listening, RebalanceListener
from strandline.errors import (
    CoordinatorLoading,
    InvalidRequest,
    RebalanceInProgress,
    StrandlineError,
    UnknownMemberId,
)
from strandline.ids import TopicPartition
from strandline.vocabulary.groups import OffsetCommit
from tests.consumer.brokers import Parts

PARTITIONS: Final = [TopicPartition("t", number) for number in range(3)]
WALKS: Final = 60
WALKS_TO_NOTICE_MAX: Final = 60
STEPS: Final = 60
TURNS_MAX: Final = 3_000
ASKS: Final = ("getone", "wait_for", "task", "getmany")
COMMITS: Final = ("automatic", "before", "after", "each")


class Violation(AssertionError):
    """A member broke a rule."""


class World:
    def __init__(self, random: Random, node: type[Node]) -> None:
        self.random = random
        self.log = dict.fromkeys(PARTITIONS, 0)
        self.committed = dict.fromkeys(PARTITIONS, 0)
        self.owner: dict[TopicPartition, Node | None] = dict.fromkeys(PARTITIONS)
        self.handled: Counter[tuple[TopicPartition, int]] = Counter()
        self.expelled: set[TopicPartition] = set()
        """Partitions that a member lost: their records may be handled twice."""
        self.nodes = [node(self, number) for number in range(3)]
        self.troubles = True
        self.broken: list[str] = []

    def give(self, name: TopicPartition) -> None:
        """A partition without an owner goes to some member."""
        self.owner[name] = to = self.random.choice(self.nodes)
        to.take(name)

    def step(self) -> None:
        random = self.random
        name = random.choice(PARTITIONS)
        owner = self.owner[name]
        match random.choice(("write", "write", "fetch", "fetch", "fetch", "move", "expel", "idle", "idle")):
            case "write":
                self.log[name] += random.randint(1, 3)
            case "fetch":
                self.fetch()
            case "move" if owner is not None:
                owner.give_up(name)
            case "expel" if owner is not None and random.random() < 0.3:
                owner.expel()

    def fetch(self) -> None:
        for node in self.nodes:
            for state in list(node.reader.positions):
                missing = self.log[state.name] - state.fetch_offset
                if state.readable and missing > 0:
                    node.arrive(state.name, self.random.randint(1, missing))

    async def healed(self) -> bool:
        """End all faults: True once every written record is handled and committed."""
        self.troubles = False
        for _ in range(TURNS_MAX):
            self.fetch()
            await asyncio.sleep(0)
            for node in self.nodes:
                await node.commit_now_and_then()
            done = all(self.handled[name, at] for name in PARTITIONS for at in range(self.log[name]))
            if done and self.committed == self.log and all(self.owner.values()):
                return True
        return False

    def check(self) -> None:
        if self.broken:
            raise Violation("; ".join(self.broken))
        twice = {place for place, times in self.handled.items() if times > 1}
        if extra := {place for place in twice if place[0] not in self.expelled}:
            raise Violation(f"handled twice: {sorted(extra)}")


class Node(Parts):
    """A member and its application. Effects are carried out in order, as the membership's driver does."""

    def __init__(self, world: World, number: int) -> None:
        random = world.random
        self.ask_by, self.commit_by = random.choice(ASKS), random.choice(COMMITS)
        super().__init__(enable_auto_commit=self.commit_by == "automatic")
        self.world = world
        self.reader.subscribed = True
        self.member = 0
        self.name = f"n{number} ({self.ask_by}, {self.commit_by})"
        self.owned: set[TopicPartition] = set()
        self.at_work: dict[TopicPartition, int] = {}
        """The records in the handler, and as which member they were received."""
        self.effects: asyncio.Queue[Assign | Revoke | Lose] = asyncio.Queue()
        self.brokers.topics["t"] = len(PARTITIONS)
        self.brokers.answers["OffsetCommit"] = self._answer
        self.listening = Listening(self.delivery.raise_next, limit_s=60)
        self.listening.listener = self._listener()
        self.commits = Commits(
            self.coordinator,
            reader=self.reader,
            delivery=self.delivery,
            identity=lambda: Identity(f"m{self.member}", 1),
            on_refused=self._refused,
            in_listener=lambda: self.listening.inside,
            settings=self.settings,
            clock=self.clock,
        )
        self.delivery.on_call = self.commits.lost.clear
        self.handover = Handover(
            reader=self.reader,
            delivery=self.delivery,
            commits=self.commits,
            listening=self.listening,
            settings=self.settings,
            owned=lambda: frozenset(self.owned),
        )

    # --- what the group decides --------------------------------------------------------------

    def take(self, name: TopicPartition) -> None:
        self.owned.add(name)
        self.decide(Assign((name,), tuple(sorted(self.owned)), 1))

    def give_up(self, name: TopicPartition) -> None:
        """In order; it has another owner once it is released."""
        if name in self.owned and self.reader.positions.find(name) is not None:
            self.world.owner[name] = None
            self.decide(Revoke(1, (name,), "moves"))

    def expel(self) -> None:
        """Others own all that it had at once, but for what it is just giving up."""
        lost = tuple(sorted(self.owned))
        self.owned.clear()
        self.member += 1
        self.world.expelled |= set(lost)
        if lost:
            self.decide(Lose(lost, "expelled"))
        for name in lost:
            self.world.give(name)

    def decide(self, effect: Assign | Revoke | Lose) -> None:
        self.handover.prepare(effect)
        self.effects.put_nowait(effect)

    async def carry_out(self) -> None:
        while True:
            match await self.effects.get():
                case Assign() as effect:
                    wanted = [name for name in effect.added if name in self.owned]
                    self.reader.positions.add(wanted, held=True)
                    for name in wanted:
                        self.reader.positions.seek(name, self.world.committed[name])
                    await self.handover.assign(effect)
                case Revoke() as effect:
                    if await self.handover.revoke(effect):
                        for name in self.owned.intersection(effect.partitions):
                            self.owned.discard(name)
                            self.world.give(name)
                case Lose() as effect:
                    await self.handover.lose(effect)

    def _listener(self) -> RebalanceListener:
        node = self

        class Watches(RebalanceListener):
            async def on_revoked(self, removed: set[TopicPartition]) -> None:
                # Records received before an expulsion are not waited for.
                if busy := {name for name in removed if node.at_work.get(name) == node.member}:
                    node.world.broken.append(f"{node.name}: {busy} revoked while at work")
                if node.commit_by == "each":
                    await node._commit(None)

        return Watches()

    # --- the coordinator ---------------------------------------------------------------------

    def _answer(self, request: OffsetCommit) -> Any:
        if request.member != f"m{self.member}":
            return UnknownMemberId("who?")
        if self.world.troubles and self.world.random.random() < 0.3:
            return self.world.random.choice((RebalanceInProgress("wait"), CoordinatorLoading("loading")))
        for name, entry in request.offsets.items():
            if name not in self.owned:
                return RebalanceInProgress("another generation has begun, in which it is not its own")
            if entry.offset < self.world.committed[name]:
                self.world.broken.append(f"{self.name}: {name} fell to {entry.offset}")
            self.world.committed[name] = entry.offset
        return dict.fromkeys(request.offsets)

    def _refused(self, identity: Identity, error: StrandlineError) -> bool:
        return False

    async def commit_now_and_then(self) -> None:
        if self.commit_by == "automatic" and self.world.random.random() < 0.2:
            with contextlib.suppress(UnknownMemberId):
                await self.commits.commit_processed(timeout_s=60)

    # --- the application ---------------------------------------------------------------------

    async def application(self) -> None:
        while True:
            records = await self._ask()
            member = self.member
            for record in records:
                await self._handle(record, member)

    async def _ask(self) -> list[ConsumerRecord]:
        match self.ask_by:
            case "getone":
                return [await self.delivery.getone()]
            case "wait_for":
                return [await asyncio.wait_for(self.delivery.getone(), 60)]
            case "task":
                async with asyncio.TaskGroup() as tasks:
                    return [await tasks.create_task(self.delivery.getone())]
            case _:
                found = await self.delivery.getmany((), 60_000, 3)
                return [record for records in found.values() for record in records]

    async def _handle(self, record: ConsumerRecord, member: int) -> None:
        """`member`: as whom the record was received."""
        name = TopicPartition(record.topic, record.partition)
        self.at_work[name] = member
        if self.commit_by == "before":
            await self._commit(None)
        elif self.commit_by == "each":
            await self._commit({name: record.offset})
        for _ in range(self.world.random.randint(0, 3)):
            await asyncio.sleep(0)
        for other in self.world.nodes:
            if other is not self and other.at_work.get(name) == other.member and member == self.member:
                self.world.broken.append(f"{self.name} and {other.name} work on {name}")
        self.world.handled[name, record.offset] += 1
        if self.commit_by in ("after", "each"):
            await self._commit({name: record.offset + 1})
        del self.at_work[name]

    async def _commit(self, offsets: dict[TopicPartition, int] | None) -> None:
        member = self.member
        try:
            await self.commits.commit(offsets)
        except UnknownMemberId:
            if member == self.member and not self.commits.lost:
                self.world.broken.append(f"{self.name} lost nothing, and its commit is refused")
        except InvalidRequest as error:
            self.world.broken.append(f"{self.name} is given up too early: {error}")


class CommitEndsTheWork(Node):
    """The old rule."""

    async def _commit(self, offsets: dict[TopicPartition, int] | None) -> None:
        await super()._commit(offsets)
        self.delivery._handed.clear()
        self.delivery._processed.set()


async def walk(seed: int, node: type[Node] = Node) -> World:
    """Raises Violation."""
    world = World(Random(seed), node)
    async with contextlib.AsyncExitStack() as scopes, asyncio.TaskGroup() as tasks:
        for each in world.nodes:
            await scopes.enter_async_context(each)
        running = [tasks.create_task(each.carry_out()) for each in world.nodes]
        running += [tasks.create_task(each.application()) for each in world.nodes]
        for name in PARTITIONS:
            world.give(name)
        for _ in range(STEPS):
            world.step()
            for _ in range(world.random.randint(0, 6)):
                await asyncio.sleep(0)
        if not await world.healed():
            world.broken.append(f"stalled: committed {world.committed} of {world.log}")
        for task in running:
            task.cancel()
    world.check()
    return world


async def test_no_walk_has_two_at_work_on_a_record_or_loses_a_commit() -> None:
    """(G1, G6, G12) nothing is revoked in the middle of its handling, committed offsets never fall, nothing
    stalls, and without an expulsion each record is handled once."""
    handled = expelled = 0
    for seed in range(WALKS):
        try:
            world = await walk(seed)
        except Violation as violation:
            raise AssertionError(f"walk {seed}: {violation}") from violation
        handled += world.handled.total()
        expelled += len(world.expelled)
    assert handled > WALKS * 10 and expelled > 0


async def test_a_walk_in_which_a_commit_ends_the_work_finds_a_violation() -> None:
    for seed in range(WALKS_TO_NOTICE_MAX):
        try:
            _ = await walk(seed, CommitEndsTheWork)
        except Violation:
            return
    pytest.fail("no walk noticed")
