"""The check behind `demo` and `perf failover` sees each of the faults that it is there for."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from strandline.cli.load.ledger import Ledger


@dataclass(frozen=True)
class Seen:
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


def ledger_of(*records: Seen) -> Ledger:
    ledger = Ledger()
    for number, record in enumerate(records):
        ledger.acknowledge(number, record.partition, record.offset, record.key, record.value)
    return ledger


A0, A1, B0 = Seen(0, 0, b"a", b"0"), Seen(0, 1, b"a", b"1"), Seen(1, 0, b"b", b"0")


def test_reading_all_acknowledged_records_once_in_order_is_a_kept_promise() -> None:
    """CORRECTNESS .2: partitions may interleave as they like."""
    assert ledger_of(A0, A1, B0).compare([B0, A0, A1]).kept
    verdict = ledger_of(A0, A1, B0).compare([A0, B0, A1])
    assert (verdict.acknowledged, verdict.read, verdict.faults) == (3, 3, [])


def test_an_acknowledged_record_that_is_not_read_is_lost() -> None:
    """CORRECTNESS .2, lost write and unseen."""
    assert len(ledger_of(A0, A1, B0).compare([A0, B0]).lost) == 1
    assert len(ledger_of(A0).compare([]).lost) == 1


def test_a_record_read_twice_or_out_of_order_is_named() -> None:
    """CORRECTNESS .2, duplicate and non-monotonic poll."""
    assert len(ledger_of(A0, A1).compare([A0, A1, A0]).repeated) == 1
    assert len(ledger_of(A0, A1).compare([A1, A0]).reordered) == 1


def test_another_value_at_an_acknowledged_offset_is_a_change() -> None:
    """CORRECTNESS .2, inconsistent offsets."""
    assert len(ledger_of(A0).compare([Seen(0, 0, b"a", b"x")]).changed) == 1


def test_one_offset_acknowledged_for_two_records_is_a_conflict() -> None:
    """CORRECTNESS .2, inconsistent offsets."""
    assert len(ledger_of(A0, Seen(0, 0, b"a", b"x")).compare([A0]).repeated) == 1


def test_a_record_appended_twice_by_a_retry_is_unexplained() -> None:
    """CORRECTNESS .2, duplicate: the copy takes an offset that nobody was told of."""
    assert len(ledger_of(A0).compare([A0, Seen(0, 1, b"a", b"0")]).unexplained) == 1


def test_a_record_of_unknown_outcome_may_be_read_once_or_never() -> None:
    """CORRECTNESS .2; an unknown outcome promises nothing either way."""
    ledger = ledger_of(A0)
    ledger.give_up(b"a", b"1")
    assert ledger.compare([A0]).kept
    assert ledger.compare([A0, A1]).kept
    assert len(ledger.compare([A0, A1, Seen(0, 2, b"a", b"1")]).unexplained) == 1


def test_a_record_acknowledged_without_an_offset_must_still_be_read_once() -> None:
    """CORRECTNESS .2, lost write: a duplicate known from long ago is a success without an offset."""
    ledger = Ledger()
    ledger.acknowledge(0, 0, -1, b"a", b"0")
    assert ledger.compare([A0]).kept
    assert len(ledger.compare([]).lost) == 1
    assert len(ledger.compare([A0, Seen(0, 1, b"a", b"0")]).unexplained) == 1


def test_offsets_that_do_not_rise_with_the_order_of_sending_are_named() -> None:
    """CORRECTNESS .2, non-monotonic send."""
    assert len(ledger_of(A1, A0).compare([A0, A1]).reordered) == 1


@given(st.lists(st.integers(0, 3), max_size=30), st.data())
def test_any_one_fault_in_any_run_is_found(partitions: list[int], data: st.DataObject) -> None:
    """CORRECTNESS .2: drop, repeat or change any record, and the verdict is not `kept`."""
    ends = dict.fromkeys(range(4), 0)
    records: list[Seen] = []
    for number, partition in enumerate(partitions):
        records.append(Seen(partition, ends[partition], None, b"%d" % number))
        ends[partition] += 1
    ledger = ledger_of(*records)
    assert ledger.compare(records).kept
    if not records:
        return
    at = data.draw(st.integers(0, len(records) - 1))
    victim = records[at]
    assert not ledger.compare(records[:at] + records[at + 1 :]).kept
    assert not ledger.compare([*records, victim]).kept
    changed = Seen(victim.partition, victim.offset, victim.key, b"other")
    assert not ledger.compare([*records[:at], changed, *records[at + 1 :]]).kept
