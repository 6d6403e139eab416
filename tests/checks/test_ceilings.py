"""A package keeps to its ceiling of lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks.ceilings import CEILINGS, PARENTS, packages, problems

ROOT = Path(__file__).resolve().parents[2]
EVEN = {
    "strandline": 1,
    "strandline/broker": 5,
    "lab/strandline_lab": 1,
    "lab/strandline_lab/bench": 2,
    "tests": 3,
}
"""What each package of `house` has."""


@pytest.fixture
def house(tmp_path: Path) -> Path:
    for name, lines in EVEN.items():
        folder = tmp_path / name
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text("x = 1\n" * lines)
    return tmp_path


def test_packages_at_their_ceilings_are_in_order(house: Path) -> None:
    assert problems(house, EVEN) == []


def test_one_line_more_is_reported_with_the_way_out(house: Path) -> None:
    folder = house / "strandline/broker/log"
    folder.mkdir()
    (folder / "more.py").write_text("x = 1\n")
    (found,) = problems(house, EVEN)
    assert found.startswith("strandline/broker has 6 lines, its ceiling is 5: remove what is not needed")
    assert "a commit whose body says why" in found


def test_generated_files_and_other_folders_do_not_count(house: Path) -> None:
    (house / "strandline/broker/log_pb2.py").write_text("x = 1\n" * 100)
    (house / "strandline/static").mkdir()
    (house / "strandline/static/page.py").write_text("x = 1\n" * 100)
    assert problems(house, EVEN) == []


def test_a_package_without_a_ceiling_and_a_ceiling_without_a_package_are_reported(house: Path) -> None:
    less = {name: lines for name, lines in EVEN.items() if name != "tests"}
    assert problems(house, {**less, "strandline/gone": 9}) == [
        "tests has 3 lines and no ceiling: add one to checks/ceilings.py",
        "strandline/gone is no package: remove its ceiling",
    ]


def test_each_package_of_this_repository_has_a_ceiling() -> None:
    names = [name for name, _ in packages(ROOT)]
    assert {*PARENTS, "tests", "strandline/broker"} <= set(names)
    assert sorted(names) == sorted(CEILINGS)
