"""The series of groups: their committed offsets and members, within a bound."""

from __future__ import annotations

from strandline.broker.series.groups import GroupSeries
from tests.broker.core.groups.support.stage import GROUP, Stage, partition

P0, P1 = partition(0), partition(1)
OFFSET = "kafka_consumergroup_current_offset"
MEMBERS = "kafka_consumergroup_members"
LEFT_OUT = "strandline_group_offsets_without_series"


def shown(stage: Stage, offsets_max: int = 100) -> dict[tuple[str, ...], object]:
    series = GroupSeries(stage.core.committed(), offsets_max)
    return {(each.metric.name, *each.labels): each.value for each in series}


def test_a_group_shows_its_members_and_what_it_committed() -> None:
    """The names of kafka-exporter; an offset that is not in the log yet is not shown (CORRECTNESS G12)."""
    stage = Stage()
    generation = stage.stable("a", "b")
    stage.commit({P0: 5, P1: 7}, "a", generation)
    stage.writing = False
    stage.commit({P1: 9}, "b", generation)
    assert shown(stage) == {
        (OFFSET, GROUP, P0.topic, "0"): 5,
        (OFFSET, GROUP, P1.topic, "1"): 7,
        (MEMBERS, GROUP): 2,
        ("kafka_coordinator_group_groupmetadatamanager_numoffsets",): 2,
        (LEFT_OUT,): 0,
    }


def test_offsets_beyond_the_bound_are_counted() -> None:
    """A group is shown whole or not at all: a part of its offsets would look like a group that has read
    everything else."""
    stage = Stage()
    stage.commit({P0: 5, P1: 7}, "a", stage.stable("a"))
    found = shown(stage, offsets_max=1)
    assert found[(LEFT_OUT,)] == 2
    assert found[MEMBERS, GROUP] == 1
    assert not any(name[0] == OFFSET for name in found)
    assert not any(name[0] == MEMBERS for name in shown(stage, offsets_max=0))
