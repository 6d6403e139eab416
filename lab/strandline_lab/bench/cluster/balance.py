"""How long the plan of a balance takes, and how its copies compare with the fewest that are possible.

Topics lie evenly on three brokers, with replicas of random sizes, and a fourth broker is new. It measures the
plan alone, from a survey of the cluster in memory.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from random import Random
from typing import Final

from strandline.controller.core.balance.planning import fewest_copies, plan_balance
from strandline.controller.core.placement import place
from strandline.controller.core.survey import Survey, SurveyedPartition
from strandline.ids import (
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    PartitionId,
    PartitionKey,
    TopicId,
    TopicPartition,
)
from strandline.vocabulary.admin import BalancePlan
from strandline.vocabulary.metadata import Endpoint, IsrMember, PartitionState, Registration
from strandline_lab.bench.report import RUNS, heading, median_of, table

BROKERS: Final = 3
REPLICAS: Final = 3
TOPICS: Final = 1_000
SIZE_MAX: Final = 2**30
LIFE: Final = BrokerEpoch(1)


async def measure(runs: int = RUNS) -> None:
    """Prints a row for each number of partitions a topic."""
    heading(f"A balance of {BROKERS} brokers × {TOPICS:,} topics to one broker more", "balance")
    rows = []
    for partitions in (1, 3):
        survey, sizes = _cluster(partitions)
        measured = [_planned(survey, sizes) for _ in range(runs)]
        times, plan = [seconds for seconds, _ in measured], measured[0][1]
        fewest = fewest_copies({BrokerId(load.broker): load.replicas_before for load in plan.loads})
        most = max(load.bytes_after for load in plan.loads)
        mean = sum(load.bytes_after for load in plan.loads) / len(plan.loads)
        rows.append(
            (
                f"{TOPICS * partitions:,}",
                median_of(times),
                f"{plan.copies:,}",
                f"{plan.copies / fewest:.2f}",
                f"{most / mean - 1:.2%}",
            )
        )
    table(
        ("partitions", "plan, s", "copies", "copies / the fewest possible", "largest broker over the mean"),
        rows,
    )


def _planned(survey: Survey, sizes: Mapping[TopicPartition, int]) -> tuple[float, BalancePlan]:
    """The seconds that the plan took, and the plan."""
    began = time.perf_counter()
    plan = plan_balance(survey, sizes=sizes)
    return time.perf_counter() - began, plan


def _cluster(partitions: int) -> tuple[Survey, Mapping[TopicPartition, int]]:
    """The survey, and the bytes of one replica of each partition."""
    random = Random(1)
    old = [Endpoint(number, "h", 9_000 + number) for number in range(1, BROKERS + 1)]
    live = {
        BrokerId(end.id): Registration(end, LIFE, False) for end in (*old, Endpoint(BROKERS + 1, "h", 9_100))
    }
    found = []
    for topic in range(TOPICS):
        replicas = place(
            old, partitions=partitions, replication_factor=REPLICAS, first=topic * partitions, load={}
        )
        for number, assigned in enumerate(replicas):
            isr = tuple(IsrMember(broker, LIFE) for broker in assigned)
            state = PartitionState(assigned[0], LeaderEpoch(1), isr)
            key = PartitionKey(TopicId(f"{topic}"), PartitionId(number))
            found.append(SurveyedPartition(f"topic-{topic}", key, assigned, state, 1))
    topics = {each.topic: each.key.topic_id for each in found}
    names = [each.name for each in found]
    return Survey(live, set(live), {}, topics, found), {name: random.randrange(SIZE_MAX) for name in names}
