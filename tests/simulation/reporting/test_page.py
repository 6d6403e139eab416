"""The page of a run: looking on changes nothing, and what went wrong stands on it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from strandline.auditing.cluster import Observation
from strandline.report.verdict import Verdict
from strandline_lab.report.markup import Markup
from strandline_lab.simulation.faults.fault import Done, Fault, Step
from strandline_lab.simulation.judging.judge import Problem
from strandline_lab.simulation.plan import Plan
from strandline_lab.simulation.reporting.cluster_states import ClusterStates
from strandline_lab.simulation.reporting.page import PageOf, page, write_page
from strandline_lab.simulation.reporting.run_facts import facts_of, falls_of, judged, mentioned
from strandline_lab.simulation.run import Outcome, run
from strandline_lab.simulation.workloads.writing import Writing

PLAN = Plan(
    seed=5,
    seconds=4.0,
    workloads=(Writing(name="writing", partitions=2, writers=1, pause_s=0.05, synced=False),),
    faults=(
        Fault(kind="kill broker", at_s=0.5, lasts_s=1.0, lot=1),
        Fault(kind="pause", at_s=3.0, lasts_s=60.0, lot=2),
    ),
)
LOSS = Problem("writing", "a record was <lost>")


@pytest.fixture(scope="module")
def watched() -> tuple[Outcome, ClusterStates]:
    states = ClusterStates()
    return run(PLAN, states.watch), states


def test_looking_on_changes_nothing(watched: tuple[Outcome, ClusterStates]) -> None:
    outcome, states = watched
    assert outcome.problems == ()
    assert run(PLAN) == outcome
    assert states.observations


def test_leaders_watermarks_and_faults_have_their_times(watched: tuple[Outcome, ClusterStates]) -> None:
    outcome, states = watched
    facts = facts_of(outcome, states.observations, states.names)
    assert (facts.seed, facts.verdict) == (5, Verdict.GOOD)
    assert [str(place) for place in facts.places] == ["writing-0", "writing-1"]
    assert all(0 < (fact.high_watermark or 0) <= outcome.counts["records"] for fact in facts.partitions)
    killed, paused = facts.faults
    assert killed.span is not None and paused.span is not None
    assert killed.span.took_ms == pytest.approx(1000, abs=1)
    assert killed.who[0].startswith("broker ")
    assert outcome.healed_s is not None
    assert paused.span.to_ms == outcome.healed_s * 1000
    # The killed broker leads nothing in the middle of its time.
    middle_ms = (killed.span.from_ms + killed.span.to_ms) / 2
    _, number = killed.who[0].split()
    seen = {each.leader for each in states.observations if middle_ms <= each.at_ms <= killed.span.to_ms}
    assert seen and int(number) not in seen
    assert all(len(each.isr) <= 3 for each in states.observations)


def test_the_page_says_what_failed_and_how_to_run_it_again(watched: tuple[Outcome, ClusterStates]) -> None:
    outcome, states = watched
    failed = replace(outcome, problems=(LOSS, LOSS))
    facts = facts_of(failed, states.observations, states.names)
    text = page(failed, facts, "strandline-lab simulate --seed 5", Markup(""))
    assert "Something wrong was found" in text
    assert "a record was &lt;lost&gt;" in text and "<lost>" not in text
    assert "strandline-lab simulate --seed 5" in text
    assert len(re.findall("kill broker [012]", text)) >= 2


def test_a_page_has_its_picture_in_it(tmp_path: Path) -> None:
    plan = PLAN.model_copy(update={"seconds": 1.0})
    written = write_page(PageOf(plan, "again", tmp_path))
    text = written.read_text()
    assert "<svg" in text
    assert "http" not in re.sub(r'xmlns[^"]*"[^"]*"', "", re.sub(r"(?s)<metadata>.*?</metadata>", "", text))


def test_a_cluster_that_does_not_heal_is_unwell_and_all_else_is_wrong() -> None:
    assert judged([]) == (Verdict.GOOD, ())
    assert judged([Problem("healing", "late")]) == (Verdict.UNWELL, ("healing: late",))
    assert judged([Problem("healing", "late"), LOSS, LOSS]) == (
        Verdict.WRONG,
        ("healing: late", "writing: a record was <lost> (and 1 more)"),
    )


def test_a_fault_belongs_to_the_processes_that_it_names() -> None:
    steps = (
        Step(0.0, "cut 10.0.0.1 off from 10.1.0.2", 0),
        Step(0.1, "kill broker 2", 0),
        Step(0.2, "isolate ZooKeeper server 1", 0),
        Step(0.3, "ZooKeeper loses its leader", 0),
    )
    names = {"10.0.0.1": "broker 0", "10.1.0.2": "zookeeper 1"}
    assert mentioned(Done(0, 0.0, None, steps), names) == ("broker 0", "zookeeper 1", "broker 2", "zookeeper")


def test_a_watermark_falls_within_an_epoch_only() -> None:
    seen = [
        Observation(at_ms, "simulation", "t", 0, 1, epoch, (1,), mark)
        for at_ms, epoch, mark in [(0, 1, 5), (10, 1, None), (20, 1, 4), (30, 2, 3), (40, 2, 3)]
    ]
    assert falls_of(seen) == [20.0]
