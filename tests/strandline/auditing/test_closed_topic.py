"""The judge of topics whose producers are all known finds each kind of fault."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.auditing import checks
from strandline.auditing.checks import Check
from strandline.auditing.closed_topic import findings
from strandline.auditing.recording import Recorder
from strandline.auditing.reference import Span
from strandline.errors import MessageTooLarge, NotLeaderOrFollower, OutcomeUnknown

TOPIC = "orders"
PRODUCERS = 2


@dataclass(frozen=True)
class Placed:
    """A record at an offset of a partition."""

    offset: int
    value: bytes | None
    key: bytes | None = None
    partition: int = 0


@dataclass(frozen=True)
class Sent:
    """A record of a producer, and its end: the offset that was acknowledged, or an error."""

    producer: int
    value: bytes
    end: int | Exception
    key: bytes | None = None
    partition: int | None = 0


@dataclass
class Run:
    """The records that producers sent, that a follower saw, and that a fresh reader found from the
    beginning to the end."""

    sent: list[Sent]
    followed: list[Placed]
    watermarks: list[int]
    final: list[Placed]
    ends: dict[int, int]

    def findings(self) -> list[checks.Finding]:
        producers = [Recorder(f"producer {number}", TOPIC) for number in range(PRODUCERS)]
        for number, each in enumerate(self.sent):
            recorder = producers[each.producer]
            recorder.sent(number, each.key, each.value, each.partition)
            if isinstance(each.end, Exception):
                recorder.failed(number, each.end)
            else:
                recorder.acked(number, each.partition or 0, each.end)
        follower, fresh = Recorder("follower", TOPIC), Recorder("fresh reader", TOPIC)
        read(follower, self.followed)
        read(fresh, self.final)
        for watermark in self.watermarks:
            follower.watermark(0, watermark)
        spans = {(TOPIC, partition): Span(0, end) for partition, end in self.ends.items()}
        return findings([each.history for each in (*producers, follower, fresh)], fresh.log(), spans)


def read(recorder: Recorder, records: Iterable[Placed]) -> None:
    recorder.assigned(0, 1)
    for each in records:
        recorder.received(each.partition, [each])


VALUES = [b"%d.%d" % (number, producer) for number in range(3) for producer in range(PRODUCERS)]
LATE = b"late"
"""Sent last; it failed."""


def sound() -> Run:
    """Six records acknowledged and read by a follower and a fresh reader, a seventh that failed."""
    sent = [Sent(offset % 2, value, offset) for offset, value in enumerate(VALUES)]
    placed = [Placed(offset, value) for offset, value in enumerate(VALUES)]
    return Run(
        [*sent, Sent(0, LATE, NotLeaderOrFollower("late"))], placed[:4], [0, 2, 2, 4], list(placed), {0: 6}
    )


def appended(run: Run, value: bytes) -> None:
    run.final.append(Placed(len(run.final), value))
    run.ends[0] += 1


def test_a_sound_run_has_no_findings() -> None:
    assert sound().findings() == []


def test_a_record_of_unknown_outcome_may_be_in_the_log_once_or_never() -> None:
    run = sound()
    run.sent[-1] = Sent(0, LATE, OutcomeUnknown("late"))
    assert run.findings() == []
    appended(run, LATE)
    assert run.findings() == []
    appended(run, LATE)
    assert {each.check for each in run.findings()} == {checks.DUPLICATED.name}


def test_an_acknowledgement_without_an_offset_is_kept_if_the_record_is_in_the_log_once() -> None:
    """A retry so late that the broker only knows that it has the record is a success."""
    run = sound()
    run.sent[5] = Sent(1, VALUES[5], -1)
    assert run.findings() == []


def test_partitions_may_be_read_in_any_order() -> None:
    run = sound()
    run.sent.append(Sent(0, b"other", 0, partition=1))
    run.ends[1] = 1
    run.final.insert(3, Placed(0, b"other", partition=1))
    assert run.findings() == []


def test_values_that_were_sent_twice_are_no_fault() -> None:
    run = sound()
    run.sent += [Sent(0, b"same", 6), Sent(1, b"same", 7)]
    appended(run, b"same")
    appended(run, b"same")
    assert run.findings() == []


def lose_the_last(run: Run) -> None:
    del run.final[5]


def lose_one_without_an_offset(run: Run) -> None:
    run.sent[5] = Sent(1, VALUES[5], -1)
    lose_the_last(run)


def move_the_last(run: Run) -> None:
    run.sent[5] = Sent(1, VALUES[5], 7)


def change_what_a_follower_read(run: Run) -> None:
    run.followed[3] = Placed(3, VALUES[5])


def change_a_key(run: Run) -> None:
    run.final[3] = Placed(3, VALUES[3], b"key")


def acknowledge_two_at_one_offset(run: Run) -> None:
    run.sent[5] = Sent(1, VALUES[5], 4)


def append_one_again(run: Run) -> None:
    appended(run, VALUES[0])


def swap_two_of_one_producer(run: Run) -> None:
    run.final[0], run.final[2] = Placed(0, VALUES[2]), Placed(2, VALUES[0])


def swap_two_of_one_producer_and_their_acknowledgements(run: Run) -> None:
    swap_two_of_one_producer(run)
    run.sent[0], run.sent[2] = Sent(0, VALUES[0], 2), Sent(0, VALUES[2], 0)


def swap_two_that_were_never_acknowledged(run: Run) -> None:
    run.sent += [Sent(0, b"first", OutcomeUnknown("first")), Sent(0, b"second", OutcomeUnknown("second"))]
    appended(run, b"second")
    appended(run, b"first")


def pass_over_one(run: Run) -> None:
    del run.followed[1]


def go_back_to_one(run: Run) -> None:
    run.followed.append(run.followed[2])


def read_one_twice(run: Run) -> None:
    run.final.append(run.final[5])


def leave_a_gap(run: Run) -> None:
    run.ends[0] = 7


def append_what_had_failed(run: Run) -> None:
    appended(run, LATE)


def append_what_was_refused_for_good(run: Run) -> None:
    run.sent[-1] = Sent(0, LATE, MessageTooLarge("late"))
    appended(run, LATE)


def append_what_was_never_sent(run: Run) -> None:
    appended(run, b"stranger")


def move_one_to_another_partition(run: Run) -> None:
    run.sent.append(Sent(0, b"other", OutcomeUnknown("other"), partition=1))
    run.ends[1] = 0
    appended(run, b"other")


def read_from_a_partition_that_has_nothing(run: Run) -> None:
    run.followed.append(Placed(0, VALUES[0], partition=1))


def let_the_watermark_go_back(run: Run) -> None:
    run.watermarks.append(3)


@pytest.mark.parametrize(
    ("doctor", "check"),
    [
        (lose_the_last, checks.LOST),
        (lose_one_without_an_offset, checks.LOST),
        (move_the_last, checks.LOST),
        (change_what_a_follower_read, checks.INCONSISTENT),
        (change_a_key, checks.INCONSISTENT),
        (acknowledge_two_at_one_offset, checks.INCONSISTENT),
        (append_one_again, checks.DUPLICATED),
        (swap_two_of_one_producer, checks.INCONSISTENT),
        (swap_two_of_one_producer_and_their_acknowledgements, checks.REORDERED),
        (swap_two_that_were_never_acknowledged, checks.REORDERED),
        (pass_over_one, checks.UNSEEN),
        (go_back_to_one, checks.REORDERED),
        (read_one_twice, checks.REORDERED),
        (leave_a_gap, checks.GAP),
        (append_what_had_failed, checks.ABORTED),
        (append_what_was_refused_for_good, checks.ABORTED),
        (append_what_was_never_sent, checks.FOREIGN),
        (move_one_to_another_partition, checks.FOREIGN),
        (read_from_a_partition_that_has_nothing, checks.WATERMARK),
        (let_the_watermark_go_back, checks.WATERMARK),
    ],
)
def test_a_doctored_run_is_refused(doctor: Callable[[Run], None], check: Check) -> None:
    run = sound()
    doctor(run)
    assert check.name in {each.check for each in run.findings()}


def test_a_finding_is_a_sentence_with_its_place() -> None:
    run = sound()
    run.ends[0] = 7
    assert [each.sentence for each in run.findings()] == [
        "gap: orders-0, offset 6: the log, from 0 to 7, has no record here"
    ]


@given(st.lists(st.integers(0, 3), max_size=30), st.data())
def test_any_one_fault_in_any_run_is_found(partitions: list[int], data: st.DataObject) -> None:
    """Drop, repeat or change any record, and there is a finding."""
    ends = dict.fromkeys(range(4), 0)
    sent, placed = [], []
    for number, partition in enumerate(partitions):
        value = b"%d" % number
        sent.append(Sent(0, value, ends[partition], partition=partition))
        placed.append(Placed(ends[partition], value, partition=partition))
        ends[partition] += 1
    assert Run(sent, [], [], placed, ends).findings() == []
    if not placed:
        return
    at = data.draw(st.integers(0, len(placed) - 1))
    victim = placed[at]
    changed = Placed(victim.offset, b"other", partition=victim.partition)
    for final in (
        placed[:at] + placed[at + 1 :],
        [*placed, victim],
        [*placed[:at], changed, *placed[at + 1 :]],
    ):
        assert Run(sent, [], [], final, ends).findings()
