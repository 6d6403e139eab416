"""A round is judged: nothing is found in a sound one, and in a doctored one what was done to it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from strandline.adapters.system.files import SYSTEM_FILES
from strandline.auditing import checks
from strandline.auditing.checks import Check
from strandline.auditing.history import InvalidHistory
from strandline.broker.core.replication.epochs import EpochCache, EpochEntry
from strandline.broker.storage.state_files.epoch_file import write_epochs
from strandline.broker.storage.state_files.log_state import LogState
from strandline.records import emptied, split
from strandline.report.round_files import BrokenEvidence
from strandline_lab.auditing.staleness import Staleness
from strandline_lab.chaos.core.demands import REPLACED_MS_MAX
from strandline_lab.chaos.evidence import read
from strandline_lab.chaos.history_lines import GENERATION_UNKNOWN
from strandline_lab.chaos.judge import judge, longest_staleness
from tests.chaos import sound_round, sound_transactions
from tests.chaos.sound_round import (
    RECORDS,
    TOPIC,
    Line,
    Round,
    batch,
    change,
    epoch_of,
    seen,
    value,
    write_log,
)


@pytest.fixture
def made(tmp_path: Path) -> Round:
    return sound_transactions.add(sound_round.make(tmp_path))


def test_nothing_is_found_in_a_sound_round(made: Round) -> None:
    assert judge(read(made.out), made.logs) == []


def test_without_logs_what_the_last_readers_were_given_counts(made: Round) -> None:
    assert judge(read(made.out), {}) == []
    made.change("final-swell.jsonl", lambda lines: lines.pop(5))
    assert {each.check for each in judge(read(made.out), {})} == {checks.LOST.name}


# --- doctored ---------------------------------------------------------------------------------


def _in_file(name: str, doctor: Callable[[list[Line]], object]) -> Callable[[Round], None]:
    return lambda made: made.change(name, doctor)


def _insert(at: int, line: Line) -> Callable[[list[Line]], object]:
    return lambda lines: lines.insert(at, line)


def _set(at: int, **facts: object) -> Callable[[list[Line]], object]:
    return lambda lines: lines[at].update(facts)


def _shorten_all(made: Round) -> None:
    """Every replica has lost the end that was acknowledged."""
    made.change("observations.jsonl", _set(4, hw=8))
    for broker in made.logs:
        write_log(made, broker, end=10)


def _append_again(made: Round) -> None:
    """Two values of the beginning, at two more offsets."""
    for broker in made.logs:
        with made.segment(broker, 8 if broker == 2 else 0).open("ab") as file:
            file.write(batch(12, epoch=4, values=lambda offset: value(offset - 12)))


def _change_a_byte(made: Round) -> None:
    data = bytearray(made.segment(3).read_bytes())
    data[-1] ^= 0x40
    made.segment(3).write_bytes(data)


def _another_value(made: Round) -> None:
    """Well formed, with a right checksum."""
    first = [batch(at, epoch=epoch_of(at)) for at in range(0, 4, 2)]
    other = batch(4, epoch=epoch_of(4), values=lambda offset: f"p{offset % 2 + 1}-x")
    rest = [batch(at, epoch=epoch_of(at)) for at in range(6, 12, 2)]
    made.segment(3).write_bytes(b"".join([*first, other, *rest]))


def _another_epoch(made: Round) -> None:
    """A batch that an old leader stamped: its checksum does not cover that."""
    data = [batch(at, epoch=3 if at < 8 else 4) for at in range(0, 12, 2)]
    made.segment(3).write_bytes(b"".join(data))


def _short(made: Round) -> None:
    write_log(made, 3, end=10)


def _no_log(made: Round) -> None:
    for path in made.folder(3).iterdir():
        path.unlink()
    made.folder(3).rmdir()


def _wrong_epochs(made: Round) -> None:
    write_epochs(made.folder(3), EpochCache([EpochEntry(3, 0), EpochEntry(4, 8)]), files=SYSTEM_FILES)


def _end_otherwise(commits: tuple[bool | None, ...], *partitions: int) -> Callable[[Round], None]:
    """In these logs the transactions have other markers."""

    def doctor(made: Round) -> None:
        for partition in partitions:
            sound_transactions.write_log(made, partition, commits)

    return doctor


def _offset_of_group(offset: int) -> Callable[[Round], None]:
    """Of the one that processes its inputs."""
    line = sound_transactions.committed(offset)
    return _in_file("committed.jsonl", lambda lines: lines.append(line))


def _hang(made: Round, lasts_ms: int = REPLACED_MS_MAX) -> None:
    """The leader, broker 2, from 300 on."""
    hang = {"fault": 0, "kind": "pause", "who": ["broker 2"], "detail": ""}
    moments = [
        {"at_ms": sound_round.T0 + at, "event": event, **hang}
        for at, event in ((300, "fault_began"), (300 + lasts_ms, "fault_ended"))
    ]
    made.change("timeline.jsonl", lambda lines: lines.extend(moments))


_READER, _FIRST, _SECOND = (
    "consume-assign-1.jsonl",
    "consume-group-tide-1.jsonl",
    "consume-group-tide-2.jsonl",
)
_SENT = {
    "event": "sent",
    "seq": 99,
    "at": 1,
    "monotonic_ms": 1.0,
    "topic": TOPIC,
    "record": 9,
    "value": "p1-0",
}

DOCTORED: list[tuple[str, Check, Callable[[Round], None]]] = [
    ("the end is gone everywhere", checks.LOST, _shorten_all),
    ("a value is there twice", checks.DUPLICATED, _append_again),
    (
        "acknowledged out of order",
        checks.REORDERED,
        _in_file(_READER, lambda lines: lines.insert(4, lines[3])),
    ),
    ("passed over", checks.UNSEEN, _in_file(_READER, lambda lines: lines.pop(4))),
    (
        "denied",
        checks.ABORTED,
        _in_file("produce-p1.jsonl", _set(1, event="failed", outcome="fatal")),
    ),
    ("two values", checks.INCONSISTENT, _in_file("final-swell.jsonl", _set(3, value="p9-9"))),
    ("reported less", checks.WATERMARK, _in_file(_READER, _set(13, offset=4))),
    ("sent twice", checks.AMBIGUOUS, _in_file("produce-p1.jsonl", _insert(12, _SENT))),
    ("a byte on a disk", checks.REPLICAS, _change_a_byte),
    ("another value on a disk", checks.REPLICAS, _another_value),
    ("another epoch on a disk", checks.REPLICAS, _another_epoch),
    ("a replica that is short", checks.REPLICAS, _short),
    ("a replica that is not there", checks.REPLICAS, _no_log),
    ("a list of epochs that is wrong", checks.REPLICAS, _wrong_epochs),
    ("a leader out of sync", checks.LEADERSHIP, _in_file("observations.jsonl", _set(1, isr=[2, 3]))),
    ("two leaders", checks.LEADERSHIP, _in_file("observations.jsonl", _set(3, leader=3))),
    (
        "epochs that fall",
        checks.LEADERSHIP,
        _in_file("state-changes.jsonl", _insert(5, change("elect-2", "completed", "elect-leader", 3, 2, 70))),
    ),
    ("a leader that hangs and stays", checks.LEADERLESS, _hang),
    (
        "a watermark that falls",
        checks.FELL,
        _in_file("observations.jsonl", _insert(4, seen(80, 2, 4, [2, 3], 5))),
    ),
    ("assigned too early", checks.TWO_OWNERS, _in_file(_SECOND, _set(0, at_ms=sound_round.T0 + 89))),
    ("given up twice", checks.HANDOVER, _in_file(_FIRST, lambda lines: lines.append(lines[-1]))),
    ("a commit that falls", checks.COMMITTED, _in_file("committed.jsonl", _set(3, offset=7))),
    (
        "a commit that was acknowledged and forgotten",
        checks.COMMITTED,
        _in_file(_FIRST, _insert(1, sound_round.by_hand("commit_acked", -9_000, RECORDS + 1))),
    ),
    (
        "a partition given up while at work on it",
        checks.HANDLED,
        _in_file(_FIRST, _insert(1, sound_round.by_hand("handled", 2, 0))),
    ),
    (
        "a commit of unreceived records",
        checks.COMMITTED,
        _in_file(_SECOND, lambda lines: [lines.pop(3), lines.pop(3)]),
    ),
    (
        "a request without an end",
        checks.REQUESTS,
        _in_file("state-changes.jsonl", lambda lines: lines.pop(2)),
    ),
    ("an aborted transaction that is seen", checks.ABORTED, _end_otherwise((True, True, True), 0, 1)),
    ("a committed one that is not", checks.LOST, _end_otherwise((True, False, False), 0, 1)),
    ("a transaction in one log of two", checks.TORN, _end_otherwise((True, True, True), 0)),
    ("an input that counts twice", checks.PROCESSED, _end_otherwise((True, True, True), 0, 1)),
    ("an input that is left out", checks.PROCESSED, _offset_of_group(sound_transactions.INPUTS + 1)),
    ("an output without its offset", checks.PROCESSED, _offset_of_group(sound_transactions.INPUTS - 1)),
    ("a transaction without an end", checks.HANGING, _end_otherwise((True, False, None), 1)),
    ("a request with two", checks.REQUESTS, _in_file("state-changes.jsonl", _set(1, state="superseded"))),
]


@pytest.mark.parametrize(
    ("check", "doctor"), [each[1:] for each in DOCTORED], ids=[each[0] for each in DOCTORED]
)
def test_every_manipulation_is_found(made: Round, check: Check, doctor: Callable[[Round], None]) -> None:
    doctor(made)
    assert check.name in {each.check for each in judge(read(made.out), made.logs)}


def test_every_check_has_its_fault() -> None:
    assert {check for _, check, _ in DOCTORED} == set(checks.ALL_CHECKS)


# --- what is no fault -------------------------------------------------------------------------


def test_replicas_may_differ_above_the_high_watermark(made: Round) -> None:
    """T1: uncommitted records may be truncated. A replica that is not in sync may differ anywhere."""
    with made.segment(1).open("ab") as file:
        file.write(batch(12, epoch=4))
        file.write(batch(14, epoch=4)[:40])  # it is being written
    assert judge(read(made.out), made.logs) == []
    made.change("observations.jsonl", lambda lines: lines[-1].update(isr=[2, 1]))
    _another_value(made)
    assert judge(read(made.out), made.logs) == []


def test_without_an_observer_the_isr_of_the_last_election_is_compared(made: Round) -> None:
    """As of the system's own topics. Broker 1 was left out by the election of broker 2."""
    made.write("observations.jsonl", [])
    write_log(made, 1, end=4)
    assert judge(read(made.out), made.logs) == []
    write_log(made, 3, end=4)
    (found, *_) = judge(read(made.out), made.logs)
    assert (found.check, found.offset) == (checks.REPLICAS.name, 4)
    assert found.detail.startswith(
        "the log of broker 3, which is in sync, ends at 4, below the high watermark"
    )


def test_a_damaged_leader_does_not_make_the_others_records_lost(made: Round) -> None:
    """E15."""
    data = bytearray(made.segment(2).read_bytes())
    data[70] ^= 1
    made.segment(2).write_bytes(data)
    assert {each.check for each in judge(read(made.out), made.logs)} == {checks.REPLICAS.name}


def test_replicas_may_have_deleted_more_or_less_of_their_beginning(made: Round) -> None:
    LogState(log_start_offset=8).save(made.folder(2), files=SYSTEM_FILES)
    made.segment(2).unlink()
    write_epochs(made.folder(2), EpochCache([EpochEntry(4, 8)]), files=SYSTEM_FILES)
    assert judge(read(made.out), made.logs) == []


def test_compacted_replicas_may_lack_different_records_but_not_have_different_ones(made: Round) -> None:
    for broker in made.logs:
        write_log(made, broker, config={"cleanup.policy": "compact"})
    compacted = [batch(at, epoch=epoch_of(at)) for at in range(0, 12, 2)]
    compacted[1] = emptied(split(compacted[1])[0])
    made.segment(3).write_bytes(b"".join(compacted))
    assert judge(read(made.out), made.logs) == []
    _another_value(made)
    found = [each for each in judge(read(made.out), made.logs) if each.check == checks.REPLICAS.name]
    assert [(each.offset, each.detail) for each in found] == [(4, "brokers 2 and 3 have two values here")]


def test_requests_may_wait_while_nothing_has_settled_and_for_brokers_that_are_gone(made: Round) -> None:
    made.change("state-changes.jsonl", lambda lines: lines.pop(2))
    without_it = {broker: path for broker, path in made.logs.items() if broker != 3}
    assert judge(read(made.out), without_it) == []
    made.change("timeline.jsonl", lambda lines: lines.pop(2))
    assert judge(read(made.out), made.logs) == []


def test_a_leader_may_hang_for_less_than_its_successor_takes(made: Round) -> None:
    _hang(made, REPLACED_MS_MAX - 1)
    assert judge(read(made.out), made.logs) == []


def test_an_expelled_member_may_claim_ownership_for_a_while(made: Round) -> None:
    made.change(_FIRST, lambda lines: lines[-1].update(event="lost", at_ms=sound_round.T0 + 120))
    assert judge(read(made.out), made.logs) == []


def test_the_longest_time_until_an_acknowledged_record_was_read_is_reported(made: Round) -> None:
    made.change(_READER, lambda lines: lines[3].update(monotonic_ms=61.0))
    assert longest_staleness(read(made.out)) == [Staleness(TOPIC, 0, 2, _READER, 36.0)]


def _sends_again(lines: list[Line]) -> None:
    """The second member commits the end, and then an older offset, which the group has in the end."""
    lines[-1:-1] = [
        sound_round.by_hand("commit_acked", 150, RECORDS),
        sound_round.by_hand("commit_acked", 185, RECORDS - 2),
    ]


def _is_kafka(lines: list[Line]) -> None:
    for line in lines:
        if "generation" in line:
            line["generation"] = GENERATION_UNKNOWN


def test_a_kafka_client_may_send_an_older_commit_again_and_a_member_of_strandline_may_not(
    made: Round,
) -> None:
    """G1: librdkafka does so as its coordinator moves."""
    made.change("committed.jsonl", lambda lines: lines[2].update(at_ms=sound_round.T0 + 160, offset=RECORDS))
    made.change("committed.jsonl", _set(3, offset=RECORDS - 2))
    made.change(_SECOND, _sends_again)
    (found,) = judge(read(made.out), made.logs)
    assert (found.check, found.offset) == (checks.COMMITTED.name, RECORDS - 2)
    made.change(_SECOND, _is_kafka)
    assert judge(read(made.out), made.logs) == []
    made.change(_SECOND, lambda lines: lines.pop(-2))
    (found,) = judge(read(made.out), made.logs)
    assert (found.check, found.offset) == (checks.COMMITTED.name, RECORDS - 2)


def test_a_transaction_may_be_open_while_nothing_has_settled(made: Round) -> None:
    made.change("timeline.jsonl", lambda lines: lines.pop(2))
    sound_transactions.write_log(made, 1, (True, False, None))
    assert checks.HANGING.name not in {each.check for each in judge(read(made.out), made.logs)}


def _without_answers(lines: list[Line]) -> None:
    lines[:] = [each for each in lines if each["event"] not in ("acked", "failed", "commit_acked")]


def test_a_transaction_without_an_answer_may_have_ended_either_way(made: Round) -> None:
    """Of a member that was killed. It has still ended in both logs in the same way."""
    made.change(sound_transactions.HISTORY, _without_answers)
    assert judge(read(made.out), made.logs) == []
    for partition in sound_transactions.PARTITIONS:
        sound_transactions.write_log(made, partition, (True, True, False))
    made.change("final-tide.jsonl", sound_transactions.second_instead_of_third)
    assert judge(read(made.out), made.logs) == []
    sound_transactions.write_log(made, 1, (True, False, True))
    assert checks.TORN.name in {each.check for each in judge(read(made.out), made.logs)}


# --- what cannot be read ----------------------------------------------------------------------

FILES = [
    "observations.jsonl",
    "committed.jsonl",
    "state-changes.jsonl",
    "group-events.jsonl",
    "timeline.jsonl",
]


@pytest.mark.parametrize("name", FILES)
def test_half_a_line_at_the_end_is_ignored(made: Round, name: str) -> None:
    with (made.out / name).open("a") as file:
        file.write('{"at_ms": 17')
    assert judge(read(made.out), made.logs) == []


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("line", ["{", "[]", "{}"])
def test_a_line_that_cannot_be_read_is_an_error_with_its_place(made: Round, name: str, line: str) -> None:
    whole = (made.out / name).read_text()
    (made.out / name).write_text(f"{line}\n{whole}")
    with pytest.raises(BrokenEvidence, match=f"{name}, line 1: "):
        judge(read(made.out), made.logs)


def test_a_history_that_cannot_be_read_is_an_error_with_its_place(made: Round) -> None:
    made.change(_READER, lambda lines: lines[2].update(event="dreamt"))
    with pytest.raises(InvalidHistory, match=f"{_READER}, line 3: there is no event 'dreamt'"):
        judge(read(made.out), made.logs)
    made.change(_READER, lambda lines: lines.pop(2))
    made.change(sound_transactions.HISTORY, lambda lines: lines[5].update(source=["swell"]))
    with pytest.raises(BrokenEvidence, match=f"{sound_transactions.HISTORY}, seq 5: no record of a trans"):
        judge(read(made.out), made.logs)
    made.change(sound_transactions.HISTORY, lambda lines: lines[5].update(source=None))
    made.change(_FIRST, lambda lines: lines[0].pop("member"))
    with pytest.raises(BrokenEvidence, match=f"{_FIRST}, seq 0: .*member"):
        judge(read(made.out), made.logs)


@pytest.mark.parametrize("name", [*FILES, _READER, _FIRST, "final-*.jsonl"])
def test_a_missing_file_is_an_error(made: Round, name: str) -> None:
    """A round that was not examined is not known to be well."""
    for path in made.out.glob("consume-group-*" if name == _FIRST else name):
        path.unlink()
    with pytest.raises(BrokenEvidence, match="has no"):
        judge(read(made.out), made.logs)
