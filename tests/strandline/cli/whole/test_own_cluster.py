"""Commands that start clusters of their own: up, down, demo and perf failover."""

from __future__ import annotations

import asyncio
import os
import re
import select
import signal
import socket
import urllib.request
from pathlib import Path

import pytest

from tests.strandline.cli.support.cli_process import LAB, start_python, strandline, strandline_python
from tests.waiting import eventually

pytestmark = pytest.mark.slow


def _runs(pid: int) -> bool:
    """A zombie that has not been reaped yet has ended, too."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


async def _kill(pid: int) -> None:
    """kill -9, and wait until all of its threads have ended: a signal takes effect a moment later."""
    pidfd = os.pidfd_open(pid)
    os.kill(pid, signal.SIGKILL)
    try:
        await eventually(lambda: select.select([pidfd], [], [], 0)[0], what=f"process {pid} has ended")
    finally:
        os.close(pidfd)


async def test_up_starts_what_does_not_run_and_down_stops_it(tmp_path: Path) -> None:
    """`up` on a folder that exists starts what does not run; the data of a topic stays. With more
    brokers than there are it adds some, and it takes none away.

    Without a controller the brokers serve, and `status` shows them.
    """
    directory = str(tmp_path / "cluster")
    try:
        up = await strandline_python("up", "--brokers", "1", "--dir", directory)
        assert up.status == 0, up.err
        (before,) = (await strandline("status", "-o", "json", "--dir", directory)).objects
        created = await strandline("topic", "create", "kept", "--dir", directory)
        assert created.status == 0, created.err
        produced = await strandline("produce", "kept", "--dir", directory, stdin=b"one\n")
        assert produced.status == 0, produced.err
        await _kill(before["controllers"][0]["pid"])
        alone = await strandline("status", "-o", "json", "--dir", directory)
        assert alone.status == 0, alone.err
        assert alone.objects[0]["controllers"][0]["alive"] is False
        (kept,) = [each["partitions"] for each in alone.objects[0]["topics"] if each["topic"] == "kept"]
        assert kept[0]["hw"] == 1
        os.kill(before["brokers"][0]["pid"], signal.SIGTERM)  # it is still stopping when `up` looks
        again = await strandline_python("up", "--dir", directory)
        assert again.status == 0, again.err
        (after,) = (await strandline("status", "-o", "json", "--dir", directory)).objects
        assert after["zookeeper"] == before["zookeeper"]
        assert after["brokers"][0]["pid"] != before["brokers"][0]["pid"]
        read = await strandline(
            "consume", "kept", "--from", "earliest", "--max-records", "1", "--dir", directory
        )
        assert read.out == b"one\n"
        grown = await strandline_python("up", "--brokers", "2", "--dir", directory)
        assert grown.status == 0, grown.err
        assert b"added broker 2 at 127.0.0.1:" in grown.out
        assert b"`strandline cluster balance`" in grown.out
        (larger,) = (await strandline("status", "-o", "json", "--dir", directory)).objects
        first, second = larger["brokers"]
        assert first["pid"] == after["brokers"][0]["pid"]
        assert second["alive"] and second["queued_state_changes"] is not None
        refused = await strandline_python("up", "--brokers", "1", "--dir", directory)
        assert refused.status == 1
        assert "has 2 brokers, and --brokers 1 takes none away" in refused.err
        assert "drain ID --replicas" in refused.err
    finally:
        down = await strandline("down", "--dir", directory)
    assert down.status == 0, down.err
    assert not _runs(after["zookeeper"]["pid"])
    assert not _runs(after["brokers"][0]["pid"])
    stopped = await strandline("status", "-o", "json", "--dir", directory)
    assert stopped.status == 1
    assert stopped.objects[0]["brokers"][0]["alive"] is False
    assert "strandline up" in stopped.err


async def test_up_serves_a_console_that_starts_and_stops_with_the_cluster(tmp_path: Path) -> None:
    """In a secure cluster a browser needs the token of a file that only its owner may read."""
    directory = tmp_path / "cluster"
    try:
        up = await strandline_python(
            "up", "--brokers", "1", "--secure", "--console", "-o", "json", "--dir", str(directory)
        )
        assert up.status == 0, up.err
        (before,) = (await strandline("status", "-o", "json", "--dir", str(directory))).objects
        address = up.objects[0]["console"]
        assert before["console"]["alive"] and address == f"http://127.0.0.1:{before['console']['port']}/"
        assert "Token" in await _page(address)
        token = directory / "console-token"
        assert token.stat().st_mode & 0o777 == 0o600 and len(token.read_text().strip()) >= 16
        await _kill(before["console"]["pid"])
        again = await strandline_python("up", "--dir", str(directory))
        assert again.status == 0 and address.encode() in again.out, again.err
        assert "Token" in await _page(address)
        (after,) = (await strandline("status", "-o", "json", "--dir", str(directory))).objects
    finally:
        down = await strandline("down", "--dir", str(directory))
    assert down.status == 0, down.err
    assert not _runs(after["console"]["pid"])


async def _page(address: str) -> str:
    def read() -> str:
        with urllib.request.urlopen(address, timeout=10) as page:
            return str(page.read().decode())

    return await asyncio.to_thread(read)


def _members_in(directory: Path) -> list[int]:
    """The processes that were started for a folder, from any source."""
    found = []
    for each in Path("/proc").iterdir():
        if not each.name.isdecimal():
            continue
        try:
            texts = (each / "cmdline").read_bytes() + (each / "environ").read_bytes()
        except OSError:
            continue
        if f"{directory}/".encode() in texts and _runs(int(each.name)):
            found.append(int(each.name))
    return found


async def test_up_with_a_port_that_is_taken_says_so_and_makes_no_folder(tmp_path: Path) -> None:
    """Not one process is started, and the next `up` may choose other ports."""
    directory = tmp_path / "cluster"
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        refused = await strandline_python("up", "--kafka-port", str(port), "--dir", str(directory))
    assert refused.status == 1
    assert f"choose other ports: {port} (Kafka clients of broker 1) is taken" in refused.err
    assert not directory.exists()


async def test_two_at_once_in_one_folder_make_one_cluster(tmp_path: Path) -> None:
    """One `up` is refused or finds all running, and `down` leaves nothing behind."""
    directory = tmp_path / "cluster"
    arguments = ("up", "--brokers", "1", "--dir", str(directory))
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(strandline_python(*arguments)) for _ in range(2)]
        ups = [task.result() for task in tasks]
        (shown,) = (await strandline("status", "-o", "json", "--dir", str(directory))).objects
    finally:
        down = await strandline("down", "-o", "json", "--dir", str(directory))
    assert 0 in [up.status for up in ups]
    for up in ups:
        assert up.status == 0 or ("cluster" in up.err and "Traceback" not in up.err)
    assert all(row["alive"] for row in (shown["zookeeper"], *shown["controllers"], *shown["brokers"]))
    assert down.objects[0]["stopped"] == 3
    assert _members_in(directory) == []


async def test_down_finds_what_a_killed_up_had_started(tmp_path: Path) -> None:
    """Every process is recorded as soon as it runs, long before the cluster serves.

    Between a process's start and its record is a moment in which a signal that cannot be caught leaves it
    unknown; so the kill comes when all three are recorded.
    """
    directory = tmp_path / "cluster"
    up = await start_python("up", "--brokers", "1", "--dir", str(directory))
    await eventually(lambda: len(re.findall(r'"pid": ?[0-9]+', _text(directory / "cluster.json"))) == 3)
    up.kill()
    await up.communicate()
    down = await strandline("down", "--dir", str(directory))
    assert down.status == 0, down.err
    assert _members_in(directory) == []


async def test_a_killed_first_start_leaves_a_cluster_that_is_as_secure_as_it_was_to_be(
    tmp_path: Path,
) -> None:
    """The next `up` in that folder made a cluster without encryption, beside the certificates.

    A process that had started, and was not recorded yet, would keep a port of the next ones.
    """
    directory = tmp_path / "cluster"
    up = await start_python("up", "--secure", "--brokers", "1", "--dir", str(directory))
    await eventually((directory / "tls" / "ca.pem").exists)
    up.kill()
    await up.communicate()
    for member in _members_in(directory):
        await _kill(member)
    try:
        again = await strandline_python("up", "--dir", str(directory))
        assert again.status == 0, again.err
        assert b"1 broker serves" in again.out and b"client.toml" in again.out
    finally:
        await strandline("down", "--dir", str(directory))


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


async def test_the_demo_keeps_its_promise() -> None:
    """A leader is killed half way, and every acknowledged record is read exactly once."""
    ended = await strandline_python("demo", "-o", "json")
    assert ended.status == 0, ended.err
    (figures,) = ended.objects
    assert figures["ok"] is True
    assert figures["acknowledged"] == figures["read"] == figures["read_again"] == figures["records"]
    assert figures["leader"] != figures["killed"]
    assert "kill -9" in ended.err
    assert re.search(r"Kafka clients connect to 127\.0\.0\.1:\d+,", ended.err)


async def test_the_demo_takes_any_file(tmp_path: Path) -> None:
    """Lines of the user's own, and a folder that stays; a file too short is refused."""
    lines = tmp_path / "lines"
    lines.write_text("one::two\n")
    refused = await strandline_python("demo", "--file", str(lines))
    assert refused.status == 1
    assert "100" in refused.err


@pytest.mark.timeout(120)
async def test_failover_is_measured_and_nothing_is_lost() -> None:
    """After kills under load the acknowledged records are all read."""
    ended = await strandline_python("perf", "failover", "--rounds", "2", "-o", "json", program=LAB)
    assert ended.status == 0, ended.err
    (figures,) = ended.objects
    assert figures["lost"] == 0
    assert 0 < figures["p50_ms"] <= figures["max_ms"]
    assert figures["acknowledged"] <= figures["sent"]
