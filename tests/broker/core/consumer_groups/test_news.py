"""The events of groups whose coordinator assigns: why each epoch began, who got what when, and for whom
others waited."""

from __future__ import annotations

from strandline.broker.core.groups.effects import GroupEvent
from tests.broker.core.consumer_groups.play import LIMITS_HERE, Play


def shown(event: GroupEvent) -> str:
    words = [event.kind.value, str(event.generation), event.member]
    words += [f"{name.partition}" for name in event.partitions]
    words += [f"({event.reason})"] * bool(event.reason) + [f"by {event.caused_by}"] * bool(event.caused_by)
    return " ".join(filter(None, words))


class Told(Play):
    def __init__(self, partitions: int = 2) -> None:
        super().__init__()
        self.make("t", partitions)

    def news(self) -> list[str]:
        """The events since the last look; each is one of a group of this protocol."""
        found, self.stage.events[:] = list(self.stage.events), []
        assert all(event.type == "consumer" for event in found)
        return [shown(event) for event in found]

    def two(self) -> None:
        """A and B have a partition each."""
        self.join("A", ("t",))
        self.reconcile("A")
        self.join("B", ("t",))
        self.beat("A")
        self.reconcile("A")
        self.beat("B")
        self.reconcile("B")
        self.news()


def test_a_first_member_has_all_at_once() -> None:
    play = Told()
    play.join("A", ("t",))
    assert play.news() == [
        "member_joined 2 A",
        "rebalance_started 2 (member A joined) by A",
        "generation_started 2",
        "assigned 2 A 0 1",
        "generation_stable 2",
    ]
    play.reconcile("A")
    play.beat("A")
    assert play.news() == []


def test_a_member_for_which_others_wait_is_named() -> None:
    """While it is asked, and when all is stable again."""
    play = Told()
    play.join("A", ("t",))
    play.reconcile("A")
    play.news()
    play.join("B", ("t",))
    assert play.news() == [
        "member_joined 3 B",
        "rebalance_started 3 (member B joined) by B",
        "generation_started 3",
    ]
    play.beat("A")
    assert play.news() == ["revoking 3 A 1"]
    play.beat("A")
    assert play.news() == []
    play.reconcile("A")
    assert play.news() == ["revoked 2 A 1"]
    play.beat("B")
    assert play.news() == ["assigned 3 B 1", "generation_stable 3 (member A gave partitions up last) by A"]


def test_a_silent_member_loses_what_it_has() -> None:
    play = Told()
    play.two()
    for _ in range(2):
        play.stage.later(30)
        play.beat("B")
    why = "was silent for 45000 ms"
    assert play.news() == [
        f"lost 3 A 0 ({why})",
        f"member_left 4 A ({why})",
        f"rebalance_started 4 (member A {why}) by A",
        "generation_started 4",
        "assigned 4 B 0",
        "generation_stable 4",
    ]


def test_a_slow_member_is_named_as_what_others_waited_for() -> None:
    play = Told()
    play.join("A", ("t",))
    play.reconcile("A")
    play.join("B", ("t",))
    play.beat("A")
    play.news()
    for _ in range(3):
        play.stage.later(25)
        play.beat("B")
        play.beat("A")
    why = "did not give 1 partitions up within 60000 ms"
    assert play.news() == [
        f"lost 2 A 0 1 ({why})",
        f"member_left 4 A ({why})",
        f"rebalance_started 4 (member A {why}) by A",
        "generation_started 4",
        "assigned 4 B 0 1",
        "generation_stable 4 (member A gave partitions up last) by A",
    ]


def test_members_that_leave_give_up_what_they_have() -> None:
    """The last one leaves nothing that could be stable."""
    play = Told()
    play.two()
    play.ask(play.clients["A"], -1)
    assert play.news() == [
        "revoked 3 A 0 (left)",
        "member_left 4 A (left)",
        "rebalance_started 4 (member A left) by A",
        "generation_started 4",
    ]
    play.beat("B")
    assert play.news() == ["assigned 4 B 0", "generation_stable 4"]
    play.ask(play.clients["B"], -1)
    assert play.news()[-2:] == ["rebalance_started 5 (member B left) by B", "generation_ended 5"]


def test_an_instance_that_returns_is_no_epoch() -> None:
    play = Told()
    play.join("A", ("t",), instance="i")
    play.ask(play.clients["A"], -2)
    play.news()
    play.join("B", ("t",), instance="i")
    why = "member B took the place of instance i"
    assert play.news() == [
        f"lost 2 A 0 1 ({why})",
        f"member_left 2 A ({why})",
        "member_joined 2 B",
        "assigned 2 B 0 1",
    ]


def test_topics_begin_an_epoch_that_no_member_caused() -> None:
    play = Told()
    play.join("A", ("t",))
    play.news()
    play.make("t", 3)
    play.look()
    play.beat("A")
    begun, target, got, stable = play.news()
    assert begun.startswith("rebalance_started 3 (topic t has 3 partitions") and " by " not in begun
    assert (target, got, stable) == ("generation_started 3", "assigned 3 A 2", "generation_stable 3")


def test_the_next_coordinator_says_nothing_twice() -> None:
    """What was stable is; what was not gets its end."""
    play = Told()
    play.two()
    play.stage.unload()
    play.stage = play.stage.elsewhere(limits=LIMITS_HERE)
    play.look()
    for name in ("A", "B"):
        play.beat(name)
    assert play.news() == []
    play.join("C", ("t",))
    play.news()
    play.stage.unload()
    play.stage = play.stage.elsewhere(limits=LIMITS_HERE)
    play.look()
    assert "generation_stable" not in " ".join(play.news())
    for _ in range(3):
        for name in ("A", "B", "C"):
            play.reconcile(name)
    assert [line for line in play.news() if line.startswith("generation_")] == ["generation_stable 4"]
