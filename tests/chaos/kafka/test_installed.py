"""Rounds have Kafka clients if their libraries are installed, or say what to install."""

from __future__ import annotations

import pytest

from strandline_lab.chaos.core.load import KAFKA, OWN, WITH_KAFKA, Library
from strandline_lab.chaos.kafka.installed import LibraryMissing, described, roles_for


def every(_: Library) -> str:
    return "2.16.1"


def test_kafka_clients_take_part_where_their_libraries_are_installed() -> None:
    assert roles_for(None, every) is WITH_KAFKA
    assert roles_for(True, every) is WITH_KAFKA
    assert roles_for(False, every) is OWN
    assert described(WITH_KAFKA, every) == "clients: strandline's, confluent-kafka 2.16.1 and aiokafka 2.16.1"
    assert described(OWN, every) == "clients: strandline's alone"


@pytest.mark.parametrize("lacking", KAFKA)
def test_a_round_that_asks_for_them_says_what_to_install(lacking: Library) -> None:
    def some(library: Library) -> str | None:
        return None if library == lacking else "1.0"

    assert roles_for(None, some) is OWN
    assert f"pip install {lacking}" in described(OWN, some)
    with pytest.raises(LibraryMissing, match=f"{lacking} is not installed: pip install {lacking}"):
        roles_for(True, some)


def test_all_that_is_missing_is_named_at_once() -> None:
    with pytest.raises(LibraryMissing, match="pip install confluent-kafka aiokafka"):
        roles_for(True, lambda _: None)
