"""What a leader knows of one follower by the messages between them."""

from __future__ import annotations

import pytest

from strandline.broker.membership.pulse import BEAT_S
from strandline.broker.replication.window import PushWindow
from strandline.errors import InvalidRequest


def test_a_follower_with_nothing_to_answer_is_not_silent() -> None:
    window = PushWindow(2, 0.0)
    assert window.unanswered_since is None
    assert window.sent(1.0) == 1
    window.acknowledge(1, 1.5)
    assert (window.unanswered_since, window.acknowledged_at) == (None, 1.0)


def test_a_silence_begins_with_the_oldest_message_without_an_answer() -> None:
    """CORRECTNESS E19."""
    window = PushWindow(2, 0.0)
    window.sent(1.0)
    window.sent(2.0)
    assert not window.is_open
    assert window.unanswered_since == 1.0
    window.acknowledge(1, 2.5)
    assert window.is_open
    assert window.unanswered_since == 2.5


def test_any_sign_of_life_ends_a_silence_and_acknowledges_nothing() -> None:
    """CORRECTNESS E19: a follower whose disk is slow is late, and not silent."""
    window = PushWindow(2, 0.0)
    window.sent(1.0)
    window.acknowledge(0, 1.9)
    assert window.unanswered_since == 1.9
    assert window.acknowledged_at == float("-inf")


def test_the_first_beat_is_due_at_once_and_later_ones_after_a_pause() -> None:
    window = PushWindow(1, 0.0)
    assert window.wants_beat(1.0)
    window.has_beaten = True
    window.sent(1.0)
    assert not window.wants_beat(5.0), "the follower has a message to answer"
    window.acknowledge(1, 1.0)
    assert not window.wants_beat(1.0 + 0.9 * BEAT_S)
    assert window.wants_beat(1.0 + 1.1 * BEAT_S)


def test_what_was_never_sent_cannot_be_acknowledged() -> None:
    """CORRECTNESS X4."""
    window = PushWindow(2, 0.0)
    window.sent(1.0)
    with pytest.raises(InvalidRequest, match="message 2 was acknowledged, 1 were sent"):
        window.acknowledge(2, 1.0)
