"""Clients of any age learn the versions and the features in their first round trip, and whether they have
reached the broker that they mean."""

from __future__ import annotations

from typing import Any, Final

import pytest

from strandline.broker.kafka.call import Api
from strandline.broker.kafka.router import Router
from strandline.broker.kafka.routing.introduction import Introduction, Place, misplaced
from strandline.broker.kafka.wire.api_versions import ANSWER, LAST, ApiVersionsRequest, FinalizedFeature
from strandline.broker.kafka.wire.fields import Reader
from strandline.broker.kafka.wire.table.compiled import reading
from tests.broker.kafka.support.codec import API_VERSIONS, decode_answer, encode_request
from tests.broker.kafka.support.mapped import WIRES

CLIENT: Final = {"client_software_name": "x", "client_software_version": "1"}
HERE: Final = Place("c", 2)
INVALID: Final = 42
REBOOTSTRAP: Final = 129
CODEC_LAST: Final = 4
"""The last version that the clients' codecs have. The answer in 5 has the same fields."""
TABLE: Final = [
    {"api_key": api, "min_version": first, "max_version": last}
    for api, first, last in sorted(
        [(18, 0, 5), *((wire.key, wire.first, wire.last) for wire in WIRES.values())]
    )
]
BYTES_OF_5: Final = (
    bytes.fromhex("0012 0005 0000 0007 0001") + b"t"
    b"\x00"  # no tags in the header
    b"\x02x\x021"  # software and its version
    b"\x02c\x00\x00\x00\x02"  # cluster and broker
    b"\x00"
)
"""A request in version 5, as Kafka 4.4's definitions have it."""


async def unanswered(*_: object) -> None:
    raise AssertionError("nothing is handled here")


ROUTER: Final = Router((Api(wire, unanswered) for wire in WIRES.values()), lambda: HERE)


def introduced(data: bytes, router: Router = ROUTER) -> Introduction:
    arrived = router.read(data)
    assert isinstance(arrived, Introduction)
    return arrived


def answer(data: bytes, version: int) -> dict[str, Any]:
    whole = b"".join(introduced(data).parts)[4:]
    return decode_answer(API_VERSIONS, min(version, CODEC_LAST), whole)[1]


@pytest.mark.parametrize("version", range(CODEC_LAST + 1))
def test_every_client_learns_the_versions(version: int) -> None:
    found = answer(encode_request(API_VERSIONS, version, CLIENT if version >= 3 else {}), version)
    assert (found["error_code"], found["api_keys"]) == (0, TABLE)


def test_the_newest_client_needs_one_round_trip() -> None:
    """Java's 4.4 asks in version 5, and in version 0 again if that is not served."""
    found = answer(BYTES_OF_5, LAST)
    assert (found["error_code"], found["api_keys"]) == (0, TABLE)
    assert introduced(BYTES_OF_5).version == LAST
    assert introduced(BYTES_OF_5).client == ApiVersionsRequest("x", "1", "c", 2)


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize(("software", "of"), [("", "1"), ("x", ""), ("a b", "1"), ("x", "1-"), (".x", "1")])
def test_software_without_a_name_learns_nothing(software: str, of: str, version: int) -> None:
    """KIP-511: letters, digits, dots and hyphens, the last two not at an end."""
    client = {"client_software_name": software, "client_software_version": of}
    found = answer(encode_request(API_VERSIONS, version, client), version)
    assert (found["error_code"], found["api_keys"], found["supported_features"]) == (INVALID, [], [])


@pytest.mark.parametrize("version", [3, 4])
def test_features_that_are_not_there_are_at_level_0(version: int) -> None:
    """So clients use transactions of version 2, and groups whose coordinator assigns. Version 3 leaves out
    what begins at 0, as Kafka does: its clients may refuse that (KAFKA-17011)."""
    found = answer(encode_request(API_VERSIONS, version, CLIENT), version)
    supported = {
        each["name"]: (each["min_version"], each["max_version"]) for each in found["supported_features"]
    }
    levels = {"group.version": 1, "share.version": 0, "streams.version": 0, "transaction.version": 2}
    assert supported == ({} if version == 3 else {name: (0, level) for name, level in levels.items()})
    finalized = [
        {"name": name, "max_version_level": level, "min_version_level": level}
        for name, level in levels.items()
        if level
    ]
    assert (found["finalized_features_epoch"], found["finalized_features"]) == (3, finalized)
    assert not found["zk_migration_ready"]


@pytest.mark.parametrize(
    ("cluster_id", "broker", "error"),
    [
        (None, -1, 0),
        ("c", 2, 0),
        ("c", 1, REBOOTSTRAP),
        ("other", 2, REBOOTSTRAP),
        ("", 2, REBOOTSTRAP),
        ("c", -2, REBOOTSTRAP),
        ("c", -1, INVALID),
        (None, 2, INVALID),
        (None, -2, INVALID),
    ],
)
def test_a_client_that_means_another_broker_begins_anew(
    cluster_id: str | None, broker: int, error: int
) -> None:
    """KIP-1242, as a broker of Kafka 4.4 answered each of these."""
    assert misplaced(ApiVersionsRequest("x", "1", cluster_id, broker), HERE) == error


def test_a_broker_that_does_not_know_its_cluster_yet_sends_no_client_away() -> None:
    assert misplaced(ApiVersionsRequest("x", "1", "c", 2), None) == 0


def test_a_client_that_means_another_broker_learns_nothing_else() -> None:
    """The bytes are those of a broker of Kafka 4.4."""
    elsewhere = Router((), lambda: Place("c", 3))
    assert b"".join(introduced(BYTES_OF_5, elsewhere).parts)[8:] == bytes.fromhex("0081 01 00000000 00")


def test_a_client_of_the_future_learns_the_versions_in_version_0() -> None:
    data = bytearray(encode_request(API_VERSIONS, 3, CLIENT))
    data[3] = LAST + 1
    found = answer(bytes(data), 0)
    assert (found["error_code"], found["api_keys"]) == (35, TABLE)


@pytest.mark.parametrize("whole", [encode_request(API_VERSIONS, 3, CLIENT), BYTES_OF_5], ids=["3", "5"])
def test_an_introduction_that_is_malformed_is_answered_in_version_0(whole: bytes) -> None:
    for length in range(whole.index(b"x") - 1, len(whole)):
        found = answer(whole[:length], 0)
        assert (found["error_code"], found["api_keys"]) == (35, TABLE)


def test_the_answer_is_read_as_it_was_written() -> None:
    whole = b"".join(introduced(BYTES_OF_5).parts)[8:]
    found = reading(ANSWER, LAST, True)(Reader(whole, flexible=True))
    finalized = (FinalizedFeature("group.version", 1, 1), FinalizedFeature("transaction.version", 2, 2))
    assert (len(found.served), found.features_epoch, found.finalized) == (len(TABLE), 3, finalized)
