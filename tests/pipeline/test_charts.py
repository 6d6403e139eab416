"""The pictures: drawn of anything that the jobs may find, and of nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from matplotlib.image import imread
from pyspark.sql import Row

from strandline.pipeline.jobs.charts import LANES_MAX, lifecycle_chart, ownership_chart

T0 = 1_795_336_400_000
WHITE = 1.0


def latency(broker: int, *total: int | None) -> Row:
    names = ("total_p50_ms", "total_p95_ms", "total_max_ms")
    figures = dict(zip(names, total or (None, None, None), strict=True))
    return Row(broker=broker, command="start-replica", requests=3, completed=3, **figures)


def owned(partition: int, owner: str, begin: int | None, end: int | None, ended: str | None = None) -> Row:
    begin_ms, end_ms = (None if at is None else T0 + at for at in (begin, end))
    row = {"group": "g", "topic": "t", "partition": partition, "owner": owner, "ended": ended}
    return Row(**row, from_ms=begin_ms, to_ms=end_ms)


def coloured(path: Path) -> float:
    """The share of the picture that is not white."""
    pixels = imread(path)[:, :, :3]
    return float((pixels.min(axis=2) < WHITE).mean())


def test_latencies_and_the_backlog_are_drawn(tmp_path: Path) -> None:
    empty, path = tmp_path / "empty.png", tmp_path / "lifecycle.png"
    steps = [(1, 0, 3), (1, 40, 0), (2, 10, 1)]
    backlog = [Row(broker=broker, at_ms=T0 + at, waiting=waiting) for broker, at, waiting in steps]
    lifecycle_chart(empty, [], [], 0, T0)
    lifecycle_chart(path, [latency(1, 0, 40, 90_000), latency(2)], backlog, 1, T0 + 900)
    assert coloured(path) > coloured(empty) > 0


def test_owners_are_drawn_and_two_at_once_in_red(tmp_path: Path) -> None:
    timeline = [
        owned(0, "m1", None, 300, "revoked"),
        owned(0, "m2", 320, None),
        owned(1, "m2", 10, 200, "lost"),
        owned(1, "m1", 100, 100, "revoked"),
        owned(1, "m3", 100, None),
    ]
    turns = [Row(group="g", from_ms=T0 + 290, to_ms=T0 + 330), Row(group="g", from_ms=T0 + 300, to_ms=None)]
    both = [Row(group="g", topic="t", partition=1, from_ms=T0 + 100, to_ms=T0 + 200, owners=["m2", "m3"])]

    def red(*, overlaps: list[Row]) -> int:
        path = tmp_path / "owners.png"
        ownership_chart(path, timeline, overlaps, turns, T0 + 400)
        pixels = imread(path)
        return int(((pixels[:, :, 0] > 0.7) & (pixels[:, :, 1] < 0.4) & (pixels[:, :, 2] < 0.4)).sum())

    assert red(overlaps=both) > 10 * red(overlaps=[])


@pytest.mark.parametrize("partitions", [0, 1, LANES_MAX + 7])
def test_however_many_partitions_there_are_there_is_a_picture(tmp_path: Path, partitions: int) -> None:
    path = tmp_path / "owners.png"
    timeline = [owned(number, f"member {number}", number, number + 50) for number in range(partitions)]
    ownership_chart(path, timeline, [], [], T0 + 100)
    assert coloured(path) > 0
