"""Kafka clients as members of groups, in a simulated world."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from strandline import Admin, Producer
from strandline.consumer.group.listener import RebalanceListener
from strandline.host import Host
from strandline.ids import TopicPartition
from strandline.simulation.cluster import KAFKA_PORT, Cluster
from strandline.simulation.engine.world import World
from strandline.vocabulary.admin import NewTopic
from strandline.vocabulary.parsing.consumer_protocol import Subscription
from strandline_lab.simulation.kafka.assigning import assign
from strandline_lab.simulation.kafka.client import KafkaClient
from strandline_lab.simulation.kafka.consumer import KafkaConsumer
from strandline_lab.simulation.plan import Plan
from strandline_lab.simulation.run import run_quietly
from strandline_lab.simulation.workloads.groups import Assignor, Groups
from strandline_lab.simulation.workloads.member import MemberPlan

PARTITIONS = [TopicPartition("t", number) for number in range(5)]


class Listener(RebalanceListener):
    async def on_revoked(self, removed: set[TopicPartition]) -> None:
        """A Kafka client waits for it."""


def subscribed(*owned: int, generation: int = 1) -> Subscription:
    return Subscription(3, ("t",), tuple(TopicPartition("t", number) for number in owned), generation)


def assigned(protocol: str, **members: Subscription) -> dict[str, list[int]]:
    made = assign(protocol, members, PARTITIONS)
    return {name: [place.partition for place in each.assigned] for name, each in made.items()}


def test_range_gives_neighbours_and_the_first_members_more() -> None:
    assert assigned("range", b=subscribed(), a=subscribed()) == {"a": [0, 1, 2], "b": [3, 4]}


def test_what_moves_under_cooperative_sticky_has_no_owner_for_a_generation() -> None:
    """CORRECTNESS G2: its owner gives it up first, and all join again."""
    first = assigned("cooperative-sticky", a=subscribed(0, 1, 2, 3, 4), b=subscribed())
    assert first == {"a": [0, 1, 2], "b": []}
    assert assigned("cooperative-sticky", a=subscribed(0, 1, 2), b=subscribed()) == {
        "a": [0, 1, 2],
        "b": [3, 4],
    }


def test_a_claim_of_an_earlier_generation_is_void() -> None:
    """KIP-792: its owner was away while others got the partitions."""
    shares = assigned(
        "cooperative-sticky", a=subscribed(0, 1, generation=1), b=subscribed(0, 1, 2, generation=2)
    )
    assert shares == {"a": [3, 4], "b": [0, 1, 2]}


def test_what_two_members_claim_in_one_generation_is_owned_by_neither() -> None:
    shares = assigned("cooperative-sticky", a=subscribed(0, 1), b=subscribed(0, 2))
    assert sorted(shares["a"] + shares["b"]) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_kafka_clients_and_strandlines_members_share_a_group(assignor: Assignor) -> None:
    """CORRECTNESS G2, G6: members leave, are killed and paused, and each record is handled."""
    eager = assignor == "range"
    members = tuple(
        MemberPlan(
            protocol="eager" if eager else "cooperative",
            becomes="eager" if eager else "cooperative",
            by_hand=True,
            static=number == 0,
            work_s=0.01,
            kafka=number < 2,
        )
        for number in range(3)
    )
    group = Groups(
        name="groups", partitions=4, writers=1, pause_s=0.1, synced=False, assignor=assignor, members=members,
        change_s=1.0,
    )  # fmt: skip
    outcome = run_quietly(Plan(seed=5, seconds=6.0, workloads=(group,), faults=()))
    assert outcome.problems == ()
    assert outcome.counts["records"] > 30
    assert outcome.counts["lives"] > len(members)


def test_a_member_reads_a_partition_that_had_no_leader_when_it_asked() -> None:
    """With seed 1210131 of 60 s, it fetched what it knew to be led, and asked no more about the other."""
    with World(1) as world:
        cluster = Cluster(world, brokers=4, broker_settings={"kafka_port": KAFKA_PORT})
        process = world.new_process("member", world.new_machine())

        async def read(consumer: KafkaConsumer, partition: int) -> None:
            while TopicPartition("t", partition) not in await consumer.getmany(timeout_ms=500, max_records=9):
                pass

        async def work(host: Host) -> None:
            client = KafkaClient(process, cluster.kafka_bootstrap[:3], "t", Random(1), [], flexible=True)
            async with Admin(cluster.bootstrap, host=host) as admin:
                await admin.create_topics([NewTopic("t", 0, assignments=((0,), (3,)))])
            async with Producer(cluster.bootstrap, host=host) as producer:
                for partition in range(2):
                    await (await producer.send("t", b"value", partition=partition))
            async with KafkaConsumer(
                client, "g", 2, instance=None, assignor="range",
                session_timeout_ms=4_000, rebalance_timeout_ms=5_000,
            ) as consumer:  # fmt: skip
                cluster.brokers[3].kill()
                await host.clock.sleep(5)
                consumer.subscribe(["t"], Listener())
                await read(consumer, 0)
                cluster.start_broker(3)
                await read(consumer, 1)

        async def main() -> None:
            await process.run(work(process.host))

        world.run(asyncio.wait_for(main(), 60))
