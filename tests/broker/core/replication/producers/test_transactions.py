"""The transactions of one log: the last stable offset, and the aborted ones of a range."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strandline.broker.core.replication.transactions import AbortedTransaction, Transactions


def test_nothing_open_is_all_stable() -> None:
    assert Transactions().stable_offset(10, 0) == 10


def test_the_first_open_transaction_holds_the_stable_offset() -> None:
    log = Transactions()
    log.begun(1, 0, 3, 0)
    log.begun(2, 0, 5, 0)
    log.begun(1, 0, 7, 0)
    assert log.stable_offset(10, 0) == 3
    log.ended(1, 8, commit=True)
    assert log.stable_offset(10, 0) == 5


def test_a_transaction_counts_until_its_marker_is_committed() -> None:
    log = Transactions()
    log.begun(1, 0, 3, 0)
    log.ended(1, 8, commit=True)
    assert [log.stable_offset(each, 0) for each in (2, 5, 8)] == [2, 3, 3]
    assert log.stable_offset(9, 0) == 9


def test_a_later_transaction_whose_marker_is_committed_does_not_hide_an_earlier_one() -> None:
    log = Transactions()
    log.begun(1, 0, 0, 0)
    log.begun(2, 0, 1, 0)
    log.ended(2, 2, commit=False)
    log.ended(1, 9, commit=True)
    assert log.stable_offset(5, 0) == 0
    assert log.stable_offset(10, 0) == 10


def test_what_is_deleted_holds_nothing() -> None:
    log = Transactions()
    log.begun(1, 0, 3, 0)
    assert log.stable_offset(10, 6) == 6
    assert log.stable_offset(4, 6) == 4


def test_aborted_transactions_come_in_the_order_of_their_first_offsets() -> None:
    """A list in the order of the markers made a client read what was aborted (franz-go#1348)."""
    log = Transactions()
    log.begun(1, 0, 0, 0)
    log.begun(2, 0, 1, 0)
    log.ended(2, 2, commit=False)
    log.ended(1, 3, commit=False)
    assert log.aborted(0, 4) == [AbortedTransaction(1, 0, 3), AbortedTransaction(2, 1, 2)]


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[str, int]]:
    return draw(st.lists(st.tuples(st.sampled_from(["data", "commit", "abort"]), st.integers(0, 4))))


@given(histories(), st.integers(0, 50), st.integers(0, 50), st.integers(0, 50), st.booleans())
def test_the_answers_are_those_of_a_search_through_the_log(
    history: list[tuple[str, int]], start: int, length: int, high_watermark: int, restored: bool
) -> None:
    log = Transactions()
    first: dict[int, int] = {}
    spans: list[tuple[int, int, int, bool]] = []
    for offset, (kind, producer) in enumerate(history):
        if kind == "data":
            log.begun(producer, 0, offset, 0)
            first.setdefault(producer, offset)
        else:
            log.ended(producer, offset, commit=kind == "commit")
            if producer in first:
                spans.append((producer, first.pop(producer), offset, kind == "commit"))
    if restored:
        again = Transactions()
        data = log.to_bytes()
        assert again.restore(b"ahead" + data, 5) == 5 + len(data)
        log = again
    aborted = [AbortedTransaction(p, a, b) for p, a, b, commit in spans if not commit]
    within = [each for each in aborted if each.last_offset >= start and each.first_offset < start + length]
    assert log.aborted(start, start + length) == sorted(within, key=lambda each: each.first_offset)
    undecided = [*first.values(), *(a for _, a, b, _ in spans if b >= high_watermark)]
    assert log.stable_offset(high_watermark, 0) == min([high_watermark, *undecided])
    assert dict(log) == {key: each for key, each in log if first[key] == each.first_offset}
    assert len(log) == len(first)
    log.forget_below(start)
    assert log.aborted(0, 100) == sorted(
        (each for each in aborted if each.last_offset >= start), key=lambda each: each.first_offset
    )
