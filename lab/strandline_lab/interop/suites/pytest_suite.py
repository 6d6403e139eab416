"""Runs a checkout's tests with pytest, in an environment of their own, and reads pytest's report."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from strandline_lab.interop.outcome import Outcome, Status, reason_of
from strandline_lab.interop.process import run


def run_pytest(
    python: Path,
    checkout: Path,
    output: Path,
    arguments: Sequence[str],
    *,
    seconds: float,
    environment: Mapping[str, str],
    left_out: Mapping[str, str],
    names: Sequence[str] = (),
) -> list[Outcome]:
    """The outcome of each test. Tests that `left_out` names are not run."""
    report = output / "report.xml"
    report.unlink(missing_ok=True)
    words = [
        *arguments,
        f"--junit-xml={report}",
        "-p",
        "no:cacheprovider",
        "-p",
        "strandline_lab.interop.plugins.leave_out",
    ]
    if names:
        words += ["-k", " or ".join(names)]
    status = run(
        [python, "-m", "pytest", *words],
        output / "output.log",
        seconds=seconds,
        cwd=checkout,
        environment={**environment, "INTEROP_LEFT_OUT": "\n".join(left_out)},
    )
    if not report.exists():
        return [Outcome("the whole suite", Status.FAILED, f"no report, exit status {status}: see output.log")]
    return [*outcomes_of(report.read_text(), left_out)]


def outcomes_of(report: str, left_out: Mapping[str, str]) -> Iterator[Outcome]:
    """The tests in a JUnit report. A test that fails and then fails to clean up counts once."""
    seen: dict[str, Outcome] = {}
    for case in ElementTree.fromstring(report).iter("testcase"):
        name = f"{case.get('classname', '').rpartition('.tests.')[2]}.{case.get('name', '')}"
        outcome = _outcome(name, case, left_out)
        if name not in seen or outcome.status is Status.FAILED:
            seen[name] = outcome
    yield from seen.values()


def _outcome(name: str, case: ElementTree.Element, left_out: Mapping[str, str]) -> Outcome:
    for tag in ("failure", "error"):
        if (found := case.find(tag)) is not None:
            return Outcome(name, Status.FAILED, _first_line(found))
    if (found := case.find("skipped")) is not None:
        reason = reason_of(name, left_out) or f"the suite skips it: {_first_line(found)}"
        return Outcome(name, Status.LEFT_OUT, reason)
    return Outcome(name, Status.PASSED)


def _first_line(found: ElementTree.Element) -> str:
    text = found.get("message") or found.text or ""
    return " ".join(text.split())[:200]
