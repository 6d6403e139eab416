"""The codec that encodes by Kafka's definitions. The bytes are counted by hand from the protocol guide."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from strandline_lab.conformance.codec import Undecodable, decode, encode
from strandline_lab.conformance.definitions import NO_ID, Messages, versions

NUMBER = UUID(int=7)
REQUEST: dict[str, Any] = {
    "apiKey": 3,
    "type": "request",
    "name": "ThingRequest",
    "validVersions": "0-2",
    "flexibleVersions": "2+",
    "fields": [
        {"name": "Names", "type": "[]string", "versions": "0+", "nullableVersions": "1+"},
        {
            "name": "Parts",
            "type": "[]Part",
            "versions": "1+",
            "fields": [
                {"name": "Index", "type": "int32", "versions": "1+", "default": "-1"},
                {"name": "Id", "type": "uuid", "versions": "2+"},
            ],
        },
        {
            "name": "Cursor",
            "type": "Cursor",
            "versions": "2+",
            "nullableVersions": "2+",
            "default": "null",
            "fields": [{"name": "At", "type": "int8", "versions": "2+"}],
        },
        {
            "name": "Wish",
            "type": "bool",
            "versions": "2+",
            "taggedVersions": "2+",
            "tag": 1,
            "default": "true",
        },
    ],
}
MESSAGES = Messages([REQUEST])
BODY = {"Names": ["ab"], "Parts": [{"Index": 5, "Id": NUMBER}], "Cursor": {"At": 3}, "Wish": False}


def bytes_of(version: int, body: dict[str, Any] = BODY) -> bytes:
    flexible = MESSAGES.is_flexible("Thing", version)
    return encode(MESSAGES.fields("Thing", "request", version), body, flexible=flexible)


def body_of(version: int, data: bytes) -> dict[str, Any]:
    flexible = MESSAGES.is_flexible("Thing", version)
    return decode(MESSAGES.fields("Thing", "request", version), data, flexible=flexible)


def test_a_version_has_its_own_fields_only() -> None:
    assert bytes_of(0).hex(" ", 4) == b"\0\0\0\1\0\2ab".hex(" ", 4)
    assert bytes_of(1) == b"\0\0\0\1\0\2ab" + b"\0\0\0\1" + b"\0\0\0\5"


def test_a_flexible_version_has_compact_lengths_and_tags() -> None:
    part = b"\0\0\0\5" + NUMBER.bytes + b"\0"
    cursor = b"\1\3\0"
    assert bytes_of(2) == b"\2\3ab" + b"\2" + part + cursor + b"\1\1\1\0"


def test_what_is_encoded_is_decoded() -> None:
    assert body_of(2, bytes_of(2)) == BODY


def test_what_a_body_lacks_has_its_default() -> None:
    assert body_of(2, bytes_of(2, {})) == {"Names": [], "Parts": [], "Cursor": None, "Wish": True}
    assert body_of(2, bytes_of(2, {"Parts": [{}]}))["Parts"] == [{"Index": -1, "Id": NO_ID}]


def test_null_is_told_from_empty() -> None:
    assert body_of(1, bytes_of(1, {"Names": None}))["Names"] is None
    assert body_of(2, bytes_of(2, {"Names": None}))["Names"] is None


def test_a_null_that_is_not_allowed_is_undecodable() -> None:
    with pytest.raises(Undecodable, match="Names is null"):
        body_of(0, b"\xff\xff\xff\xff")


@pytest.mark.parametrize("cut", range(1, 30))
def test_fewer_bytes_are_undecodable(cut: int) -> None:
    with pytest.raises(Undecodable):
        body_of(2, bytes_of(2)[:-cut])


def test_more_bytes_are_undecodable() -> None:
    with pytest.raises(Undecodable, match="1 bytes are left"):
        body_of(2, bytes_of(2) + b"\0")


def test_an_unknown_tag_is_shown() -> None:
    data = bytes_of(2)[:-4] + b"\1\7\2ok"
    assert body_of(2, data)["(unknown tag) 7"] == b"ok".hex()


@pytest.mark.parametrize(("text", "found"), [("none", []), ("3", [3]), ("0-2", [0, 1, 2]), ("2+", [2, 3, 4])])
def test_versions_as_kafka_writes_them(text: str, found: list[int]) -> None:
    assert [each for each in range(5) if each in versions(text)] == found


def test_names_of_fields_are_those_of_any_version() -> None:
    assert MESSAGES.names_of_fields("Thing") == {"Names", "Parts", "Index", "Id", "Cursor", "At", "Wish"}
