"""A plan that is read from a file is one that a seed could draw, but for its size."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from strandline.errors import SettingsError
from strandline_lab.simulation.faults.every import COORDINATOR
from strandline_lab.simulation.plan import Plan
from strandline_lab.simulation.reporting.failing_run import read_plan

WRITING = {
    "name": "w", "kind": "writing", "partitions": 1, "writers": 1, "pause_s": 0.3, "min_insync": 1,
    "synced": False,
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"seed": -5}, "seed: "),
        ({"seed": 2**53}, "seed: "),
        ({"faults": [{"kind": "cut", "at_s": 0, "lasts_s": 1, "lot": -1}]}, "faults.0.lot: "),
        ({"seconds": 1e9}, "seconds: "),
        ({"brokers": 1000}, "brokers: "),
        ({"workloads": []}, "workloads: "),
        ({"workloads": [WRITING, WRITING]}, "two workloads have one name: w, w"),
        ({"workloads": [{**WRITING, "writers": -1}]}, "workloads.0.writing.writers: "),
        ({"faults": [{"kind": "x", "at_s": 0, "lasts_s": 1, "lot": 1}]}, "there is no fault 'x'; known are "),
    ],
)
def test_an_impossible_plan_is_refused_by_name(changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({"seed": 1, "seconds": 1, "workloads": [WRITING], "faults": []} | changes))
    with pytest.raises(SettingsError) as refused:
        read_plan(file)
    assert said in refused.value.message
    assert "\n" not in refused.value.message


def test_only_plans_with_a_group_isolate_coordinators_and_faults_are_in_order() -> None:
    plans = [Plan.drawn(seed, 12.0) for seed in range(40)]
    isolating = [plan for plan in plans if any(fault.kind == COORDINATOR for fault in plan.faults)]
    grouped = [plan for plan in plans if any(each.has_group for each in plan.workloads)]
    assert 0 < len(isolating) < len(grouped) < len(plans)
    assert all(plan in grouped for plan in isolating)
    for plan in plans:
        times = [fault.at_s for fault in plan.faults]
        assert times == sorted(times)
        assert not times or times[-1] <= plan.seconds
