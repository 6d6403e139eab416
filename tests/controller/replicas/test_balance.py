"""A balance on a real ZooKeeper, with brokers that the test registers: moves, end, and changes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.layout import balance_znodes
from strandline.errors import InvalidRequest, UnknownTopicOrPartition
from strandline.ids import BrokerId, TopicPartition
from strandline.ports import Coordination, NoNode
from strandline.vocabulary.admin import (
    BalanceAction,
    BalanceDescription,
    DrainBroker,
    NewTopic,
    PartitionBytes,
    PartitionReassignment,
    Reassign,
    StartBalance,
)
from strandline.vocabulary.metadata import (
    Balance,
    BalanceState,
    Reassignment,
)
from tests.conftest import SessionFactory
from tests.controller.support.metrics import read
from tests.controller.support.running import Activate, Running, running
from tests.controller.support.znodes_seen import (
    assignments,
    finish_reassignment,
    lead,
    reassignment,
    register,
)
from tests.waiting import eventually

ROUND_S_MAX = 40.0
"""A round of upkeep, and the rest before it, which is long on a machine that is slow just now."""

SETTINGS = {"reconcile_ms": 50, "mend_after_ms": 60_000, "reassignments_in_flight_max": 2}
BEFORE = ((1, 2), (2, 1), (1, 2), (2, 1), (1, 2), (2, 1))
"""Two brokers have six replicas each, so a third one gets four."""


async def laid_out(
    session: Coordination, controller: Running, epochs: dict[int, int], replicas: Sequence[tuple[int, ...]]
) -> None:
    """Topic "t", whose partitions are led by their first replicas."""
    (outcome,) = await controller.admin.create_topics([NewTopic("t", 0, assignments=replicas)])
    assert outcome.error is None
    for number, brokers in enumerate(replicas):
        await lead(session, "t", brokers[0], epochs, *brokers, partition=number)


async def stored(session: Coordination) -> Balance:
    return balance_znodes.load_balance((await session.get(znodes.BALANCE)).data)


async def moving(session: Coordination) -> dict[int, Reassignment]:
    """The reassignments of topic "t"."""
    try:
        numbers = znodes.numbers(await session.children(znodes.reassigned_topic("t")))
    except NoNode:
        return {}
    found = {number: await reassignment(session, "t", number) for number in numbers}
    return {number: wanted for number, wanted in found.items() if wanted is not None}


async def complete(session: Coordination) -> int:
    """End the reassignments as their leaders would. Returns how many there were."""
    under_way = await moving(session)
    for number in under_way:
        await finish_reassignment(session, "t", number)
    return len(under_way)


async def begun(session: Coordination, count: int = 2) -> dict[int, Reassignment]:
    async def enough() -> bool:
        return len(await moving(session)) == count

    await eventually(enough, deadline_s=ROUND_S_MAX, what=f"{count} partitions move")
    return await moving(session)


async def finish(session: Coordination, controller: Running) -> BalanceDescription:
    """Complete what moves until the balance has ended."""

    async def over() -> bool:
        assert await complete(session) <= SETTINGS["reassignments_in_flight_max"]
        return not (await stored(session)).state.is_under_way

    await eventually(over, deadline_s=2 * ROUND_S_MAX, what="the balance has ended")
    return await controller.admin.describe_balance()


async def test_a_balance_moves_what_it_planned_a_few_partitions_at_a_time(active: Activate) -> None:
    async with active([1, 2, 3], **SETTINGS) as (session, controller, epochs):
        await laid_out(session, controller, epochs, BEFORE)
        assert (await controller.admin.describe_balance()).state is BalanceState.NONE
        planned = await controller.admin.balance(StartBalance(validate_only=True))
        assert await session.exists(znodes.BALANCE) is None
        plan = await controller.admin.balance(StartBalance(throttle_bytes_per_s=1_000))
        assert plan == planned
        assert plan.copies == len(plan.moves) == 4
        targets = {move.name.partition: move.after for move in plan.moves}
        for number, wanted in (await begun(session)).items():
            assert wanted.replicas == targets[number]
            assert (wanted.throttle_bytes_per_s, wanted.cause) == (1_000, "balance")
        described = await controller.admin.describe_balance()
        counts = (described.moves, described.done, described.moving, described.left)
        assert (described.state, *counts) == (BalanceState.RUNNING, 4, 0, 2, 2)
        with pytest.raises(InvalidRequest, match="a balance of 4 moves is running"):
            await controller.admin.balance(StartBalance())
        ended = await finish(session, controller)
        assert (ended.state, ended.done, ended.skipped) == (BalanceState.COMPLETED, 4, 0)
        after = dict(enumerate(await assignments(session, "t")))
        assert {number: after[number] for number in targets} == targets
        assert (await stored(session)).moves == ()
        assert (await controller.admin.balance(StartBalance())).moves == ()


async def test_the_next_controller_continues(zookeeper: str, open_session: SessionFactory) -> None:
    session = await open_session()
    epochs = await register(session, [1, 2, 3])
    async with running(zookeeper, **SETTINGS) as controller:
        await controller.wait_active()
        await laid_out(session, controller, epochs, BEFORE)
        plan = await controller.admin.balance(StartBalance())
        first = await begun(session)
    async with running(zookeeper, 2, **SETTINGS) as successor:
        await successor.wait_active()
        assert (await successor.admin.describe_balance()).moving == len(first)
        ended = await finish(session, successor)
        assert (ended.state, ended.done) == (BalanceState.COMPLETED, len(plan.moves))


async def test_a_paused_balance_begins_nothing_until_it_is_resumed(active: Activate) -> None:
    async with active([1, 2, 3], **SETTINGS) as (session, controller, epochs):
        await laid_out(session, controller, epochs, BEFORE)
        await controller.admin.balance(StartBalance())
        paused = await controller.admin.alter_balance(BalanceAction.PAUSE)
        assert paused.state is BalanceState.PAUSED
        had_begun = len(await moving(session))
        assert await controller.admin.alter_balance(BalanceAction.PAUSE) == paused
        await complete(session)
        await controller.admin.create_topics([NewTopic("u", 1, 1)])  # something to see rounds of upkeep by
        for _ in range(3):
            await controller.admin.drain_broker(DrainBroker(1))
            await controller.admin.drain_broker(DrainBroker(1, undo=True))
        assert await moving(session) == {}
        described = await controller.admin.describe_balance()
        assert (described.done, described.left) == (had_begun, 4 - had_begun)
        assert (await controller.admin.alter_balance(BalanceAction.RESUME)).state is BalanceState.RUNNING
        await begun(session)


async def test_a_paused_balance_whose_moves_have_all_begun_ends(active: Activate) -> None:
    """It would stay open for good, and refuse the next one."""
    async with active([1, 2, 3], **{**SETTINGS, "reassignments_in_flight_max": 4}) as (
        session,
        controller,
        epochs,
    ):
        await laid_out(session, controller, epochs, BEFORE)
        await controller.admin.balance(StartBalance())
        await begun(session, 4)
        assert (await controller.admin.alter_balance(BalanceAction.PAUSE)).state is BalanceState.PAUSED
        await complete(session)
        await controller.admin.drain_broker(DrainBroker(1))  # a round of upkeep
        ended = await finish(session, controller)
        assert (ended.state, ended.done) == (BalanceState.COMPLETED, 4)


@pytest.mark.parametrize("action", [BalanceAction.CANCEL, BalanceAction.REVERT])
async def test_a_cancelled_balance_begins_nothing_and_reverts_only_if_asked(
    active: Activate, action: BalanceAction
) -> None:
    async with active([1, 2, 3], **SETTINGS) as (session, controller, epochs):
        await laid_out(session, controller, epochs, BEFORE)
        await controller.admin.balance(StartBalance())
        await begun(session)
        by_hand = PartitionReassignment(TopicPartition("t", 0), (BrokerId(3),))
        assert [result.error for result in await controller.admin.reassign(Reassign([by_hand]))] == [None]
        for _ in range(2):
            cancelled = await controller.admin.alter_balance(action)
            assert cancelled.state is BalanceState.CANCELLED
        reverting = {number: wanted.reverting for number, wanted in (await moving(session)).items()}
        expected = action is BalanceAction.REVERT
        assert reverting == {number: expected and number != 0 for number in reverting}
        assert any(number != 0 for number in reverting)
        with pytest.raises(InvalidRequest, match="no balance is under way"):
            await controller.admin.alter_balance(BalanceAction.RESUME)
        await complete(session)
        assert (await controller.admin.balance(StartBalance())).moves, "another one may begin"


async def test_what_others_moved_or_deleted_is_skipped_and_said(active: Activate) -> None:
    async with active([1, 2, 3], **SETTINGS) as (session, controller, epochs):
        await laid_out(session, controller, epochs, BEFORE)
        await controller.admin.balance(StartBalance())
        await controller.admin.alter_balance(BalanceAction.PAUSE)
        await complete(session)
        left = [
            move for move in (await stored(session)).moves if move.before in await assignments(session, "t")
        ]
        taken = left[-1].name.partition
        await session.set(znodes.replicas("t", taken), znodes.dump_replicas([3]))
        described = await controller.admin.alter_balance(BalanceAction.RESUME)
        assert described.skipped == 1
        assert described.skipped_because == (f"t-{taken} was moved to 3 by others",)
        ended = await finish(session, controller)
        assert (ended.state, ended.done, ended.skipped) == (BalanceState.COMPLETED, 3, 1)
        assert ended.skipped_because == described.skipped_because, "the reasons stay"
        assert (await assignments(session, "t"))[taken] == (3,)


async def test_what_is_complete_counts_also_if_it_is_moved_on(active: Activate) -> None:
    async with active([1, 2, 3], **SETTINGS) as (session, controller, epochs):
        await laid_out(session, controller, epochs, BEFORE)
        await controller.admin.balance(StartBalance())
        first, _ = await begun(session)
        await complete(session)

        async def kept() -> bool:
            return (await stored(session)).done == 2

        await eventually(kept, deadline_s=ROUND_S_MAX, what="two moves are complete")
        by_hand = PartitionReassignment(TopicPartition("t", first), (BrokerId(1), BrokerId(2)))
        assert [each.error for each in await controller.admin.reassign(Reassign([by_hand]))] == [None]
        await complete(session)
        assert (await controller.admin.describe_balance()).done >= 2
        ended = await finish(session, controller)
        assert (ended.state, ended.done, ended.skipped) == (BalanceState.COMPLETED, 4, 0)


async def test_a_balance_that_a_drain_holds_says_so_and_skips_moves_to_its_broker(active: Activate) -> None:
    async with active([1, 2, 3, 4], **SETTINGS) as (session, controller, epochs):
        await laid_out(session, controller, epochs, BEFORE)
        await controller.admin.balance(StartBalance(brokers=(1, 2, 3)))
        await controller.admin.alter_balance(BalanceAction.PAUSE)
        await complete(session)
        await controller.admin.drain_broker(DrainBroker(3, replicas=True))

        async def skipped() -> bool:
            balance = await stored(session)
            return balance.done + balance.skipped == 4

        await eventually(skipped, deadline_s=ROUND_S_MAX, what="no move begins to the drained broker")
        described = await controller.admin.describe_balance()
        assert described.state is BalanceState.COMPLETED
        assert described.skipped == len(described.skipped_because) > 0
        assert all("the replicas of broker 3 are drained" in each for each in described.skipped_because)


async def test_a_drain_of_another_broker_holds_a_balance_and_is_named(active: Activate) -> None:
    async with active([1, 2, 3, 4], **SETTINGS) as (session, controller, epochs):
        await laid_out(session, controller, epochs, (*BEFORE, (4, 1)))
        await controller.admin.balance(StartBalance(brokers=(1, 2, 3)))
        await controller.admin.alter_balance(BalanceAction.PAUSE)
        await controller.admin.drain_broker(DrainBroker(4, replicas=True))
        resumed = await controller.admin.alter_balance(BalanceAction.RESUME)
        held = "no move begins while the drain of broker 4 moves leaderships or replicas"
        assert held in resumed.problems
        await controller.admin.drain_broker(DrainBroker(4, undo=True))
        ended = await finish(session, controller)
        assert (ended.state, ended.problems) == (BalanceState.COMPLETED, ())


async def test_a_balance_is_refused_while_another_is_open_also_if_it_has_no_moves(active: Activate) -> None:
    async with active([1, 2, 3], **SETTINGS) as (session, controller, epochs):
        await laid_out(session, controller, epochs, BEFORE)
        await controller.admin.create_topics([NewTopic("even", 0, assignments=[(1, 2), (2, 3), (3, 1)])])
        even = StartBalance(topics=("even",))
        assert (await controller.admin.balance(even)).moves == ()
        await controller.admin.balance(StartBalance(topics=("t",)))
        await controller.admin.alter_balance(BalanceAction.PAUSE)
        with pytest.raises(InvalidRequest, match="a balance of 4 moves is paused"):
            await controller.admin.balance(even)


async def test_metrics_have_how_far_a_balance_is(active: Activate) -> None:
    async with active([1, 2, 3], **SETTINGS) as (session, controller, epochs):
        await laid_out(session, controller, epochs, BEFORE)

        async def shown(under_way: float, paused: float, **moves: float) -> None:
            def seen() -> bool:
                found = read(controller)
                states = {state: found("strandline_balance_moves", state) for state in moves}
                now = found("strandline_balance_under_way"), found("strandline_balance_paused")
                return (now, states) == ((under_way, paused), moves)

            await eventually(seen, deadline_s=ROUND_S_MAX, what=f"{moves} are shown")

        await shown(0, 0, done=0, moving=0, left=0, skipped=0)
        await controller.admin.balance(StartBalance())
        await begun(session)
        await shown(1, 0, done=0, moving=2, left=2, skipped=0)
        await controller.admin.alter_balance(BalanceAction.PAUSE)
        await complete(session)
        await shown(1, 1, done=2, moving=0, left=2, skipped=0)
        await controller.admin.alter_balance(BalanceAction.RESUME)
        await finish(session, controller)
        await shown(0, 0, done=4, moving=0, left=0, skipped=0)


@pytest.mark.parametrize(
    ("asked", "error", "said"),
    [
        (StartBalance(brokers=(1, 9)), InvalidRequest, "broker 9 can get no replicas: only 1, 2 are alive"),
        (StartBalance(brokers=(1, 2, 1)), InvalidRequest, "broker 1 is named twice"),
        (StartBalance(topics=("u",)), UnknownTopicOrPartition, "topic 'u' does not exist"),
        (StartBalance(throttle_bytes_per_s=-1), InvalidRequest, "throttle_bytes_per_s -1 is negative"),
        (
            StartBalance(sizes=(PartitionBytes(TopicPartition("t", 0), -5),)),
            InvalidRequest,
            "the size of t-0, -5 bytes, is negative",
        ),
    ],
)
async def test_an_invalid_balance_is_refused_with_its_value(
    active: Activate, asked: StartBalance, error: type[Exception], said: str
) -> None:
    async with active([1, 2], **SETTINGS) as (session, controller, _):
        with pytest.raises(error, match=said):
            await controller.admin.balance(asked)
        with pytest.raises(InvalidRequest, match="no balance is under way"):
            await controller.admin.alter_balance(BalanceAction.CANCEL)
        assert await session.exists(znodes.BALANCE) is None


async def test_a_znode_that_is_no_balance_is_replaced_by_the_next_one(active: Activate) -> None:
    async with active([1, 2, 3], **SETTINGS) as (session, controller, epochs):
        await laid_out(session, controller, epochs, BEFORE)
        await session.create(znodes.BALANCE, b"{}")
        assert (await controller.admin.describe_balance()).state is BalanceState.NONE
        assert (await controller.admin.balance(StartBalance())).moves
        await begun(session)
