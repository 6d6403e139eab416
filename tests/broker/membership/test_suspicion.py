"""Suspects are asked by the broker itself, through a port that the test plays; and what ends a suspicion."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from strandline.broker.core.election.silence import Report
from strandline.broker.membership.peers import Peers
from strandline.broker.membership.pulse import TICK_S
from strandline.broker.membership.suspicion import Suspicion
from strandline.broker.metadata.cluster_view import ClusterView
from strandline.broker.replicas.manager import ReplicaManager
from strandline.broker.replication.handlers import Followers
from strandline.broker.replication.server import ReplicationService
from strandline.host import ProbeResult
from strandline.ids import BrokerEpoch, BrokerId
from strandline.ports import Caller, Clock
from strandline.security.access import Access
from strandline.security.authorizer import Authorizer
from strandline.vocabulary.metadata import Registration
from strandline.vocabulary.replication import FollowerMessage, Hello, LeaderMessage, Subscribe
from tests.broker.support.replicas import CLOCK, KEY, LIVE, following, leading, open_replica, settings
from tests.broker.support.seat import ME, seated
from tests.hand_clock import HandClock
from tests.waiting import eventually

FIRST, THIRD = BrokerId(1), BrokerId(3)
LIFE = LIVE[FIRST].epoch


@dataclass
class Ports:
    """The answer at each broker's port, and the number of probes."""

    heard: dict[BrokerId, ProbeResult] = field(default_factory=lambda: dict.fromkeys(LIVE, ProbeResult.ALIVE))
    asked: Counter[BrokerId] = field(default_factory=Counter)

    talks: set[BrokerId] = field(default_factory=set)
    """Those that answer questions: their processes do not hang."""

    async def ask(self, other: Registration, about: Registration) -> Report | None:
        return Report(None) if other.id in self.talks else None

    async def probe(self, registration: Registration) -> ProbeResult:
        self.asked[registration.id] += 1
        await asyncio.sleep(0)
        return self.heard[registration.id]


@asynccontextmanager
async def suspicious() -> AsyncIterator[tuple[Suspicion, Peers, Ports]]:
    ports = Ports()
    changed: list[Callable[[], None]] = []
    peers = Peers(CLOCK, lambda: changed[0]() if changed else None)
    suspicion = Suspicion(peers, ports.probe, ports.ask, CLOCK)
    changed.append(suspicion.peers_changed)
    peers.live_changed(LIVE)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(suspicion.run())
        try:
            yield suspicion, peers, ports
        finally:
            running.cancel()


def followers_of(manager: ReplicaManager, clock: Clock) -> Followers:
    return Followers(manager, ClusterView(manager, manager.settings, clock), settings(), clock)


async def test_one_refused_connection_is_forgotten_once_the_port_answers() -> None:
    """CORRECTNESS H10: only the suspicion itself causes another probe."""
    async with suspicious() as (suspicion, peers, ports):
        ports.heard[FIRST] = ProbeResult.GONE
        suspicion.ask(FIRST)
        await eventually(lambda: LIFE in peers.suspects)
        assert FIRST not in peers.reachable
        ports.heard[FIRST] = ProbeResult.ALIVE
        await eventually(lambda: LIFE not in peers.suspects)
        assert peers.reachable == LIVE
        assert ports.asked.keys() == {FIRST}


async def test_silence_makes_no_suspect_and_ends_no_suspicion() -> None:
    """The session of a broker that says nothing decides."""
    async with suspicious() as (suspicion, peers, ports):
        ports.heard[FIRST] = ProbeResult.NOTHING
        suspicion.ask(FIRST)
        await eventually(lambda: ports.asked[FIRST] == 1)
        assert peers.reachable == LIVE
        peers.refused(LIFE)
        await eventually(lambda: ports.asked[FIRST] == 2)
        assert LIFE in peers.suspects


async def test_a_port_that_answers_does_not_refute_a_silence() -> None:
    """CORRECTNESS E19: the libraries of a process that hangs may answer; it has to answer a question."""
    async with suspicious() as (suspicion, peers, ports):
        peers.unheard(LIFE)
        suspicion.peers_changed()
        await eventually(lambda: ports.asked[FIRST] >= 2)
        assert LIFE in peers.suspects
        ports.talks.add(FIRST)
        await eventually(lambda: LIFE not in peers.suspects)


async def test_every_broker_is_probed_and_a_refused_connection_makes_a_suspect() -> None:
    async with suspicious() as (suspicion, peers, ports):
        ports.heard |= {ME: ProbeResult.NOTHING, THIRD: ProbeResult.GONE}
        assert await suspicion.answering([FIRST, ME, THIRD, BrokerId(9)]) == {LIFE}
        assert peers.suspects.lives == {LIVE[THIRD].epoch}


async def test_a_life_that_is_not_registered_is_no_suspect() -> None:
    """CORRECTNESS E4: a late answer about a life that is over says nothing of the next one."""
    async with suspicious() as (_, peers, __):
        peers.refused(BrokerEpoch(11))
        assert peers.suspects.lives == set()
        peers.refused(LIFE)
        peers.live_changed({b: r for b, r in LIVE.items() if b != FIRST})
        assert peers.suspects.lives == set()


async def test_the_hello_of_a_follower_ends_the_suspicion(tmp_path: Path) -> None:
    """CORRECTNESS H10: it has just connected, so it is there."""
    async with seated(tmp_path) as seat:
        manager = seat.manager
        followers = followers_of(manager, CLOCK)
        manager.peers.refused(LIFE)
        assert LIFE in manager.peers.suspects
        await followers.open(Hello(FIRST, LIFE, ME, ""))
        assert LIFE not in manager.peers.suspects


@pytest.mark.parametrize("beats", [True, False])
async def test_a_follower_that_answers_nothing_is_silent_until_it_does(tmp_path: Path, beats: bool) -> None:
    """CORRECTNESS E19: one of a version without beats may be busy with a message, and has KeepInSyncTime."""
    clock = HandClock()
    async with seated(tmp_path, clock=clock) as seat:
        manager = seat.manager
        followers = followers_of(manager, clock)
        ticks = round(settings().follower_silence_ms / 1000 / TICK_S)

        def wait(ticks: int) -> None:
            for _ in range(ticks):
                clock.now_s += TICK_S
                manager.pulse.tick()

        stream = await followers.open(Hello(FIRST, LIFE, ME, "", beats))
        wait(2 * ticks)
        assert manager.peers.silent == set(), "it had nothing to answer"
        assert await stream.next_message() == (1, []), "its first message says that this leader keeps beats"
        wait(ticks - 2)
        assert manager.peers.silent == set()
        wait(3)
        assert manager.peers.silent == ({LIFE} if beats else set())
        clock.now_s += 1.0
        wait(1)
        assert manager.peers.silent == ({LIFE} if beats else set()), "that its leader was late is no answer"
        stream.acknowledge(0)
        wait(1)
        assert manager.peers.silent == set()
        wait(ticks + 1)
        followers.close(stream)
        wait(1)
        assert manager.peers.silent == set()


async def test_a_follower_is_judged_by_the_stream_that_it_opened_last(tmp_path: Path) -> None:
    """CORRECTNESS E19: the network may lose the end of the one before, which then answers nothing."""
    clock = HandClock()
    async with seated(tmp_path, clock=clock) as seat:
        manager = seat.manager
        followers = followers_of(manager, clock)
        hello = Hello(FIRST, LIFE, ME, "", beats=True)
        before = await followers.open(hello)
        await before.next_message()
        stream = await followers.open(hello)
        await stream.next_message()
        for _ in range(2 * round(settings().follower_silence_ms / 1000 / TICK_S)):
            clock.now_s += TICK_S
            stream.acknowledge(1)
            manager.pulse.tick()
            assert manager.peers.silent == set()


async def test_a_follower_is_not_silent_while_its_leader_handles_a_long_message(tmp_path: Path) -> None:
    """CORRECTNESS E19: what it says meanwhile waits unread."""
    clock = HandClock()
    async with seated(tmp_path, clock=clock) as seat:
        manager = seat.manager
        followers = followers_of(manager, clock)
        service = ReplicationService(
            followers, Access(Authorizer(None), lambda shown: shown == b"key"), clock
        )
        ticks = 2 * round(settings().follower_silence_ms / 1000 / TICK_S)
        sent: list[int] = []
        silences: list[frozenset[BrokerEpoch]] = []

        class Long(list[Subscribe]):
            """Each of its elements takes a tick."""

            def __iter__(self) -> Iterator[Subscribe]:
                for number in range(ticks):
                    clock.now_s += TICK_S
                    manager.pulse.tick()
                    silences.append(manager.peers.silent)
                    yield Subscribe(number, "unknown", KEY, 1, 0, -1)

        async def requests() -> AsyncIterator[FollowerMessage]:
            hello = Hello(FIRST, LIFE, ME, "", beats=True)
            yield FollowerMessage(hello, Long([Subscribe(0, "unknown", KEY, 1, 0, -1)]), (), (), 0)

        async def reply(message: LeaderMessage) -> None:
            sent.append(message[0])

        await service.serve(requests(), reply, Caller("played", "h", member_key=b"key"))
        assert sent, "it had a message to answer"
        assert silences == ticks * [frozenset()]


async def test_a_message_from_a_leader_counts_as_an_answer() -> None:
    async with leading(open_replica(), 5) as leader, following(open_replica(), 5, leader=leader) as follower:
        leader.produce("a")
        await eventually(lambda: follower.answered)
        assert set(follower.answered) == {FIRST}


async def test_a_session_that_ends_takes_its_suspicions_with_it(tmp_path: Path) -> None:
    """CORRECTNESS E13: the next session starts without suspicions; old ones would never be cleared."""
    async with seated(tmp_path) as seat:
        seat.manager.peers.refused(LIFE)
        seat.manager.end_session()
        assert seat.manager.peers.suspects.lives == set()
