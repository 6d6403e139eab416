"""docs/correctness.md is held to what the tests say (docs/understand/testing.md)."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks import rows


@pytest.mark.parametrize(
    ("docstring", "cited"),
    [
        ("Survives (CORRECTNESS T1).", {"T1"}),
        ("CORRECTNESS T1, H6 and E2: all of them.", {"T1", "H6", "E2"}),
        ("CORRECTNESS G12 and (G1–G3)", {"G12", "G1", "G2", "G3"}),
        ("CORRECTNESS E8–E10, I4", {"E8", "E9", "E10", "I4"}),
        ("Both (CORRECTNESS I1/I2).", {"I1", "I2"}),
        ("The session is over for good (E10, E12).", {"E10", "E12"}),
        ("A11: each change has a notice.", {"A11"}),
        ("A15, K1: both.", {"A15", "K1"}),
        ("A17", {"A17"}),
        ("T1 is a task here (see above).", set()),
    ],
)
def test_a_citation_names_rows_singly_or_as_a_range(docstring: str, cited: set[str]) -> None:
    assert rows.cited(docstring) == cited


def test_a_row_is_held_by_docstrings_of_module_class_and_test_and_by_a_tests_name(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_a.py").write_text(
        '"""All about CORRECTNESS H1."""\n'
        'class Machine:\n    """CORRECTNESS H2"""\n'
        'def test_b():\n    """CORRECTNESS H3"""\n'
        "def test_h4_c(): ...\n"
    )
    assert rows.holders(tmp_path) == {
        "H1": ["tests/test_a.py"],
        "H2": ["tests/test_a.py::Machine"],
        "H3": ["tests/test_a.py::test_b"],
        "H4": ["tests/test_a.py::test_h4_c"],
    }


ROWS = ("T1", "T2", "H1")
PAGE = "".join(f"| {row} | a hole | a rule |\n" for row in ROWS)
HELD = {row: [f"tests/test_a.py::test_{row.lower()}"] for row in ROWS}


def test_every_row_stands_once_and_has_a_test() -> None:
    assert list(rows.problems(PAGE, HELD, set())) == []
    assert list(rows.problems(PAGE.replace("| T1 |", "| Y1 |", 1), HELD, set())) == [
        "row Y1: no test cites it",
        "row T1: cited by tests/test_a.py::test_t1, but not listed",
    ]
    assert list(rows.problems(PAGE + "| T1 | a hole | a rule |\n", HELD, set())) == ["row T1 stands 2 times"]
    without = {row: tests for row, tests in HELD.items() if row != "T1"}
    assert list(rows.problems(PAGE, without, set())) == ["row T1: no test cites it"]


def test_a_row_needs_a_test_that_make_test_runs() -> None:
    held = HELD | {"T1": ["tests/test_a.py::test_b", "tests/test_c.py"]}
    assert list(rows.problems(PAGE, held, {"tests/test_c.py"})) == []
    assert list(rows.problems(PAGE, held, {"tests/test_c.py", "tests/test_a.py::test_b"})) == [
        "row T1: every test that holds it is slow; `make test` needs one too"
    ]


@pytest.mark.parametrize(
    ("module", "left_out"),
    [
        ("pytestmark = [pytest.mark.slow, LONG]\ndef test_a(): ...", {"", "::test_a"}),
        ("@pytest.mark.slow\ndef test_a(): ...\nasync def test_b(): ...", {"::test_a"}),
        ("@pytest.mark.slow\ndef test_a(): ...\ndef helps(): ...", {"", "::test_a"}),
        ("@pytest.mark.containers\nclass TestA:\n    def test_b(): ...", {"", "::TestA", "::TestA::test_b"}),
        (
            "class TestA:\n    @pytest.mark.slow\n    def test_b(): ...\n    def test_c(): ...",
            {"::TestA::test_b"},
        ),
        (
            "@pytest.mark.parametrize('a', [1, pytest.param(2, marks=pytest.mark.slow)])\ndef test_a(): ...",
            set(),
        ),
    ],
)
def test_a_mark_leaves_out_a_module_a_class_or_a_test(
    tmp_path: Path, module: str, left_out: set[str]
) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_a.py").write_text(module)
    assert rows.left_out(tmp_path) == {f"tests/test_a.py{name}" for name in left_out}


def test_a_page_lists_the_tests_of_each_row_under_the_headings_of_the_rows() -> None:
    correctness = "# Holes\n\n## Logs\n\n| T1 | a hole | a rule |\n\n## Groups\n\n| G1 | a hole | a rule |\n"
    held = {
        "T1": ["tests/broker/test_log.py::test_a", "tests/broker/test_log.py::test_b"],
        "G1": ["tests/test_g.py"],
    }
    assert rows.listed(correctness, held) == rows.BEGIN + (
        "\n\n## Logs\n\n| row | held by |\n| --- | --- |\n"
        "| T1 | [broker/test_log.py](../tests/broker/test_log.py): `test_a`, `test_b` |\n"
        "\n## Groups\n\n| row | held by |\n| --- | --- |\n"
        "| G1 | [test_g.py](../tests/test_g.py): all of it |\n"
    )
