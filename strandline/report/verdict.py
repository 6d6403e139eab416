"""What came of a round of faults, by its files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Final

from strandline.auditing.checks import Finding
from strandline.report.round_files import Moment

WRITABLE_MS_MAX: Final = 15_000
"""Time until every partition has acknowledged a write."""


class Verdict(Enum):
    GOOD = "nothing wrong was found"
    WRONG = "something wrong was found"
    UNWELL = "the cluster did not become well again"
    UNFINISHED = "the round did not come to its end"
    UNJUDGED = "the round was not judged"


def judged(moments: Sequence[Moment], findings: Sequence[Finding] | None) -> tuple[Verdict, tuple[str, ...]]:
    """The verdict, and the sentences that give its reasons."""
    events = {moment.event: moment for moment in moments}
    verdict = Verdict.GOOD
    reasons = []
    if findings is None:
        verdict = Verdict.UNJUDGED
        reasons.append("There are no findings, not even an empty list of them.")
    if "ended" not in events:
        verdict = Verdict.UNFINISHED
        last = f"Its last known event is “{moments[-1].event}”." if moments else "It never began."
        reasons.append(last)
    for event, what in (("not_settled", "It did not settle"), ("not_writable", "Not writable")):
        if event in events:
            verdict = Verdict.UNWELL
            why = events[event].detail or ", ".join(events[event].partitions) or "no reason is known"
            reasons.append(f"{what}: {why}")
    writable_ms = took_ms(moments, "writable")
    if writable_ms is not None and writable_ms > WRITABLE_MS_MAX:
        verdict = Verdict.UNWELL
        allowed = f"{WRITABLE_MS_MAX / 1000:g} s are allowed"
        reasons.append(f"Writable after {writable_ms / 1000:.1f} s only; {allowed}")
    if findings:
        verdict = Verdict.WRONG
        reasons.insert(0, f"{len(findings)} finding{'s' if len(findings) > 1 else ''}.")
    return verdict, tuple(reasons)


def took_ms(moments: Iterable[Moment], event: str) -> float | None:
    return next((moment.took_ms for moment in moments if moment.event == event), None)
