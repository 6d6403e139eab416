"""A client that was let in before goes on for a while where it is refused."""

from __future__ import annotations

import logging

import pytest

from strandline.adapters.rpc.logins.refusals import PAUSE_S, Refusals
from strandline.errors import AuthenticationFailed, BrokerNotAvailable, Outcome
from strandline.ports import RefusedForNow

ONE, OTHER = "broker-1:9092", "broker-2:9092"
REFUSED = AuthenticationFailed("the name or the password is wrong")
RETRY_S = 60.0


def is_final(refusals: Refusals, address: str, now: float) -> bool:
    error = refusals.judged(address, REFUSED, now)
    assert (error is REFUSED) is not isinstance(error, RefusedForNow)
    return error is REFUSED


def test_a_client_that_was_never_let_in_is_refused_for_good() -> None:
    """Without a pause, as its next call may have other settings on its side."""
    refusals = Refusals(RETRY_S)
    assert is_final(refusals, ONE, 0.0)
    assert refusals.pause(ONE, 0.0) is None


def test_one_that_was_goes_on_until_its_time_is_over() -> None:
    """At each address, also at one where it was not yet."""
    refusals = Refusals(RETRY_S)
    refusals.let_in(ONE)
    assert not is_final(refusals, OTHER, 0.0)
    assert not is_final(refusals, ONE, 30.0)
    assert not is_final(refusals, OTHER, 59.0)
    assert is_final(refusals, OTHER, 60.0)
    assert not is_final(refusals, ONE, 89.0)
    assert is_final(refusals, ONE, 90.0)


def test_a_login_that_succeeds_ends_the_time_there() -> None:
    refusals = Refusals(RETRY_S)
    refusals.let_in(ONE)
    for address in (ONE, OTHER):
        assert not is_final(refusals, address, 0.0)
    refusals.let_in(ONE)
    assert not is_final(refusals, ONE, 70.0)
    assert is_final(refusals, OTHER, 70.0)


def test_a_refusal_after_a_long_rest_is_another_one() -> None:
    """A producer without records tries nothing meanwhile."""
    refusals = Refusals(RETRY_S)
    refusals.let_in(ONE)
    assert not is_final(refusals, ONE, 0.0)
    assert not is_final(refusals, ONE, 3_600.0)


def test_without_a_time_each_refusal_is_final() -> None:
    refusals = Refusals(0.0)
    refusals.let_in(ONE)
    assert is_final(refusals, ONE, 0.0)
    assert is_final(refusals, ONE, 3_600.0)


def test_logins_pause_after_a_refusal() -> None:
    """A10: a server delays the logins of an address that fails often."""
    refusals = Refusals(RETRY_S)
    refusals.let_in(ONE)
    refusals.judged(ONE, REFUSED, 0.0)
    pause = refusals.pause(ONE, PAUSE_S / 2)
    assert pause is not None
    assert REFUSED.message in pause.message
    assert pause.outcome is Outcome.RETRIABLE
    assert refusals.pause(OTHER, PAUSE_S / 2) is None
    assert refusals.pause(ONE, PAUSE_S) is None


def test_what_is_no_refusal_stays_as_it_is() -> None:
    refusals = Refusals(RETRY_S)
    refusals.let_in(ONE)
    error = BrokerNotAvailable("down")
    assert refusals.judged(ONE, error, 0.0) is error
    assert refusals.pause(ONE, 0.0) is None


def test_the_first_refusal_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    refusals = Refusals(RETRY_S)
    refusals.let_in(ONE)
    with caplog.at_level(logging.WARNING):
        for now in range(3):
            refusals.judged(ONE, REFUSED, float(now))
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert REFUSED.message in caplog.text
