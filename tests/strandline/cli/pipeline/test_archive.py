"""What `pipeline archive --check` shows of what it found."""

from __future__ import annotations

import json

import pytest

from strandline.cli.pipeline.archive import show_check
from strandline.cli.shell.output import Output
from strandline.pipeline.jobs.archive_check import Check, Difference, Fingerprint, PartitionCheck

KEPT = Fingerprint(3, 2, 4, 0xABC)
DIFFERS = Check(
    partitions=(
        PartitionCheck(0, 2, 5, KEPT, KEPT, 2),
        PartitionCheck(1, 0, 4, Fingerprint(3, 0, 3, 1), Fingerprint(4, 0, 3, 2), 0),
    ),
    differences=(Difference("missing", 1, 2),),
    different=5,
    faults=("a file is gone",),
    notes=("partition 0: 2 records are older than the topic",),
)
SOUND = Check(DIFFERS.partitions[:1], (), 0, (), ())


def test_as_json_each_partition_each_difference_and_the_whole_are_objects(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """docs/use/cli.md: digests are 32 hex digits, and `different` counts also what is not listed."""
    show_check(Output(json=True), "tides", DIFFERS)
    same, other, missing, whole = map(json.loads, capsys.readouterr().out.splitlines())
    assert same == {
        "what": "partition",
        "topic": "tides",
        "partition": 0,
        "from": 2,
        "to": 5,
        "archived": 3,
        "records": 3,
        "archive_digest": "abc".rjust(32, "0"),
        "topic_digest": "abc".rjust(32, "0"),
        "same": True,
    }
    assert (other["partition"], other["archived"], other["records"], other["same"]) == (1, 3, 4, False)
    assert missing == {"what": "missing", "topic": "tides", "partition": 1, "offset": 2}
    assert whole == {
        "what": "check",
        "sound": False,
        "different": 5,
        "faults": ["a file is gone"],
        "notes": ["partition 0: 2 records are older than the topic"],
    }


def test_as_text_what_differs_is_named_and_the_last_line_is_the_verdict(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_check(Output(), "tides", DIFFERS)
    shown = capsys.readouterr()
    assert shown.out.splitlines() == [
        "partition  from  to  archived  records  same",
        "0          2     5   3         3        yes",
        "1          0     4   3         4        no",
        "missing: tides-1 offset 2",
        "and 4 more records that differ",
        "fault: a file is gone",
        "the archive differs from the topic",
    ]
    assert shown.err == "partition 0: 2 records are older than the topic\n"


def test_a_sound_archive_is_called_sound(capsys: pytest.CaptureFixture[str]) -> None:
    show_check(Output(), "tides", SOUND)
    assert capsys.readouterr().out.endswith("\nthe archive is sound\n")
    show_check(Output(json=True), "tides", SOUND)
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["sound"] is True
