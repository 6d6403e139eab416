"""A replica's log against a model, through everything that can happen to a machine.

The model is a list of records. After a kill the log must have them all; after a loss of power at least
those that were flushed, and of the rest a prefix, though a disk writes sectors in any order. A broker anchors
a log before it leads or follows with it, so the model does too (CORRECTNESS E2, E3, E15, E18, T8, T12, H9).
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from strandline.adapters.system.memory_files import MemoryFiles
from strandline.records import decode, encode_values, split
from strandline.vocabulary.topic_config import TopicConfig
from tests.broker.storage.support.disk import anchored, append, contents, offset_for_timestamp, open_log

CONFIG = TopicConfig(segment_bytes=1024, index_interval_bytes=150, retention_ms=-1, retention_bytes=2_000)


class Entry(NamedTuple):
    offset: int
    epoch: int
    batch: int
    """Base offset of its batch."""
    value: bytes
    timestamp: int


class LogAndModel(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.files = MemoryFiles()
        self.log = open_log(self.files, config=CONFIG)
        anchored(self.log)
        self.entries: list[Entry] = []
        self.begin = 0
        self.deleted: dict[int, int] = {}
        """The epoch of each deleted record."""
        self.epoch = 0
        self.flushed = 0
        self.sequences: dict[int, int] = {}
        self.lead()

    @property
    def end(self) -> int:
        return self.entries[-1].offset + 1 if self.entries else self.begin

    def lead(self) -> None:
        self.epoch += 1
        self.log.appending.begin_epoch(self.epoch)

    @rule()
    def begin_epoch(self) -> None:
        self.lead()

    @rule(
        sizes=st.lists(st.integers(0, 120), min_size=1, max_size=5),
        timestamp=st.integers(0, 50),
        producer=st.none() | st.integers(0, 2),
    )
    def append(self, sizes: list[int], timestamp: int, producer: int | None) -> None:
        base = self.end
        values = [f"{base + i}/{self.epoch}/".encode() + b"." * size for i, size in enumerate(sizes)]
        identity = None
        if producer is not None:
            sequence = self.sequences.get(producer, 0)
            identity = (producer, 0, sequence)
            self.sequences[producer] = sequence + len(values)
        assert append(self.log, *values, timestamp=timestamp, producer=identity) == base
        self.entries += [Entry(base + i, self.epoch, base, v, timestamp) for i, v in enumerate(values)]

    @rule(count=st.integers(1, 3))
    def follow(self, count: int) -> None:
        """A push of several batches, of one epoch or two."""
        data = b""
        for _ in range(count):
            base, self.epoch = self.end, self.epoch + base_parity(self.end)
            value = f"{base}/{self.epoch}/pushed".encode()
            data += encode_values([value], 7, base_offset=base, leader_epoch=self.epoch)
            self.entries.append(Entry(base, self.epoch, base, value, 7))
        self.log.appending.as_follower(data)
        self.lead()

    @rule()
    def flush(self) -> None:
        self.log.flush()
        self.flushed = self.end

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        at = data.draw(st.integers(self.begin, self.end + 1))
        self.log.cutting.truncate_to(at)
        self.cut(at)
        self.lead()

    def cut(self, at: int) -> None:
        cut = [e for e in self.entries if e.offset >= at]
        base = cut[0].batch if cut else self.end
        self.entries = [e for e in self.entries if e.offset < base]
        self.deleted = {offset: epoch for offset, epoch in self.deleted.items() if offset < base}
        self.begin = min(self.begin, base)
        self.flushed = min(self.flushed, self.end)
        self.sequences = {key: p.batches[-1].last_sequence + 1 for key, p in self.log.producers}

    @rule(data=st.data())
    def retain(self, data: st.DataObject) -> None:
        watermark = data.draw(st.integers(self.begin, self.end))
        start = self.log.apply_retention(now_ms=1_000_000, high_watermark=watermark)
        assert self.begin <= start <= max(watermark, self.begin)
        self.forget(start)

    @rule(data=st.data())
    def advance(self, data: st.DataObject) -> None:
        at = data.draw(st.integers(self.begin, self.end))
        self.log.cutting.advance_start(at)
        self.forget(at)

    def forget(self, start: int) -> None:
        end = self.end
        self.deleted |= {e.offset: e.epoch for e in self.entries if e.offset < start}
        self.entries = [e for e in self.entries if e.offset >= start]
        self.begin = start if self.entries else end
        assert start == self.begin

    @rule(ahead=st.integers(0, 20))
    def reset(self, ahead: int) -> None:
        self.begin = self.flushed = self.end + ahead
        self.log.cutting.reset_to(self.begin)
        self.entries.clear()
        self.deleted.clear()
        self.sequences.clear()
        self.lead()

    @rule(clean=st.booleans())
    def kill(self, clean: bool) -> None:
        """The page cache survives: nothing is lost, even if the broker takes its last life for lost."""
        self.files = self.files.after_crash()
        self.reopen(clean=clean)

    @rule()
    def close(self) -> None:
        self.log.close(clean=True)
        assert self.log.failed is None
        self.files = self.files.after_crash()
        self.reopen(clean=True)
        assert self.log.scanned_bytes == 0
        self.flushed = self.end

    def reopen(self, *, clean: bool) -> None:
        before = {key: p.batches for key, p in self.log.producers}
        self.log = open_log(self.files, config=CONFIG, clean=clean)
        assert self.log.corrupt is None
        assert {key: p.batches for key, p in self.log.producers} == before
        self.lead()

    @rule(data=st.data())
    def lose_power(self, data: st.DataObject) -> None:
        self.files = self.files.after_power_loss(
            lambda n: data.draw(st.integers(0, n)),
            lambda n: data.draw(st.sets(st.integers(0, n - 1))),
        )
        self.log = open_log(self.files, config=CONFIG, power_lost=True)
        assert (self.log.failed, self.log.corrupt) == (None, None)
        assert self.log.log_end_offset >= min(self.flushed, self.end)
        if self.log.log_end_offset <= self.end:
            self.entries = [e for e in self.entries if e.offset < self.log.log_end_offset]
        assert self.log.log_start_offset in (self.begin, self.log.log_end_offset)
        self.begin = self.log.log_start_offset
        self.flushed = min(self.flushed, self.end)
        self.sequences = {key: p.batches[-1].last_sequence + 1 for key, p in self.log.producers}
        self.lead()

    @precondition(lambda self: self.entries)
    @rule(data=st.data(), bytes_max=st.integers(0, 2_000))
    def read(self, data: st.DataObject, bytes_max: int) -> None:
        offset = data.draw(st.integers(self.begin, self.end - 1))
        below = data.draw(st.integers(offset, self.end))
        got, next_offset = self.log.read_range(offset, bytes_max, below=below)
        expected = [e for e in self.entries if e.offset >= offset and e.offset < next_offset]
        assert [r.value for r in decode(got, from_offset=offset)] == [e.value for e in expected]
        headers = split(got)
        assert len(got) <= bytes_max or len(headers) == 1
        if headers:
            assert headers[0].base_offset <= offset < headers[0].next_offset
            assert headers[-1].next_offset == next_offset <= below
        else:
            assert next(e.batch for e in self.entries if e.offset == offset) <= offset
            assert below < next((e.batch for e in self.entries if e.batch > offset), self.end)

    @rule(timestamp=st.integers(0, 55), data=st.data())
    def find_time(self, timestamp: int, data: st.DataObject) -> None:
        below = data.draw(st.integers(self.begin, self.end))
        expected = next(
            ((e.offset, e.timestamp) for e in self.entries if e.timestamp >= timestamp and e.offset < below),
            None,
        )
        assert offset_for_timestamp(self.log, timestamp, below=below) == expected

    @invariant()
    def the_log_is_the_model(self) -> None:
        assert (self.log.log_start_offset, self.log.log_end_offset) == (self.begin, self.end)
        found = contents(self.log)
        assert [(r.offset, r.value) for r in found] == [(e.offset, e.value) for e in self.entries]

    @invariant()
    def epochs_are_those_of_the_records(self) -> None:
        for entry in self.entries:
            assert self.log.epochs.epoch_at(entry.offset) == entry.epoch
        if self.entries:
            assert self.log.last_epoch == self.entries[-1].epoch
        else:  # a replica may forget it: then it begins anew
            assert self.log.last_epoch in (-1, self.deleted.get(self.end - 1, -1))
        assert self.log.epochs.latest == self.epoch


def base_parity(offset: int) -> int:
    return offset % 2


TestLogAndModel = LogAndModel.TestCase
TestLogAndModel.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestLogAndModel.pytestmark = [pytest.mark.timeout(300)]  # type: ignore[attr-defined]  # pytest reads it
