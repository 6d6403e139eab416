"""`topic reassign --list` for people and for programs."""

from __future__ import annotations

from strandline.cli.cluster.moves import COLUMNS, _cells, copied_text, move_row
from strandline.client.admin.moves import CopyProgress, ReassignmentProgress
from strandline.ids import TopicPartition
from strandline.vocabulary.admin import OngoingReassignment

MOVE = OngoingReassignment(TopicPartition("orders", 0), (1, 2), (1, 3), (1, 2), 5_000_000, False)
COPY = CopyProgress(3, False, 4_200_000, 5_800_000, 1_100_000, 5_272)
MOVING = ReassignmentProgress(MOVE, (COPY,))
UNKNOWN = ReassignmentProgress(MOVE, None)


def test_a_row_has_what_is_copied_what_is_left_the_rate_and_the_time() -> None:
    row = dict(zip(COLUMNS, _cells(MOVING), strict=True))
    assert (row["adding"], row["removing"]) == ([3], [2])
    assert [row[each] for each in ("done", "left", "rate", "time left", "throttle")] == [
        "4.2 MB", "5.8 MB", "1.1 MB/s", "5.3 s", "5.0 MB/s",
    ]  # fmt: skip


def test_what_is_unknown_is_null_and_not_said() -> None:
    row = move_row(UNKNOWN)
    assert (row["bytes_done"], row["bytes_left"], row["ms_left"], row["copies"]) == (None,) * 4
    assert dict(zip(COLUMNS, _cells(UNKNOWN), strict=True))["left"] is None
    assert copied_text(UNKNOWN) == ""


def test_a_waiting_command_says_how_far_the_copy_is() -> None:
    assert copied_text(MOVING) == "4.2 MB are copied, 5.8 MB are left, 1.1 MB/s, about 5.3 s"
    standing = ReassignmentProgress(MOVE, (CopyProgress(3, False, 0, 10, None, None),))
    assert copied_text(standing) == "0 B are copied, 10 B are left"
