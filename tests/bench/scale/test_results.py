"""Steps are kept from run to run, and drawn."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from strandline_lab.bench.scale import results
from strandline_lab.bench.scale.curves import DIMENSIONS
from strandline_lab.bench.scale.pictures import PLOT, picture
from strandline_lab.bench.scale.series import Step, exponent_of_n_log_n


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


def test_the_bar_keeps_its_slope_where_costs_hardly_grow() -> None:
    """It ends at the top of the plot then, before the last size."""
    dimension = DIMENSIONS["members"]
    steps = [Step(size, dict.fromkeys(dimension.figures, 2.0)) for size in (10, 1_000)]
    svg = ElementTree.fromstring(picture(dimension, steps))
    (bar,) = [path for path in svg.iter() if path.get("stroke-dasharray") and path.get("fill") == "none"]
    begin, end = (point.split() for point in (bar.get("d") or "")[1:].split("L"))
    _, _, width, height = PLOT
    sizes = (float(end[0]) - float(begin[0])) / width * 2
    costs = (float(begin[1]) - float(end[1])) / height
    assert costs == pytest.approx(1.0) and sizes < 1
    assert costs / sizes == pytest.approx(exponent_of_n_log_n(10, 1_000), rel=0.01)
