"""Carries out all cases on two systems at the same time, and compares what they answer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from strandline_lab.conformance.case import Case, in_version, names_in, topics_of
from strandline_lab.conformance.compare import Difference, differences
from strandline_lab.conformance.definitions import Messages
from strandline_lab.conformance.normal import Known, whole
from strandline_lab.conformance.system import Cluster, opened, versions_of


@dataclass(frozen=True, slots=True)
class Compared:
    """How many answers were compared by API, what differs in them, and cases that wait for a version."""

    answers: Mapping[str, int]
    differing: int
    differences: Sequence[Difference]
    waiting: Sequence[Case]


def planned(
    cases: Sequence[Case], ours: Mapping[str, range], kafkas: Mapping[str, range], messages: Messages
) -> dict[str, list[int]]:
    """The versions of each case that both systems advertise, by the case's API and name.

    A case has none if one of them lacks what it sends first.
    """
    both = {api: set(versions) & set(kafkas.get(api, ())) for api, versions in ours.items()}
    plan = {}
    for case in cases:
        begins = all(each.version in both.get(each.api, ()) for each in case.before)
        plan[key(case)] = [
            version
            for version in sorted(both.get(case.api, ()))
            if begins and case.since <= version <= case.until and messages.defines(case.api, version)
        ]
    return plan


def key(case: Case) -> str:
    return f"{case.api}: {case.name}"


def faults(cases: Sequence[Case], messages: Messages) -> list[str]:
    """Cases with the name of another, or with a field that no version of the request has."""
    found = []
    seen: set[str] = set()
    for case in cases:
        if key(case) in seen:
            found.append(f"{key(case)} is there twice")
        seen.add(key(case))
        for call in (*case.before, case.call):
            unknown = sorted(set(names_in(call.body)) - messages.names_of_fields(call.api))
            if unknown:
                found.append(f"{key(case)}: {call.api} has no {', '.join(unknown)}")
    return found


async def compared(
    families: Sequence[Sequence[Case]], ours: Cluster, kafka: Cluster, messages: Messages
) -> Compared:
    """Runs the cases at all versions that both systems have.

    The cases of a family run one after the other, and families at the same time: no family uses topics or
    groups of another.
    """
    cases = [case for family in families for case in family]
    plan = planned(cases, await versions_of(ours), await versions_of(kafka), messages)
    for cluster in (ours, kafka):
        async with opened(cluster) as system:
            await system.warm_up()
    async with asyncio.TaskGroup() as group:
        tasks = [
            (family, [group.create_task(_answers(family, plan, system)) for system in (ours, kafka)])
            for family in families
        ]
    found: list[Difference] = []
    answers = {case.api: 0 for case in cases}
    differing = 0
    for family, (left, right) in tasks:
        for case in family:
            for version in plan[key(case)]:
                here = _differing(
                    case, version, *(each.result()[key(case), version] for each in (left, right))
                )
                answers[case.api] += 1
                differing += bool(here)
                found += here
    return Compared(answers, differing, found, [case for case in cases if not plan[key(case)]])


async def _answers(
    cases: Sequence[Case], plan: Mapping[str, Sequence[int]], cluster: Cluster
) -> dict[tuple[str, int], Any]:
    """The answers to cases in normal form, by the case and the version."""
    topics = {each.name: each for case in cases for each in topics_of(case, plan[key(case)])}
    found = {}
    async with opened(cluster) as system:
        await system.create(list(topics.values()))
        for case in cases:
            for version in plan[key(case)]:
                seen = await system.run(case, version)
                names = {number: name for name, number in system.topic_ids.items()}
                known = Known(names, seen.taken, cluster.start_ms, in_version(case.only, version))
                found[key(case), version] = whole(seen.answer, known)
    return found


def _differing(case: Case, version: int, ours: Any, kafkas: Any) -> list[Difference]:
    return [
        Difference(case.api, version, case.name, field, here, there)
        for field, here, there in differences(ours, kafkas)
    ]
