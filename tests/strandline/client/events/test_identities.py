"""Remembers the returned records, within a bound."""

from __future__ import annotations

from strandline.client.events.identities import Identities


def test_the_first_of_each_identity_counts_and_no_other() -> None:
    met = Identities()
    assert met.first(("a", "requested"))
    assert met.first(("a", "received"))
    assert not met.first(("a", "requested"))
    assert met.first(("ar", "equested"))


def test_when_the_bound_is_reached_the_oldest_are_forgotten() -> None:
    met = Identities(most=2)
    assert met.first(("a",)) and met.first(("b",)) and met.first(("c",))
    assert met.first(("a",))
    assert not met.first(("c",))
