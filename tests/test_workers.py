"""How a run shares its tests between its workers (TESTING: files stay together, and so does Spark)."""

from __future__ import annotations

from tests.workers import in_share, order, scope_of

TESTS = [
    ("tests/a/test_a.py::test_one", 1.0),
    ("tests/a/test_a.py::test_two", 1.0),
    ("tests/pipeline/jobs/test_audit.py::test_one", 1.0),
    ("tests/b/test_b.py::TestMachine::runTest", 60.0),
    ("tests/c/test_c.py::test_one[x::y]", 1.0),
    ("tests/integration/pipeline/test_jobs.py::test_one", 600.0),
]


def test_files_stay_together_and_all_that_share_a_spark() -> None:
    units = [scope_of(nodeid) for nodeid, _ in TESTS]
    assert units == ["tests/a/test_a.py"] * 2 + ["spark", "tests/b/test_b.py", "tests/c/test_c.py", "spark"]
    assert scope_of("tests/integration/pipeline/test_elsewhere.py::test_one") != "spark"
    assert scope_of("tests/pipeline/core/test_ranges.py::test_one") != "spark"


def test_what_may_take_longest_begins_first_and_a_unit_keeps_its_order() -> None:
    assert order(TESTS) == [2, 5, 3, 0, 1, 4]


def test_each_unit_is_in_one_share() -> None:
    nodeids = [nodeid for nodeid, _ in TESTS]
    shares = [[nodeid for nodeid in nodeids if in_share(nodeid, f"{number}/2")] for number in range(2)]
    assert sorted([*shares[0], *shares[1]]) == sorted(nodeids)
    assert not {scope_of(nodeid) for nodeid in shares[0]} & {scope_of(nodeid) for nodeid in shares[1]}
