"""Runs a program that uses a client, and reads the claims that it prints (`interop.programs.claims`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from strandline_lab.interop.outcome import Outcome, Place, Report, Status, Suite
from strandline_lab.interop.process import PYTHONPATH, run
from strandline_lab.interop.security import Security

PROGRAM_S_MAX: Final = 300.0
PROGRAMS: Final = Path(__file__).resolve().parents[1] / "programs"
Command = Callable[[Place], "Sequence[str | Path] | None"]
"""The command without its argument, the addresses; None if the client is not there."""


def program_suite(
    name: str,
    how: str,
    command: Command,
    *,
    stays: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    security: Security | None = None,
) -> Suite:
    """A suite whose tests are the claims of one program."""

    def run_suite(place: Place) -> Report | None:
        words = command(place)
        if words is None:
            return None
        log = place.output / f"{name.replace('/', '-')}.log"
        given = {"PYTHONPATH": PYTHONPATH, **(environment or {})}
        if place.security is not None:
            given["INTEROP_SECURITY"] = str(place.security)
        status = run([*words, place.kafka], log, seconds=PROGRAM_S_MAX, environment=given)
        version, outcomes = claims_of(log.read_text(errors="replace"))
        if status != 0 or not outcomes:
            ended = f"not done after {PROGRAM_S_MAX:.0f} s" if status is None else f"exit status {status}"
            outcomes.append(Outcome("the whole program", Status.FAILED, ended))
        return Report(name, version, outcomes)

    return Suite(name, how, run_suite, stays or {}, security=security)


def claims_of(text: str) -> tuple[str, list[Outcome]]:
    """The version and the claims in a program's output."""
    version, outcomes = "", list[Outcome]()
    for word, rest in _words(text):
        match word:
            case "version":
                version = rest
            case "passed":
                outcomes.append(Outcome(rest, Status.PASSED))
            case "failed":
                name, _, reason = rest.partition(": ")
                outcomes.append(Outcome(name, Status.FAILED, reason))
    return version, outcomes


def _words(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        word, _, rest = line.partition(" ")
        yield word, rest
