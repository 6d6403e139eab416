"""Commits with answers that are late, partial, or of another time (CORRECTNESS G1, G4, G12)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from strandline.consumer.group.commits import Commits, Identity
from strandline.consumer.group.committed import Committed
from strandline.errors import (
    CoordinatorLoading,
    CoordinatorNotAvailable,
    FencedInstanceId,
    IllegalGeneration,
    InvalidRequest,
    NotCoordinator,
    OffsetMetadataTooLarge,
    RebalanceInProgress,
    StrandlineError,
    UnknownMemberId,
    UnknownTopicOrPartition,
)
from strandline.ids import TopicPartition
from strandline.vocabulary.groups import CommittedOffset, FetchedOffsets, OffsetCommit, OffsetFetch
from tests.consumer.brokers import BROKERS, Parts
from tests.waiting import eventually

A, B = TopicPartition("t", 0), TopicPartition("t", 1)

Answer = Callable[[OffsetCommit], Any]


class Group(Parts):
    """A consumer in generation 1, and a coordinator that answers as the test's script says, then well."""

    def __init__(self, *script: Answer | StrandlineError, **settings: Any) -> None:
        super().__init__(**settings)
        self.identity = Identity("m", 1)
        self.outdated = False
        self.in_listener = False
        self.expelling = False
        """True: a refusal makes the member lose everything."""
        self.refused: list[tuple[Identity, StrandlineError]] = []
        self.sent: list[OffsetCommit] = []
        self._script = list(script)
        self.brokers.answers["OffsetCommit"] = self._answer
        self.commits = Commits(
            self.coordinator,
            reader=self.reader,
            delivery=self.delivery,
            identity=lambda: self.identity,
            on_refused=self._refused,
            in_listener=lambda: self.in_listener,
            settings=self.settings,
            clock=self.clock,
        )

    def _refused(self, identity: Identity, error: StrandlineError) -> bool:
        self.refused.append((identity, error))
        if self.expelling:
            self.lose([state.name for state in self.reader.positions], error.message)
            self.identity = Identity()
        return self.outdated

    def lose(self, names: list[TopicPartition], reason: str = "expelled") -> None:
        self.commits.note_lost(names, reason)
        self.reader.drop(names)

    def script(self, *answers: Answer | StrandlineError) -> None:
        """Answer so next."""
        self._script += answers

    def _answer(self, request: OffsetCommit) -> Any:
        self.sent.append(request)
        if not self._script:
            return dict.fromkeys(request.offsets)
        answer = self._script.pop(0)
        return answer if isinstance(answer, StrandlineError) else answer(request)

    def offsets(self) -> list[dict[TopicPartition, int]]:
        return [{name: entry.offset for name, entry in request.offsets.items()} for request in self.sent]


async def test_a_committed_offset_is_not_committed_again() -> None:
    async with Group() as group:
        group.assign(A, B, offset=5)
        await group.commits.commit_processed(timeout_s=10)
        await group.commits.commit_processed(timeout_s=10)
        group.arrive(A, 2)
        _ = await group.delivery.getmany((), 0, None)
        await group.commits.commit_processed(timeout_s=10)
        assert group.offsets() == [{A: 5, B: 5}], "the two records are in hand"
        group.delivery.done()
        await group.commits.commit_processed([B], timeout_s=10)
        await group.commits.commit_processed(timeout_s=10)
        assert group.offsets() == [{A: 5, B: 5}, {A: 7}]


@pytest.mark.parametrize(
    "error", [CoordinatorLoading("loading"), NotCoordinator("moved"), RebalanceInProgress("wait")]
)
async def test_retriable_refusals_are_retried(error: StrandlineError) -> None:
    async with Group(error, error) as group:
        group.assign(A)
        await group.commits.commit({A: 3})
        assert group.offsets() == [{A: 3}] * 3
        assert group.refused == [(Identity("m", 1), error)] * 2
        finds = [name for _, name in group.brokers.asked].count("FindCoordinator")
        assert finds == (3 if isinstance(error, NotCoordinator) else 1), "only who is lost is looked for"


async def test_another_coordinator_is_asked_where_it_is() -> None:
    def moved(_request: OffsetCommit) -> NotCoordinator:
        group.brokers.coordinator = BROKERS[1]
        return NotCoordinator("moved")

    async with Group(moved) as group:
        group.assign(A)
        await group.commits.commit({A: 3})
        addresses = [address for address, name in group.brokers.asked if name == "OffsetCommit"]
        assert addresses == [BROKERS[0].address, BROKERS[1].address]


async def test_a_refusal_for_good_is_raised() -> None:
    async with Group(IllegalGeneration("gone on")) as group:
        group.assign(A)
        with pytest.raises(IllegalGeneration):
            await group.commits.commit({A: 3})
        assert group.offsets() == [{A: 3}]
        assert [type(error) for _, error in group.refused] == [IllegalGeneration]


async def test_a_commit_is_sent_in_the_present_generation() -> None:
    """(G4) refused in a generation that has ended, it is tried again as the present member."""

    def rebalanced(_request: OffsetCommit) -> IllegalGeneration:
        group.identity = Identity("m", 2)
        return IllegalGeneration("generation 1 is over")

    async with Group(rebalanced) as group:
        group.assign(A)
        await group.commits.commit({A: 3})
        assert [request.generation for request in group.sent] == [1, 2]


async def test_a_refusal_that_a_join_under_way_may_explain_is_not_final() -> None:
    """(G4) the coordinator has answered the join, and the answer is not here yet."""

    def joins(_request: OffsetCommit) -> IllegalGeneration:
        group.outdated = True
        return IllegalGeneration("generation 1 is over")

    def has_joined(_request: OffsetCommit) -> IllegalGeneration:
        group.outdated, group.identity = False, Identity("m", 2)
        return IllegalGeneration("generation 1 is over")

    async with Group(joins, has_joined) as group:
        group.assign(A)
        await group.commits.commit({A: 3})
        assert [request.generation for request in group.sent] == [1, 1, 2]


async def test_a_partition_that_went_between_two_tries_is_not_committed() -> None:
    """(G1) its new owner's commits stand; not even if it has come back meanwhile."""

    def gone_and_back(_request: OffsetCommit) -> RebalanceInProgress:
        group.identity = Identity("m", 2)
        group.reader.drop([A])
        group.assign(A, offset=9)
        return RebalanceInProgress("wait")

    async with Group(gone_and_back) as group:
        group.assign(A)
        with pytest.raises(InvalidRequest, match="t-0"):
            await group.commits.commit({A: 3})
        assert group.offsets() == [{A: 3}]


async def test_an_automatic_commit_continues_without_revoked_partitions() -> None:
    """A partition that is revoked while others are committed is no error."""

    def one_goes(_request: OffsetCommit) -> CoordinatorLoading:
        group.reader.drop([A])
        return CoordinatorLoading("loading")

    async with Group(one_goes) as group:
        group.assign(A, B)
        await group.commits.commit_processed(timeout_s=10)
        assert group.offsets() == [{A: 0, B: 0}, {B: 0}]


async def test_a_deleted_topic_fails_only_the_applications_own_commits() -> None:
    """The coordinator has checked before it refuses (CORRECTNESS X6): the commit neither waits nor is tried
    again."""

    def gone(request: OffsetCommit) -> Any:
        return {name: UnknownTopicOrPartition("deleted") if name == B else None for name in request.offsets}

    async with Group(gone, gone) as group:
        group.assign(A, B, offset=5)
        await group.commits.commit_processed(timeout_s=10)
        with pytest.raises(UnknownTopicOrPartition):
            await group.commits.commit({A: 6, B: 6})
        assert group.offsets() == [{A: 5, B: 5}, {A: 6, B: 6}]


async def test_only_what_failed_is_tried_again() -> None:
    """(G12) a partition of which the answer says nothing is not committed either."""

    def half(_request: OffsetCommit) -> dict[TopicPartition, StrandlineError | None]:
        return {A: None, B: CoordinatorNotAvailable("not written")}

    async with Group(half, lambda _: {}) as group:
        group.assign(A, B)
        await group.commits.commit({A: 3, B: 4})
        assert group.offsets() == [{A: 3, B: 4}, {B: 4}, {B: 4}]


async def test_one_that_fails_for_good_fails_the_commit_and_the_others_stand() -> None:
    async with Group(lambda _: {A: OffsetMetadataTooLarge("too large"), B: None}) as group:
        group.assign(A, B)
        with pytest.raises(OffsetMetadataTooLarge):
            await group.commits.commit({A: (3, "x" * 10), B: 4})
        assert group.reader.positions[B].committed == 4
        assert group.reader.positions[A].committed is None


async def test_a_commit_that_is_late_never_overtakes_a_younger_one() -> None:
    """Offset regression: the older one is refused, a younger one goes through, and then the older one's
    second try is not sent."""
    async with Group() as group, asyncio.TaskGroup() as tasks:
        group.assign(A, B)
        younger: list[asyncio.Task[None]] = []

        def refuse(_request: OffsetCommit) -> CoordinatorLoading:
            younger.append(tasks.create_task(group.commits.commit({A: 8})))
            return CoordinatorLoading("loading")

        group.script(refuse)
        await group.commits.commit({A: 3, B: 1})
        await younger[0]
        assert group.offsets() == [{A: 3, B: 1}, {A: 8}, {B: 1}]
        assert group.reader.positions[A].committed == 8


async def test_an_automatic_commit_never_undoes_one_of_the_application() -> None:
    """Asked for while the application's commit is on its way, it knew less than that one says."""
    async with Group() as group, asyncio.TaskGroup() as tasks:
        group.assign(A)
        group.arrive(A, 3)
        for _ in range(3):
            _ = await group.delivery.getone()

        async def meanwhile(request: OffsetCommit) -> Any:
            tasks.create_task(group.commits.commit_processed(timeout_s=10))
            await asyncio.sleep(0)
            return dict.fromkeys(request.offsets)

        group.script(meanwhile)
        await group.commits.commit(None)
    assert group.offsets() == [{A: 3}]
    assert group.reader.positions[A].committed == 3


async def test_a_commit_is_not_undone_by_the_consumers_next_one() -> None:
    """In a batch that the application processes record by record, committed records count as processed; the
    rest is in hand."""
    async with Group() as group:
        group.assign(A, B)
        group.arrive(A, 4)
        _ = await group.delivery.getmany((), 0, 3)
        await group.commits.commit({A: 2})
        await group.commits.commit_processed(timeout_s=10)
        assert group.offsets() == [{A: 2}, {B: 0}]
        assert group.delivery.in_hand({A}), "one record is still in hand"
        await group.commits.commit(None)
        assert group.offsets()[-1] == {A: 3, B: 0} and group.delivery.in_hand({A})
        _ = await group.delivery.getone()
        await group.commits.commit_processed(timeout_s=10)
        assert group.offsets()[-1] == {A: 3, B: 0}, "it is committed already"


async def test_a_commit_by_hand_is_not_lost_behind_an_automatic_one() -> None:
    """It has to be tried again, and an automatic one that knows less succeeds in between."""
    async with Group() as group, asyncio.TaskGroup() as tasks:
        group.assign(A)
        group.arrive(A, 3)
        _ = [await group.delivery.getone() for _ in range(3)]
        automatic: list[asyncio.Task[None]] = []

        def refuse(_request: OffsetCommit) -> CoordinatorLoading:
            automatic.append(tasks.create_task(group.commits.commit_processed(timeout_s=10)))
            return CoordinatorLoading("loading")

        group.script(refuse)
        await group.commits.commit(None)
        await automatic[0]
        assert group.offsets() == [{A: 3}, {A: 2}, {A: 3}]


@pytest.mark.parametrize("records", [1, 2])
async def test_a_commit_does_not_end_the_work_on_a_record(records: int) -> None:
    """A partition that is given up waits for the handler, and not for a commit within it or before it: of the
    first record of a batch, which is looked for, and of one that follows in it."""
    async with Group() as group, asyncio.TaskGroup() as tasks:
        group.assign(A)
        group.arrive(A, 5)
        for _ in range(records):
            await group.commits.commit(None)
            _ = await group.delivery.getone()
        assert group.delivery.in_hand({A})
        drain = tasks.create_task(group.delivery.drained({A}, 60))
        await asyncio.sleep(0)
        assert not drain.done()
        await group.commits.commit(None)
        await asyncio.sleep(0)
        assert not drain.done()
        group.delivery.done()
        assert await drain and group.reader.positions[A].processed == records


async def test_a_listener_commits_nothing_that_the_application_still_works_on() -> None:
    """It runs beside the application: what is in hand of a partition that stays is not done."""
    async with Group() as group:
        group.assign(A, B)
        group.arrive(A, 4)
        _ = await group.delivery.getmany((), 0, 3)
        group.in_listener = True
        await group.commits.commit(None)
        assert group.offsets() == [{B: 0}, {A: 0}]


# --- what goes in the meantime --------------------------------------------------------------------


async def test_remaining_partitions_are_committed_though_one_is_revoked() -> None:
    """A rebalance takes one of two: the other one is committed in the generation of then, at once, and the
    one that went is an error."""

    def rebalanced(_request: OffsetCommit) -> RebalanceInProgress:
        group.identity = Identity("m", 2)
        group.reader.drop([A])
        return RebalanceInProgress("wait")

    async with Group(rebalanced) as group:
        group.assign(A, B)
        with pytest.raises(InvalidRequest, match="t-0"):
            await group.commits.commit({A: 3, B: 4})
        assert group.offsets() == [{A: 3, B: 4}, {B: 4}]
        assert group.clock.now < 1, "nothing is waited for"


async def test_a_commit_of_all_does_not_miss_a_partition_of_which_nothing_was_handed_out() -> None:
    def rebalanced(_request: OffsetCommit) -> RebalanceInProgress:
        group.reader.drop([A])
        return RebalanceInProgress("wait")

    async with Group(rebalanced) as group:
        group.assign(A, B)
        group.arrive(B, 1)
        _ = await group.delivery.getone()
        await group.commits.commit(None)
        assert group.offsets() == [{A: 0, B: 1}, {B: 1}]


@pytest.mark.parametrize("error", [UnknownMemberId("who?"), IllegalGeneration("gone on")])
@pytest.mark.parametrize("named", [True, False])
async def test_an_expelled_member_hears_that_it_was_expelled(error: StrandlineError, named: bool) -> None:
    """(G3, G12) its partitions go with the refusal of its own commit; until the next get call it hears so
    again, and what it names is not committed even if it owns that again."""
    async with Group(error) as group:
        group.expelling = True
        group.assign(A)
        group.arrive(A, 3)
        _ = await group.delivery.getmany((), 0, None)
        offsets = {A: 3} if named else None
        for _ in range(2):
            with pytest.raises(UnknownMemberId, match=f"{error.message}.*t-0 is not committed"):
                await group.commits.commit(offsets)
        group.identity = Identity("m", 2)
        group.assign(A)
        with pytest.raises(UnknownMemberId):
            await group.commits.commit(offsets)
        assert all(A not in request.offsets or request.offsets[A].offset != 3 for request in group.sent[1:])
        group.arrive(A, 1)
        _ = await group.delivery.getone()
        await group.commits.commit({A: 1})


async def test_a_fenced_member_learns_which_member_took_its_place() -> None:
    async with Group(FencedInstanceId("another process")) as group:
        group.expelling = True
        group.assign(A)
        with pytest.raises(FencedInstanceId):
            await group.commits.commit({A: 3})


async def test_a_listener_may_commit_partitions_that_were_lost_and_are_owned_again() -> None:
    """It was notified of both. Partitions that are still lost cannot be committed."""
    async with Group() as group:
        group.assign(A, B)
        group.lose([A, B])
        group.assign(A)
        group.in_listener = True
        await group.commits.commit({A: 1})
        with pytest.raises(UnknownMemberId, match="t-1 is not committed"):
            await group.commits.commit({A: 2, B: 1})
        assert group.offsets() == [{A: 1}]


async def test_a_release_waits_for_a_commit_that_is_under_way() -> None:
    """Commits by hand: the partition is not released while the answer is on its way."""
    async with Group(enable_auto_commit=False) as group, asyncio.TaskGroup() as tasks:
        answered = asyncio.Event()

        async def held(request: OffsetCommit) -> dict[TopicPartition, None]:
            await answered.wait()
            return dict.fromkeys(request.offsets)

        group.script(held)
        group.assign(A, B)
        commit = tasks.create_task(group.commits.commit({A: 2}))
        await eventually(lambda: group.sent, what="the commit is sent")
        release = tasks.create_task(group.commits.commit_finally([A], timeout_s=60))
        await group.commits.commit_finally([B], timeout_s=60)
        assert not release.done()
        answered.set()
        await release
        await commit
        assert group.offsets() == [{A: 2}]


async def test_the_time_for_a_commit_is_bounded() -> None:
    """(G7) also while the coordinator says nothing at all."""

    async def never(_request: OffsetCommit) -> None:
        await asyncio.Event().wait()

    async with Group(never) as group:
        group.assign(A)
        with pytest.raises(CoordinatorNotAvailable):
            await group.commits.commit_processed(timeout_s=0.02)
        await group.commits.commit_processed(timeout_s=10)
        assert group.reader.positions[A].committed == 0


async def test_committed_offsets_are_requested_until_they_arrive() -> None:
    async with Parts() as parts:
        known = FetchedOffsets({A: CommittedOffset(7)})
        script: list[Any] = [CoordinatorLoading("loading"), NotCoordinator("moved"), known]
        parts.brokers.answers["OffsetFetch"] = lambda _: script.pop(0)
        found = await Committed(parts.coordinator, parts.settings).fetch([A])
        assert found == {A: CommittedOffset(7)}


async def test_an_offset_that_an_open_transaction_may_replace_is_waited_for() -> None:
    """KIP-447: a consumer that began before it would read again what the transaction has processed."""
    async with Parts() as parts:
        open_ = FetchedOffsets(unstable={A})
        script = [open_, open_, FetchedOffsets({A: CommittedOffset(7)})]
        asked: list[OffsetFetch] = []

        def answer(request: OffsetFetch) -> FetchedOffsets:
            asked.append(request)
            return script.pop(0)

        parts.brokers.answers["OffsetFetch"] = answer
        found = await Committed(parts.coordinator, parts.settings).fetch([A])
        assert found == {A: CommittedOffset(7)}
        assert all(request.require_stable for request in asked)
