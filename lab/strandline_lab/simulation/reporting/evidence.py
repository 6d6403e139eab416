"""Writes what happened in a run, in files with the names and lines of a chaos round: one reader serves both.

Times are those of the clocks in the run: `WALL_MS` is its beginning.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from strandline.auditing.cluster import Observation
from strandline.ids import GROUP_EVENTS_TOPIC, STATE_CHANGES_TOPIC, TopicPartition
from strandline.simulation.engine.world import WALL_MS
from strandline_lab.core.observed import line_of
from strandline_lab.report.facts import Facts
from strandline_lab.simulation.judging.judge import Problem
from strandline_lab.simulation.reporting.cluster_states import ClusterStates

OBSERVED_EVERY_MS: Final = 250
"""Between two lines about a partition whose leader and ISR stay the same."""
OBSERVATIONS_MAX: Final = 100_000
RECORDS_MAX: Final = 100_000
"""Of each internal topic. A run has some thousands."""
PROBLEMS_MAX: Final = 1_000


def write_evidence(out: Path, facts: Facts, problems: Sequence[Problem], states: ClusterStates) -> None:
    """Writes the files of a run into `out`. What was there is replaced. Raises OSError."""
    files: Mapping[str, Iterable[Mapping[str, Any]]] = {
        "timeline.jsonl": moments(facts),
        "observations.jsonl": (
            line_of(replace(each, at_ms=_wall(each.at_ms))) for each in thinned(states.observations)
        ),
        "state-changes.jsonl": states.recorded(STATE_CHANGES_TOPIC, RECORDS_MAX),
        "group-events.jsonl": states.recorded(GROUP_EVENTS_TOPIC, RECORDS_MAX),
        "findings.jsonl": map(finding, problems[:PROBLEMS_MAX]),
    }
    for name, lines in files.items():
        with (out / name).open("w") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)


def moments(facts: Facts) -> list[dict[str, Any]]:
    """The faults and how the cluster healed, in the order of time."""
    lines: list[dict[str, Any]] = [{"at_ms": _wall(facts.span.from_ms), "event": "began"}]
    for fault in facts.faults:
        said = {"fault": fault.number, "kind": fault.kind, "who": list(fault.who), "detail": fault.detail}
        if fault.span is None:
            lines.append({"at_ms": _wall(facts.span.from_ms), "event": "fault_skipped", **said})
            continue
        lines.append({"at_ms": _wall(fault.span.from_ms), "event": "fault_began", **said})
        lines.append({"at_ms": _wall(fault.span.to_ms), "event": "fault_ended", **said})
    if facts.healed_ms is not None:
        lines.append({"at_ms": _wall(facts.healed_ms), "event": "healed"})
    lines.append({"at_ms": _wall(facts.span.to_ms), "event": "ended"})
    return sorted(lines, key=lambda line: int(line["at_ms"]))


def thinned(observations: Iterable[Observation]) -> Iterator[Observation]:
    """Each change of a leader or an ISR, and watermarks from time to time; at most OBSERVATIONS_MAX."""
    last: dict[TopicPartition, Observation] = {}
    kept = 0
    for each in observations:
        before = last.get(each.place)
        if before is not None and _same(before, each) and each.at_ms < before.at_ms + OBSERVED_EVERY_MS:
            continue
        if kept == OBSERVATIONS_MAX:
            return
        kept += 1
        last[each.place] = each
        yield each


def _same(one: Observation, other: Observation) -> bool:
    return (one.leader, one.epoch, one.isr) == (other.leader, other.epoch, other.isr)


def finding(problem: Problem) -> dict[str, Any]:
    """A problem as a line. It names its partition, if it has one, in its sentence."""
    return {
        "check": problem.check, "topic": "", "partition": None, "offset": None, "detail": problem.sentence,
    }  # fmt: skip


def _wall(virtual_ms: float) -> int:
    return WALL_MS + int(virtual_ms)
