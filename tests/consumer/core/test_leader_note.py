"""The leader's notes for static members that come back (KIP-345, KIP-814; CORRECTNESS G13)."""

from __future__ import annotations

import pytest

from strandline.consumer.core.leader_note import note, other_topics, same_counts


def test_a_note_distinguishes_topics_in_any_order() -> None:
    for counts in (None, {"t": 2}):
        found = note(("t", "u"), counts)
        assert not other_topics(found, ["u", "t"])
        assert other_topics(found, ["t"])
        assert other_topics(found, ["t", "u", "v"])
        assert other_topics(found, [])


def test_the_leaders_note_distinguishes_counts() -> None:
    found = note(("t",), {"t": 2, "u": 1})
    assert same_counts(found, {"u": 1, "t": 2})
    assert not same_counts(found, {"t": 2})
    assert not same_counts(found, {"t": 3, "u": 1})
    assert not same_counts(note(("t",)), {"t": 2, "u": 1}), "it was a follower then"


@pytest.mark.parametrize("found", [b"", b"abc", b"abcde", b"a foreign note"])
def test_user_data_of_another_kind_of_leader_is_ignored(found: bytes) -> None:
    """Its members do as Kafka's do: what they were given stands until the next rebalance."""
    assert not other_topics(found, ["t"])
