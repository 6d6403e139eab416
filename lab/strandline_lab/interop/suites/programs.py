"""Runs a program that uses a client, and reads the claims that it prints (`interop.programs.claims`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Final

from strandline_lab.interop.outcome import Outcome, Place, Report, Status, Suite
from strandline_lab.interop.process import PYTHONPATH, run
from strandline_lab.interop.security import Security

PROGRAM_S_MAX: Final = 300.0
PROGRAMS: Final = Path(__file__).resolve().parents[1] / "programs"
Command = Callable[[Place], "Sequence[str | Path] | None"]
"""The command without its argument, the addresses; None if the client is not there."""
ASKS: Final = "kill the leader of "
RECORDS, PARTITIONS = 300, 3
"""What a program writes and reads over the death of a leader."""
COMPARED: Final = "records come back as they were written"


def program_suite(
    name: str,
    how: str,
    command: Command,
    *,
    stays: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    security: Security | None = None,
    may_repeat: bool = False,
) -> Suite:
    """A suite whose tests are the claims of one program. `may_repeat`: its producer is not idempotent."""

    def run_suite(place: Place) -> Report | None:
        words = command(place)
        if words is None:
            return None
        log = place.output / f"{name.replace('/', '-')}.log"
        given = {"PYTHONPATH": PYTHONPATH, **(environment or {})}
        if place.security is not None:
            given["INTEROP_SECURITY"] = str(place.security)

        def answer(line: str) -> bool:
            if asks := line.startswith(ASKS) and place.kill_leader is not None:
                place.kill_leader(line.removeprefix(ASKS))
            return asks

        status = run([*words, place.kafka], log, seconds=PROGRAM_S_MAX, environment=given, answer=answer)
        version, outcomes = claims_of(log.read_text(errors="replace"), may_repeat=may_repeat)
        if status != 0 or not outcomes:
            ended = f"not done after {PROGRAM_S_MAX:.0f} s" if status is None else f"exit status {status}"
            outcomes.append(Outcome("the whole program", Status.FAILED, ended))
        return Report(name, version, outcomes)

    return Suite(name, how, run_suite, stays or {}, security=security)


def claims_of(text: str, *, may_repeat: bool = False) -> tuple[str, list[Outcome]]:
    """The version and the claims in a program's output. If it asked for the death of a leader, the records
    that it read are one more."""
    version, outcomes, asked, read = "", list[Outcome](), False, list[str]()
    for word, rest in _words(text):
        match word:
            case "version":
                version = rest
            case "passed":
                outcomes.append(Outcome(rest, Status.PASSED))
            case "failed":
                name, _, reason = rest.partition(": ")
                outcomes.append(Outcome(name, Status.FAILED, reason))
            case "kill":
                asked = True
            case "read":
                read.append(rest)
    if asked:
        outcomes.append(compared(dict.fromkeys(read) if may_repeat else read))
    return version, outcomes


def compared(read: Iterable[str]) -> Outcome:
    """Whether each partition's records were read in order, with key, header and value, each once."""
    found: dict[str, list[str]] = {}
    for line in read:
        found.setdefault(line.partition(" ")[0], []).append(line)
    wrong = [
        f"{their} where {ours} was written"
        for partition in range(PARTITIONS)
        for ours, their in zip_longest(_written(partition), found.get(f"{partition}", ()))
        if ours != their
    ]
    if wrong:
        return Outcome(COMPARED, Status.FAILED, f"{len(wrong)} differ: {wrong[0]}")
    return Outcome(COMPARED, Status.PASSED)


def _written(partition: int) -> Iterator[str]:
    """The lines that a program prints once it has read what it wrote."""
    for number in range(partition, RECORDS, PARTITIONS):
        yield f"{partition} key-{number} number={number} value-{number}"


def _words(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        word, _, rest = line.partition(" ")
        yield word, rest
