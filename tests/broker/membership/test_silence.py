"""Leaders that are not heard: who is asked about them, when, and what refutes the suspicion."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from strandline.broker.core.election.silence import TRUSTED_S, Report
from strandline.broker.core.election.suspects import Cause
from strandline.broker.membership.hearing import Hearing
from strandline.broker.membership.peers import Peers
from strandline.broker.membership.pulse import TICK_S, Pulse
from strandline.broker.membership.silence import SilenceWatch
from strandline.ids import BrokerId
from strandline.vocabulary.metadata import Registration
from tests.broker.support.replicas import LIVE
from tests.hand_clock import HandClock

LEADER, ME, THIRD = BrokerId(1), BrokerId(2), BrokerId(3)
LIFE = LIVE[LEADER].epoch
BOUND_S = 0.6


@dataclass(eq=False)
class PlayedLink:
    """A stream on which the test speaks."""

    broker: BrokerId
    heard_at: float | None = None
    calling_since: float | None = None


@dataclass
class Watched:
    """One broker that follows the leader, with a clock that the test moves."""

    clock: HandClock = field(default_factory=HandClock)
    report: Report | None = None
    asked: list[BrokerId] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.pulse = Pulse(self.clock)
        self.peers = Peers(self.clock, lambda: None)
        self.peers.live_changed(LIVE)
        self.hearing = Hearing(self.peers, self.pulse)
        self.link = PlayedLink(LEADER)
        self.hearing.add(self.link)
        self.watch = SilenceWatch(
            ME, self.peers, self.hearing, self._ask, lambda: [LEADER], self.clock, BOUND_S
        )
        self.pulse.listen(self.watch.look)

    async def _ask(self, other: Registration, about: Registration) -> Report | None:
        assert about == LIVE[LEADER]
        self.asked.append(other.id)
        return self.report

    def hear(self) -> None:
        self.link.heard_at = self.clock.now_s

    async def wait(self, seconds: float) -> None:
        """The ticks of this time, with all that they cause."""
        for _ in range(round(seconds / TICK_S)):
            self.clock.now_s += TICK_S
            self.pulse.tick()
            for _ in range(10):
                await asyncio.sleep(0)

    @property
    def suspected(self) -> bool:
        return self.peers.suspects.cause(LIFE) is Cause.SILENT


@asynccontextmanager
async def watching(report: Report | None) -> AsyncIterator[Watched]:
    watched = Watched(report=report)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(watched.watch.run())
        yield watched
        running.cancel()


async def test_a_leader_that_nobody_hears_is_suspected_and_a_message_refutes_it() -> None:
    """CORRECTNESS E19: the others are asked only once it was not heard for the bound."""
    async with watching(Report(BOUND_S)) as watched:
        watched.hear()
        await watched.wait(BOUND_S - TICK_S)
        assert (watched.asked, watched.suspected) == ([], False)
        await watched.wait(2 * TICK_S)
        assert (watched.asked, watched.suspected) == ([THIRD], True)
        watched.hear()
        await watched.wait(TICK_S)
        assert not watched.suspected


async def test_a_broker_that_stands_still_after_a_suspicion_has_heard_nothing_by_that() -> None:
    """CORRECTNESS E19: its count begins anew, and the suspicion stands until there is a message."""
    async with watching(Report(BOUND_S)) as watched:
        watched.hear()
        await watched.wait(BOUND_S + TICK_S)
        assert watched.suspected
        watched.clock.now_s += 1.0
        await watched.wait(TICK_S)
        assert watched.pulse.late == 1
        assert watched.suspected
        watched.hear()
        await watched.wait(TICK_S)
        assert not watched.suspected


async def test_a_leader_that_others_hear_is_none_and_they_are_asked_ever_less_often() -> None:
    """CORRECTNESS E19: it is this broker that is cut off."""
    async with watching(Report(0.1)) as watched:
        watched.hear()
        await watched.wait(BOUND_S + 5.0)
        assert not watched.suspected
        assert 5 <= len(watched.asked) <= 9


async def test_no_link_that_promised_beats_is_no_silence() -> None:
    """CORRECTNESS E19: a leader of a version without beats has nothing to say when it is idle."""
    async with watching(Report(BOUND_S)) as watched:
        await watched.wait(5.0)
        assert watched.hearing.judged_s(LEADER, LIFE) is None
        assert watched.asked == []


async def test_a_broker_that_stood_still_itself_suspects_nobody() -> None:
    """CORRECTNESS E19: its own silence count begins anew."""
    async with watching(Report(BOUND_S)) as watched:
        watched.hear()
        watched.clock.now_s += 10.0
        await watched.wait(BOUND_S - TICK_S)
        assert watched.asked == []


async def test_after_a_wrong_suspicion_a_leader_is_trusted_for_a_while() -> None:
    """CORRECTNESS E19: both by this broker and in what it tells others."""
    async with watching(Report(BOUND_S)) as watched:
        watched.hear()
        await watched.wait(BOUND_S + TICK_S)
        assert watched.suspected
        watched.hear()
        await watched.wait(BOUND_S + 5 * TICK_S)
        assert watched.hearing.judged_s(LEADER, LIFE) == 0.0
        assert len(watched.asked) == 1
        await watched.wait(TRUSTED_S)
        watched.hear()
        await watched.wait(BOUND_S + TICK_S)
        assert watched.suspected


async def test_any_stream_with_a_broker_tells_that_it_is_there() -> None:
    """CORRECTNESS E19: one stream may be stuck, in a network that is cut in part."""
    async with watching(Report(BOUND_S)) as watched:
        as_follower = PlayedLink(LEADER)
        watched.hearing.add(as_follower)
        watched.hear()
        for _ in range(10):
            as_follower.heard_at = watched.clock.now_s
            await watched.wait(BOUND_S / 2)
        assert watched.asked == []
        watched.hearing.remove(as_follower)
        await watched.wait(TICK_S)
        assert watched.suspected


async def test_a_leader_that_answers_no_call_is_silent_though_it_was_never_heard() -> None:
    """CORRECTNESS E19: it may have hung just after its election. A further call is no sign of its life."""
    async with watching(Report(BOUND_S)) as watched:
        watched.link.calling_since = watched.clock.now_s
        await watched.wait(BOUND_S - TICK_S)
        assert (watched.asked, watched.suspected) == ([], False)
        await watched.wait(2 * TICK_S)
        assert (watched.asked, watched.suspected) == ([THIRD], True)
        watched.link.calling_since = watched.clock.now_s
        await watched.wait(TICK_S)
        assert watched.suspected


async def test_a_leader_that_is_heard_is_not_judged_by_a_call() -> None:
    """CORRECTNESS E19: as one that follows this broker, and whose port is closed to it."""
    async with watching(Report(BOUND_S)) as watched:
        calling = PlayedLink(LEADER, calling_since=watched.clock.now_s)
        watched.hearing.add(calling)
        for _ in range(10):
            watched.hear()
            await watched.wait(BOUND_S / 2)
        assert watched.asked == []
