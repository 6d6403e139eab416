"""The owner of each partition, from the events that a coordinator recorded, and overlaps of two."""

from __future__ import annotations

from dataclasses import dataclass, field

from strandline_lab.auditing.ownership import GroupEvent, Holder, Overlap, holdings, overlaps


@dataclass
class WrittenEvents:
    """Events in the order of the topic, each with when the coordinator wrote it down."""

    events: list[GroupEvent] = field(default_factory=list)

    def add(
        self, event: str, generation: int, at: int, member: str = "", *, recorded: int | None = None
    ) -> None:
        partitions = {"t": [0]} if event in ("assigned", "revoked", "lost") else {}
        when = at if recorded is None else recorded
        self.events.append(GroupEvent(event, "g", generation, at, member, partitions, when))

    def generation(self, number: int, at: int) -> None:
        self.add("generation_started", number, at)
        self.add("generation_stable", number, at)

    def held(self) -> list[tuple[str, int | None, int | None, str]]:
        return [(each.holder.member, each.from_ms, each.to_ms, each.ended) for each in holdings(self.events)]

    def overlaps(self) -> list[Overlap]:
        return overlaps(holdings(self.events))


def handed_over() -> WrittenEvents:
    written_events = WrittenEvents()
    written_events.generation(1, 5)
    written_events.add("assigned", 1, 6, "a")
    written_events.generation(2, 90)
    written_events.add("revoked", 2, 95, "a")
    written_events.generation(3, 100)
    written_events.add("assigned", 3, 101, "b")
    return written_events


def test_a_partition_goes_from_hand_to_hand() -> None:
    written_events = handed_over()
    assert written_events.held() == [("a", 6, 95, "revoked"), ("b", 101, None, "")]
    assert written_events.overlaps() == []


def test_two_holders_are_reported_with_time_and_members() -> None:
    written_events = WrittenEvents()
    written_events.generation(1, 5)
    written_events.add("assigned", 1, 10, "a")
    written_events.add("assigned", 1, 50, "b")
    written_events.add("revoked", 1, 90, "a")
    assert written_events.overlaps() == [Overlap("g", "t", 0, 50, 90, ("a", "b"))]
    written_events.add("assigned", 1, 95, "c")
    assert written_events.overlaps()[1:] == [Overlap("g", "t", 0, 95, None, ("b", "c"))]


def test_a_clock_that_is_wrong_makes_no_second_holder() -> None:
    for ahead in (-3_600_000, -40, 40, 3_600_000):
        written_events = WrittenEvents()
        written_events.generation(1, 5)
        written_events.add("assigned", 1, 6 + ahead, "a", recorded=7)
        written_events.generation(2, 99)
        written_events.add("assigned", 2, 101, "b", recorded=102)
        written_events.add("revoked", 1, 94 + ahead, "a", recorded=103)
        assert written_events.overlaps() == [], ahead
        first, _ = written_events.held()
        assert 5 <= (first[1] or 0) <= 7 and (first[2] or 0) <= 99


def test_a_departed_member_holds_nothing_and_periods_from_before_the_topic_are_not_counted() -> None:
    written_events = WrittenEvents()
    written_events.add("revoked", 4, 30, "before")
    written_events.add("assigned", 4, 31, "a")
    written_events.add("member_left", 4, 50, "a")
    written_events.add("member_left", 4, 60, "a")
    assert written_events.held() == [("before", None, 30, "revoked"), ("a", 31, 50, "member_left")]
    assert written_events.overlaps() == []


def test_the_first_of_consecutive_begins_or_ends_counts() -> None:
    written_events = WrittenEvents()
    written_events.generation(1, 5)
    for event, at in (("assigned", 10), ("assigned", 20), ("lost", 30), ("revoked", 40), ("assigned", 50)):
        written_events.add(event, 1, at, "a")
    assert written_events.held() == [("a", 10, 30, "lost"), ("a", 50, None, "")]
    (first, _) = holdings(written_events.events)
    assert (first.holder, first.generation) == (Holder("g", "t", 0, "a"), 1)
