"""The model of transactions: what it finds in histories that no right cluster makes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from strandline.vocabulary.log import ProducerIdentity
from strandline.vocabulary.transactions import NO_PRODUCER
from strandline_lab.auditing.transactions import Batch, Read
from strandline_lab.simulation.workloads.transactions.history import History, Initialized, SeenOffset
from strandline_lab.simulation.workloads.transactions.judge import findings

FIRST, SECOND = ProducerIdentity(7, 0), ProducerIdentity(7, 1)
Change = Callable[[History], object]


def batch(offset: int, *values: bytes, producer: ProducerIdentity = FIRST) -> Batch:
    records = tuple(Read(offset + at, value) for at, value in enumerate(values))
    return Batch(offset, producer, True, None, records)


def marker(offset: int, *, commits: bool, producer: ProducerIdentity = FIRST) -> Batch:
    return Batch(offset, producer, True, commits, ())


def right() -> History:
    """One transaction over two partitions is committed, and the next one, of another producer, aborted."""
    history = History()
    history.initialized.append(Initialized("id", FIRST, 1.0))
    committed = history.begin("id", FIRST, 0, 1)
    committed.sent += [(0, b"a"), (1, b"b")]
    committed.acked |= {b"a": 0, b"b": 0}
    committed.asked, committed.asked_s, committed.answered = True, 2.0, True
    aborted = history.begin("id", SECOND, 1, 2)
    aborted.sent.append((0, b"c"))
    aborted.asked, aborted.asked_s, aborted.answered = False, 4.0, True
    history.initialized.append(Initialized("id", SECOND, 3.0))
    history.log[0] += [
        batch(0, b"a"),
        marker(1, commits=True),
        batch(2, b"c", producer=SECOND),
        marker(3, commits=False, producer=SECOND),
    ]
    history.log[1] += [batch(0, b"b"), marker(1, commits=True)]
    history.committed["reader"] = {0: [Read(0, b"a")], 1: [Read(0, b"b")]}
    history.uncommitted["reader of all"] = {0: [Read(0, b"a"), Read(2, b"c")], 1: [Read(0, b"b")]}
    history.offsets += [SeenOffset("observer", "id", 0), SeenOffset("observer", "id", 1)]
    history.last["id"] = 1
    return history


def test_a_right_history_has_nothing_wrong() -> None:
    assert list(findings(right())) == []


def commit_of_the_same_input(history: History) -> None:
    second = history.attempts[1]
    second.asked, second.begin = True, 0
    history.log[0][3] = marker(3, commits=True)


WRONG: list[tuple[str, str, Change]] = [
    ("C1", "are committed, and", lambda each: each.log[1].__setitem__(1, marker(1, commits=False))),
    ("C1", "are not committed", lambda each: each.attempts[0].sent.append((0, b"x"))),
    ("C1", "are committed", lambda each: each.log[0].__setitem__(3, marker(3, commits=True))),
    ("C2", "the offset is 2", lambda each: each.last.update(id=2)),
    ("C2", "and 1 comes next", commit_of_the_same_input),
    ("C2", "and then 0", lambda each: each.offsets.append(SeenOffset("observer", "id", 0))),
    ("C2", "saw offset 5", lambda each: each.offsets.append(SeenOffset("observer", "id", 5))),
    ("C3", "is open in the end", lambda each: each.log[0].pop()),
    ("C4", "was acknowledged at (0, 5)", lambda each: each.attempts[0].acked.update({b"a": 5})),
    ("C4", "was acknowledged at (1, 4)", lambda each: each.plain.update({b"lost": (1, 4)})),
    ("C5", "was there at 1.500 s", lambda each: each.initialized.append(Initialized("id", SECOND, 1.5))),
    ("C6", "is 2 times in the log", lambda each: each.log[1].insert(1, batch(0, b"b"))),
    ("C7", "and it got [Read(offset=2", lambda each: each.committed["reader"][0].append(Read(2, b"c"))),
    ("C7", "and it got []", lambda each: each.committed["reader"][1].pop()),
    ("C7", "of the log", lambda each: each.uncommitted["reader of all"][0].pop()),
]  # fmt: skip


@pytest.mark.parametrize(("row", "said", "change"), WRONG)
def test_what_breaks_a_rule_is_found(row: str, said: str, change: Change) -> None:
    """CORRECTNESS C1–C7."""
    history = right()
    change(history)
    assert any(line.startswith(f"{row}: ") and said in line for line in findings(history))


def test_a_reader_may_lack_what_was_deleted_and_nothing_else() -> None:
    history = right()
    history.deleted[0] = 1
    history.committed["reader"][0].pop()
    history.uncommitted["reader of all"][0].pop(0)
    assert list(findings(history)) == []
    history.deleted[0] = 0
    assert [line[:2] for line in findings(history)] == ["C7", "C7"]


def test_the_log_says_which_producer_wrote_for_an_own_client() -> None:
    """It does not show its identity."""
    history = right()
    history.attempts[0].producer = NO_PRODUCER
    history.initialized.append(Initialized("id", SECOND, 1.5))
    assert any(line.startswith("C5: transaction 0 of id") for line in findings(history))


def test_compaction_may_remove_what_was_aborted_and_markers() -> None:
    """What is left of a committed transaction has lost its mark."""
    history = right()
    history.compacted = True
    history.log[0][:] = [batch(0, b"a")._replace(is_transactional=False)]
    assert list(findings(history)) == []
