"""A silence is counted only while this process itself ran on time."""

from __future__ import annotations

import pytest

from strandline.broker.membership.pulse import ANSWER_S, BEAT_S, LATE_S, TICK_S, Pulse
from strandline.config.services.broker import SILENCES_APART_MS
from tests.broker.support.replicas import settings
from tests.hand_clock import HandClock


def _ticked(pulse: Pulse, clock: HandClock, *late_s: float) -> None:
    """These ticks, one after the other, each late by this many seconds."""
    for each in late_s:
        clock.now_s += TICK_S + each
        pulse.tick()


def test_a_silence_lasts_from_the_last_message_on() -> None:
    clock = HandClock()
    pulse, ticks = Pulse(clock), list[float]()
    pulse.listen(ticks.append)
    _ticked(pulse, clock, 0.0, 0.0, 0.0)
    assert ticks == pytest.approx([100.1, 100.2, 100.3])
    assert pulse.silent_s(100.1) == pytest.approx(2 * TICK_S)
    assert pulse.silent_s(0.0) == pytest.approx(3 * TICK_S)


def test_a_late_tick_begins_every_silence_anew() -> None:
    """CORRECTNESS E19: a broker that stood still itself, or found no core, has missed what others sent."""
    clock = HandClock()
    pulse = Pulse(clock)
    _ticked(pulse, clock, 0.0, 5.0)
    assert pulse.silent_s(100.0) == 0.0
    _ticked(pulse, clock, 0.0, 0.9 * LATE_S)
    assert pulse.silent_s(100.0) == pytest.approx(2 * TICK_S + 0.9 * LATE_S)


def test_between_two_ticks_a_process_that_is_late_knows_of_no_silence() -> None:
    """CORRECTNESS E19: woken, it may be asked before its next tick says that it stood still."""
    clock = HandClock()
    pulse = Pulse(clock)
    _ticked(pulse, clock, 0.0, 0.0)
    clock.now_s += 10.0
    assert pulse.silent_s(100.0) == 0.0


def test_no_bound_may_be_set_that_takes_a_pause_between_two_messages_for_silence() -> None:
    """CORRECTNESS E19: messages are due at ticks. Another broker agrees already `BEAT_S` below the bound."""
    with pytest.raises(ValueError, match="leader_silence_ms"):
        settings(leader_silence_ms=round((2 * BEAT_S + TICK_S) * 1000))
    with pytest.raises(ValueError, match="follower_silence_ms"):
        settings(follower_silence_ms=round((ANSWER_S + TICK_S) * 1000))


def test_followers_may_replace_a_leader_that_is_cut_off_before_it_takes_them_out_of_the_isr() -> None:
    """CORRECTNESS E19: each looks at a tick. Who left the ISR is no candidate, so the leader would be kept
    for as long as it reaches ZooKeeper."""
    assert round(TICK_S * 1000) <= SILENCES_APART_MS
    for given in ({"follower_silence_ms": 650}, {"leader_silence_ms": 800}):
        with pytest.raises(ValueError, match=r"follower_silence_ms(.|\n)*lower leader_silence_ms = [68]00"):
            settings(**given)
    settings(leader_silence_ms=700)
    settings(leader_silence_ms=3_000, zookeeper_session_timeout_ms=3_000)
