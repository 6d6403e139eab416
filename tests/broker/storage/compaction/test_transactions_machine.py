"""A compacted log with transactions against a model, through markers, cleanings, crashes and truncations.

The model is a list of what was written and not truncated. After any history the last stable offset is that of
a search through the list; a reader of committed records gets no record of a transaction that was aborted or
is open, and a table made of what it gets holds the last committed value of each key. The same is true of a
follower, and after each restart.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from strandline.adapters.system.memory_files import MemoryFiles
from strandline.broker.storage.log import PartitionLog
from strandline.records import Record, decode_batch, pack
from strandline.records.header import TRANSACTIONAL
from strandline.records.isolation import of_committed
from strandline.vocabulary.log import ProducerIdentity, Transactional
from strandline.vocabulary.topic_config import TopicConfig
from strandline.vocabulary.transactions import Marker
from tests.broker.storage.compaction.compacting import batches, check_sound, compact
from tests.broker.storage.support.disk import ManualClock, anchored, open_log, replicate

DELETE_RETENTION_MS = 100
CONFIG = TopicConfig(
    cleanup_policy="compact", segment_bytes=1024, index_interval_bytes=150, min_cleanable_dirty_ratio=0,
    delete_retention_ms=DELETE_RETENTION_MS,
)  # fmt: skip


@dataclass(frozen=True)
class Data:
    """A batch, in a transaction of its producer if it has one; group coordinators write without sequences."""

    producer: int | None
    pairs: list[tuple[str, int]]
    sequenced: bool


@dataclass(frozen=True)
class End:
    """A marker, as of transactions v1, or of v2, whose markers raise the epoch."""

    producer: int
    commit: bool
    raised: bool


PRODUCERS = 3
producers = st.integers(0, PRODUCERS - 1)
keyed = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 60)), min_size=1, max_size=3)
data_steps = st.builds(Data, st.none() | producers, keyed, st.booleans())
end_steps = st.builds(End, producers, st.booleans(), st.booleans())


@dataclass(frozen=True)
class Written:
    """A batch of records, or the marker that ends its producer's transaction."""

    offset: int
    end: int
    producer: int | None
    values: tuple[tuple[str, str], ...] = ()
    commit: bool | None = None
    """Of a marker."""


def stable_offset(written: list[Written], high_watermark: int) -> int:
    first: dict[int, int] = {}
    undecided: list[int] = []
    for each in written:
        if each.producer is None:
            continue
        if each.commit is None:
            first.setdefault(each.producer, each.offset)
        elif (began := first.pop(each.producer, None)) is not None and each.offset >= high_watermark:
            undecided.append(began)
    return min([high_watermark, *undecided, *first.values()])


def committed_values(written: list[Written], below: int) -> dict[int, tuple[str, str]]:
    """Key and value by offset of what a reader of committed records may get."""
    found: dict[int, tuple[str, str]] = {}
    for at, each in enumerate(written):
        if each.commit is not None or each.offset >= below:
            continue
        if each.producer is not None:
            marker = next(
                (m for m in written[at:] if m.producer == each.producer and m.commit is not None), None
            )
            if marker is None or not marker.commit:
                continue
        found |= {each.offset + index: pair for index, pair in enumerate(each.values)}
    return found


def read_committed(log: PartitionLog, high_watermark: int, bytes_max: int) -> Iterator[Record]:
    """As a consumer reads: one answer after the other, each with its list of aborted transactions."""
    transactions, offset = log.producers.transactions, log.log_start_offset
    end = transactions.stable_offset(high_watermark, offset)
    while offset < end:
        data, next_offset = log.read_range(offset, bytes_max, below=end)
        aborted = [each[:2] for each in transactions.aborted(offset, next_offset)]
        for header in of_committed(data, aborted):
            yield from decode_batch(data, header, from_offset=offset)
        offset = next_offset


class TransactionsAndModel(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.clock = ManualClock()
        self.files = MemoryFiles()
        self.log = open_log(self.files, config=CONFIG, clock=self.clock)
        anchored(self.log)
        self.written: list[Written] = []
        self.committed = self.epoch = 0
        self.compacted = False
        self.lead()

    def lead(self) -> None:
        self.epoch += 1
        self.log.appending.begin_epoch(self.epoch)

    @property
    def end(self) -> int:
        return self.written[-1].end if self.written else 0

    def identity(self, producer: int) -> tuple[ProducerIdentity, int]:
        """As the log knows it, with the next sequence."""
        known = dict(self.log.producers).get(producer)
        if known is None:
            return ProducerIdentity(producer, 0), 0
        sequence = known.batches[-1].last_sequence + 1 if known.batches else 0
        return ProducerIdentity(producer, known.epoch), sequence

    @rule(steps=st.lists(data_steps | end_steps, min_size=1, max_size=12))
    def write(self, steps: list[Data | End]) -> None:
        for step in steps:
            if isinstance(step, Data):
                self.append(step)
            else:
                self.mark(step)

    def append(self, data: Data) -> None:
        base, producer = self.end, data.producer
        values = tuple((key, f"{base + at}" + "." * size) for at, (key, size) in enumerate(data.pairs))
        packed = pack([(key.encode(), value.encode(), (), 1_000) for key, value in values])
        sealed, right = packed.seal(), None
        if producer is not None:
            identity, sequence = self.identity(producer)
            right = Transactional(identity, self.log.producers.guard(producer))
            sealed = replace(packed, attributes=TRANSACTIONAL).seal(
                producer_id=producer, producer_epoch=identity.producer_epoch,
                base_sequence=sequence if data.sequenced else -1,
            )  # fmt: skip
        appended = self.log.appending.as_leader(sealed, self.epoch, now_ms=self.clock.ms, transaction=right)
        assert appended.base_offset == base
        self.written.append(Written(base, base + len(values), producer, values))

    def mark(self, end: End) -> None:
        identity, _ = self.identity(end.producer)
        identity = ProducerIdentity(end.producer, identity.producer_epoch + end.raised)
        marker = Marker(identity, end.commit, self.epoch)
        appended = self.log.appending.marker_as_leader(marker, self.epoch, now_ms=self.clock.ms)
        assert appended.base_offset == self.end
        self.written.append(Written(self.end, self.end + 1, end.producer, commit=end.commit))

    @rule(data=st.data())
    def commit_records(self, data: st.DataObject) -> None:
        ends = [each.end for each in self.written if each.end > self.committed]
        if ends:
            self.committed = data.draw(st.sampled_from(ends))
            self.log.producers.transactions.committed(self.committed)

    @rule()
    def flush(self) -> None:
        self.log.flush()

    @rule(
        commits=st.lists(st.booleans(), min_size=PRODUCERS, max_size=PRODUCERS),
        map_bytes=st.sampled_from([1, 500, 1 << 20]),
        ms=st.integers(0, 2 * DELETE_RETENTION_MS),
    )
    def compact(self, commits: list[bool], map_bytes: int, ms: int) -> None:
        """All that is decided may be compacted; most often that is everything."""
        for producer, commit in enumerate(commits):
            if self.log.producers.transactions.of(producer) is not None and map_bytes != 1:
                self.mark(End(producer, commit, raised=False))
        self.clock.ms += ms
        self.committed = self.end
        if self.log._parts.segments.active.size:
            self.log._parts.roll()
        self.log.flush()
        compact(self.log, now_ms=self.clock.ms, high_watermark=self.committed, map_bytes=map_bytes)
        self.compacted = True
        assert self.log.log_end_offset == self.end

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        """Never below what is committed."""
        at = data.draw(st.sampled_from([self.committed, *(w.offset for w in self.written), self.end]))
        if at >= self.committed:
            self.log.cutting.truncate_to(at)
            self.cut(at)

    def cut(self, end: int) -> None:
        self.written = [each for each in self.written if each.end <= end]
        assert self.log.log_end_offset == self.end
        self.lead()

    @rule(clean=st.booleans())
    def reopen(self, clean: bool) -> None:
        if clean:
            self.log.close(clean=True)
        before = self.log.producers
        self.files = self.files.after_crash()
        self.log = open_log(self.files, config=CONFIG, clock=self.clock, clean=clean)
        after = self.log.producers
        assert [(key, each.epoch) for key, each in after] == [(key, each.epoch) for key, each in before]
        assert dict(after.transactions).keys() == dict(before.transactions).keys()
        self.lead()

    @precondition(lambda self: not self.compacted)
    @rule()
    def reopen_without_snapshots(self) -> None:
        """All is read from the batches again."""
        self.log.close(clean=True)
        self.files = self.files.after_crash()
        folder = self.log.directory
        for name in self.files.sizes(folder):
            if name.endswith(".snapshot"):
                self.files.remove(folder / name)
        self.log = open_log(self.files, config=CONFIG, clock=self.clock)
        self.lead()

    @rule(data=st.data())
    def lose_power(self, data: st.DataObject) -> None:
        self.log.flush()
        self.files = self.files.after_power_loss(
            lambda n: data.draw(st.integers(0, n)),
            lambda n: data.draw(st.sets(st.integers(0, n - 1))),
        )
        self.log = open_log(self.files, config=CONFIG, power_lost=True, clock=self.clock)
        assert (self.log.failed, self.log.corrupt) == (None, None)
        self.cut(self.log.log_end_offset)

    @precondition(lambda self: self.written)
    @rule()
    def follow(self) -> None:
        """A follower that copies the log as it is now reads the same."""
        follower = open_log(MemoryFiles(), config=CONFIG, clock=self.clock)
        replicate(self.log, follower)
        self.check_reading(follower)
        assert dict(follower.producers.transactions).keys() == dict(self.log.producers.transactions).keys()

    @invariant()
    def a_reader_gets_what_was_committed(self) -> None:
        self.check_reading(self.log)

    def check_reading(self, log: PartitionLog) -> None:
        stable = stable_offset(self.written, self.committed)
        assert log.producers.transactions.stable_offset(self.committed, 0) == stable
        wanted = committed_values(self.written, stable)
        for bytes_max in (1, 1 << 20):
            got = {r.offset: r for r in read_committed(log, self.committed, bytes_max)}
            values = {at: ((r.key or b"").decode(), (r.value or b"").decode()) for at, r in got.items()}
            assert values.items() <= wanted.items()
            assert dict(values.values()) == dict(wanted.values())
            assert self.compacted or values == wanted

    def teardown(self) -> None:
        check_sound(self.log, self.files, power_lost=True)
        assert sum(h.last_offset_delta + 1 for h in batches(self.log)) == self.end


TestTransactions = TransactionsAndModel.TestCase
TestTransactions.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
TestTransactions.pytestmark = [pytest.mark.timeout(300)]  # type: ignore[attr-defined]  # pytest reads it
