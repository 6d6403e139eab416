"""A compacted log against a model, through appends, cleanings, crashes, truncations and restarts.

The model is everything that was written and not truncated. After any history, every record in the log was
written; each missing record has a successor, or is a tombstone whose time came; and a table made of the log
holds the last value of each key. A second log follows the first, and is compacted at other moments.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from strandline.adapters.system.memory_files import MemoryFiles
from strandline.broker.storage.log import PartitionLog
from strandline.records import Codec, encode_batch
from strandline.vocabulary.topic_config import TopicConfig
from tests.broker.storage.compaction.compacting import batches, check_sound, compact, pairs, remembered
from tests.broker.storage.compaction.test_crash import Crash, CrashAt
from tests.broker.storage.support.disk import ManualClock, anchored, open_log

DELETE_RETENTION_MS = 100
CONFIG = TopicConfig(
    cleanup_policy="compact", segment_bytes=1024, index_interval_bytes=150, min_cleanable_dirty_ratio=0.2,
    delete_retention_ms=DELETE_RETENTION_MS,
)  # fmt: skip

keys = st.sampled_from(["a", "b", "c", "d" * 40, ""])
values = st.none() | st.integers(0, 300).map(lambda size: "v" * size)


class Written(NamedTuple):
    offset: int
    key: str
    value: str | None
    batch: int
    """Base offset of its batch."""
    epoch: int


def table(records: Iterable[tuple[int, str, str | None]]) -> dict[str, tuple[int, str]]:
    """The last value of each key by the records."""
    last = {key: (offset, value) for offset, key, value in records}
    return {key: (offset, value) for key, (offset, value) in last.items() if value is not None}


class CompactedLogAndModel(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.clock = ManualClock()
        self.files = MemoryFiles()
        self.log = open_log(self.files, config=CONFIG, clock=self.clock)
        anchored(self.log)
        self.follower = open_log(MemoryFiles(), config=CONFIG, clock=self.clock)
        self.written: list[Written] = []
        self.end = self.committed = self.flushed = 0
        self.epoch = 0
        self.caught_up_at = 0
        """Records that the follower lacks below this offset have a successor below it: only from there on it
        has all that counts."""
        self.sequences: dict[int, int] = {}
        self.lead()

    def lead(self) -> None:
        self.epoch += 1
        self.log.appending.begin_epoch(self.epoch)

    @rule()
    def begin_epoch(self) -> None:
        self.lead()

    @rule(
        records=st.lists(st.tuples(keys, values), min_size=1, max_size=4),
        producer=st.none() | st.integers(0, 1),
        codec=st.sampled_from([Codec.NONE, Codec.ZSTD]),
        times=st.integers(1, 12),
    )
    def append(
        self, records: list[tuple[str, str | None]], producer: int | None, codec: Codec, times: int
    ) -> None:
        for _ in range(times):
            identity = (-1, -1, -1)
            if producer is not None:
                identity = (producer, 0, self.sequences.get(producer, 0))
                self.sequences[producer] = identity[2] + len(records)
            fields = [(k.encode(), None if v is None else v.encode(), (), 1_000) for k, v in records]
            data = encode_batch(
                fields, codec=codec, producer_id=identity[0], producer_epoch=identity[1],
                base_sequence=identity[2],
            )  # fmt: skip
            base = self.log.appending.as_leader(data, self.epoch, now_ms=self.clock.ms).base_offset
            assert base == self.end
            self.written += [Written(base + i, k, v, base, self.epoch) for i, (k, v) in enumerate(records)]
            self.end = base + len(records)

    @rule()
    def flush(self) -> None:
        self.log.flush()
        self.flushed = self.end

    @rule(ms=st.integers(1, 2 * DELETE_RETENTION_MS))
    def wait(self, ms: int) -> None:
        self.clock.ms += ms

    def commit(self, data: st.DataObject) -> None:
        """A watermark is where a batch ends."""
        ends = sorted({w.batch for w in self.written if w.batch >= self.committed} | {self.end})
        self.committed = data.draw(st.just(self.end) | st.sampled_from(ends))

    # --- compaction --------------------------------------------------------------------------

    @rule(data=st.data(), map_bytes=st.sampled_from([1, 500, 1 << 20]), flushed=st.booleans())
    def compact(self, data: st.DataObject, map_bytes: int, flushed: bool) -> None:
        self.commit(data)
        if flushed:
            self.flush()
        passes = compact(self.log, now_ms=self.clock.ms, high_watermark=self.committed, map_bytes=map_bytes)
        if not passes:
            return
        clean = self.log._parts.state.facts.clean_offset
        assert clean <= self.committed
        below = [key for offset, key, _ in pairs(self.log) if offset < clean]
        assert len(below) == len(set(below))

    @rule(
        data=st.data(), records=st.lists(st.tuples(keys, values), min_size=2, max_size=6),
        producer=st.none() | st.integers(0, 1),
    )  # fmt: skip
    def overwrite(
        self, data: st.DataObject, records: list[tuple[str, str | None]], producer: int | None
    ) -> None:
        """Appends enough equal records to fill a segment, and compacts it at once."""
        self.append(records, producer, Codec.NONE, times=12)
        self.compact(data, 1 << 20, flushed=True)

    @rule(data=st.data(), step=st.integers(0, 40), power=st.booleans())
    def crash_while_compacting(self, data: st.DataObject, step: int, power: bool) -> None:
        self.commit(data)
        self.flush()
        self.files.fault = CrashAt(step)
        with suppress(Crash):
            compact(self.log, now_ms=self.clock.ms, high_watermark=self.committed)
        self.files.fault = None
        if power:
            self.lose_power(data)
        else:
            self.kill(clean=False)

    # --- the rest of a log's life ------------------------------------------------------------

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        """Above the watermark and what was replicated: so it is where elections are clean (T11)."""
        at = data.draw(st.integers(max(self.committed, self.follower.log_end_offset), self.end + 1))
        self.log.cutting.truncate_to(at)
        assert self.log.log_end_offset >= self.committed
        self.cut()
        self.lead()

    def cut(self) -> None:
        self.end = self.log.log_end_offset
        self.written = [w for w in self.written if w.offset < self.end]
        self.committed, self.flushed = min(self.committed, self.end), min(self.flushed, self.end)
        self.sequences = {key: p.batches[-1].last_sequence + 1 for key, p in self.log.producers}
        if self.follower.log_end_offset > self.end:
            self.follower = open_log(MemoryFiles(), config=CONFIG, clock=self.clock)
            self.caught_up_at = 0

    @rule(clean=st.booleans())
    def kill(self, clean: bool) -> None:
        self.reopen(self.files.after_crash(), clean=clean)

    @rule()
    def close(self) -> None:
        self.log.close(clean=True)
        self.reopen(self.files.after_crash(), clean=True)
        assert self.log.scanned_bytes == 0
        self.flushed = self.end

    def reopen(self, files: MemoryFiles, *, clean: bool) -> None:
        before = remembered(self.log)
        self.files = files
        self.log = open_log(self.files, config=CONFIG, clock=self.clock, clean=clean)
        assert (self.log.failed, self.log.corrupt) == (None, None)
        assert remembered(self.log) == before
        self.lead()

    @rule(data=st.data())
    def lose_power(self, data: st.DataObject) -> None:
        self.files = self.files.after_power_loss(lambda n: data.draw(st.integers(0, n)))
        self.log = open_log(self.files, config=CONFIG, clock=self.clock, clean=False)
        assert self.log.failed is None
        assert self.flushed <= self.log.log_end_offset <= self.end
        if self.log.corrupt is not None:  # a hole in what was not synced (E15)
            assert self.log.log_end_offset < self.end
            self.log.cutting.truncate_to(self.log.log_end_offset)
            self.log.cutting.mark_whole()
        self.cut()
        self.lead()

    # --- a follower --------------------------------------------------------------------------

    @rule(data=st.data(), bytes_max=st.integers(1, 2_000))
    def follow(self, data: st.DataObject, bytes_max: int) -> None:
        """From wherever it is, as far as it comes, from a log that may have been compacted since."""
        until = data.draw(st.integers(0, self.end) | st.just(self.end))
        if until > self.follower.log_end_offset:
            self.caught_up_at = max(self.caught_up_at, self.committed)
        while self.follower.log_end_offset < until:
            start = self.follower.log_end_offset
            self.follower.appending.as_follower(self.log.read(start, bytes_max, below=self.end))
            assert self.follower.log_end_offset > start

    @precondition(lambda self: self.follower.log_end_offset > 0)
    @rule()
    def compact_the_follower(self) -> None:
        self.follower.flush()
        watermark = min(self.committed, self.follower.log_end_offset)
        compact(self.follower, now_ms=self.clock.ms, high_watermark=watermark)

    # --- what always holds -------------------------------------------------------------------

    @invariant()
    def each_missing_record_is_superfluous(self) -> None:
        check_against(self.log, self.written)
        reached = self.follower.log_end_offset
        if reached >= self.caught_up_at:
            check_against(self.follower, [w for w in self.written if w.offset < reached])

    @invariant()
    def epochs_are_those_of_the_records(self) -> None:
        for one in self.written:
            assert self.log.epochs.epoch_at(one.offset) == one.epoch
        for header in batches(self.log):
            assert self.log.epochs.epoch_at(header.base_offset) == header.leader_epoch
            assert self.log.epochs.epoch_at(header.last_offset) == header.leader_epoch

    @invariant()
    def the_files_are_sound(self) -> None:
        check_sound(self.log, self.files, power_lost=True)


def check_against(log: PartitionLog, written: list[Written]) -> None:
    found = pairs(log)
    assert set(found) <= {(w.offset, w.key, w.value) for w in written}
    assert [offset for offset, _, _ in found] == sorted({offset for offset, _, _ in found})
    assert table(found) == table((w.offset, w.key, w.value) for w in written)
    present = {offset for offset, _, _ in found}
    last = {w.key: w.offset for w in written}
    missing = [w for w in written if w.offset not in present and last[w.key] == w.offset]
    assert all(w.value is None for w in missing)


TestCompactedLogAndModel = CompactedLogAndModel.TestCase
TestCompactedLogAndModel.settings = settings(max_examples=80, stateful_step_count=30, deadline=None)
TestCompactedLogAndModel.pytestmark = [pytest.mark.timeout(300)]  # type: ignore[attr-defined]  # pytest reads it
