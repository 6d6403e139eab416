"""Which attempts to reconnect name the session (CORRECTNESS E20)."""

from __future__ import annotations

from strandline.adapters.zookeeper.connection.naming import NAMED_AGAIN_TIMEOUTS, Naming

TIMEOUT_S = 3.0


def test_a_session_is_named_at_once_until_an_attempt_gets_no_answer() -> None:
    naming = Naming(TIMEOUT_S)
    assert not naming.must_knock(0.0)
    naming.named(0.0)
    naming.heard()
    assert not naming.must_knock(100.0)


def test_after_an_attempt_without_an_answer_a_server_must_answer_a_knock() -> None:
    naming = Naming(TIMEOUT_S)
    naming.named(10.0)
    assert naming.must_knock(11.0)
    naming.heard()
    assert not naming.must_knock(11.0)


def test_it_is_named_again_once_a_zookeeper_that_heard_of_it_has_ended_it() -> None:
    """A server may answer no knock and yet have the session: it hung, or does not serve four letter words."""
    naming = Naming(TIMEOUT_S)
    naming.named(10.0)
    after_s = NAMED_AGAIN_TIMEOUTS * TIMEOUT_S
    assert naming.must_knock(10.0 + after_s - 0.1)
    assert not naming.must_knock(10.0 + after_s)
    naming.named(10.0 + after_s)
    assert naming.must_knock(10.0 + 2 * after_s - 0.1)
