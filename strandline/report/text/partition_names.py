"""Names of several partitions, by topic."""

from __future__ import annotations

from collections.abc import Iterable

from strandline.ids import TopicPartition


def by_topic(names: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Partitions as JSON shows them.

    >>> by_topic([TopicPartition("t", 1), TopicPartition("t", 0)])
    {'t': [0, 1]}
    """
    found: dict[str, list[int]] = {}
    for topic, partition in sorted(names):
        found.setdefault(topic, []).append(partition)
    return found


def compact(names: Iterable[TopicPartition] | None) -> str:
    """Partitions as people read them, runs of numbers shortened.

    >>> compact([TopicPartition("t", n) for n in (0, 1, 2, 5)])
    't:0-2,5'
    """
    if names is None:
        return "?"
    return " ".join(f"{topic}:{_runs(numbers)}" for topic, numbers in by_topic(names).items()) or "-"


def _runs(numbers: Iterable[int]) -> str:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
