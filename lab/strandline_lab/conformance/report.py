"""The report of a run as text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from strandline_lab.conformance.compare import Difference, Judgement, Row
from strandline_lab.conformance.run import Compared

OPEN: Final = "To be "
"""How a reason begins that is one to change something, not to keep it."""


def version_table(ours: Mapping[str, range], kafkas: Mapping[str, range], order: Mapping[str, int]) -> str:
    """The versions that both advertise, and what only Kafka does, by the keys of the APIs."""
    lines = ["| key | API | strandline | Kafka | only Kafka |", "| ---: | --- | --- | --- | --- |"]
    for name in sorted({*ours, *kafkas}, key=lambda each: order[each]):
        here, there = ours.get(name, range(0)), kafkas.get(name, range(0))
        only = sorted(set(there) - set(here))
        cells = (str(order[name]), name, _span(here), _span(there), _span(only) if only else "")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _span(versions: Sequence[int]) -> str:
    if not versions:
        return "–"
    first, last = versions[0], versions[-1]
    return str(first) if first == last else f"{first}–{last}"


def kinds(found: Iterable[Difference]) -> str:
    """Differences, one kind a line, the most frequent ones first, with their cases and versions."""
    by_kind: dict[tuple[str, str, str, str], list[Difference]] = defaultdict(list)
    for each in found:
        by_kind[each.kind].append(each)
    ranked = sorted(by_kind.items(), key=lambda item: (-len(item[1]), item[0]))
    lines = []
    for (api, field, ours, kafkas), those in ranked:
        lines.append(f"{len(those):4} {api} {field}: {ours} here, {kafkas} in Kafka")
        lines += [f"       {name} {_span(versions)}" for name, versions in _cases(those)]
    return "\n".join(lines)


def _cases(found: Sequence[Difference]) -> list[tuple[str, list[int]]]:
    versions: dict[str, set[int]] = defaultdict(set)
    for each in found:
        versions[each.case].add(each.version)
    return [(name, sorted(those)) for name, those in versions.items()]


def rows(found: Sequence[Difference]) -> str:
    """Differences as rows of the table, for a reviewer to give them a reason."""
    versions: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for each in found:
        versions[each.api, each.case, each.field, each.ours, each.kafkas].append(each.version)
    lines = []
    for (api, case, field, ours, kafkas), those in versions.items():
        line = Row(api, min(those), max(those), case, field, ours, kafkas, "")
        lines.append(f"  '{line}',")
    return "\n".join(lines)


def reasons(judgement: Judgement) -> str:
    """The reasons of the table with their numbers of differences; what is to be done comes first."""
    ranked = sorted(judgement.known.items(), key=lambda item: (not item[0].startswith(OPEN), -item[1]))
    return "\n".join(f"{count:4} {reason}" for reason, count in ranked)


def summary(result: Compared, judgement: Judgement) -> str:
    """Counts, what is new, and what is no longer there."""
    total = sum(result.answers.values())
    count = len({each.kind for each in result.differences})
    lines = [
        f"{total} answers of {sum(1 for each in result.answers.values() if each)} APIs: "
        f"{total - result.differing} equal, {result.differing} differ, "
        f"in {len(result.differences)} fields of {count} kinds; {sum(judgement.known.values())} are known.",
    ]
    if result.waiting:
        apis = sorted({each.api for each in result.waiting})
        lines.append(f"{len(result.waiting)} cases wait for versions of {', '.join(apis)}.")
    if judgement.new:
        lines += ["", f"New differences ({len(judgement.new)}):", "", kinds(judgement.new)]
    if judgement.stale:
        lines += ["", f"Rows of the table that no longer occur ({len(judgement.stale)}):", ""]
        lines += [str(each) for each in judgement.stale]
    return "\n".join(lines)
