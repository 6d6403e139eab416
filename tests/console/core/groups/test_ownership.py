"""Who owns what, as a matrix: what is owned, given, and given up; short names of members."""

from __future__ import annotations

from dataclasses import replace

from strandline.console.core.groups.ownership import (
    Hold,
    free_partitions,
    labels,
    matrix,
)
from strandline.console.core.member_names import LABEL_CHARS_MAX, short_member
from strandline.ids import TopicPartition
from strandline.vocabulary.groups import CommittedOffset
from tests.consumer.described_groups import described, member, viewed

A, B, C = (TopicPartition("t", number) for number in range(3))


def test_a_cell_tells_what_is_owned_from_what_is_only_given_or_given_up() -> None:
    """KIP-429: while a partition moves, its owner still has it, and its next owner does not have it yet."""
    view = viewed(described(member("m1", A, owned=(A, B)), member("m2", B, C, owned=(C,))))
    shown = matrix(view, view.partitions)
    assert [row.cells for row in shown.rows] == [
        (Hold.OWNS, None),
        (Hold.GIVES_UP, Hold.GIVEN),
        (None, Hold.OWNS),
    ]
    assert [row.free for row in shown.rows] == [False, False, False]


def test_a_member_whose_assignment_is_unknown_owns_what_it_reported() -> None:
    """While a generation forms the assignment is empty: nothing is given up by that."""
    view = viewed(described(replace(member("m1", A, B), assignment=b"")))
    assert [row.cells for row in matrix(view, view.partitions).rows] == [(Hold.OWNS,), (Hold.OWNS,)]


def test_members_whose_columns_are_on_another_page_are_named_in_the_row() -> None:
    view = viewed(described(member("m1", A), member("m2", B)))
    shown = matrix(view, view.partitions, view.members[:1])
    assert [(row.cells, row.elsewhere) for row in shown.rows] == [((Hold.OWNS,), ()), ((None,), ("m2",))]
    assert not shown.rows[1].free


def test_a_partition_without_a_member_is_free_and_counted() -> None:
    view = viewed(described(member("m1", A)), {B: CommittedOffset(3)})
    assert [row.free for row in matrix(view, view.partitions).rows] == [False, True]
    assert free_partitions(view) == 1


def test_a_member_that_is_gone_has_a_short_name_too() -> None:
    """Its client id is known only as the beginning of its id, which the coordinator made longer."""
    own_id = "3bce0df4-29a5-6c79-636f-fe709fc45a8b"
    assert short_member(f"web-1-{own_id}") == "web-1 3bce0df4"
    assert short_member(f"{'c' * 249}-{own_id}") == "c" * (LABEL_CHARS_MAX - 1) + "… 3bce0df4"
    assert short_member("kcat") == "kcat"


def test_labels_tell_members_of_one_client_id_apart_and_stay_short() -> None:
    same = [replace(member(f"web-{own}"), client_id="web") for own in ("aaaaaaaabbbb", "ccccccccdddd")]
    static = replace(member("x"), instance="till-1", client_id="web")
    long = replace(member("y"), client_id="c" * 249)
    names = labels(viewed(described(*same, static, long)).members)
    assert names == {
        "web-aaaaaaaabbbb": "web aaaaaaaa",
        "web-ccccccccdddd": "web cccccccc",
        "x": "till-1",
        "y": "c" * (LABEL_CHARS_MAX - 1) + "…",
    }
