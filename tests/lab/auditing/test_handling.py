"""A member finishes its work on a record before it gives the partition up."""

from __future__ import annotations

from strandline.auditing.checks import HANDLED
from strandline.auditing.history import Assigned, Event, Handled, History, Received, Unassigned
from strandline_lab.auditing.handling import findings

TOLD: list[Event] = [
    Assigned(0, "t", (0, 1)),
    Received(1, "t", 0, 4, b"v"),
    Handled(2, "t", 0, 4),
    Received(3, "t", 1, 7, b"v"),
]


def test_work_on_a_kept_partition_is_no_fault() -> None:
    assert findings([History("m", [*TOLD, Unassigned(4, "t", (0,))])]) == []


def test_a_partition_given_up_while_at_work_on_it_is_found() -> None:
    (found,) = findings([History("m", [*TOLD, Unassigned(4, "t", (0, 1))])])
    assert (found.check, found.partition, found.offset) == (HANDLED.name, 1, 7)


def test_a_partition_that_was_lost_is_no_fault() -> None:
    """The group cannot wait for a member that it has expelled."""
    taken = Unassigned(4, "t", (1,), in_order=False)
    again = [Assigned(5, "t", (1,)), Unassigned(6, "t", (1,))]
    assert findings([History("m", [*TOLD, taken, *again])]) == []


def test_without_handled_events_nothing_is_known_of_a_members_work() -> None:
    events = [Assigned(0, "t", (0,)), Received(1, "t", 0, 4, b"v"), Unassigned(2, "t", (0,))]
    assert findings([History("m", events)]) == []
