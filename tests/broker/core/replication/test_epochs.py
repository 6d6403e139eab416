"""The epoch cache: what truncation goes by (CORRECTNESS T1, T3, T8, T9; KIP-101, KIP-279)."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from strandline.broker.core.replication.epochs import EpochCache, EpochEntry
from strandline.vocabulary.log_position import UNDEFINED


def cache(*entries: tuple[int, int]) -> EpochCache:
    return EpochCache(EpochEntry(*entry) for entry in entries)


def test_the_end_of_an_epoch_is_the_start_of_the_next() -> None:
    """T3: the answer is the largest epoch not above the one asked, and where that one ends."""
    epochs = cache((2, 0), (5, 10), (7, 30))
    assert epochs.end_offset_for(2, 40) == (2, 10)
    assert epochs.end_offset_for(5, 40) == (5, 30)
    assert epochs.end_offset_for(6, 40) == (5, 30)
    assert epochs.end_offset_for(7, 40) == (7, 40)


@pytest.mark.parametrize("epoch", [-1, 8, 100])
def test_an_epoch_that_cannot_be_placed_is_undefined(epoch: int) -> None:
    """T9: never the log's end."""
    assert cache((2, 0), (7, 30)).end_offset_for(epoch, 40) == UNDEFINED == (-1, -1)
    assert cache().end_offset_for(epoch, 40) == UNDEFINED


def test_an_epoch_older_than_the_log_ends_where_the_log_begins() -> None:
    """KIP-279: all its records were deleted, so it ends at or before the first known epoch."""
    assert cache((5, 10), (7, 30)).end_offset_for(3, 40) == (3, 10)


def test_an_election_without_a_write_leaves_no_trace_behind_the_next_one() -> None:
    """T8: epochs that begin where another one does would be a conflict with what is written there."""
    epochs = cache((2, 0))
    assert epochs.assign(4, 20)
    assert epochs.assign(6, 20)
    assert epochs.entries == ((2, 0), (6, 20))
    assert not epochs.assign(6, 25)


def test_truncation_forgets_epochs_that_begin_there_even_if_no_record_goes() -> None:
    """T8."""
    epochs = cache((2, 0), (4, 20))
    assert epochs.truncate_from_end(20)
    assert epochs.entries == ((2, 0),)
    assert not epochs.truncate_from_end(1)
    assert epochs.truncate_from_end(0)
    assert len(epochs) == 0


def test_an_epoch_never_goes_back() -> None:
    """T1: an older epoch at the end of this log belongs to another log."""
    epochs = cache((2, 0), (4, 20))
    for epoch, start in ((3, 30), (4, 10), (-1, 30), (5, -1)):
        with pytest.raises(ValueError, match="cannot begin"):
            epochs.assign(epoch, start)
    assert epochs.entries == ((2, 0), (4, 20))


@pytest.mark.parametrize(
    "entries", [((2, 0), (2, 10)), ((2, 10), (3, 10)), ((3, 0), (2, 10)), ((2, 10), (3, 5)), ((-1, 0),)]
)
def test_entries_that_do_not_increase_are_refused(entries: tuple[tuple[int, int], ...]) -> None:
    """T8: the cache is strictly monotone, also as it is read from its file."""
    with pytest.raises(ValueError, match="must increase"):
        cache(*entries)


def test_retention_keeps_the_epoch_that_covers_the_new_start() -> None:
    epochs = cache((2, 0), (5, 10), (7, 30))
    assert epochs.truncate_from_start(15)
    assert list(epochs.entries) == [(5, 15), (7, 30)]
    assert not epochs.truncate_from_start(15)
    assert epochs.truncate_from_start(30)
    assert list(epochs.entries) == [(7, 30)]
    assert epochs.clear()
    assert not epochs.clear()


def test_an_offset_belongs_to_the_epoch_that_began_at_or_before_it() -> None:
    epochs = cache((2, 5), (7, 30))
    assert [epochs.epoch_at(offset) for offset in (4, 5, 29, 30, 99)] == [-1, 2, 2, 7, 7]
    assert (epochs.latest, cache().latest) == (7, -1)


class EpochsOfALog(RuleBasedStateMachine):
    """Against a model that remembers the epoch of each single record."""

    def __init__(self) -> None:
        super().__init__()
        self.epochs = EpochCache()
        self.start = 0
        self.records: list[int] = []
        self.unwritten: int | None = None

    @property
    def end(self) -> int:
        return self.start + len(self.records)

    @rule(step=st.integers(1, 3))
    def begin(self, step: int) -> None:
        self.unwritten = max(self.epochs.latest, 0) + step
        self.epochs.assign(self.unwritten, self.end)

    @precondition(lambda self: self.epochs.latest >= 0)
    @rule(count=st.integers(1, 4))
    def write(self, count: int) -> None:
        self.records += [self.epochs.latest] * count
        self.unwritten = None

    @rule(data=st.data())
    def cut_the_end(self, data: st.DataObject) -> None:
        at = data.draw(st.integers(self.start, self.end))
        self.epochs.truncate_from_end(at)
        del self.records[at - self.start :]
        self.unwritten = None

    @rule(data=st.data())
    def cut_the_start(self, data: st.DataObject) -> None:
        at = data.draw(st.integers(self.start, max(self.start, self.end - 1)))
        self.epochs.truncate_from_start(at)
        del self.records[: at - self.start]
        self.start = at

    @invariant()
    def each_record_has_its_epoch(self) -> None:
        assert [self.epochs.epoch_at(self.start + i) for i in range(len(self.records))] == self.records

    @invariant()
    def entries_increase(self) -> None:
        for before, after in pairwise(self.epochs.entries):
            assert before.epoch < after.epoch
            assert before.start_offset < after.start_offset

    @invariant()
    def ends_are_where_records_say(self) -> None:
        for epoch in set(self.records):
            above = [i for i, of in enumerate(self.records) if of > epoch]
            expected = self.start + above[0] if above else self.end
            assert self.epochs.end_offset_for(epoch, self.end) == (epoch, expected)


TestEpochsOfALog = EpochsOfALog.TestCase
TestEpochsOfALog.settings = settings(deadline=None)
