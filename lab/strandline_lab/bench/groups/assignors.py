"""Measures what an assignment costs the leader of a large group, and how much moves when a member leaves.

3,000 partitions and 450 members. Equal: all read all 300 topics; mixed: each reads a random half of them. At
first no partition has an owner. Then one member of 450 leaves, and the others claim what they have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random
from time import process_time
from typing import Final

from strandline.consumer.core.assignors.assignor import Assignor, MemberSubscription
from strandline.consumer.core.assignors.registry import BUILT_IN
from strandline.ids import TopicPartition
from strandline_lab.bench.report import RUNS, heading, median_of, table

MEMBERS: Final = 450
PARTITIONS: Final = 3_000
TOPICS: Final = 300
GONE: Final = f"member-{MEMBERS // 2:03}"

Members = Mapping[str, MemberSubscription]
Answer = Mapping[str, Sequence[TopicPartition]]


async def measure(runs: int = RUNS) -> None:
    """Prints the table."""
    heading(f"Assignors, {PARTITIONS:,} partitions × {MEMBERS} members, processor time", "assignors")
    table(
        (
            "assignor",
            "subscriptions",
            "from nothing, ms",
            "after one left, ms",
            "partitions moved, its own among them",
            "fewest–most of a member",
        ),
        rows(runs),
    )


def rows(runs: int) -> Iterator[Sequence[str]]:
    """A row for each assignor and kind of subscription."""
    topics = [f"topic-{number:03}" for number in range(TOPICS)]
    partitions = dict.fromkeys(topics, PARTITIONS // TOPICS)
    draw = Random(1)
    names = [f"member-{number:03}" for number in range(MEMBERS)]
    groups: Mapping[str, Members] = {
        "equal": {name: MemberSubscription(tuple(topics)) for name in names},
        "mixed": {name: MemberSubscription(tuple(draw.sample(topics, TOPICS // 2))) for name in names},
    }
    for assignor in BUILT_IN.values():
        for kind, members in groups.items():
            yield assignor.name, kind, *row(assignor, members, partitions, runs)


def row(assignor: Assignor, members: Members, partitions: Mapping[str, int], runs: int) -> Sequence[str]:
    """Measures an assignment from nothing, and one after a member left."""
    first, from_nothing = timed(assignor, members, partitions, runs)
    left = {
        member: replace(said, owned=tuple(first[member]), owned_generation=1)
        for member, said in members.items()
        if member != GONE
    }
    second, after_one_left = timed(assignor, left, partitions, runs)
    before = {name: member for member, names in first.items() for name in names}
    moved = sum(before[name] != member for member, names in second.items() for name in names)
    loads = [len(names) for names in second.values()]
    return (
        median_of(from_nothing),
        median_of(after_one_left),
        f"{moved:,}, {len(first[GONE])}",
        f"{min(loads)}–{max(loads)}",
    )


def timed(
    assignor: Assignor, members: Members, partitions: Mapping[str, int], runs: int
) -> tuple[Answer, list[float]]:
    """The answer, and the milliseconds of each run, in processor time."""
    answer: Answer = {}
    taken = []
    for _ in range(runs):
        began = process_time()
        answer = assignor.assign(members, partitions)
        taken.append((process_time() - began) * 1e3)
    return answer, taken
