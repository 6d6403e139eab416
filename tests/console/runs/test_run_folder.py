"""The folder of a run, read for the timeline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from strandline.console.core.timeline.drawing import draw
from strandline.console.core.timeline.gaps import Gaps
from strandline.console.core.timeline.places import Source
from strandline.console.core.timeline.view import View, matching
from strandline.console.feeds.run_folder import folders_of, read_run, read_timeline
from strandline.errors import SettingsError
from strandline.report.verdict import Verdict
from tests.console.runs.folders import BEGAN_MS, ENDED_MS, FINDING, HEALED_MS, MOMENTS, write_round


def lanes_of(folder: Path, rows: Any = "partition") -> dict[str, Any]:
    """The lanes of the only row of a kind, by their kinds."""
    timeline = read_timeline("run", folder)
    view = View(rows, BEGAN_MS, ENDED_MS, 1_000, offsets_of=frozenset({"orders"}))
    [row] = [each for each in matching(timeline.window.rows, view) if each is not None]
    return {lane["kind"]: lane for lane in draw(row, view, Gaps(timeline.window.rows, view))["lanes"]}


def test_a_round_says_what_it_was_and_what_was_found(tmp_path: Path) -> None:
    good = read_run("seed-7", write_round(tmp_path / "seed-7"))
    assert (good.verdict, good.reasons, good.what) == (Verdict.GOOD, (), "Chaos round of seed 7")
    assert (good.began_ms, good.ended_ms, good.faults) == (BEGAN_MS, ENDED_MS, 2)
    assert good.command == "strandline-lab chaos --seed 7"
    bad = read_run("seed-8", write_round(tmp_path / "seed-8", findings=[FINDING]))
    assert (bad.good, bad.reasons) == (False, ("1 finding.",))
    assert [each.detail for each in bad.findings] == ["it is gone"]


def test_a_run_of_the_simulation_is_told_from_a_round(tmp_path: Path) -> None:
    folder = write_round(tmp_path / "seed-7")
    (folder / "command.txt").unlink()
    (folder / "result.json").write_text("{}")
    run = read_run("seed-7", folder)
    assert run.what == "Simulation run of seed 7"
    assert run.command == f"strandline-lab simulate --plan {folder / 'plan.json'}"


def test_a_round_that_was_not_judged_is_not_good(tmp_path: Path) -> None:
    folder = write_round(tmp_path / "seed-7", moments=MOMENTS[:-1])
    (folder / "findings.jsonl").unlink()
    run = read_run("seed-7", folder)
    assert run.verdict is Verdict.UNFINISHED and len(run.reasons) == 2


def test_all_events_of_a_run_are_kept_however_many(tmp_path: Path) -> None:
    found = read_timeline("seed-7", write_round(tmp_path / "seed-7")).window
    assert (found.count(Source.STATE), found.room(Source.STATE)) == (2, 0)  # it is as large as the run


def test_leaders_are_those_of_the_events_and_vacancies_those_that_were_seen(tmp_path: Path) -> None:
    lanes = lanes_of(write_round(tmp_path / "seed-7"))
    leaders = [(each["from"], each["broker"], each["epoch"]) for each in lanes["leader"]["items"]]
    # The answer at 6.5 s is older than that at 6 s: it does not bring broker 1 back.
    assert leaders == [(BEGAN_MS - 500, 1, 1), (BEGAN_MS + 6_000, -1, 1), (BEGAN_MS + 8_000, 2, 2)]
    assert {each["of"] for each in lanes["isr"]["items"]} == {3}
    assert lanes["offsets"]["hw"][-1] == [BEGAN_MS + 8_100, 50]


def test_groups_have_their_generations(tmp_path: Path) -> None:
    lanes = lanes_of(write_round(tmp_path / "seed-7"), "group")
    assert [each["state"] for each in lanes["generation"]["items"]] == ["rebalancing", "stable"]


def test_a_line_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    folder = write_round(tmp_path / "seed-7")
    for name in ("state-changes", "group-events", "observations", "timeline"):
        with (folder / f"{name}.jsonl").open("a") as file:
            file.write('[1]\n{"at": "never"}\n{"version": 1, "at": 1}\n\x00{\n{"half')
    lanes = lanes_of(folder)
    assert [each["broker"] for each in lanes["leader"]["items"]] == [1, -1, 2]
    [said] = [each for each in read_run("run", folder).unread if each.startswith("timeline.jsonl")]
    assert "cannot be read" in said
    unread = read_timeline("run", folder).run.unread
    assert [each.partition(":")[0] for each in unread] == ["timeline.jsonl", "observations.jsonl"]


def test_faults_are_a_row_of_their_own(tmp_path: Path) -> None:
    faults = read_timeline("run", write_round(tmp_path / "seed-7")).faults
    row = faults.row(BEGAN_MS, ENDED_MS + 1)
    spans, marks = row["lanes"]
    # A fault without an end of its own lasts until everything is healed; one that was skipped is not there.
    assert [(each["label"], each["from"], each["until"]) for each in spans["items"]] == [
        ("kill: broker 1", BEGAN_MS + 5_000, BEGAN_MS + 9_000),
        ("chase: broker 2", BEGAN_MS + 12_000, HEALED_MS),
    ]
    assert [each["kind"] for each in marks["items"]] == ["began", "healed", "ended"]
    assert faults.row(BEGAN_MS + 9_500, BEGAN_MS + 11_000)["lanes"] == []
    assert [each["label"] for lane in faults.of_broker(2) for each in lane["items"]] == ["chase: broker 2"]


def test_a_fault_is_explained(tmp_path: Path) -> None:
    faults = read_timeline("run", write_round(tmp_path / "seed-7")).faults
    said = faults.explain("fault/2")
    assert said is not None
    assert (said["sentence"], said["cause"], said["after"]) == (
        "Chase: broker 2.", "leader", {"ended": "after 8.000 s"},
    )  # fmt: skip
    assert [each["id"] for each in said["related"]] == ["fault/0"]
    healed = faults.explain("moment/1")
    assert healed is not None and healed["sentence"] == "All faults are over."
    for unknown in ("fault/1", "moment/9", "fault/", "fault/x", "state/0/1", "fault/-1"):
        assert faults.explain(unknown) is None


def test_a_folder_has_runs_in_it_or_is_refused_with_what_to_do(tmp_path: Path) -> None:
    first = write_round(tmp_path / "runs" / "seed-1")
    second = write_round(tmp_path / "runs" / "seed-2")
    (tmp_path / "runs" / "notes").mkdir()
    assert folders_of([tmp_path / "runs"]) == folders_of([first, second])
    with pytest.raises(SettingsError, match="no folder"):
        folders_of([tmp_path / "nowhere"])
    with pytest.raises(SettingsError, match="no run has ended there"):
        folders_of([tmp_path / "runs" / "notes"])
    (tmp_path / "runs" / "notes" / "result.json").write_text("{}")
    with pytest.raises(SettingsError, match=r"strandline-lab simulate --plan .*plan\.json"):
        folders_of([tmp_path / "runs" / "notes"])
