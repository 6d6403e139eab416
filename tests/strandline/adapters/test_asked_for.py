"""What a broker says of the client for whom it asks, and what cannot be read (A17)."""

from __future__ import annotations

import json
from dataclasses import astuple, replace

import pytest

from strandline.adapters.asked_for import (
    METADATA_BYTES_MAX,
    METADATA_NAME,
    asked_for_metadata,
    asking_for,
    claimed,
)
from strandline.security.audit.entry import Source

ALICE = Source(
    "User:ålice",
    "SCRAM-SHA-512",
    "192.0.2.1",
    "kafka:192.0.2.1:9",
    "external",
    "Kafka CreateTopics",
    7,
    "ñ app",
)


@pytest.mark.parametrize("source", [ALICE, Source()], ids=["a client", "nothing known"])
def test_it_is_read_as_it_was_said(source: Source) -> None:
    with asking_for(source):
        said = asked_for_metadata()
    assert claimed(said) == source
    assert asked_for_metadata() == ()


def test_the_headers_of_a_call_have_room_for_it() -> None:
    """Names are whole if they have room: quotas may be for them."""
    for letter, whole in (("x", True), ("\N{GRINNING FACE}", False)):
        source = replace(ALICE, principal="User:" + letter * 995, client_id=letter * 1_000)
        with asking_for(source):
            ((name, said),) = asked_for_metadata()
        assert len(said) <= METADATA_BYTES_MAX
        assert (claimed([(name, said)]) == source) is whole


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"\xff",
        b"[" * 100_000,
        b"{}",
        b"5",
        json.dumps(astuple(ALICE)[:-1]).encode(),
        json.dumps([*astuple(ALICE)[:-2], "7", ""]).encode(),
        json.dumps([*astuple(ALICE)[:-2], True, ""]).encode(),
        json.dumps([*astuple(ALICE)[:-1], None]).encode(),
        json.dumps([None, *astuple(ALICE)[1:]]).encode(),
        "text",
    ],
)
def test_what_cannot_be_read_says_nothing(said: bytes | str) -> None:
    assert claimed([(METADATA_NAME, said)]) is None
    assert claimed(None) is None
