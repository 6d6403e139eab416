"""The list of topics: searched, filtered, sorted, and cut into pages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from typing import Any, Final

from strandline.client.admin.topics import Condition, conditions
from strandline.console.core.paging import Page, page
from strandline.vocabulary.metadata import TopicMetadata


class Sort(StrEnum):
    NAME = "name"
    PARTITIONS = "partitions"
    PROBLEMS = "problems"


class Only(StrEnum):
    """Which topics are shown: those with a partition in this condition."""

    ALL = "all"
    PROBLEMS = "problems"
    LEADERLESS = "leaderless"
    BELOW_MIN_ISR = "below_min_isr"
    AT_MIN_ISR = "at_min_isr"
    UNDER_REPLICATED = "under_replicated"


PROBLEMS = (Condition.LEADERLESS, Condition.BELOW_MIN_ISR, Condition.UNDER_REPLICATED)
"""Conditions that want something done, the worst first."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """`text` is part of the name, in any case."""

    text: str = ""
    only: Only = Only.ALL
    internal: bool = False
    sort: Sort = Sort.NAME
    page: int = 1


@dataclass(frozen=True, slots=True)
class TopicRow:
    """One topic: how many of its partitions are in each condition."""

    topic: TopicMetadata
    found: Counter[Condition]

    @property
    def replication_factor(self) -> int:
        return max((len(each.replicas) for each in self.topic.partitions), default=0)

    @property
    def problems(self) -> list[tuple[Condition, int]]:
        return [(each, self.found[each]) for each in PROBLEMS if self.found[each]]


@dataclass(frozen=True, slots=True)
class Listing:
    page: Page[TopicRow]
    hidden: int
    """Internal topics that are not shown, and would be otherwise."""


def listing(
    topics: Sequence[TopicMetadata], alive: Collection[int], wanted: Wanted, rows_max: int
) -> Listing:
    """The topics that are wanted, of these; `alive`: the ids of brokers."""
    named = [each for each in topics if wanted.text.lower() in each.name.lower()]
    shown = [each for each in named if wanted.internal or not each.name.startswith("__")]
    rows = [topic_row(each, alive) for each in shown]
    chosen = sorted((row for row in rows if _is_wanted(row, wanted.only)), key=_ORDERS[wanted.sort])
    return Listing(page(chosen, wanted.page, rows_max), len(named) - len(shown))


def topic_row(topic: TopicMetadata, alive: Collection[int]) -> TopicRow:
    """A topic with the conditions of its partitions; `alive`: the ids of brokers."""
    found = (conditions(each, topic.config, alive, None) for each in topic.partitions)
    return TopicRow(topic, Counter(chain.from_iterable(found)))


def _is_wanted(row: TopicRow, only: Only) -> bool:
    match only:
        case Only.ALL:
            return True
        case Only.PROBLEMS:
            return bool(row.problems)
        case _:
            return row.found[Condition(only.value)] > 0


_ORDERS: Final[Mapping[Sort, Callable[[TopicRow], tuple[Any, ...]]]] = {
    Sort.NAME: lambda row: (row.topic.name,),
    Sort.PARTITIONS: lambda row: (-len(row.topic.partitions), row.topic.name),
    Sort.PROBLEMS: lambda row: (*(-row.found[each] for each in PROBLEMS), row.topic.name),
}
