"""Both traces of Kafka's proposal for learner tasks, round by round."""

from __future__ import annotations

from strandline.streams.core.placement import Claim, Share
from tests.streams.core.stream_group import StreamGroup

TASKS = ("T1", "T2", "T3", "T4", "T5")


def stable(**assigned: str) -> StreamGroup:
    """A group in which all members have the named tasks, and nothing is learned."""
    group = StreamGroup(*TASKS)
    for name, tasks in assigned.items():
        group.start(name)
        group.members[name].assigned = frozenset(tasks.split())
    group.asked = False
    return group


def test_scale_down_stream_applications() -> None:
    group = stable(S1="T1 T2", S2="T3 T4", S3="T5")

    # First rebalance: S2 claims that it is leaving.
    group.leave("S2")
    assert group.asked
    assert group.rebalance() == {
        "S1": Share(("T1", "T2"), learning=("T3",)),
        "S2": Share(("T3", "T4")),
        "S3": Share(("T5",), learning=("T4",)),
    }
    assert not group.asked

    # Second rebalance: S3 finishes its replay first, S1 is not ready yet.
    group.ready("S3", "T4")
    assert group.asked
    shares = group.rebalance()
    assert group.claims == {
        "S1": Claim(frozenset({"T1", "T2"}), learning={"T3": False}),
        "S2": Claim(revoked=frozenset({"T3", "T4"}), leaving=True),
        "S3": Claim(frozenset({"T5"}), learning={"T4": True}),
    }
    assert shares == {
        "S1": Share(("T1", "T2"), learning=("T3",)),
        "S2": Share(("T3",), revoked=("T4",)),
        "S3": Share(("T4", "T5")),
    }
    assert "S2" in group.members
    s2, s3 = group.received["S2"], group.received["S3"]
    assert (s2.resumed, s2.closed, s3.promoted, s3.started) == (("T3",), ("T4",), ("T4",), ())

    # Third rebalance: S1 finishes its replay.
    group.ready("S1", "T3")
    shares = group.rebalance()
    assert group.claims == {
        "S1": Claim(frozenset({"T1", "T2"}), learning={"T3": True}),
        "S2": Claim(revoked=frozenset({"T3"}), leaving=True),
        "S3": Claim(frozenset({"T4", "T5"})),
    }
    assert shares == {
        "S1": Share(("T1", "T2", "T3")),
        "S2": Share(revoked=("T3",)),
        "S3": Share(("T4", "T5")),
    }
    # S2 shuts itself down.
    assert sorted(group.members) == ["S1", "S3"] and not group.asked


def test_leader_crash_during_scaling() -> None:
    group = stable(S1="T1 T2", S2="T3 T4", S3="T5")

    # First rebalance: S4 joins.
    group.start("S4")
    assert group.rebalance() == {
        "S1": Share(("T1", "T2")),
        "S2": Share(("T3", "T4")),
        "S3": Share(("T5",)),
        "S4": Share(learning=("T1",)),
    }

    # Second rebalance: S1, the leader, is killed before S4 is ready.
    group.crash("S1")
    shares = group.rebalance()
    assert group.claims == {
        "S2": Claim(frozenset({"T3", "T4"})),
        "S3": Claim(frozenset({"T5"})),
        "S4": Claim(learning={"T1": False}),
    }
    assert shares == {
        "S2": Share(("T3", "T4")),
        "S3": Share(("T2", "T5")),
        "S4": Share(("T1",)),
    }
    assert group.received["S4"].promoted == ("T1",)
    assert group.received["S3"].started == ("T2",)
    before = group.shares
    assert group.rebalance() == before, "the group has reached balance"
