"""The console of runs: it needs no cluster, and answers as the console of a cluster does."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from strandline.config.console import ConsoleSettings
from strandline.config.load import load
from strandline.console.feeds.run_folder import folders_of
from strandline.console.feeds.runs import Runs
from strandline.console.runs_process import pages_of, running
from strandline.console.web.app import guarded
from strandline.errors import SettingsError
from tests.console.runs.folders import BEGAN_MS, ENDED_MS, FINDING, write_round
from tests.console.web.browser import Browser

HOSTILE = "<b>lost</b>"


@pytest.fixture(scope="module")
async def browser(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Browser]:
    runs = tmp_path_factory.mktemp("runs")
    write_round(runs / "seed-7")
    write_round(runs / "seed-8", findings=[{**FINDING, "detail": HOSTILE}])
    other = write_round(runs / "other" / "seed-7")
    async with AsyncExitStack() as stack:
        site = await stack.enter_async_context(running(load(ConsoleSettings)))
        yield Browser(guarded(site, pages_of(site, Runs(folders_of([runs, other])))))


async def timeline_of(browser: Browser, run: str = "seed-7", **asked: Any) -> Any:
    query = {"run": run, "from": BEGAN_MS, "until": ENDED_MS + 1, **asked}
    answer = await browser.get(f"/api/timeline?{urlencode(query, doseq=True)}")
    assert answer.status == 200, answer.text
    return answer.json


async def test_the_list_has_each_run_with_its_verdict(browser: Browser) -> None:
    assert (await browser.get("/")).headers["location"] == "/runs"
    page = await browser.get("/runs")
    assert "seed-7 Chaos round of seed 7 nothing wrong was found" in page.words
    assert "something wrong was found 1 finding." in page.words
    assert 'href="/timeline?run=seed-7-2"' in page.text  # another folder of the same name
    assert "--allow-changes" not in page.text  # it has no cluster that it could change


async def test_the_page_of_a_run_says_what_was_found(browser: Browser) -> None:
    page = await browser.get("/timeline?run=seed-8")
    assert "lost at orders-0 , offset 7" in page.words
    assert HOSTILE not in page.text and "&lt;b&gt;lost" in page.text
    assert f'data-zero="{BEGAN_MS}"' in page.text
    assert "strandline-lab chaos --seed 7" in page.words


async def test_the_faults_are_the_first_row_of_every_kind_of_rows(browser: Browser) -> None:
    for rows, second in (("partition", "orders-0"), ("group", "billing"), ("broker", "broker 1")):
        answer = await timeline_of(browser, rows=rows)
        assert [row["name"] for row in answer["rows"]][:2] == ["faults", second]
        assert answer["rows_total"] == len(answer["rows"])


async def test_pages_of_rows_fit_together(browser: Browser) -> None:
    whole = [row["id"] for row in (await timeline_of(browser, rows="broker"))["rows"]]
    assert len(whole) > 2
    single = [
        row["id"]
        for first in range(len(whole))
        for row in (await timeline_of(browser, rows="broker", first=first, count=1))["rows"]
    ]
    assert single == whole
    assert (await timeline_of(browser, rows="broker", first=len(whole)))["rows"] == []


async def test_a_broker_has_its_own_faults_in_its_row(browser: Browser) -> None:
    rows = (await timeline_of(browser, rows="broker"))["rows"]
    lanes = {row["name"]: [lane["kind"] for lane in row["lanes"]] for row in rows}
    assert lanes["broker 1"][0] == "fault"
    assert (await timeline_of(browser, rows="broker", kind="alive"))["rows"][0]["name"] == "broker 1"


async def test_a_partition_has_its_watermarks(browser: Browser) -> None:
    [_, row] = (await timeline_of(browser))["rows"]
    [offsets] = [lane for lane in row["lanes"] if lane["kind"] == "offsets"]
    assert [offset for _, offset in offsets["hw"]] == [0, 40, 40, 50]


async def test_an_event_names_the_line_that_says_so(browser: Browser) -> None:
    [_, row] = (await timeline_of(browser, kind=["leader", "fault"]))["rows"]
    elected = row["lanes"][0]["items"][-1]
    said = (await browser.get(f"/api/timeline/event/{elected['event']}?run=seed-7")).json
    assert said["sentence"] == "Broker 2 leads orders-0 at epoch 2: broker 1 is gone."
    assert said["record"] == {"file": "state-changes.jsonl", "line": 2}
    fault = (await browser.get("/api/timeline/event/fault/0?run=seed-7")).json
    assert fault["sentence"] == "Kill: broker 1." and fault["at"] == BEGAN_MS + 5_000


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/timeline?run=seed-9", 404),
        (f"/timeline?run={quote('../seed-7')}", 404),
        ("/timeline", 307),
        ("/api/timeline?run=seed-9", 404),
        ("/api/timeline", 404),
        ("/api/timeline?run=seed-7&kind=nothing", 400),
        ("/api/timeline/event/state/0/99?run=seed-7", 404),
        ("/api/timeline/event/fault/99?run=seed-7", 404),
        ("/api/timeline/event/nothing?run=seed-7", 400),
        ("/topics", 404),
    ],
)
async def test_what_is_not_there_is_said(browser: Browser, path: str, status: int) -> None:
    assert (await browser.get(path)).status == status


async def test_a_run_is_read_again_once_its_files_are_others(tmp_path: Path) -> None:
    folder = write_round(tmp_path / "seed-1", findings=[FINDING])
    findings = folder / "findings.jsonl"
    read_ns, size = findings.stat().st_mtime_ns, findings.stat().st_size
    async with running(load(ConsoleSettings)) as site:
        browser = Browser(guarded(site, pages_of(site, Runs([folder]))))
        assert "1 finding." in (await browser.get("/runs")).words
        assert "1 found" in (await browser.get("/timeline?run=seed-1")).words
        findings.write_text("\n" * size)
        os.utime(findings, ns=(read_ns, read_ns))
        assert "1 finding." in (await browser.get("/runs")).words, "it was read without need"
        os.utime(findings, ns=(read_ns, read_ns + 1))
        assert "nothing wrong was found" in (await browser.get("/runs")).words
        assert "1 found" not in (await browser.get("/timeline?run=seed-1")).words


async def test_a_run_that_is_removed_meanwhile_is_said(tmp_path: Path) -> None:
    folder = write_round(tmp_path / "seed-1")
    async with running(load(ConsoleSettings)) as site:
        browser = Browser(guarded(site, pages_of(site, Runs([folder]))))
        (folder / "timeline.jsonl").unlink()
        assert "has no moment" in (await browser.get("/runs")).words
        assert (await browser.get("/timeline?run=seed-1")).status == 400


@pytest.mark.parametrize("setting", ["login", "allow_changes"])
async def test_what_needs_a_cluster_is_refused(setting: str) -> None:
    given = {"security_protocol": "PLAINTEXT", setting: True}
    with pytest.raises(SettingsError, match="no cluster"):
        async with running(load(ConsoleSettings, **given)):
            pass
