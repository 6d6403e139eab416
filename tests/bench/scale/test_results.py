"""Steps are kept from run to run, and drawn."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from bench.scale import results
from bench.scale.curves import DIMENSIONS
from bench.scale.pictures import picture
from bench.scale.series import Step


def test_a_later_run_replaces_only_the_sizes_that_it_measured(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    results.keep(file, "groups", [Step(10, {"cpu": 1.0}), Step(1_000, {"cpu": 9.0})])
    results.keep(file, "members", [Step(10, {"cpu": 5.0})])
    results.keep(file, "groups", [Step(100, {"cpu": 2.0}), Step(1_000, {"cpu": 8.0})])
    assert results.load(file) == {
        "groups": [Step(10, {"cpu": 1.0}), Step(100, {"cpu": 2.0}), Step(1_000, {"cpu": 8.0})],
        "members": [Step(10, {"cpu": 5.0})],
    }


def test_a_picture_has_a_line_for_each_cost_and_one_for_the_bar() -> None:
    dimension = DIMENSIONS["members"]
    steps = [Step(size, dict.fromkeys(dimension.figures, float(size))) for size in (10, 100, 1_000)]
    svg = ElementTree.fromstring(picture(dimension, steps))
    drawn = [path for path in svg.iter("{http://www.w3.org/2000/svg}path") if path.get("fill") == "none"]
    assert len(drawn) == sum(figure.total for figure in dimension.figures.values()) + 1
