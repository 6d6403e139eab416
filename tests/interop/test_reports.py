"""`make interop` counts each test of a suite once, and explains each that did not pass."""

from __future__ import annotations

import contextlib
import io
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from strandline_lab.interop.outcome import (
    Missing,
    Outcome,
    Place,
    Report,
    Status,
    explained,
    table,
    unexplained,
)
from strandline_lab.interop.programs.claims import claim, same, version
from strandline_lab.interop.suites import franz_go
from strandline_lab.interop.suites.clients import here
from strandline_lab.interop.suites.librdkafka import listed_tests
from strandline_lab.interop.suites.programs import ASKS, COMPARED, claims_of, program_suite
from strandline_lab.interop.suites.pytest_suite import outcomes_of

STAYS = {"*later*": "comes later"}
REPORT = Report(
    "a suite",
    "1.0",
    [
        Outcome("one", Status.PASSED),
        Outcome("two_later", Status.FAILED, "not there"),
        Outcome("three", Status.FAILED, "wrong"),
        Outcome("four", Status.LEFT_OUT, "TLS"),
        Outcome("five", Status.LEFT_OUT, "TLS"),
    ],
)


def test_a_known_reason_replaces_what_the_test_said() -> None:
    assert [each.reason for each in explained(REPORT, STAYS).outcomes] == [
        "",
        "comes later",
        "wrong",
        "TLS",
        "TLS",
    ]


def test_a_failure_without_a_known_reason_is_unexplained() -> None:
    assert [each.name for each in unexplained(REPORT, STAYS)] == ["three"]


def test_the_table_counts_and_lists_reasons() -> None:
    text = table([explained(REPORT, STAYS)], [Missing("another", "get it")])
    assert "| a suite | 1.0 | 1 | 2 | 2 |" in text
    assert "* a suite: two_later: comes later" in text
    assert "* a suite: 2: TLS" in text
    assert "* another: get it" in text


def test_a_reported_test_counts_once_also_if_its_end_failed_too() -> None:
    report = """<testsuites><testsuite>
      <testcase classname="tests.test_a.TestA" name="test_good"/>
      <testcase classname="tests.test_a.TestA" name="test_bad"><failure message="it  is&#10;bad"/></testcase>
      <testcase classname="tests.test_a.TestA" name="test_bad"><error message="torn down"/></testcase>
      <testcase classname="tests.test_a.TestA" name="test_ssl"><skipped message="left out"/></testcase>
      <testcase classname="tests.test_a.TestA" name="test_old"><skipped message="old"/></testcase>
    </testsuite></testsuites>"""
    found = {each.name.rpartition(".")[2]: each for each in outcomes_of(report, {"*ssl": "TLS"})}
    assert found["test_good"].status is Status.PASSED
    assert found["test_bad"].status is Status.FAILED
    assert (found["test_ssl"].status, found["test_ssl"].reason) == (Status.LEFT_OUT, "TLS")
    assert found["test_old"].reason == "the suite skips it: old"
    assert len(found) == 4


def test_the_listed_tests_librdkafka_are_read_from_its_table() -> None:
    source = """
    _TEST(0001_one, 0),
    _TEST(0002_two,
          TEST_F_LOCAL | TEST_F_KNOWN_ISSUE,
          TEST_BRKVER(0, 9, 0, 0)),
    _TEST(0003_three, 0, .scenario = "noautocreate"),
    """
    assert list(listed_tests(source)) == [
        ("0001_one", "0", "default"),
        ("0002_two", "TEST_F_LOCAL | TEST_F_KNOWN_ISSUE", "default"),
        ("0003_three", "0", "noautocreate"),
    ]


def test_the_runner_reads_the_claims_that_programs_print() -> None:
    text = "version 2.1\nnoise\npassed it works\nfailed it fails: Error: why: so\n"
    assert claims_of(text) == (
        "2.1",
        [Outcome("it works", Status.PASSED), Outcome("it fails", Status.FAILED, "Error: why: so")],
    )


def test_a_claim_holds_if_its_work_raises_nothing() -> None:
    """The lines are those that the runner reads."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        version("3")
        claim("holds", lambda: same(1, 1))
        claim("does not", lambda: same(1, 2))
    assert claims_of(printed.getvalue()) == (
        "3",
        [
            Outcome("holds", Status.PASSED),
            Outcome("does not", Status.FAILED, "AssertionError: 1 is not 2"),
        ],
    )


def test_a_program_that_ends_early_fails(tmp_path: Path) -> None:
    """Its claims until then count, and its end does."""
    place = Place("127.0.0.1:1", tmp_path, tmp_path)
    suite = program_suite("p", "", lambda _: ["sh", "-c", "echo passed a; exit 3"])
    report = suite.run(place)
    assert report is not None
    assert [each.status for each in report.outcomes] == [Status.PASSED, Status.FAILED]


def test_a_suite_that_is_not_there_has_no_report(tmp_path: Path) -> None:
    place = Place("127.0.0.1:1", tmp_path, tmp_path)
    assert program_suite("p", "", lambda _: None).run(place) is None


def test_a_program_of_a_secure_cluster_is_told_how_its_client_proves_who_it_is(tmp_path: Path) -> None:
    (tmp_path / "librdkafka.properties").write_text("security.protocol=SASL_SSL\nsasl.password=a=b\n")
    place = Place("127.0.0.1:1", tmp_path, tmp_path, security=tmp_path)
    program = (
        "from strandline_lab.interop.programs.security import of_kafka_python as given; "
        "print('passed', *given().items())"
    )
    report = program_suite("p", "", lambda _: [sys.executable, "-c", program]).run(place)
    assert report is not None
    (outcome,) = report.outcomes
    settings = "('security_protocol', 'SASL_SSL') ('sasl_plain_password', 'a=b')"
    assert outcome == Outcome(settings, Status.PASSED)


@pytest.mark.parametrize("program", ["aiokafka_client", "confluent_client", "kafka_python_client"])
def test_the_programs_for_this_python_are_modules(tmp_path: Path, program: str) -> None:
    """The runner starts them by their names."""
    words = here("strandline", program)(Place("127.0.0.1:1", tmp_path, tmp_path))
    assert words is not None and find_spec(str(words[-1])) is not None


COPY = [f"read {number % 3} key-{number} number={number} value-{number}" for number in range(300)]
"""What a program prints that reads what it wrote."""


def compared(lines: list[str], *, may_repeat: bool = False) -> Outcome:
    _, (outcome,) = claims_of("\n".join([*lines[:150], f"{ASKS}t", *lines[150:]]), may_repeat=may_repeat)
    return outcome


def test_partitions_may_be_read_in_any_order() -> None:
    in_turn = sorted(COPY, key=lambda line: line.split()[1])
    assert compared(COPY) == compared(in_turn) == Outcome(COMPARED, Status.PASSED)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (COPY[:-1], "1 differ: None where 2 key-299 number=299 value-299 was written"),
        ([COPY[3], *COPY[1:3], COPY[0], *COPY[4:]], "2 differ: 0 key-3 number=3 value-3 where 0 key-0"),
        ([COPY[0].replace("number=0", "number=1"), *COPY[1:]], "1 differ: 0 key-0 number=1 value-0 where"),
        ([*COPY, COPY[-1]], "1 differ: 2 key-299 number=299 value-299 where None was written"),
    ],
    ids=["lost", "swapped", "another header", "twice"],
)
def test_a_record_that_is_not_as_it_was_written_fails_the_program(lines: list[str], said: str) -> None:
    outcome = compared(lines)
    assert outcome.status is Status.FAILED
    assert outcome.reason.startswith(said)


def test_a_producer_that_is_not_idempotent_may_repeat_records() -> None:
    assert compared([*COPY[:150], *COPY[140:]], may_repeat=True).status is Status.PASSED
    assert compared(COPY[:-1], may_repeat=True).status is Status.FAILED


def test_a_program_goes_on_once_the_leader_is_dead(tmp_path: Path) -> None:
    killed: list[str] = []
    place = Place("127.0.0.1:1", tmp_path, tmp_path, kill_leader=killed.append)
    script = f"echo {ASKS}tides; read line; echo passed it goes on"
    report = program_suite("p", "", lambda _: ["sh", "-c", script]).run(place)
    assert report is not None
    assert killed == ["tides"]
    assert report.outcomes[0] == Outcome("it goes on", Status.PASSED)


def test_a_test_of_go_counts_once_with_its_parts() -> None:
    printed = """not json
{"Action":"output","Test":"TestBad/other","Output":"    bad_test.go:5: it is not there\\n"}
{"Action":"skip","Test":"TestBad/other"}
{"Action":"output","Test":"TestBad/part","Output":"    bad_test.go:7: it is bad\\n"}
{"Action":"fail","Test":"TestBad/part"}
{"Action":"fail","Test":"TestBad"}
{"Action":"output","Test":"TestShare","Output":"    share_test.go:9: no share groups\\n"}
{"Action":"skip","Test":"TestShare"}
{"Action":"pass","Test":"TestGood"}
{"Action":"fail","Package":"kgo"}
"""
    assert [*franz_go.outcomes_of(printed)] == [
        Outcome("TestBad", Status.FAILED, "it is bad"),
        Outcome("TestShare", Status.LEFT_OUT, "the suite skips it: no share groups"),
        Outcome("TestGood", Status.PASSED),
    ]
