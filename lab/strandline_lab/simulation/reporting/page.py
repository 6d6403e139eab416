"""Writes `report.html`: a failing run on one page, by running it again and looking on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from strandline_lab.report.facts import Facts
from strandline_lab.report.markup import Markup, joined, tag
from strandline_lab.report.page import (
    REPORT,
    document,
    faults_table,
    partitions_table,
    picture_of,
    short,
    table,
    terms,
)
from strandline_lab.simulation.plan import Plan
from strandline_lab.simulation.reporting.cluster_states import ClusterStates
from strandline_lab.simulation.reporting.evidence import write_evidence
from strandline_lab.simulation.reporting.run_facts import facts_of
from strandline_lab.simulation.run import Outcome, run_quietly


@dataclass(frozen=True, slots=True)
class PageOf:
    """A page that is to be written."""

    plan: Plan
    command: str
    """Runs the plan again."""
    out: Path


def write_page(wanted: PageOf) -> Path:
    """Run the plan and write its page, its picture and what happened into `out`. Returns the page's path.

    Raises OSError.
    """
    states = ClusterStates()
    outcome = run_quietly(wanted.plan, states.watch)
    facts = facts_of(outcome, states.observations, states.names)
    write_evidence(wanted.out, facts, outcome.problems, states)
    report = wanted.out / REPORT
    report.write_text(page(outcome, facts, wanted.command, picture_of(facts, wanted.out)))
    return report


def page(outcome: Outcome, facts: Facts, command: str, picture: Markup) -> str:
    """The whole document."""
    return document(
        f"Simulation of seed {outcome.plan.seed}",
        facts,
        _repeat(outcome, command),
        _problems(outcome),
        picture,
        faults_table(facts),
        partitions_table(facts),
        _steps(outcome),
    )


def _repeat(outcome: Outcome, command: str) -> Markup:
    plan = outcome.plan
    return joined(
        terms(
            ("seed", plan.seed),
            ("faults for", f"{plan.seconds:g} s of virtual time"),
            ("took", f"{outcome.virtual_s:.1f} s of virtual time"),
            ("brokers", plan.brokers),
            ("controllers", plan.controllers),
            *((name, f"{count:,}") for name, count in outcome.counts.items()),
        ),
        tag("p", "Workloads:", class_="note"),
        *(tag("pre", workload.model_dump_json()) for workload in plan.workloads),
        tag("p", "To run it again:", class_="note"),
        tag("pre", command),
    )


def _problems(outcome: Outcome) -> Markup:
    if not outcome.problems:
        return joined()
    rows = [(problem.check, short(problem.sentence)) for problem in outcome.problems]
    return joined(tag("h2", f"Problems: {len(rows)}"), table(("check", "what"), rows))


def _steps(outcome: Outcome) -> Markup:
    """What faults did, in the order of time."""
    rows = [step.partition(" ")[::2] for step in outcome.steps]
    return joined(tag("h2", "What the faults did"), table(("#at, in s", "what"), rows))
