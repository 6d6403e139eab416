"""Plain and transactional commits, removals, markers and reloads, interleaved, leave what the log says.

The model replays the log in its order, as Kafka's coordinator does when it loads.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from strandline.broker.core.coordinators.effects import Append
from strandline.broker.core.groups.records import encode_offset_key
from strandline.errors import CoordinatorNotAvailable, StrandlineError, UnstableOffsetCommit
from strandline.ids import TopicPartition
from strandline.records import Headers
from tests.broker.core.groups.support.stage import GROUP, Ended, Record, Stage, partition

NAMES = tuple(partition(number) for number in range(2))
PRODUCERS = (7, 8)


@dataclass(slots=True)
class Entry:
    """One entry of the log: a commit with its offset, a removal, or a marker with its decision."""

    names: tuple[TopicPartition, ...] = ()
    offset: int | None = None
    producer_id: int | None = None
    decision: bool | None = None
    append: Append | None = None
    there: bool | None = None
    """Whether it got into the log; None while it is in flight."""


@dataclass(slots=True)
class Model:
    """What a log means."""

    committed: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    """Place in the log, and offset."""
    pending: dict[tuple[int, TopicPartition], tuple[int, int]] = field(default_factory=dict)

    def replay(self, place: int, entry: Entry) -> None:
        if entry.decision is not None:
            for producer_id, name in list(self.pending):
                if producer_id == entry.producer_id:
                    kept = self.pending.pop((producer_id, name))
                    if entry.decision and kept > self.committed.get(name, (-1, 0)):
                        self.committed[name] = kept
            return
        for name in entry.names:
            if entry.offset is None:
                self.committed.pop(name, None)
                self.pending = {key: kept for key, kept in self.pending.items() if key[1] != name}
            elif entry.producer_id is None:
                self.committed[name] = place, entry.offset
            else:
                self.pending[entry.producer_id, name] = place, entry.offset

    def stable(self, in_flight: list[Entry]) -> dict[TopicPartition, int | type[StrandlineError] | None]:
        unstable = {name for _, name in self.pending}
        unstable |= {name for entry in in_flight if entry.producer_id is not None for name in entry.names}
        found = {name: self.committed[name][1] if name in self.committed else None for name in NAMES}
        return {**found, **dict.fromkeys(unstable, UnstableOffsetCommit)}


class Walk:
    """A coordinator, and the log that it writes."""

    def __init__(self) -> None:
        self.log: list[Entry] = []
        self.stage = Stage()
        self.stage.writing = False

    @property
    def in_flight(self) -> list[Entry]:
        return [entry for entry in self.log if entry.there is None]

    def commit(self, names: tuple[TopicPartition, ...], producer_id: int | None) -> None:
        offset = len(self.log)
        self.stage.commit(dict.fromkeys(names, offset), producer_id=producer_id)
        self.log.append(Entry(names, offset, producer_id, append=self.stage.wanted.pop()))

    def remove(self, names: tuple[TopicPartition, ...]) -> None:
        """Nothing is written for partitions of which there is no offset."""
        self.stage.delete_offsets(*names)
        if self.stage.wanted:
            append = self.stage.wanted.pop()
            keys = {key for key, _ in append.records}
            written = tuple([name for name in names if encode_offset_key(GROUP, name) in keys])
            self.log.append(Entry(written, append=append))

    def settle(self, number: int, *, there: bool) -> None:
        """The result of any write in flight."""
        in_flight = self.in_flight
        if not in_flight:
            return
        entry = in_flight[number % len(in_flight)]
        assert entry.append is not None
        entry.there = there
        error = None if there else CoordinatorNotAvailable("too few replicas")
        self.stage.play(self.stage.core.appended(entry.append.write_id, error, self.stage.now))

    def end(self, producer_id: int, *, commit: bool) -> None:
        """A marker is replayed after the results of its producer's writes."""
        for entry in self.in_flight:
            if entry.producer_id == producer_id:
                self.settle(self.in_flight.index(entry), there=True)
        self.log.append(Entry(producer_id=producer_id, decision=commit, there=True))
        ended = self.stage.core.transaction_ended(producer_id, self.stage.now, commit=commit)
        self.stage.play(ended)

    def reload(self) -> None:
        """Another broker takes over: what is in flight did not get into its log."""
        self.log = [entry for entry in self.log if entry.there]
        self.stage = self.loaded()
        self.stage.writing = False

    def loaded(self) -> Stage:
        records, headers = list[Record](), list[Headers]()
        producers, markers = dict[int, int](), list[Ended]()
        for entry in self.log:
            if not entry.there:
                continue
            if entry.append is None:
                assert entry.producer_id is not None and entry.decision is not None
                markers.append(Ended(len(records), entry.producer_id, entry.decision))
                continue
            for key, value, each in entry.append.each():
                if entry.producer_id is not None:
                    producers[len(records)] = entry.producer_id
                records.append((key, value))
                headers.append(each)
        return Stage(log=records, headers=headers, producers=producers, markers=markers)

    def check(self) -> None:
        model = Model()
        for place, entry in enumerate(self.log):
            if entry.there:
                model.replay(place, entry)
        assert self.stage.committed() == {name: offset for name, (_, offset) in model.committed.items()}
        assert self.stage.stable_offsets(NAMES) == model.stable(self.in_flight)
        loaded = self.loaded()
        assert loaded.committed() == self.stage.committed()
        assert loaded.stable_offsets(NAMES) == model.stable([])

    # --- steps -------------------------------------------------------------------------------

    def take(self, step: Step) -> None:
        match step:
            case ("commit", names, producer_id):
                self.commit(names, producer_id)
            case ("remove", names):
                self.remove(names)
            case ("settle", number, there):
                self.settle(number, there=there)
            case ("end", producer_id, commit):
                self.end(producer_id, commit=commit)
            case _:
                self.reload()


Step = tuple[Any, ...]
SOME_NAMES = st.lists(st.sampled_from(NAMES), min_size=1, unique=True).map(tuple)
COMMITS = st.tuples(st.just("commit"), SOME_NAMES, st.sampled_from((None, *PRODUCERS)))
REMOVALS = st.tuples(st.just("remove"), SOME_NAMES)
RESULTS = st.tuples(st.just("settle"), st.integers(0, 3), st.sampled_from((True, True, True, False)))
MARKERS = st.tuples(st.just("end"), st.sampled_from(PRODUCERS), st.booleans())
RELOADS = st.tuples(st.just("reload"))
MIXED = [COMMITS] * 3 + [REMOVALS] * 2 + [RESULTS] * 5 + [MARKERS] + [RELOADS]
STEPS: st.SearchStrategy[list[Step]] = st.lists(
    st.integers(0, len(MIXED) - 1).flatmap(lambda kind: MIXED[kind]), min_size=30, max_size=60
)


@given(STEPS)
def test_visible_offsets_are_those_of_the_log(steps: list[Step]) -> None:
    """CORRECTNESS G12, G22, G23: at each step, living and loaded."""
    walk = Walk()
    for step in steps:
        walk.take(step)
        walk.check()
