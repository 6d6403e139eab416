"""The history of transactions: a record has the outcome of its transaction, and its number and input."""

from __future__ import annotations

import io
import json

from strandline.adapters.system.clock import SystemClock
from strandline.auditing.history import Acked, Failed, Sent, read_lines
from strandline.errors import Outcome
from strandline_lab.chaos.history_lines import HistoryLines
from strandline_lab.chaos.transactions.lines import First, TransactionLines, ends_of


def test_a_record_has_the_outcome_of_its_transaction() -> None:
    out = io.StringIO()
    lines = TransactionLines(HistoryLines("tide", out, SystemClock()), "t1-")
    for end in (lines.committed, lines.aborted, lambda: lines.unknown(ValueError("no answer"))):
        lines.begin()
        record, value = lines.sent(("ebb", 1, 9))
        assert value == b"t1-%d" % record
        lines.delivered(record, 2, 40 + record)
        lines.delivered(record + 100, 2, 0)  # of an earlier transaction
        end()
    assert list(read_lines("t1", out.getvalue().encode().splitlines(keepends=True))) == [
        Sent(0, "tide", 0, b"t1-0"),
        Acked(1, "tide", 0, 2, 40),
        Sent(2, "tide", 1, b"t1-1"),
        Failed(3, "tide", 1, Outcome.FATAL),
        Sent(4, "tide", 2, b"t1-2"),
        Failed(5, "tide", 2, Outcome.UNKNOWN),
    ]
    sent = [json.loads(line) for line in out.getvalue().splitlines()[::2]]
    assert [each["transaction"] for each in sent] == [0, 1, 2]
    assert sent[0]["source"] == ["ebb", 1, 9]


def test_what_is_read_again_after_an_abort_counts_once() -> None:
    first = First()
    assert [first.is_first(0, offset) for offset in (3, 4, 3, 4, 5)] == [True, True, False, False, True]
    first.assigned([1])
    assert not first.is_first(0, 5)
    first.assigned([0])
    assert first.is_first(0, 5)


def test_a_group_goes_on_after_the_last_of_each_partition() -> None:
    assert ends_of([("ebb", 0, 3), ("ebb", 1, 7), ("ebb", 0, 4)]) == {("ebb", 0): 5, ("ebb", 1): 8}
