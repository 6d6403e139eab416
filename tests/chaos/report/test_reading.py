"""The files of a round as values, whole or broken off."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from strandline.auditing.checks import Finding
from strandline.auditing.cluster import Observation
from strandline.ids import TopicPartition
from strandline.report.round_files import Moment
from strandline_lab.chaos.core.faults import FaultKind
from strandline_lab.chaos.report.reading import read_round
from strandline_lab.chaos.report.round_data import RoundData
from strandline_lab.report.events import Election, Reader, Sending, SendOutcome
from tests.chaos.report.made_up import FAULTS, T0, Line, write_lines, write_round

A = TopicPartition("a", 1)
PLACE = {"topic": "a", "partition": 1}


def line(seq: int, event: str, **facts: Any) -> Line:
    return {"event": event, "seq": seq, "at": T0 + seq, "monotonic_ms": 5.5 * seq, "topic": "a", **facts}


def test_a_whole_round_is_read(tmp_path: Path) -> None:
    data = read_round(
        write_round(tmp_path / "seed-4711", findings=[{"check": "lost", **PLACE, "offset": 3, "detail": "x"}])
    )
    assert data.name == "seed-4711"
    assert data.plan is not None and data.plan.seed == 4711
    assert [fault.kind for fault in data.plan.faults] == [
        *(fault[0] for fault in FAULTS),
        FaultKind.DISK_FULL,
    ]
    assert data.moments[0] == Moment(T0, "began")
    assert data.findings == (Finding("lost", "a", 1, 3, "x"),)
    assert [sender.name for sender in data.senders] == ["produce-p1.jsonl", "produce-p2.jsonl"]
    assert data.unread == ()


def test_records_are_shown_by_their_outcome(tmp_path: Path) -> None:
    failed = {"code": 7, "error": "E", "message": "m"}
    write_lines(
        tmp_path / "produce-p1.jsonl",
        [
            *(line(number, "sent", record=number, key=None, value="v") for number in range(4)),
            line(4, "acked", record=2, partition=1, offset=0),
            line(5, "failed", record=0, outcome="unknown outcome", **failed),
            line(6, "failed", record=1, outcome="retriable", **failed),
            line(7, "acked", record=9, partition=1, offset=1),
            line(8, "summary", sent=4),
        ],
    )
    (sender,) = read_round(tmp_path).senders
    assert sender.sendings == (
        Sending(T0, SendOutcome.UNKNOWN, T0 + 5, 27.5),
        Sending(T0 + 1, SendOutcome.FAILED, T0 + 6, 27.5),
        Sending(T0 + 2, SendOutcome.ACKED, T0 + 4, 11, A),
        Sending(T0 + 3, SendOutcome.UNANSWERED),
    )


def test_readers_are_shown_by_when_they_received_and_how_they_ended(tmp_path: Path) -> None:
    write_lines(
        tmp_path / "consume-group-mixed-1.jsonl",
        [
            line(0, "assigned", partitions=[1]),
            line(1, "received", partition=1, offset=0, value="v"),
            line(2, "error", error="SessionLost", message="gone", code=1, outcome="fatal"),
        ],
    )
    assert read_round(tmp_path).readers == (
        Reader("consume-group-mixed-1.jsonl", (T0 + 1,), "SessionLost: gone"),
    )


def test_an_election_that_was_recorded_twice_is_one(tmp_path: Path) -> None:
    elected = {
        "command": "elect-leader",
        **PLACE,
        "topic_id": "t",
        "epoch": 2,
        "broker": 3,
        "at": T0,
        "state": "completed",
        "unclean": True,
    }
    asked = {**elected, "command": "start-replica", "id": "r", "broker": 2, "state": "requested"}
    write_lines(tmp_path / "state-changes.jsonl", [{"id": "e", **elected}, asked, {"id": "e", **elected}])
    assert read_round(tmp_path).elections == (Election(T0, A, 3, unclean=True),)


def test_an_observation_without_an_answer_has_no_watermark(tmp_path: Path) -> None:
    said = {
        "at_ms": T0,
        "observer": "o",
        **PLACE,
        "leader": -1,
        "epoch": 4,
        "isr": [1],
        "hw": None,
        "leo": None,
    }
    write_lines(tmp_path / "observations.jsonl", [said])
    assert read_round(tmp_path).observations == (Observation(T0, "o", *A, -1, 4, (1,)),)


def test_missing_files_are_read_as_empty(tmp_path: Path) -> None:
    data = read_round(tmp_path / "nowhere")
    assert data.unread[0].startswith("plan.json: FileNotFoundError")
    assert (data, data.findings) == (RoundData("nowhere", unread=data.unread), None)


def test_half_a_last_line_is_ignored_and_a_broken_one_is_named(tmp_path: Path) -> None:
    began = json.dumps({"at_ms": T0, "event": "began"})
    (tmp_path / "plan.json").write_text("[]")
    (tmp_path / "timeline.jsonl").write_text(f"{began}\n{began[:9]}")
    (tmp_path / "findings.jsonl").write_text('{"check": "lost"}\nnull\n')
    data = read_round(tmp_path)
    assert data.moments == (Moment(T0, "began"),)
    assert data.findings == ()
    assert [each.partition(":")[0] for each in data.unread] == ["plan.json", "findings.jsonl"]
    assert data.unread[1] == "findings.jsonl: 2 lines cannot be read, the first of them is 1"
