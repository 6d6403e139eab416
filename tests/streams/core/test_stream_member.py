"""A member's changes on each assignment."""

from __future__ import annotations

from strandline.streams.core.member import Received, StreamMember
from strandline.streams.core.placement import Claim, Share
from tests.streams.core.stream_group import StreamGroup

NOTHING: Received[str] = Received((), (), (), (), (), (), asks=False, over=False)


def running(*tasks: str, learned: tuple[str, ...] = ()) -> StreamMember[str]:
    """`learned`: by others, of which it has heard."""
    member: StreamMember[str] = StreamMember()
    _ = member.receive(Share(tasks), dict.fromkeys(learned, False))
    return member


def group_of_two(num_standbys: int = 0) -> StreamGroup:
    """S1 runs T1 and T2, and S2 learns T1 and is ready."""
    group = StreamGroup("T1", "T2", num_standbys=num_standbys)
    group.start("S1")
    group.rebalance()
    group.start("S2")
    group.rebalance()
    assert group.members["S2"].learning == {"T1": False}
    group.ready("S2", "T1")
    return group


def test_a_task_learned_by_another_member_is_given_up_once_however_often_a_join_fails() -> None:
    member = running("T1", "T2", learned=("T1",))
    assert member.giving_up() == ("T1",) == member.giving_up()
    assert member.claim() == Claim(frozenset({"T2"}), frozenset({"T1"}))


def test_a_returned_task_is_resumed_if_no_generation_was_missed() -> None:
    member = running("T1", learned=("T1",))
    member.giving_up()
    assert member.receive(Share(("T1",)), {}).resumed == ("T1",)


def test_a_task_that_another_member_may_have_run_is_restarted_and_not_resumed() -> None:
    """CORRECTNESS S2: its state here is not the last one."""
    group = group_of_two()
    group.rebalance(deaf=["S1"])
    assert group.running("T1") == ["S2"]
    group.crash("S2")
    group.rebalance()
    received = group.received["S1"]
    assert (received.started, received.resumed) == (("T1",), ())


def test_a_standby_is_promoted_with_its_store_as_it_is() -> None:
    """CORRECTNESS S2."""
    member: StreamMember[str] = StreamMember()
    assert member.receive(Share(standbys=("T1",)), {}).standbys == ("T1",)
    assert member.receive(Share(("T1",)), {}) == Received(("T1",), (), (), (), (), (), asks=False, over=False)


def test_a_ready_standby_reports_it_and_asks_for_no_rebalance() -> None:
    member: StreamMember[str] = StreamMember()
    member.receive(Share(standbys=("T1",)), {})
    assert not member.caught_up("T1")
    assert member.claim() == Claim(standbys={"T1": True})
    member.fell_behind("T1")
    assert member.claim() == Claim(standbys={"T1": False})


def test_a_ready_standby_that_becomes_the_learner_makes_its_owner_ask() -> None:
    """CORRECTNESS S5: it reported that it is ready, so the owner is notified at once."""
    standby: StreamMember[str] = StreamMember()
    standby.receive(Share(standbys=("T1",)), {})
    standby.caught_up("T1")
    standby.claim()
    assert not standby.receive(Share(learning=("T1",)), {"T1": True}).asks
    assert standby.learning == {"T1": True}
    assert running("T1").receive(Share(("T1",)), {"T1": True}).asks


def test_a_standby_that_is_ready_after_it_joined_and_becomes_the_learner_asks_itself() -> None:
    """CORRECTNESS S5: no rebalance was requested when it became ready, and the leader did not know."""
    standby: StreamMember[str] = StreamMember()
    standby.receive(Share(standbys=("T1",)), {})
    standby.claim()
    standby.caught_up("T1")
    assert standby.receive(Share(learning=("T1",)), {"T1": False}).asks
    standby.claim()
    assert not standby.receive(Share(learning=("T1",)), {"T1": False}).asks, "once"


def test_the_former_owner_may_stay_as_standby_and_is_ready() -> None:
    group = group_of_two(num_standbys=1)
    group.rebalance()
    assert group.members["S1"].standbys == {"T1": True}
    received = group.received["S1"]
    assert (received.closed, received.standbys) == ((), ("T1",))


def test_a_learned_task_without_a_role_is_closed() -> None:
    member: StreamMember[str] = StreamMember()
    member.receive(Share(learning=("T1",), standbys=("T2",)), {"T1": False})
    assert member.receive(Share(), {}).closed == ("T1", "T2")


def test_a_task_that_is_taken_while_it_runs_is_stopped_before_anything_begins() -> None:
    """The group takes it away without a revocation: its end is `taken`, and only the next round may have it
    learned."""
    member = running("T1", "T2")
    assert member.receive(Share(("T2",), learning=("T1",)), {"T1": False}) == NOTHING
    assert member.assigned == {"T2"} and not member.learning
    member.taken(["T1"])
    assert member.claim() == Claim(frozenset({"T2"}))


def test_a_task_that_was_given_up_is_not_taken() -> None:
    member = running("T1", "T2", learned=("T1",))
    member.giving_up()
    member.taken(["T1"])
    assert member.revoked == {"T1"}
    member.taken(["T2"])
    assert not member.assigned


def test_an_expelled_member_runs_nothing_gives_nothing_up_and_keeps_learning() -> None:
    member = running("T1", "T2", learned=("T1",))
    member.receive(Share(("T1", "T2"), learning=("T3",), standbys=("T4",)), {"T1": False, "T3": False})
    member.caught_up("T3")
    member.giving_up()
    assert member.lost() == ("T1", "T2")
    assert member.claim() == Claim(learning={"T3": True}, standbys={"T4": False})
    assert member.receive(Share(("T1",)), {}).started == ("T1",)


def test_a_leaving_member_is_done_when_it_has_no_task_left() -> None:
    member = running("T1", learned=("T1",))
    assert member.leave() and not member.leave()
    assert not member.receive(Share(("T1",)), {"T1": False}).over
    member.giving_up()
    assert member.receive(Share(), {}).over


def test_a_member_that_leaves_after_it_joined_waits_for_the_assignment_of_a_leader_that_knows() -> None:
    """CORRECTNESS S1: others stay, and none learns its task only because the leader did not know."""
    group = StreamGroup("T1", "T2")
    group.start("S1")
    group.start("S2")
    group.rebalance(leaving=["S2"])
    assert group.members["S2"].assigned == {"T2"} and not group.members["S2"].has_no_successor()
    assert group.asked, "the next claim says it"
    group.rebalance()
    assert group.members["S1"].learning == {"T2": False} and not group.members["S2"].has_no_successor()


def test_a_leaving_member_has_no_successor_if_none_learns_its_task_though_the_leader_knows() -> None:
    group = StreamGroup("T1")
    group.start("S1")
    group.rebalance(leaving=["S1"])
    group.rebalance()
    assert group.members["S1"].has_no_successor()
