"""Rare sequences as one fault each: single faults in these orders, on these targets, hardly ever meet.

Each takes a partition that clients write to, and aims at the brokers by their roles in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from random import Random
from typing import Final

from strandline.ids import TopicPartition
from strandline.simulation.engine.network import Latency
from strandline_lab.simulation.faults.fault import Scene, last
from strandline_lab.simulation.faults.roles import a_coordinator, a_led_partition, leader_of

SESSION_S: Final = 3.0
"""The session of a broker in ZooKeeper ends after this time without a heartbeat."""
LATE_S: Final = 2.0
"""A follower leaves the ISR after this time without progress."""
MARGIN_S: Final = 0.6
"""How much sooner or later than a bound something is done, at most."""
BACK_S_MAX: Final = 1.0
SLOW_S: Final = (0.05, 0.3)
"""How long a message takes on a slow way, on average: between least and most."""
ELECTIONS: Final = ((0.0, 0.3), (1.5, 2.0))
"""A partition whose leader was killed has another one within these times: after the one before, for how
long."""
LOOK_S: Final = 0.01


async def kill_leader(scene: Scene, random: Random, lasts_s: float) -> None:
    led = a_led_partition(scene, random)
    if led is not None:
        scene.note(f"kill broker {led.leader}, the leader of {led.name}")
        scene.cluster.brokers[led.leader].kill()
        await last(lasts_s)
        scene.restart_broker(led.leader)


async def freeze_leader(scene: Scene, random: Random, lasts_s: float) -> None:
    """Past the end of its session, so that another one leads when it wakes."""
    led = a_led_partition(scene, random)
    if led is not None:
        process = scene.cluster.brokers[led.leader]
        scene.note(f"pause broker {led.leader}, the leader of {led.name}, past its session")
        process.pause()
        await last(SESSION_S + random.uniform(-MARGIN_S, 2 * MARGIN_S))
        scene.note(f"resume broker {led.leader}")
        process.resume()


async def part_leader(scene: Scene, random: Random, lasts_s: float) -> None:
    """Cut the leader off the other brokers. It still reaches ZooKeeper and clients."""
    led = a_led_partition(scene, random)
    if led is not None:
        brokers = range(len(scene.cluster.brokers))
        others = [number for number in brokers if number != led.leader]
        scene.note(f"cut broker {led.leader}, the leader of {led.name}, off the other brokers")
        _cut(scene, led.leader, _hosts(scene, others))
        await last(lasts_s)
        _heal(scene, led.leader, _hosts(scene, others))


async def lose_zookeeper(scene: Scene, random: Random, lasts_s: float) -> None:
    """Cut the leader off all of ZooKeeper. It still reaches followers and clients."""
    led = a_led_partition(scene, random)
    if led is not None:
        scene.note(f"cut broker {led.leader}, the leader of {led.name}, off ZooKeeper")
        _cut(scene, led.leader, _zookeepers(scene))
        await last(lasts_s)
        _heal(scene, led.leader, _zookeepers(scene))


async def lose_zookeepers_answers(scene: Scene, random: Random, lasts_s: float) -> None:
    """A leader's requests reach ZooKeeper, and the answers are lost, for longer than any session lives that
    no client names."""
    led = a_led_partition(scene, random)
    if led is not None:
        mine = scene.cluster.broker_machines[led.leader].host
        scene.note(f"lose ZooKeeper's answers to broker {led.leader}, the leader of {led.name}")
        for host in _zookeepers(scene):
            scene.network.lose_answers(host, mine)
        await last(3 * SESSION_S + lasts_s)
        scene.note(f"lose no more answers to broker {led.leader}")
        for host in _zookeepers(scene):
            scene.network.find_answers(host, mine)


async def isolate_coordinator(scene: Scene, random: Random, lasts_s: float) -> None:
    """Cut a coordinator off the other brokers and ZooKeeper, so that another broker takes its place. Members
    and others still reach it."""
    number = a_coordinator(scene, random)
    if number is None:
        return
    await isolate(scene, number, SESSION_S + lasts_s)


async def isolate(scene: Scene, number: int, lasts_s: float) -> None:
    """Clients reach the broker, and no other process of the cluster does."""
    others = [each for each in range(len(scene.cluster.brokers)) if each != number]
    hosts = [*_hosts(scene, others), *_zookeepers(scene)]
    scene.note(f"cut broker {number}, a coordinator, off the other brokers and ZooKeeper")
    _cut(scene, number, hosts)
    await last(lasts_s)
    scene.note(f"heal broker {number}")
    _heal(scene, number, hosts)


async def shrink_unseen(scene: Scene, random: Random, lasts_s: float) -> None:
    """A follower is late, and the leader cannot write that: then the leader is gone."""
    await _shrink_unseen(scene, random, lasts_s, (MARGIN_S, 3 * MARGIN_S))


async def shrink_in_doubt(scene: Scene, random: Random, lasts_s: float) -> None:
    """As `shrink_unseen`; but before it is gone the leader has lost its connection under the write, and does
    not know whether that happened."""
    await _shrink_unseen(scene, random, lasts_s, (SESSION_S * 2 / 3, SESSION_S))


async def _shrink_unseen(scene: Scene, random: Random, lasts_s: float, leads_s: tuple[float, float]) -> None:
    led = a_led_partition(scene, random)
    if led is None or not led.others:
        return
    follower = random.choice(led.others)
    scene.note(f"cut broker {follower} off broker {led.leader}, the leader of {led.name}")
    _cut(scene, led.leader, _hosts(scene, [follower]))
    await asyncio.sleep(LATE_S - random.uniform(0, MARGIN_S))
    scene.note(f"cut broker {led.leader} off ZooKeeper")
    _cut(scene, led.leader, _zookeepers(scene))
    await asyncio.sleep(random.uniform(*leads_s))
    scene.note(f"kill broker {led.leader}")
    scene.cluster.brokers[led.leader].kill()
    _heal(scene, led.leader, [*_hosts(scene, [follower]), *_zookeepers(scene)])
    await last(lasts_s)
    scene.restart_broker(led.leader)


async def shrink_to_one(scene: Scene, random: Random, lasts_s: float) -> None:
    """All followers leave the ISR; then the leader is killed, and comes back after them or before them."""
    led = a_led_partition(scene, random)
    if led is None:
        return
    await _shrink(scene, random, led.leader, str(led.name))
    scene.note(f"kill broker {led.leader}, the last in-sync replica")
    scene.cluster.brokers[led.leader].kill()
    _heal_brokers(scene, led.leader)
    await last(lasts_s)
    scene.restart_broker(led.leader)


async def shrink_to_one_and_lose_power(scene: Scene, random: Random, lasts_s: float) -> None:
    """The last in-sync replica loses its power, and with it what was not synced."""
    led = a_led_partition(scene, random)
    if led is None:
        return
    await _shrink(scene, random, led.leader, str(led.name))
    scene.lose_power([led.leader])
    _heal_brokers(scene, led.leader)
    await last(min(lasts_s, BACK_S_MAX))
    scene.return_powers([led.leader])


async def lose_power_and_crash(scene: Scene, random: Random, lasts_s: float) -> None:
    """The leader loses its power while the other replicas crash, and comes back before them."""
    led = a_led_partition(scene, random)
    if led is None:
        return
    scene.lose_power([led.leader])
    scene.note(f"kill brokers {list(led.others)}, in sync for {led.name}")
    for number in led.others:
        scene.cluster.brokers[number].kill()
    await asyncio.sleep(random.uniform(0, BACK_S_MAX))
    scene.return_powers([led.leader])
    await last(max(lasts_s, SESSION_S))
    for number in led.others:
        scene.restart_broker(number)


async def lose_all_power(scene: Scene, random: Random, lasts_s: float) -> None:
    """All brokers at once."""
    numbers = list(range(len(scene.cluster.brokers)))
    scene.lose_power(numbers)
    await last(lasts_s)
    random.shuffle(numbers)
    for number in numbers:
        await asyncio.sleep(random.uniform(0, BACK_S_MAX))
        scene.return_powers([number])


async def bounce(scene: Scene, random: Random, lasts_s: float) -> None:
    """A follower is killed and back before its session ends; then the leader is killed."""
    led = a_led_partition(scene, random)
    if led is None or not led.others:
        return
    follower = random.choice(led.others)
    scene.note(f"bounce broker {follower}, a follower of {led.name}, then kill broker {led.leader}")
    scene.cluster.brokers[follower].kill()
    scene.restart_broker(follower)
    await asyncio.sleep(random.uniform(0, BACK_S_MAX))
    scene.cluster.brokers[led.leader].kill()
    await last(lasts_s)
    scene.restart_broker(led.leader)


async def lead_in_turn(scene: Scene, random: Random, lasts_s: float) -> None:
    """The leader is killed, and so is the next one before any other broker has what that one wrote. The third
    has more of the first leader's records than the second."""
    led = a_led_partition(scene, random)
    if led is None or len(led.others) < 2:
        return
    first, second, third = led.leader, *random.sample(led.others, 2)
    scene.note(f"cut broker {second} off brokers {first} and {third}, in sync for {led.name}")
    _cut(scene, second, _hosts(scene, [first, third]))
    await asyncio.sleep(random.uniform(0, LATE_S - MARGIN_S))
    scene.note(f"kill broker {first}, the leader")
    scene.cluster.brokers[first].kill()
    _heal(scene, second, _hosts(scene, [first]))
    if await is_elected(scene, led.name, second, instead_of=third):
        await asyncio.sleep(random.uniform(0, MARGIN_S))
        scene.note(f"kill broker {second}, the next leader")
        scene.cluster.brokers[second].kill()
    scene.cluster.brokers[third].resume()
    _heal(scene, second, _hosts(scene, [third]))
    await last(max(lasts_s, SESSION_S))
    scene.restart_broker(first)
    scene.restart_broker(second)


async def is_elected(scene: Scene, name: TopicPartition, heir: int, *, instead_of: int) -> bool:
    """Pause the other candidate at the moments of an election: soon after the death of the leader, or when
    its session ends. It stays paused if the heir leads."""
    for after_s, for_s in ELECTIONS:
        await asyncio.sleep(after_s)
        scene.cluster.brokers[instead_of].pause()
        for _ in range(int(for_s / LOOK_S)):
            await asyncio.sleep(LOOK_S)
            if leader_of(scene, name) == heir:
                return True
        scene.cluster.brokers[instead_of].resume()
    return False


async def return_slowly(scene: Scene, random: Random, lasts_s: float) -> None:
    """A follower has left the ISR, and returns to it on a slow way."""
    led = a_led_partition(scene, random)
    if led is None or not led.others:
        return
    follower = random.choice(led.others)
    await _leave_isr(scene, random, follower, [led.leader], str(led.name))
    await _heal_slowly(scene, random, follower, led.leader, lasts_s)


async def return_to_old_watermark(scene: Scene, random: Random, lasts_s: float) -> None:
    """A follower has left the ISR. The others are killed, and it returns, on a slow way, to a leader that
    knows a high watermark of long ago."""
    led = a_led_partition(scene, random)
    if led is None or len(led.others) < 2:
        return
    follower, heir = random.sample(led.others, 2)
    await _leave_isr(scene, random, follower, [led.leader, heir], str(led.name))
    scene.note(f"kill brokers {led.leader} and {heir}, in sync for {led.name}")
    for number in (led.leader, heir):
        scene.cluster.brokers[number].kill()
    scene.restart_broker(heir)
    await _heal_slowly(scene, random, follower, heir, SESSION_S + lasts_s)
    scene.restart_broker(led.leader)


async def _leave_isr(scene: Scene, random: Random, follower: int, others: Iterable[int], name: str) -> None:
    """Cut a follower off until it is late."""
    scene.note(f"cut broker {follower} off until it has left the ISR of {name}")
    _cut(scene, follower, _hosts(scene, others))
    await asyncio.sleep(LATE_S + random.uniform(MARGIN_S, 3 * MARGIN_S))


async def _heal_slowly(scene: Scene, random: Random, one: int, two: int, lasts_s: float) -> None:
    """Heal the cuts of a broker. For this time, messages between it and another one take long."""
    hosts = _hosts(scene, [one, two])
    latency = Latency(spread_s=random.uniform(*SLOW_S))
    scene.note(f"heal broker {one}; to broker {two} the way is slow, {latency.spread_s * 1000:.0f} ms")
    ways = [(hosts[0], hosts[1]), (hosts[1], hosts[0])]
    scene.network.latencies |= dict.fromkeys(ways, latency)
    _heal_brokers(scene, one)
    try:
        await last(lasts_s)
    finally:
        for way in ways:
            scene.network.latencies.pop(way, None)


async def _shrink(scene: Scene, random: Random, leader: int, name: str) -> None:
    scene.note(f"cut broker {leader}, the leader of {name}, off its followers until it is alone in sync")
    others = [number for number in range(len(scene.cluster.brokers)) if number != leader]
    _cut(scene, leader, _hosts(scene, others))
    await asyncio.sleep(LATE_S + random.uniform(0, 3 * MARGIN_S))


def _heal_brokers(scene: Scene, number: int) -> None:
    others = [each for each in range(len(scene.cluster.brokers)) if each != number]
    _heal(scene, number, _hosts(scene, others))


def part(scene: Scene, one: int, two: int) -> None:
    """Cut two brokers off from each other."""
    _cut(scene, one, _hosts(scene, [two]))


def join(scene: Scene, one: int, two: int) -> None:
    """Heal `part`."""
    _heal(scene, one, _hosts(scene, [two]))


def _hosts(scene: Scene, numbers: Iterable[int]) -> list[str]:
    return [scene.cluster.broker_machines[number].host for number in numbers]


def _zookeepers(scene: Scene) -> list[str]:
    return [server.process.host for server in scene.world.zookeeper.servers]


def _cut(scene: Scene, number: int, hosts: Iterable[str]) -> None:
    mine = scene.cluster.broker_machines[number].host
    for host in hosts:
        scene.network.cut(mine, host)
        scene.network.cut(host, mine)


def _heal(scene: Scene, number: int, hosts: Iterable[str]) -> None:
    mine = scene.cluster.broker_machines[number].host
    for host in hosts:
        scene.network.heal(mine, host)
        scene.network.heal(host, mine)
