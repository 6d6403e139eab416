"""The facts of a run for its page. Pure; times are virtual milliseconds since the run began."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from strandline.auditing.cluster import Observation
from strandline.report.verdict import Verdict
from strandline_lab.report import partitions
from strandline_lab.report.facts import Facts, FaultFact
from strandline_lab.report.spans import Span
from strandline_lab.simulation.faults.fault import Done
from strandline_lab.simulation.judging.judge import Problem
from strandline_lab.simulation.run import Outcome

HEALING: Final = "healing"
"""The check of a cluster that does not heal."""
REASON_CHARACTERS_MAX: Final = 300

_MEMBER: Final = re.compile(r"\b(broker|controller) \d+|ZooKeeper server \d+|ZooKeeper|\d+\.\d+\.\d+\.\d+")


def facts_of(outcome: Outcome, observations: Sequence[Observation], names: Mapping[str, str]) -> Facts:
    """All facts of a run. `names`: the processes by the addresses of their machines."""
    span = Span(0.0, outcome.virtual_s * 1000)
    healed_ms = None if outcome.healed_s is None else int(outcome.healed_s * 1000)
    courses = partitions.Courses.of(observations, None)
    seen, whole = courses.seen, courses.wholeness
    verdict, reasons = judged(outcome.problems)
    return Facts(
        seed=outcome.plan.seed,
        verdict=verdict,
        reasons=reasons,
        span=span,
        loaded=None,
        faults=tuple(_faults(outcome, span, whole, names)),
        places=tuple(seen),
        leaders=courses.leaders(span.to_ms),
        members=courses.members(span.to_ms),
        growth=courses.growth(span),
        falls={place: falls_of(observed) for place, observed in seen.items()},
        unclean=(),
        died=(),
        gaps={place: () for place in seen},
        partitions=tuple(courses.fact(place, span, healed_ms) for place in seen),
        senders=(),
        acked=(),
        received=(),
        failed=(),
        latencies=(),
        healed_ms=healed_ms,
        settled_after_ms=None if healed_ms is None else partitions.first_whole(whole, healed_ms),
        writable_after_ms=None,
    )


def judged(problems: Iterable[Problem]) -> tuple[Verdict, tuple[str, ...]]:
    """The verdict, and a sentence for each check that failed: its first problem."""
    first: dict[str, str] = {}
    counts: dict[str, int] = {}
    for check, sentence in problems:
        first.setdefault(check, sentence)
        counts[check] = counts.get(check, 0) + 1
    if not first:
        return Verdict.GOOD, ()
    verdict = Verdict.UNWELL if set(first) == {HEALING} else Verdict.WRONG
    more = {check: f" (and {count - 1} more)" if count > 1 else "" for check, count in counts.items()}
    return verdict, tuple(
        f"{check}: {sentence[:REASON_CHARACTERS_MAX]}{more[check]}" for check, sentence in first.items()
    )


def falls_of(observed: Sequence[Observation]) -> list[float]:
    """When the high watermark of a leader fell within its epoch. A new leader may begin with an older one."""
    return [
        float(after.at_ms)
        for before, after in pairwise(each for each in observed if each.watermark is not None)
        if before.epoch == after.epoch and (after.watermark or 0) < (before.watermark or 0)
    ]


def _faults(
    outcome: Outcome, span: Span, whole: Sequence[tuple[float, bool]], names: Mapping[str, str]
) -> Iterator[FaultFact]:
    """Each fault of the plan, in its order. One that lasted until everything was healed ended then."""
    done = {each.fault: each for each in outcome.done}
    for number, fault in enumerate(outcome.plan.faults):
        was = done.get(number)
        if was is None or not was.steps:
            yield FaultFact(number, fault.kind, (), "it found nothing to do", None)
            continue
        ended_s = was.ended_s if was.ended_s is not None else outcome.healed_s
        lasted = Span(was.began_s * 1000, span.to_ms if ended_s is None else ended_s * 1000)
        yield FaultFact(
            number=number,
            kind=fault.kind,
            who=mentioned(was, names),
            detail="; ".join(dict.fromkeys(step.what for step in was.steps)),
            span=lasted,
            whole_after_ms=partitions.first_whole(whole, lasted.to_ms),
        )


def mentioned(done: Done, names: Mapping[str, str]) -> tuple[str, ...]:
    """The processes that the steps of a fault name, by name or by address."""
    found = [match[0] for step in done.steps for match in _MEMBER.finditer(step.what)]
    named = (names.get(each, each).replace("ZooKeeper server", "zookeeper") for each in found)
    return tuple(dict.fromkeys(each.replace("ZooKeeper", "zookeeper") for each in named))
