"""librdkafka's own tests, those that need a cluster; each number in a process of its own."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

from strandline_lab.interop.outcome import Outcome, Place, Report, Status, Suite, reason_of
from strandline_lab.interop.process import printed, run

TEST_S_MAX: Final = 300.0
BROKER_VERSION: Final = "3.9.0"
"""The version whose tests are asked for: the last one before share groups."""

LEFT_OUT: Final = {
    "*_local": "needs no cluster: librdkafka's own mock",
    "*_mock*": "needs no cluster: librdkafka's own mock",
    "0097_*": "TLS",
    "0115_*": "ACLs: it denies topics by the scripts of a Kafka installation",
    "0119_*": "ACLs: it denies topics by the scripts of a Kafka installation",
    "0077_*": "needs scripts of a Kafka installation",
    "0052_*": "needs scripts of a Kafka installation, and timestamps set by brokers",
    "0109_*": "ACLs: it denies topics by the scripts of a Kafka installation",
    "0126_*": "SASL",
    "0128_*": "SASL",
    "0135_*": "SASL",
    "0142_*": "SASL",
    "0101_*": "needs scripts of a Kafka installation, and reading from followers (KIP-392)",
    "01[789]?_share_*": "share groups (KIP-932)",
    "8*": "librdkafka's own manual test",
}
STAYS: Final = {
    "0081_*": "sets a config of a broker, whose configs are the settings that it reads at its start",
}
"""librdkafka ends 0081 at its first part that fails. docs/use/kafka.md has the other parts."""

TEST = re.compile(r"^\s*_TEST\(\s*(\w+),\s*([\w |]+)", re.MULTILINE)
SCENARIO = re.compile(r'\.scenario = "([\w,]+)"')


def listed_tests(source: str) -> Iterator[tuple[str, str, str]]:
    """Each test in the runner's table: name, flags, scenario."""
    found = list(TEST.finditer(source))
    ends = [match.start() for match in found[1:]] + [len(source)]
    for match, end in zip(found, ends, strict=True):
        scenario = SCENARIO.search(source, match.end(), end)
        yield match[1], match[2], scenario[1] if scenario else "default"


def name_of(scenario: str) -> str:
    return "librdkafka" if scenario == "default" else f"librdkafka-{scenario}"


def run_suite(place: Place, wanted_scenario: str) -> Report | None:
    """Runs the tests of one scenario, or returns None if there is no built runner."""
    folder = place.suites / "librdkafka" / "tests"
    if not (folder / "test-runner").is_file():
        return None
    outcomes = []
    wanted: dict[str, set[str]] = {}
    for name, flags, scenario in listed_tests((folder / "test.c").read_text()):
        if wanted_scenario not in scenario.split(",") or not place.wants(name):
            continue
        if reason := reason_of(name, LEFT_OUT) or _own_reason(flags):
            outcomes.append(Outcome(name, Status.LEFT_OUT, reason))
        else:
            wanted.setdefault(name[:4], set()).add(name)
    for number, names in wanted.items():
        outcomes += _one(place, folder, number, wanted_scenario, names)
    version = printed(["git", "describe", "--tags"], cwd=folder)
    return Report(name_of(wanted_scenario), version, outcomes)


def _own_reason(flags: str) -> str:
    """Why librdkafka's own flags leave a test out."""
    if "TEST_F_LOCAL" in flags or "TEST_F_MANUAL" in flags:
        return "needs no cluster: librdkafka's own mock"
    return "librdkafka's own known issue" if re.search(r"TEST_F_KNOWN_ISSUE(?!_WIN32)", flags) else ""


def _one(place: Place, folder: Path, number: str, scenario: str, names: set[str]) -> Iterator[Outcome]:
    """Runs the tests of one number and scenario."""
    output = place.output / "librdkafka" / f"{number}-{scenario}"
    output.parent.mkdir(parents=True, exist_ok=True)
    config, result, log = (output.with_suffix(f".{kind}") for kind in ("conf", "json", "log"))
    # The same factor as in librdkafka's own runs, and new topics for each run.
    config.write_text(
        f"metadata.broker.list={place.kafka}\ntest.topic.random=true\n"
        f"test.timeout.multiplier={2 * place.slower}\n"
    )
    result.unlink(missing_ok=True)
    environment = {
        "TESTS": number,
        "TEST_REPORT": str(result),
        "RDKAFKA_TEST_CONF": str(config),
        "TEST_KAFKA_VERSION": BROKER_VERSION,
        "LD_LIBRARY_PATH": f"{folder.parent / 'src'}:{folder.parent / 'src-cpp'}",
    }
    command = ["./test-runner", "-p1", "-L", "-K", "-Q", "-s", scenario]
    status = run(command, log, seconds=TEST_S_MAX * place.slower, cwd=folder, environment=environment)
    text = re.sub(r"\x1b\[[0-9;]*m", "", log.read_text(errors="replace"))
    tests = json.loads(result.read_text())["tests"] if result.exists() else {}
    for name in sorted(names):
        state = tests.get(name, {}).get("state", "")
        if state == "PASSED":
            yield Outcome(name, Status.PASSED)
        elif state == "SKIPPED":
            found = re.search(rf"\[{name} .*SKIPPING TEST: (.*)", text)
            yield Outcome(name, Status.LEFT_OUT, f"the suite skips it: {found[1].strip() if found else ''}")
        else:
            found = re.search(rf'"{name}(?: \([^"]*)?" failed at.*\n(.*)', text)
            ended = f"not done after {TEST_S_MAX:.0f} s" if status is None else f"exit status {status}"
            yield Outcome(name, Status.FAILED, found[1][:200] if found else ended)


def _suite(scenario: str, create: bool) -> Suite:
    return Suite(
        name_of(scenario),
        "a checkout of confluentinc/librdkafka as SUITES/librdkafka, its tests built as its README.md says",
        partial(run_suite, wanted_scenario=scenario),
        STAYS,
        {"num_partitions": 4, "kafka_auto_create_topics": create},
        acls=True,
    )


SUITES: Final = (_suite("default", create=True), _suite("noautocreate", create=False))
