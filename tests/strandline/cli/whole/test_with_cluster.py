"""The commands against a real cluster, run as its users run them."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from strandline import Producer
from strandline.local.cluster import LocalCluster
from strandline.records import Codec, encode_values, split
from strandline.records.header import assemble
from tests.conftest import ClusterFactory
from tests.strandline.cli.support.cli_process import LAB, Ended, start, strandline
from tests.strandline.cli.support.shell import Shell
from tests.waiting import eventually


@pytest.fixture(scope="module")
async def cluster(make_module_cluster: ClusterFactory) -> LocalCluster:
    """Three brokers, with a ZooKeeper that `status` shows."""
    return await make_module_cluster(brokers=3, zookeeper=None, kafka=True)


@pytest.fixture(scope="module")
def shell(cluster: LocalCluster) -> Shell:
    return Shell(cluster)


async def test_a_topic_is_created_described_altered_and_deleted(shell: Shell) -> None:
    """Shape of `topic describe`."""
    created = await shell(
        "topic",
        "create",
        "life",
        "--partitions",
        "2",
        "--replication-factor",
        "3",
        "--config",
        "retention.ms=1000",
    )
    assert created.status == 0, created.err
    (described,) = await shell.objects("topic", "describe", "life")
    assert described["config"] == {"retention.ms": "1000"}
    assert [sorted(row) for row in described["partitions"]] == [
        [
            "conditions",
            "epoch",
            "hw",
            "isr",
            "leader",
            "leo",
            "partition",
            "progress",
            "replicas",
            "size_bytes",
        ]
    ] * 2
    for row in described["partitions"]:
        assert row["leader"] == row["replicas"][0]
        assert sorted(row["isr"]) == sorted(row["replicas"]) == [1, 2, 3]
        assert (row["hw"], row["leo"], row["size_bytes"], row["conditions"]) == (0, 0, 0, [])
        assert [each["broker"] for each in row["progress"]] == row["replicas"]
        assert all(each["in_sync"] for each in row["progress"])
    await shell.objects(
        "topic", "alter", "life", "--unset", "retention.ms", "--config", "min.insync.replicas=2"
    )
    await eventually(
        lambda: _config_is(shell, "life", {"min.insync.replicas": "2"}), what="the change is described"
    )
    assert {"topic": "life"} in await shell.objects("topic", "list")
    await shell.objects("topic", "delete", "life")
    assert {"topic": "life"} not in await shell.objects("topic", "list")


async def _config_is(shell: Shell, topic: str, wanted: dict[str, str]) -> bool:
    """A broker answers, which learns of a change a moment after the controller has made it."""
    (described,) = await shell.objects("topic", "describe", topic)
    return bool(described["config"] == wanted)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["topic", "create", "t", "--replication-factor", "9"], "9"),
        (["topic", "create", "t", "--config", "no.such=1"], "no.such"),
        (["topic", "create", "a/b"], "a/b"),
        (["topic", "describe", "nowhere"], "nowhere"),
        (["topic", "delete", "nowhere"], "nowhere"),
        (["consume", "nowhere", "--idle-exit", "1"], "nowhere"),
    ],
)
async def test_an_impossible_command_is_explained_in_one_sentence(
    shell: Shell, arguments: list[str], said: str
) -> None:
    """Exit status 0 only on success; the sentence names the value."""
    ended = await shell(*arguments)
    assert ended.status == 1
    assert ended.err.startswith("error: ")
    assert said in ended.err
    assert len(ended.err.splitlines()) == 1


async def test_an_input_is_one_transaction_that_readers_of_committed_records_see_or_not(shell: Shell) -> None:
    """With a record that is refused all of it is aborted, and the command fails."""
    topic = await shell.topic("ledger")
    produce = ("produce", topic, "--transactional-id", "book")
    (tally,) = await shell.objects(*produce, stdin=b"one\ntwo\n")
    assert (tally["acked"], tally["failed"]) == (2, 0)
    ended = await shell(*produce, stdin=b"three\n" + b"x" * 2**20 + b"\n")
    assert ended.status == 1 and "the limit is" in ended.err
    read = ("consume", topic, "--from", "earliest", "--idle-exit", "1")
    records = await shell.objects(*read, "--isolation", "committed")
    assert [record["value"] for record in records] == ["one", "two"]


async def test_produced_records_are_consumed(shell: Shell) -> None:
    """Shapes of `produce` and `consume`; a line is a record, keys stand before the separator."""
    topic = await shell.topic("round-trip", partitions=3)
    lines = [b"%d:value-%d" % (number % 7, number) for number in range(200)]
    (done,) = await shell.objects("produce", topic, "--key-separator", ":", stdin=b"\n".join(lines))
    assert (done["acked"], done["failed"]) == (200, 0)
    records = await shell.objects("consume", topic, "--from", "earliest", "--max-records", "200")
    assert {tuple(sorted(record)) for record in records} == {
        ("headers", "key", "offset", "partition", "timestamp", "topic", "value")
    }
    assert sorted(f"{record['key']}:{record['value']}".encode() for record in records) == sorted(lines)
    for key in range(7):
        same_key = [record for record in records if record["key"] == str(key)]
        assert len({record["partition"] for record in same_key}) == 1
        assert [record["value"] for record in same_key] == [f"value-{n}" for n in range(200) if n % 7 == key]


async def test_values_are_shown_byte_for_byte_as_text_and_marked_as_json(shell: Shell) -> None:
    """Bytes that are not UTF-8 are base64 in JSON, with a field that says so."""
    topic = await shell.topic("bytes")
    await shell.objects("produce", topic, stdin=b"\xff\xfe\nplain\n")
    text = await shell("consume", topic, "--from", "earliest", "--max-records", "2")
    assert text.out == b"\xff\xfe\nplain\n"
    first, second = await shell.objects("consume", topic, "--from", "earliest", "--max-records", "2")
    assert (first["value"], first["value_encoding"]) == ("//4=", "base64")
    assert second["value"] == "plain"
    assert "value_encoding" not in second


async def test_reading_begins_at_the_given_offset(shell: Shell) -> None:
    """`--from OFFSET|TIME|latest`, `--partition`, `--idle-exit`."""
    topic = await shell.topic("starts", partitions=2)
    for number in range(3):
        await shell.objects("produce", topic, "--partition", "1", stdin=b"%d\n" % number)
    whole = await shell.objects("consume", topic, "--from", "earliest", "--max-records", "3")
    assert [record["value"] for record in whole] == ["0", "1", "2"]
    later = await shell.objects("consume", topic, "--partition", "1", "--from", "2", "--idle-exit", "0.5")
    assert [record["value"] for record in later] == ["2"]
    since = _iso(whole[1]["timestamp"])
    timed = await shell.objects("consume", topic, "--from", since, "--max-records", "2")
    assert [record["value"] for record in timed] == ["1", "2"]
    assert await shell.objects("consume", topic, "--from", "latest", "--idle-exit", "0.3") == []


def _iso(milliseconds: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat()


async def test_a_record_that_fails_is_counted_and_ends_with_1(shell: Shell) -> None:
    """`produce` ends with its counts, not with 0 if any failed."""
    topic = await shell.topic("too-large")
    ended = await shell("produce", topic, "-o", "json", stdin=b"fits\n" + b"x" * 600_000 + b"\nfits too\n")
    (done,) = ended.objects
    assert (ended.status, done["acked"], done["failed"]) == (1, 2, 1)
    assert "600" in done["error"]


async def test_status_shows_processes_and_partitions(shell: Shell, cluster: LocalCluster) -> None:
    """Shape of `status`."""
    topic = await shell.topic("seen", partitions=2)
    ended = await strandline("status", "-o", "json", "--dir", str(cluster.directory))
    (seen,) = ended.objects
    assert ended.status == 0, ended.err
    assert seen["zookeeper"]["pid"] > 0
    assert seen["zookeeper"]["port"] > 0
    (controller,) = seen["controllers"]
    assert controller["active"] is True
    assert controller["alive"] is True
    assert [broker["id"] for broker in seen["brokers"]] == [1, 2, 3]
    assert [broker["pid"] for broker in seen["brokers"]] == [cluster.pid(each) for each in cluster.broker_ids]
    assert all(broker["alive"] for broker in seen["brokers"])
    assert [broker["metrics_port"] for broker in seen["brokers"]] == [
        cluster.metrics_port(each) for each in cluster.broker_ids
    ]
    kafka_ports = [f"127.0.0.1:{broker['kafka_port']}" for broker in seen["brokers"]]
    assert ",".join(kafka_ports) == cluster.kafka_bootstrap
    assert controller["metrics_port"] == cluster.controller_metrics_port(controller["id"])
    (rows,) = [each["partitions"] for each in seen["topics"] if each["topic"] == topic]
    assert [row["partition"] for row in rows] == [0, 1]
    assert all(row["leader"] in (1, 2, 3) and row["epoch"] >= 0 for row in rows)


@pytest.mark.slow
async def test_verify_reports_the_life_of_every_record(shell: Shell) -> None:
    """A line for each record sent, acked with its offset, and received."""
    topic = await shell.topic("verified")
    sent = await shell(
        "verify", "produce", topic, "--max-records", "50", "--value-prefix", "v", "--rate", "500"
    )
    assert sent.status == 0, sent.err
    assert [line["seq"] for line in sent.objects] == list(range(len(sent.objects)))
    assert [line["record"] for line in _events(sent, "sent")] == list(range(50))
    acked = _events(sent, "acked")
    assert {line["record"]: line["offset"] for line in acked} == {number: number for number in range(50)}
    summary = sent.objects[-1]
    assert (summary["event"], summary["sent"], summary["acked"], summary["failed"]) == ("summary", 50, 50, 0)
    read = await shell("verify", "consume", topic, "--from", "earliest", "--max-records", "50")
    received = _events(read, "received")
    assert [(line["offset"], line["value"]) for line in received] == [(n, f"v{n}") for n in range(50)]
    assert read.objects[-1]["received"] == 50


@pytest.mark.slow
async def test_a_batch_that_cannot_be_decoded_is_named_and_can_be_left_out(
    shell: Shell, cluster: LocalCluster
) -> None:
    """(G16) its header and its CRC are right, its body is noise: brokers take it, readers cannot use it."""
    topic = await shell.topic("undecodable")
    [header] = split(encode_values([b"noise"] * 5, 0))
    noise = assemble(header._replace(attributes=Codec.GZIP), bytes(range(40, 90)))
    async with Producer(cluster.bootstrap) as producer:
        for _ in range(2):
            await producer.send_and_wait(topic, b"good")
            await (await producer.send_batch(topic, 0, noise))
        await producer.send_and_wait(topic, b"good")
    read = ("consume", topic, "--from", "earliest", "--max-records", "3")
    stopped = await shell(*read, "-o", "json")
    assert stopped.status != 0
    assert [record["offset"] for record in stopped.objects] == [0]
    assert f"{topic}-0: offsets 1 to 5 cannot be decoded" in stopped.err
    assert "on_undecodable=skip" in stopped.err and "Traceback" not in stopped.err
    skipped = await shell(*read, "--on-undecodable", "skip", "-o", "json")
    assert skipped.status == 0
    assert [record["offset"] for record in skipped.objects] == [0, 6, 12]
    assert "offsets 1 to 5" in skipped.err and "offsets 7 to 11" in skipped.err
    verified = await shell("verify", *read)
    assert verified.status != 0
    (error,) = _events(verified, "error")
    assert "offsets 1 to 5 cannot be decoded" in error["message"]
    assert verified.objects[-1]["received"] == 1


@pytest.mark.slow
async def test_sigterm_ends_verify_with_its_summary(shell: Shell) -> None:
    """A fault test stops its clients, and then knows everything that they know."""
    topic = await shell.topic("stopped")
    process = await start("verify", "produce", topic, "--rate", "100", **shell.environment)
    assert process.stdout is not None
    async with asyncio.timeout(30):
        lines = [json.loads(await process.stdout.readline()) for _ in range(10)]
        process.send_signal(signal.SIGTERM)
        out, err = await process.communicate()
    assert process.returncode == 0, err
    lines += [json.loads(line) for line in out.splitlines()]
    counts = {event: len([line for line in lines if line["event"] == event]) for event in ("sent", "acked")}
    assert lines[-1]["event"] == "summary"
    assert counts["sent"] == counts["acked"] == lines[-1]["sent"] == lines[-1]["acked"]


async def test_ctrl_c_ends_a_consumer_with_130(shell: Shell) -> None:
    """Interrupted is not success, and not a traceback."""
    topic = await shell.topic("interrupted")
    await shell.objects("produce", topic, stdin=b"one\n")
    process = await start("consume", topic, "--from", "earliest", **shell.environment)
    assert process.stdout is not None
    async with asyncio.timeout(30):
        assert await process.stdout.readline() == b"one\n"
        process.send_signal(signal.SIGINT)
        _, err = await process.communicate()
    assert (process.returncode, err.decode().strip()) == (130, "interrupted")


@pytest.mark.parametrize("as_json", [False, True])
async def test_ctrl_c_on_produce_keeps_the_tally(shell: Shell, as_json: bool) -> None:
    """What was acknowledged before is said, and the exit status is 130."""
    topic = await shell.topic(f"tally-{as_json}".lower())
    process = await start("produce", topic, *(["-o", "json"] if as_json else []), **shell.environment)
    assert process.stdin is not None
    process.stdin.write(b"one\ntwo\n")

    async def both_are_there() -> bool:
        (described,) = await shell.objects("topic", "describe", topic)
        return bool(described["partitions"][0]["hw"] == 2)

    await eventually(both_are_there, deadline_s=30)
    process.send_signal(signal.SIGINT)
    out, err = await process.communicate()
    assert process.returncode == 130, err
    if as_json:
        assert json.loads(out) == {"topic": topic, "acked": 2, "failed": 0}
    else:
        assert out == b"acked 2, failed 0\n"
    assert err.decode().splitlines() == [f"producing to {topic}", "interrupted"]


async def test_an_unknown_topic_is_reported_before_any_input_is_read(shell: Shell) -> None:
    """Standard input stays open here, and empty."""
    process = await start("produce", "nowhere", **shell.environment)
    async with asyncio.timeout(30):
        await process.wait()
    out, err = await process.communicate()
    assert (process.returncode, out) == (1, b"")
    assert b"nowhere" in err


@pytest.mark.slow
async def test_segments_are_read_without_a_cluster(
    shell: Shell, cluster: LocalCluster, tmp_path: Path
) -> None:
    """`log dump|verify PATH`."""
    topic = await shell.topic("on-disk")
    await shell.objects("produce", topic, stdin=b"first\nsecond\n")
    (described,) = await shell.objects("topic", "describe", topic)
    folder = cluster.data_dir(described["partitions"][0]["leader"])
    (segment,) = [path for path in folder.rglob("*.log") if b"second" in path.read_bytes()]
    for path in (segment, segment.parent):
        dumped = await strandline("log", "dump", "--records", "-o", "json", str(path))
        assert dumped.status == 0, dumped.err
        assert [line["value"] for line in dumped.objects if "value" in line] == ["first", "second"]
        assert (await strandline("log", "verify", str(path))).status == 0
    damaged = tmp_path / segment.name
    damaged.write_bytes(segment.read_bytes().replace(b"second", b"secomd"))
    verified = await strandline("log", "verify", "-o", "json", str(damaged))
    assert verified.status == 1
    assert [line["position"] for line in verified.objects] == [0]


@pytest.mark.slow
@pytest.mark.parametrize("api", ["many", "send", "batch"])
async def test_perf_produce_measures_and_cleans_up(shell: Shell, api: str) -> None:
    """Each measurement creates and deletes its own topic."""
    (figures,) = await shell.objects(
        "perf",
        "produce",
        "--api",
        api,
        "--records",
        "5001",
        "--in-flight",
        "11",
        "--batch-bytes",
        "4096",
        program=LAB,
    )
    assert figures["records"] == 5001
    assert figures["records_per_s"] > 0
    assert figures["p50_ms"] <= figures["p99_ms"] <= figures["max_ms"]
    assert not [each for each in await shell.objects("topic", "list") if each["topic"].startswith("perf-")]


@pytest.mark.slow
@pytest.mark.parametrize("api", ["batches", "many", "one"])
async def test_perf_consume_reads_all(shell: Shell, api: str) -> None:
    """`perf consume`."""
    (figures,) = await shell.objects("perf", "consume", "--api", api, "--records", "5000", program=LAB)
    assert figures["records"] >= 5000


@pytest.mark.slow
async def test_perf_latency_reports_both_ways(shell: Shell) -> None:
    """To the acknowledgement, and to a consumer."""
    (figures,) = await shell.objects("perf", "latency", "--records", "50", program=LAB)
    assert 0 < figures["p50_ms"] <= figures["max_ms"]
    assert 0 < figures["end_to_end_p50_ms"] <= figures["end_to_end_max_ms"]


def _events(ended: Ended, event: str) -> list[Any]:
    return [line for line in ended.objects if line["event"] == event]
