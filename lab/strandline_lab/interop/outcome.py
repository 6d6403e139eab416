"""What became of each test of a suite, and the tables that show it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from strandline_lab.interop.security import Security


class Status(StrEnum):
    """The end of one test."""

    PASSED = "passed"
    FAILED = "failed"
    LEFT_OUT = "left out"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One test: its name in its suite, its end, and why it failed or was left out."""

    name: str
    status: Status
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """A suite that ran, with the version that it had."""

    suite: str
    version: str
    outcomes: Sequence[Outcome]

    def count(self, status: Status) -> int:
        return sum(outcome.status is status for outcome in self.outcomes)


@dataclass(frozen=True, slots=True)
class Missing:
    """A suite that is not on this machine, and how to get it."""

    suite: str
    how: str


@dataclass(frozen=True, slots=True)
class Place:
    """Where a suite runs: addresses of the cluster, the folder of suites, a folder for its output, names
    of tests (without names all run), a factor for its timeouts, a folder with settings of clients that have
    to prove who they are, and a function that kills the broker that leads partition 0 of a topic."""

    kafka: str
    suites: Path
    output: Path
    tests: Sequence[str] = ()
    slower: float = 1.0
    security: Path | None = None
    kill_leader: Callable[[str], None] | None = None

    def wants(self, name: str) -> bool:
        return not self.tests or any(fnmatchcase(name, f"*{test}*") for test in self.tests)


@dataclass(frozen=True, slots=True)
class Suite:
    """A suite: its name, how to get it, and a function that runs it.

    The function returns None if the suite is not there. `stays` has patterns of names, each with the
    reason why such a test may fail.
    """

    name: str
    how: str
    run: Callable[[Place], Report | None]
    stays: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the brokers that it runs against."""
    brokers: int = 3
    acls: bool = False
    """Whether the cluster has ACLs; its clients need none."""
    security: Security | None = None
    """How its clients prove who they are; None: they do not, and nothing is encrypted."""


def reason_of(name: str, reasons: Mapping[str, str]) -> str:
    """The first reason whose pattern fits, or an empty text."""
    return next((reason for pattern, reason in reasons.items() if fnmatchcase(name, pattern)), "")


def explained(report: Report, stays: Mapping[str, str]) -> Report:
    """The report with the known reason in front of each failure that stays."""
    outcomes = []
    for outcome in report.outcomes:
        known = reason_of(outcome.name, stays) if outcome.status is Status.FAILED else ""
        outcomes.append(replace(outcome, reason=known) if known else outcome)
    return replace(report, outcomes=outcomes)


def unexplained(report: Report, stays: Mapping[str, str]) -> list[Outcome]:
    """Failures for which no reason is known."""
    return [
        outcome
        for outcome in report.outcomes
        if outcome.status is Status.FAILED and not reason_of(outcome.name, stays)
    ]


def table(reports: Iterable[Report], missing: Iterable[Missing]) -> str:
    """The result in Markdown: a row for each suite, each failure, and why tests were left out."""
    lines = ["| suite | version | passed | failed | left out |", "| --- | --- | --- | --- | --- |"]
    failures: list[str] = []
    left_out: list[str] = []
    for report in reports:
        counts = (str(report.count(status)) for status in Status)
        lines.append(f"| {report.suite} | {report.version} | {' | '.join(counts)} |")
        failures += [
            f"* {report.suite}: {outcome.name}: {outcome.reason}"
            for outcome in report.outcomes
            if outcome.status is Status.FAILED
        ]
        reasons = Counter(outcome.reason for outcome in report.outcomes if outcome.status is Status.LEFT_OUT)
        left_out += [f"* {report.suite}: {count}: {reason}" for reason, count in reasons.items()]
    for title, found in (("Failed", failures), ("Left out", left_out)):
        if found:
            lines += ["", f"{title}:", "", *found]
    not_run = [f"* {each.suite}: {each.how}" for each in missing]
    if not_run:
        lines += ["", "Not run, because it is not there:", "", *not_run]
    return "\n".join(lines)
