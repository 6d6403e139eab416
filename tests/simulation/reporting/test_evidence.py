"""The files of a run: what happened, as a chaos round writes it."""

from __future__ import annotations

import pytest

from strandline.auditing.cluster import Observation
from strandline.report.round_files import RoundFiles
from strandline.simulation.engine.world import WALL_MS
from strandline.vocabulary.state_changes import ChangeKind
from strandline_lab.simulation.faults.fault import Fault
from strandline_lab.simulation.judging.judge import Problem
from strandline_lab.simulation.plan import Plan
from strandline_lab.simulation.reporting import evidence
from strandline_lab.simulation.reporting.cluster_states import ClusterStates
from strandline_lab.simulation.reporting.evidence import thinned, write_evidence
from strandline_lab.simulation.reporting.run_facts import facts_of
from strandline_lab.simulation.run import run
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


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> RoundFiles:
    out = tmp_path_factory.mktemp("run")
    states = ClusterStates()
    outcome = run(PLAN, states.watch)
    facts = facts_of(outcome, states.observations, states.names)
    write_evidence(out, facts, [Problem("writing", "a record was lost")], states)
    return RoundFiles(out, strict=True)


def test_the_faults_have_their_times_on_the_clock_of_the_run(files: RoundFiles) -> None:
    moments = list(files.moments())
    assert [moments[0].event, moments[-1].event] == ["began", "ended"]
    assert moments[0].at_ms == WALL_MS
    began, ended = (
        next(each for each in moments if each.event == f"fault_{step}" and each.fault == 0)
        for step in ("began", "ended")
    )
    assert began.kind == "kill broker" and began.who[0].startswith("broker ")
    assert ended.at_ms - began.at_ms == pytest.approx(1000, abs=2)
    assert "healed" in {each.event for each in moments}


def test_every_election_of_the_run_is_in_its_state_changes(files: RoundFiles) -> None:
    elections = [each for each in files.state_changes() if each.command is ChangeKind.ELECT_LEADER]
    elected = {(each.topic, each.key.partition, int(each.epoch)) for each in elections}
    observed = {(each.topic, each.partition, each.epoch) for each in files.observations()}
    assert observed and observed <= elected
    ends_ms = max(each.at_ms for each in files.moments())
    assert all(abs(each.at_ms - WALL_MS) <= ends_ms - WALL_MS + 1000 for each in elections)


def test_a_problem_is_a_finding(files: RoundFiles) -> None:
    [finding] = files.findings()
    assert (finding.check, finding.detail) == ("writing", "a record was lost")


def test_a_change_is_observed_at_once_and_a_watermark_from_time_to_time() -> None:
    def seen(at_ms: int, leader: int, watermark: int) -> Observation:
        return Observation(at_ms, "simulation", "writing", 0, leader, leader, (leader,), watermark, watermark)

    every_50_ms = [seen(50 * n, 1, n) for n in range(21)]
    changed = seen(1020, 2, 21)
    kept = list(thinned([*every_50_ms, changed]))
    assert [each.at_ms for each in kept] == [0, 250, 500, 750, 1000, 1020]


def test_observations_are_bounded() -> None:
    many = (
        Observation(1000 * n, "simulation", "writing", 0, n, n, (n,), 0, 0)
        for n in range(evidence.OBSERVATIONS_MAX + 3)
    )
    assert sum(1 for _ in thinned(many)) == evidence.OBSERVATIONS_MAX
