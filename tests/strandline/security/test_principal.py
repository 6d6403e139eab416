"""Principals as text."""

from __future__ import annotations

import pytest

from strandline.errors import InvalidRequest
from strandline.security.principal import ANONYMOUS, PRINCIPAL_CHARS_MAX, Principal


@pytest.mark.parametrize(
    "text", ["User:alice", "User:CN=broker-1,OU=log,O=x", "User:*", "User:a:b", "Group:ops"]
)
def test_a_principal_is_read_and_written_as_kafka_writes_it(text: str) -> None:
    assert str(Principal.parse(text)) == text


def test_the_kind_ends_at_the_first_colon() -> None:
    assert Principal.parse("User:a:b") == Principal("a:b")


def test_a_caller_without_a_name_is_anonymous() -> None:
    assert str(ANONYMOUS) == "User:ANONYMOUS"


@pytest.mark.parametrize(
    "text", ["", "alice", "User:", ":alice", "User:a\nb", "User:\x1b[2J", "User:" + "a" * PRINCIPAL_CHARS_MAX]
)
def test_text_that_names_no_principal_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        Principal.parse(text)
