"""Changes of users, before any cluster is asked."""

from __future__ import annotations

from itertools import count

import pytest

from strandline.errors import InvalidRequest, ResourceNotFound
from strandline.security.login.credentials import (
    EVERY_MECHANISM,
    ITERATIONS_DEFAULT,
    UserChange,
    changed,
    is_password,
    make_credential,
    with_password,
)
from strandline.security.login.mechanisms import PLAIN, SCRAM_SHA_256, SCRAM_SHA_512

SALT = b"0123456789abcdef"
ONE = make_credential(SCRAM_SHA_256, "wonderland", SALT)
OTHER = make_credential(SCRAM_SHA_512, "wonderland", SALT)
HAS = {SCRAM_SHA_256: ONE}


def test_credentials_are_set_and_removed() -> None:
    given = UserChange("alice", SCRAM_SHA_512, OTHER)
    assert changed(HAS, [given]) == {SCRAM_SHA_256: ONE, SCRAM_SHA_512: OTHER}
    assert changed(HAS, [given, UserChange("alice", SCRAM_SHA_256)]) == {SCRAM_SHA_512: OTHER}
    assert changed(HAS, [UserChange("alice", EVERY_MECHANISM)]) == {}
    with pytest.raises(ResourceNotFound, match="SCRAM-SHA-512"):
        changed(HAS, [UserChange("alice", SCRAM_SHA_512)])


@pytest.mark.parametrize("other", [SCRAM_SHA_256, EVERY_MECHANISM])
def test_one_credential_is_changed_once(other: str) -> None:
    with pytest.raises(InvalidRequest, match="twice"):
        changed(HAS, [UserChange("alice", SCRAM_SHA_256, ONE), UserChange("alice", other)])


def test_a_password_gets_a_salt_for_each_mechanism() -> None:
    salts = count(1)
    changes = with_password(
        "alice",
        "wonderland",
        (SCRAM_SHA_256, SCRAM_SHA_512, SCRAM_SHA_256),
        ITERATIONS_DEFAULT,
        lambda: next(salts).to_bytes(16),
    )
    assert [each.mechanism for each in changes] == [SCRAM_SHA_256, SCRAM_SHA_512]
    made = [each.credential for each in changes]
    assert all(each is not None and is_password(each, "wonderland") for each in made)
    assert [each and each.salt[-1] for each in made] == [1, 2]


def test_some_changes_cannot_be() -> None:
    """A10: a name that no login gives would never log in."""
    for wrong in (
        ("", SCRAM_SHA_256),
        ("alice", PLAIN),
        ("alice", SCRAM_SHA_512, ONE),
        ("ﬁn", SCRAM_SHA_256, ONE),
        ("*", SCRAM_SHA_256, ONE),
    ):
        with pytest.raises(InvalidRequest):
            UserChange(*wrong)
    with pytest.raises(InvalidRequest, match="every user"):
        with_password("*", "wonderland", [SCRAM_SHA_256], ITERATIONS_DEFAULT, lambda: b"0123456789abcdef")
    for there in ("ﬁn", "*"):
        assert UserChange(there, SCRAM_SHA_256).user == there, "what is there can be removed"
    assert UserChange("fin", SCRAM_SHA_256, ONE).credential is ONE
