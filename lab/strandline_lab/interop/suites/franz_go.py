"""franz-go's own tests, of the version that the go.mod of this repository's programs pins."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from strandline_lab.interop.outcome import Outcome, Place, Report, Status, Suite
from strandline_lab.interop.process import printed, run
from strandline_lab.interop.suites.programs import PROGRAMS

MODULE: Final = "github.com/twmb/franz-go"
SUITE_S_MAX: Final = 1200.0
RECORDS: Final = 50_000
"""What one of its tests of groups writes; its authors write ten times as many."""
ENDS: Final = {"pass": Status.PASSED, "fail": Status.FAILED, "skip": Status.LEFT_OUT}


def run_suite(place: Place) -> Report | None:
    """Runs it, or returns None without Go."""
    if shutil.which("go") is None:
        return None
    folder, log = PROGRAMS / "go", place.output / "franz-go.log"
    words: list[str | Path] = [
        "go", "test", "-C", folder, "-json", "-count=1", f"-timeout={SUITE_S_MAX:.0f}s",
        f"-run={'|'.join(place.tests)}", f"{MODULE}/pkg/kgo",
    ]  # fmt: skip
    environment = {"KGO_SEEDS": place.kafka, "KGO_TEST_RECORDS": f"{RECORDS}", "KGO_LOG_LEVEL": "none"}
    status = run(words, log, seconds=SUITE_S_MAX, environment=environment)
    outcomes = [*outcomes_of(log.read_text(errors="replace"))]
    if status != 0 and not any(each.status is Status.FAILED for each in outcomes):
        outcomes.append(Outcome("the whole suite", Status.FAILED, f"exit status {status}: see {log.name}"))
    version = printed(["go", "list", "-C", folder, "-m", "-f", "{{.Version}}", MODULE])
    return Report("franz-go", version, outcomes)


def outcomes_of(text: str) -> Iterator[Outcome]:
    """The tests in what `go test -json` prints. The parts of one count with it; a failed part says why."""
    said: dict[str, str] = {}
    for line in text.splitlines():
        if not line.startswith("{"):
            continue
        event = json.loads(line)
        full, action = event.get("Test", ""), event["Action"]
        name, _, part = full.partition("/")
        if action == "output":
            place, _, words = event["Output"].strip().partition(": ")
            if "_test.go:" in place:
                said.setdefault(full, words[:200])
        elif part and action == "fail" and full in said:
            said.setdefault(name, said[full])
        elif name and not part and action in ENDS:
            end, why = ENDS[action], said.get(name, "")
            reason = {Status.PASSED: "", Status.FAILED: why}.get(end, f"the suite skips it: {why}")
            yield Outcome(name, end, reason)


SUITE: Final = Suite("franz-go", "Go 1.26 or later, and a way to its module proxy", run_suite)
