"""A run: what it was, what was found, and all that happened in it. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from strandline.auditing.checks import Finding
from strandline.auditing.cluster import Observation
from strandline.console.core.runs.faults import Faults
from strandline.console.core.timeline.journal import Record
from strandline.console.core.timeline.places import NO_REF, Source
from strandline.console.core.window import Window
from strandline.report.round_files import Moment
from strandline.report.verdict import Verdict, judged

NO_LEADER: Final = -1


@dataclass(frozen=True, slots=True)
class Run:
    """What a run was, and what was found. Times are milliseconds since 1970, on the clock of the run."""

    name: str
    """The name of its folder, or another one if two folders have the same."""
    simulated: bool
    seed: int | None
    command: str
    """Runs it again."""
    verdict: Verdict
    reasons: tuple[str, ...]
    findings: tuple[Finding, ...]
    faults: int
    began_ms: int
    ended_ms: int
    unread: tuple[str, ...]
    """Sentences that name what could not be read."""

    @property
    def good(self) -> bool:
        return self.verdict is Verdict.GOOD

    @property
    def what(self) -> str:
        """What it was, for people."""
        kind = "Simulation run" if self.simulated else "Chaos round"
        return kind if self.seed is None else f"{kind} of seed {self.seed}"


def run_of(
    name: str,
    *,
    simulated: bool,
    seed: int | None,
    command: str,
    moments: Sequence[Moment],
    findings: Sequence[Finding] | None,
    unread: Sequence[str],
) -> Run:
    """A run by what its files say. `findings`: None if it was not judged; `moments` are one at least."""
    verdict, reasons = judged(moments, findings)
    times = [each.at_ms for each in moments]
    began = next((each.at_ms for each in moments if each.event == "began"), min(times))
    return Run(
        name=name,
        simulated=simulated,
        seed=seed,
        command=command,
        verdict=verdict,
        reasons=reasons,
        findings=tuple(findings or ()),
        faults=sum(each.event == "fault_began" for each in moments),
        began_ms=began,
        ended_ms=max(*times, began + 1),
        unread=tuple(unread),
    )


@dataclass(frozen=True, slots=True)
class RunTimeline:
    """All that happened in a run."""

    run: Run
    window: Window
    faults: Faults


def timeline_of(
    run: Run,
    moments: Sequence[Moment],
    observations: Iterable[Observation],
    state_changes: Iterable[Record],
    group_events: Iterable[Record],
) -> RunTimeline:
    """The timeline of a run. The offset of a record is the number of its line."""
    events = {Source.STATE: list(state_changes), Source.GROUP: list(group_events)}
    window = Window(events_kept=max(map(len, events.values())))
    for source, records in events.items():
        window.read(source, 0, records, run.ended_ms)
    most: defaultdict[tuple[str, int], int] = defaultdict(int)
    for each in observations:
        _observe(window, each)
        most[each.topic, each.partition] = max(most[each.topic, each.partition], len(each.isr))
    for name, replicas in most.items():
        if (row := window.rows.known_partition(*name)) is not None:
            row.replicas.saw(run.ended_ms, replicas)
    return RunTimeline(run, window, Faults(moments))


def _observe(window: Window, seen: Observation) -> None:
    """Adds what no event says: watermarks, and when a partition was seen without a leader. An answer may be
    older than another one, so a leader is only taken from events."""
    row = window.rows.partition(seen.topic, seen.partition)
    if row is None:
        return
    row.exists = True
    row.brokers.update(seen.isr)
    row.isr.see(seen.at_ms, seen.isr, seen.epoch)
    if seen.leader != NO_LEADER:
        row.leader.see(seen.at_ms, seen.leader, seen.epoch)
    elif row.leader and row.leader.value_at(seen.at_ms) != NO_LEADER:
        row.leader.add(seen.at_ms, NO_LEADER, NO_REF, seen.epoch)
    if seen.watermark is not None and seen.end is not None:
        window.seen_offsets(seen.topic, seen.partition, seen.at_ms, seen.watermark, seen.end)
