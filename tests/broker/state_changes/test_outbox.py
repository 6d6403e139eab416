"""Events of one broker alone are on its disk until they are recorded: over crashes, losses and garbage."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strandline.adapters.system.memory_files import MemoryFiles
from strandline.broker.core.state_changes.events import truncated
from strandline.broker.events.replica_events import OnRecorded
from strandline.broker.state_changes.outbox import RECORDED_LINES_MAX, Outbox
from strandline.ids import BrokerId, LeaderEpoch, PartitionId, PartitionKey, TopicId
from strandline.vocabulary.state_changes import StateChangeEvent, event_value, parse_event
from tests.waiting import eventually

PATH = Path("/data/state_changes.outbox")


@dataclass
class Recorder:
    """A recorder whose topic answers when the test says so. Fulfils `EventRecorder`."""

    asked: list[tuple[list[StateChangeEvent], OnRecorded | None]] = field(default_factory=list)

    def record(self, events: Sequence[StateChangeEvent], on_recorded: OnRecorded | None = None) -> None:
        self.asked.append((list(events), on_recorded))

    def record_durably(self, events: Sequence[StateChangeEvent]) -> None:
        raise AssertionError("the outbox is what keeps")

    def answer(self, *, recorded: bool) -> None:
        """To the oldest that waits."""
        _, on_recorded = self.asked.pop(0)
        assert on_recorded is not None
        on_recorded(recorded)

    @property
    def firsts(self) -> list[int | None]:
        """The first offsets of the events that are being sent, in order."""
        return [event.first for events, _ in self.asked for event in events]


def cut(first: int) -> StateChangeEvent:
    key = PartitionKey(TopicId("a" * 32), PartitionId(0))
    return truncated(
        "orders", key, BrokerId(2), LeaderEpoch(7), first=first, end=99, lost=0, at_ms=5, reason="line\nline"
    )


@dataclass
class Box:
    files: MemoryFiles
    events_max: int = 100

    def __post_init__(self) -> None:
        self.files.make_directory(PATH.parent)
        self.files.sync_directory(PATH.parent.parent)
        self.live()

    def live(self) -> None:
        """Begin a life over what is on the disk."""
        self.recorder = Recorder()
        self.outbox = Outbox(PATH, self.recorder, events_max=self.events_max, files=self.files)
        self.outbox.open()

    @property
    def lines(self) -> list[int | None]:
        """The content of the file."""
        descriptor = self.files.open(PATH)
        try:
            data = self.files.read(descriptor, 1 << 20, 0)
        finally:
            self.files.close(descriptor)
        return [parse_event(line).first for line in data.splitlines()]

    def spoil(self, data: bytes) -> None:
        """Append this to the file, as a crash might."""
        descriptor = self.files.open(PATH, create=True)
        self.files.append(descriptor, (data,))
        self.files.close(descriptor)


@pytest.fixture
def box() -> Box:
    return Box(MemoryFiles())


@settings(deadline=None)
@given(data=st.data())
def test_kept_events_survive_a_loss_of_power(data: st.DataObject) -> None:
    """CORRECTNESS T11, E7: the truncation comes after `keep`, so the next life records every event that may
    not be recorded, after any loss of unsynced data."""
    box, first = Box(MemoryFiles()), 0
    owed: list[int] = []
    for _ in range(data.draw(st.integers(1, 12))):
        match data.draw(st.sampled_from(["keep", "record", "power"])):
            case "keep":
                events = [cut(first + number) for number in range(data.draw(st.integers(1, 40)))]
                first += len(events)
                box.outbox.record_durably(events)
                owed += range(first - len(events), first)
            case "record" if box.recorder.asked:
                sent = {event.first for event in box.recorder.asked[0][0]}
                box.recorder.answer(recorded=True)
                owed = [first for first in owed if first not in sent]
            case "power":
                box.files = box.files.after_power_loss(lambda n: data.draw(st.integers(0, n)))
                box.live()
                recorded_again = box.recorder.firsts
                assert [first for first in recorded_again if first in owed] == owed


async def test_the_next_life_records_events_that_the_last_could_not(box: Box) -> None:
    box.outbox.record_durably([cut(1), cut(2)])
    box.outbox.record_durably([cut(3)])
    box.live()
    assert box.recorder.firsts == [1, 2, 3]


async def test_a_line_leaves_once_it_is_recorded(box: Box) -> None:
    box.outbox.record_durably([cut(1)])
    box.outbox.record_durably([cut(2)])
    box.recorder.answer(recorded=True)
    box.live()
    assert box.recorder.firsts in ([2], [1, 2])  # an extra line is recorded twice, which changes nothing
    while box.recorder.asked:
        box.recorder.answer(recorded=True)
    assert box.lines == []
    box.live()
    assert box.recorder.firsts == []


async def test_an_event_that_could_not_be_recorded_is_sent_again(box: Box) -> None:
    """The writer has a bound, and says so: what it dropped stays here."""
    box.outbox.record_durably([cut(1)])
    box.recorder.answer(recorded=False)
    assert box.recorder.asked == []  # not at once: no busy loop
    await eventually(lambda: box.recorder.firsts == [1])
    box.recorder.answer(recorded=True)
    assert box.lines == []


async def test_a_torn_or_foreign_line_costs_only_itself(box: Box) -> None:
    """CORRECTNESS E7: an event that was not written whole did not happen; a broker starts with any content of
    the file."""
    box.outbox.record_durably([cut(1)])
    box.spoil(b'{"id":"half\n\xff\x00\n[]\nnull\n' + event_value(cut(2))[:-5])
    box.live()
    assert box.recorder.firsts == [1]
    box.outbox.record_durably([cut(3)])  # not glued to the torn line
    box.live()
    assert box.recorder.firsts == [1, 3]


async def test_a_line_without_its_end_is_whole_or_dropped(box: Box) -> None:
    """Only its newline is lost: the next one must not be glued to it."""
    box.spoil(event_value(cut(1)))
    box.live()
    box.outbox.record_durably([cut(2)])
    box.live()
    assert box.recorder.firsts == [1, 2]


async def test_the_oldest_go_when_the_bound_is_reached() -> None:
    """CONTRIBUTING 7: the file does not grow while the topic is away."""
    box = Box(MemoryFiles(), events_max=3)
    for first in range(200):
        box.outbox.record_durably([cut(first)])
    assert box.lines[-3:] == [197, 198, 199]
    assert len(box.lines) <= 2 * 3 + RECORDED_LINES_MAX
    box.live()
    assert box.recorder.firsts[-3:] == [197, 198, 199]


async def test_the_file_does_not_grow_while_one_line_waits(box: Box) -> None:
    """One event that the topic refuses does not keep all that came after it."""
    box.outbox.record_durably([cut(0)])
    stuck = box.recorder.asked.pop(0)
    for first in range(1, 500):
        box.outbox.record_durably([cut(first)])
        box.recorder.answer(recorded=True)
    assert len(box.lines) <= 2 + RECORDED_LINES_MAX
    box.live()
    assert 0 in box.recorder.firsts
    assert stuck[0] == [cut(0)]


async def test_one_event_recorded_twice_is_one_line(box: Box) -> None:
    """A replica that refuses a cut refuses it at each try."""
    for _ in range(10):
        box.outbox.record_durably([cut(1)])
    assert box.lines == [1]
    assert box.recorder.firsts == [1]


@pytest.mark.parametrize("operation", ["open", "append", "sync"])
async def test_a_disk_that_takes_nothing_affects_no_caller(box: Box, operation: str) -> None:
    """CORRECTNESS E14: the log that is cut finds out for itself; the event is recorded all the same, and
    is on the disk as soon as that takes something again."""

    def full(found: str, _: Path) -> int | None:
        if found == operation:
            raise OSError(errno.ENOSPC, "no space left")
        return None

    box.files.fault = full
    box.outbox.record_durably([cut(1)])
    assert box.recorder.firsts == [1]
    box.files.fault = None
    box.outbox.record_durably([cut(2)])
    assert box.lines == [1, 2]
    box.live()
    assert box.recorder.firsts == [1, 2]


async def test_many_events_at_once_are_one_write(box: Box) -> None:
    """A broker that finds a thousand strays syncs once."""
    operations: list[str] = []

    def note(operation: str, _: Path) -> None:
        operations.append(operation)

    box.files.fault = note
    box.outbox.record_durably([cut(first) for first in range(100)])
    assert operations.count("append") == operations.count("sync") == 1
