"""The commands on the pages do what the pages say (README.md, docs/use, docs/run)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from strandline.local.ports import free_ports

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parent.parent


def blocks(page: str, language: str) -> list[str]:
    """The code blocks of a page in this language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)


def example(page: str, language: str, containing: str) -> str:
    """The one code block of a page in this language that contains these words."""
    (found,) = [block for block in blocks(page, language) if containing in block]
    return found


def run(command: list[str], directory: Path, *, timeout_s: float = 50) -> str:
    """Standard output of a command that succeeds."""
    environment = dict(os.environ, PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    done = subprocess.run(
        command,
        cwd=directory,
        env=environment,
        text=True,
        capture_output=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def settled(members: int) -> str:
    """A command that waits until this many members have committed everything. Fewer may have done so before
    the others have joined."""
    pattern = rf"(?s)\nstate +Stable.* {members} cooperative\n.*\nlag +0\n"
    return f"until strandline group describe harbour | grep -qzP '{pattern}'; do sleep 1; done"


@pytest.mark.parametrize(
    ("page", "containing", "printed"),
    [
        ("README.md", "high water 11:42", "b'high water 11:42'\n"),
        ("docs/use/groups.md", "low water", "b'low water 17:58'\n"),
        ("docs/use/streams.md", "LocalCluster", "{'Hamburg': 2}\n"),
        ("docs/use/clients.md", "asyncio.run", "0 b'world' b'hello'\n"),
        ("docs/use/testing-your-application.md", "asyncio.run", "b'high water 11:42'\n"),
        ("docs/run/state-changes.md", "asyncio.run", "leader of orders-0: first election\n"),
    ],
)
def test_the_example_prints_its_record(page: str, containing: str, printed: str, tmp_path: Path) -> None:
    assert run([sys.executable, "-c", example(page, "python", containing)], tmp_path) == printed


@pytest.mark.timeout(150)
def test_a_kafka_client_reads_from_the_cluster_of_the_demo(tmp_path: Path) -> None:
    """The page's commands, but for the environment that `make` makes, its ports, and kcat, which is not
    everywhere."""
    (free,) = free_ports(1)
    script, found = re.subn(
        'make demo ARGS="(.*)"', r"strandline demo \1", example("README.md", "sh", "make demo ARGS")
    )
    assert found == 1
    script = "".join(line for line in script.splitlines(keepends=True) if not line.startswith("kcat "))
    script = script.replace(".venv/bin/", "").replace("29092", str(free))
    client = example("README.md", "python", "confluent_kafka").replace("29092", str(free))
    try:
        printed = run(["bash", "-euo", "pipefail", "-c", script], tmp_path, timeout_s=100)
        assert f"Kafka clients connect to 127.0.0.1:{free}," in printed
        assert re.fullmatch(r"b'\d+::\d+::\d::\d+'\n", run([sys.executable, "-c", client], tmp_path))
    finally:
        run(["strandline", "--dir", "demo", "down"], tmp_path)


def test_the_shell_example_reads_its_records_back(tmp_path: Path) -> None:
    script = example("docs/use/cli.md", "sh", "seq 1").replace("make setup && . .venv/bin/activate\n", "")
    try:
        printed = run(["bash", "-euo", "pipefail", "-c", script], tmp_path)
    finally:
        run(["strandline", "down"], tmp_path)
    assert "acked 100000, failed 0" in printed


@pytest.mark.timeout(150)
def test_the_shell_example_of_a_group_shows_where_it_stands_and_reads_everything_once(tmp_path: Path) -> None:
    """Its pause is for people; here it ends once all is committed. The shares are all that was written, which
    is a tenth of what the page writes."""
    cluster = example("docs/use/cli.md", "sh", "seq 1")
    group = example("docs/use/groups.md", "sh", "sleep 8")
    written = "".join(line + "\n" for line in cluster.splitlines() if re.search(" (create|produce) ", line))
    script, pauses = re.subn("^sleep 8.*$", lambda _: settled(2), group, flags=re.MULTILINE)
    assert pauses == 1
    script = script.replace("strandline up\n", "strandline up\n" + written).replace("100000", "10000")
    try:
        printed = run(["bash", "-euo", "pipefail", "-c", script], tmp_path, timeout_s=100)
    finally:
        run(["strandline", "down"], tmp_path)
    assert re.search(r"^lag +0$", printed, re.MULTILINE), printed
    assert "2 cooperative" in printed and "10000 total" in printed
    records = [int(line) for name in ("share-1", "share-2") for line in (tmp_path / name).read_text().split()]
    assert sorted(records) == list(range(1, 10_001))


@pytest.mark.timeout(200)
def test_the_tutorial_reads_every_record_though_a_member_and_a_broker_are_killed(tmp_path: Path) -> None:
    """Its pauses are for people; here they end once the group has committed everything."""
    (tmp_path / "worker.py").write_text(example("docs/use/tutorial.md", "python", "RebalanceListener"))
    script = "".join(blocks("docs/use/tutorial.md", "sh")).replace("make setup && . .venv/bin/activate\n", "")
    members = iter((2, 1, 1))
    script = re.sub("^sleep 8.*$", lambda _: settled(next(members)), script, flags=re.MULTILINE)
    assert next(members, None) is None
    try:
        printed = run(["bash", "-euo", "pipefail", "-c", script], tmp_path, timeout_s=150)
    finally:
        run(["strandline", "down"], tmp_path)
    assert printed.count("acked 1000, failed 0") == 3
    assert re.search("was not heard of for 3000 ms", printed), printed
    assert re.search("^3000$", printed, re.MULTILINE), printed


def test_the_shell_example_of_state_changes_shows_leaders_and_waiting_requests(tmp_path: Path) -> None:
    """An event may be recorded a moment later: the example is repeated until it shows it."""
    script = example("docs/run/state-changes.md", "sh", "--backlog").replace("strandline down\n", "")
    shown = "strandline state-changes --topic orders --partition 1"
    looking = f"until {shown} | grep elected; do :; done"
    assert shown in script
    try:
        printed = run(["bash", "-euo", "pipefail", "-c", script.replace(shown, looking)], tmp_path)
    finally:
        run(["strandline", "down"], tmp_path)
    assert re.search(r"leader, broker [123], elected for orders-1, ISR .*: first election", printed), printed
    assert re.search(r"^3 +yes +\d+", printed, re.MULTILINE), printed


@pytest.mark.timeout(400)
def test_a_broker_takes_the_place_of_another_by_the_commands_of_the_page(tmp_path: Path) -> None:
    """docs/run/brokers.md. Three brokers serve afterwards, and the first is no longer known."""
    page = "docs/run/brokers.md"
    script = example(page, "sh", "--brokers 4") + example(page, "sh", "broker forget")
    try:
        printed = run(["bash", "-euo", "pipefail", "-c", script], tmp_path, timeout_s=350)
    finally:
        run(["strandline", "down", "--dir", ".strandline-grows"], tmp_path)
    assert "added broker 4 at 127.0.0.1:" in printed
    assert "orders-0 has replicas 4,2,3" in printed
    assert re.search(r"^broker 1: drained, 0 leaderships, 0 replicas$", printed, re.MULTILINE), printed
    listed = printed[printed.index("broker 1: forgotten") :]
    assert re.findall(r"^(\d) +127.0.0.1 .* yes ", listed, re.MULTILINE) == ["2", "3", "4"], printed


@pytest.mark.timeout(150)
def test_the_bug_on_the_page_shows_only_when_the_application_is_killed(tmp_path: Path) -> None:
    """And its repair is one line."""
    page = "docs/use/testing-your-application.md"
    billing = example(page, "python", "async def bill(")
    (tmp_path / "billing.py").write_text(billing)
    (tmp_path / "test_billing.py").write_text(example(page, "python", "BankInMemory"))
    pytest_run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    whole = [*pytest_run, "-k", "test_every_order_is_charged and not dies"]
    assert "1 passed, 30 deselected" in run(whole, tmp_path)
    failed = subprocess.run(
        [*pytest_run, "-x"], cwd=tmp_path, text=True, capture_output=True, check=False
    ).stdout
    seed = re.search(r"seed (\d+); run it again: pytest (\S+) --strandline-seed=\1\n", failed)
    assert seed is not None, failed
    commit, charge = re.findall(r"^ +await (?:orders|bank)\..*\n", billing, re.MULTILINE)
    assert commit + charge in billing
    (tmp_path / "billing.py").write_text(billing.replace(commit + charge, charge + commit))
    assert "31 passed" in run(pytest_run, tmp_path)
