"""The comparison with Kafka's definitions finds what differs. `make kafka-messages` takes the real ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from strandline.broker.kafka.wire.apis import HEARTBEAT
from strandline_lab.interop.messages import compared, definitions

FIELDS: list[dict[str, Any]] = [
    {"name": "GroupId", "type": "string", "versions": "0+"},
    {"name": "GenerationId", "type": "int32", "versions": "0+"},
    {"name": "MemberId", "type": "string", "versions": "0+"},
    {"name": "GroupInstanceId", "type": "string", "versions": "3+", "nullableVersions": "3+"},
]
TAGGED = {
    "name": "Later",
    "type": "[]Thing",
    "versions": "4+",
    "tag": 0,
    "taggedVersions": "4+",
    "fields": [{"name": "Part", "type": "int8", "versions": "4+"}],
}
ANSWER = [
    {"name": "ThrottleTimeMs", "type": "int32", "versions": "1+"},
    {"name": "ErrorCode", "type": "int16", "versions": "0+"},
]


def differences(path: Path, fields: list[dict[str, Any]], flexible: str = "4+") -> list[str]:
    jar = path / "clients.jar"
    with ZipFile(jar, "w") as files:
        for kind, each in (("Request", fields), ("Response", ANSWER)):
            definition = {
                "apiKey": 12,
                "type": kind.lower(),
                "validVersions": "0-4",
                "flexibleVersions": flexible,
                "fields": each,
            }
            text = f"// A comment.\n{json.dumps(definition)}"
            files.writestr(f"common/message/Heartbeat{kind}.json", text)
    return list(compared(HEARTBEAT, definitions(jar)))


def changed(place: int, **values: Any) -> list[dict[str, Any]]:
    return [{**each, **values} if number == place else each for number, each in enumerate(FIELDS)]


def test_equal_messages_have_no_differences(tmp_path: Path) -> None:
    """A tagged field that is not declared is none: readers skip it."""
    assert differences(tmp_path, [TAGGED, *FIELDS]) == []


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        (FIELDS[:3], "Kafka does not"),
        ([*FIELDS, {"name": "More", "type": "int8", "versions": "2"}], "request 2: lacks Field(path='more'"),
        ([FIELDS[1], FIELDS[0], *FIELDS[2:]], "another order"),
        (changed(1, type="int64"), "type='int64'"),
        (changed(3, nullableVersions="4+"), "request 3: has"),
        (changed(3, versions="2+"), "request 2: lacks"),
        (changed(0, name="Group"), "lacks Field(path='group'"),
    ],
)
def test_each_difference_is_named(tmp_path: Path, fields: list[dict[str, Any]], why: str) -> None:
    found = differences(tmp_path, fields)
    assert any(why in each for each in found), found


def test_the_first_flexible_version_is_compared(tmp_path: Path) -> None:
    assert "Heartbeat request 3: flexible is False here" in differences(tmp_path, FIELDS, flexible="3+")
