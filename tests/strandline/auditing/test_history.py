"""Histories are read as they were written, and what cannot be read has a place."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.auditing.history import (
    Ended,
    History,
    InvalidHistory,
    Received,
    Sent,
    Unassigned,
    parse,
    read,
)
from tests.strandline.auditing.generated_runs import harm, line, sound

LINE: dict[str, Any] = {"seq": 3, "at": 1, "monotonic_ms": 0.5, "topic": "t"}


def said(**facts: object) -> bytes:
    return json.dumps(LINE | facts).encode()


@given(random=st.randoms(use_true_random=False))
def test_written_events_are_read_back(random: Random) -> None:
    finished_run = sound(random, "t", 20)
    harm(random, finished_run)
    for history in finished_run.histories:
        assert [parse(line(event).encode()) for event in history.events] == history.events


def test_bytes_that_are_no_text_come_back() -> None:
    raw = said(event="sent", record=1, key=None, value="/w==", value_encoding="base64")
    assert parse(raw) == Sent(3, "t", 1, b"\xff")
    none = said(event="received", partition=0, offset=4, timestamp=1, key=None, value=None)
    assert parse(none) == Received(3, "t", 0, 4, None)


def test_revoked_and_lost_partitions_are_both_known() -> None:
    for name in ("revoked", "lost"):
        raw = said(event=name, partitions=[1, 2], member="m", generation=4, at_ms=9)
        assert parse(raw) == Unassigned(3, "t", (1, 2), in_order=name == "revoked")


@pytest.mark.parametrize("name", ["error", "summary"])
def test_last_words_are_known(name: str) -> None:
    assert parse(said(event=name)) == Ended(3, "t")


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[" * 200_000, "not JSON"),
        (b"[]", "not a JSON object"),
        (said(), "no event None"),
        (said(event="seen"), "no event 'seen'; known are sent, acked"),
        (said(event="acked", record=1, partition=0), "offset is None"),
        (said(event="acked", record=1, partition=0, offset=True), "offset is True"),
        (said(event="acked", record="1", partition=0, offset=1), "record is '1'"),
        (said(event="failed", record=1, outcome="bad"), "outcome is 'bad'"),
        (said(event="assigned", partitions=[0, "1"]), "partitions is"),
        (said(event="sent", record=1, value="=", value_encoding="base64"), "value: "),
        (said(event="sent", record=1, value="a", value_encoding="rot13"), "value_encoding is 'rot13'"),
        (said(event="summary", seq=None), "seq is None"),
        (said(event="summary", seq=2**63), "seq is a number of more than 64 bits"),
        (said(event="acked", record=1, partition=0, offset=10**25), "offset is a number of more than 64"),
        (said(event="acked", record=1, partition=2**31, offset=1), "partition is a number of more than 32"),
        (said(event="assigned", partitions=[0, -(2**40)]), "partitions is a number of more than 32"),
        (said(event="summary", topic=5), "topic is 5"),
    ],
)
def test_an_unreadable_line_is_refused_with_the_reason(raw: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse(raw)


@pytest.mark.parametrize("rest", [b'{"event": "se', b"\0\0\0\n", b"{}\n\n", b"\xc3"])
def test_a_client_that_is_killed_may_leave_half_a_line(tmp_path: Path, rest: bytes) -> None:
    path = tmp_path / "killed.jsonl"
    path.write_bytes(said(event="summary") + b"\n" + rest)
    assert read(path) == History(str(path), [Ended(3, "t")])


def test_a_fault_before_the_end_is_reported_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "broken.jsonl"
    path.write_bytes(b"\n".join([said(event="summary"), b"", b"{}", said(event="summary")]))
    with pytest.raises(InvalidHistory, match=r"broken.jsonl, line 3: there is no event None"):
        read(path)


def test_two_runs_in_one_file_are_refused(tmp_path: Path) -> None:
    """Whose record 0 is it that is acknowledged?"""
    path = tmp_path / "twice.jsonl"
    path.write_bytes(said(event="summary", seq=0) + b"\n" + said(event="summary", seq=0) + b"\n")
    with pytest.raises(InvalidHistory, match="line 2: a second run begins here"):
        read(path)


def test_an_empty_file_is_a_client_without_events(tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl"
    path.touch()
    assert read(path).events == []
