"""The group commands, and consumers in groups, against a real cluster, as users run them."""

from __future__ import annotations

import asyncio
import json
import re
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from strandline import Admin, TopicPartition
from strandline.local.cluster import LocalCluster
from strandline.vocabulary.log import ListedOffset
from tests.forking.client import Forked
from tests.strandline.cli.support.cli_process import LAB, start
from tests.strandline.cli.support.shell import Shell
from tests.waiting import eventually

DEADLINE_S = 40.0
MANY = 40
"""Groups: more than are asked at the same time."""


@pytest.fixture(scope="module")
def shell(cluster: LocalCluster) -> Shell:
    return Shell(cluster)


class Member:
    """A `strandline verify consume --group` that runs, and the lines that it has printed so far."""

    def __init__(self, process: Forked) -> None:
        self.process = process
        self.lines: list[dict[str, Any]] = []

    async def read(self) -> None:
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            self.lines.append(json.loads(line))

    def of(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["event"] == event]

    @property
    def owned(self) -> set[int]:
        """The partitions that it owns by its own reports."""
        partitions: set[int] = set()
        for line in self.lines:
            if line["event"] == "assigned":
                partitions |= set(line["partitions"])
            elif line["event"] in ("revoked", "lost"):
                partitions -= set(line["partitions"])
        return partitions

    def ended(self) -> bool:
        return self.process.returncode is not None


StartMember = Callable[..., Any]


@pytest.fixture
async def member(shell: Shell) -> AsyncIterator[StartMember]:
    """Starts members of groups; those that still run are killed at the end of the test."""
    started: list[Member] = []
    async with asyncio.TaskGroup() as tasks:

        async def start_one(topic: str, group: str, *arguments: str) -> Member:
            process = await start(
                "verify", "consume", topic, "--group", group, "--from", "earliest", *arguments,
                **shell.environment,
            )  # fmt: skip
            started.append(Member(process))
            tasks.create_task(started[-1].read())
            return started[-1]

        yield start_one
        for each in started:
            if not each.ended():
                each.process.kill()
            await each.process.wait()


@asynccontextmanager
async def produced(shell: Shell, name: str, partitions: int, records: int) -> AsyncIterator[str]:
    """A topic with this number of records in each partition."""
    topic = await shell.topic(name, partitions)
    for partition in range(partitions):
        lines = b"".join(b"%d-%d\n" % (partition, number) for number in range(records))
        await shell.objects("produce", topic, "--partition", str(partition), stdin=lines)
    yield topic


async def described(shell: Shell, group: str) -> Any:
    (view,) = await shell.objects("group", "describe", group)
    return view


def standing(view: Any) -> dict[int, tuple[int, int, int]]:
    """(committed, end, lag) of each partition."""
    return {row["partition"]: (row["committed"], row["end"], row["lag"]) for row in view["partitions"]}


async def test_a_group_continues_at_its_committed_offsets_and_its_lag_is_right(shell: Shell) -> None:
    """USERS 22: what is produced and not yet consumed is the lag, partition by partition."""
    async with produced(shell, "lagging", 2, 10) as topic:
        read = await shell(
            "consume", topic, "--group", "lag", "--from", "earliest", "--max-records", "20", "-o", "json"
        )
        assert read.status == 0, read.err
        assert len(read.objects) == 20
        assert "assigned lagging-0, lagging-1 (generation 1)" in read.err
        assert "revoked lagging-0, lagging-1 (generation 1)" in read.err
        await shell.objects("produce", topic, "--partition", "1", stdin=b"one\ntwo\nthree\n")
        view = await described(shell, "lag")
        assert standing(view) == {0: (10, 10, 0), 1: (10, 13, 3)}
        assert (view["state"], view["lag"], view["members"]) == ("Empty", 3, [])
        assert "the consumer was closed" in view["reason"]
        rest = await shell.objects("consume", topic, "--group", "lag", "--max-records", "3")
        assert [record["value"] for record in rest] == ["one", "two", "three"]
        assert standing(await described(shell, "lag"))[1] == (13, 13, 0)


@pytest.mark.slow
async def test_a_reset_is_shown_first_and_then_done(shell: Shell) -> None:
    """USERS 22: preview; what lies outside the log is clamped, and said."""
    async with produced(shell, "reset", 2, 10) as topic:
        await shell.objects("consume", topic, "--group", "back", "--from", "earliest", "--max-records", "20")
        before = standing(await described(shell, "back"))
        assert before == {0: (10, 10, 0), 1: (10, 10, 0)}
        arguments = ("group", "reset-offsets", "back", "--topic", "reset", "--to", "-3")
        (plan,) = await shell.objects(*arguments)
        assert plan["executed"] is False
        assert [(row["committed"], row["new"], row["lag"]) for row in plan["partitions"]] == [(10, 7, 3)] * 2
        assert standing(await described(shell, "back")) == before
        (done,) = await shell.objects(*arguments, "--execute")
        assert done == {**plan, "executed": True}
        assert standing(await described(shell, "back")) == {0: (7, 10, 3), 1: (7, 10, 3)}
        again = await shell.objects("consume", topic, "--group", "back", "--max-records", "6")
        assert sorted(record["value"] for record in again) == [f"{p}-{n}" for p in (0, 1) for n in (7, 8, 9)]
        text = await shell("group", "reset-offsets", "back", "--topic", "reset:1", "--to", "99")
        assert text.status == 0, text.err
        assert text.err == "nothing was changed; --execute changes it\n"
        assert b"99 lies outside: the log ends at 10" in text.out
        assert b"reset  0" not in text.out


@pytest.mark.slow
async def test_a_reset_goes_to_names_and_times(shell: Shell) -> None:
    """docs/use/cli.md: earliest, latest, and the first record that is not older than a time."""
    async with produced(shell, "timed", 1, 2) as topic:
        await shell.objects("produce", topic, stdin=b"late\n")
        *_, late = await shell.objects(
            "consume", topic, "--group", "clock", "--from", "earliest", "--max-records", "3"
        )
        when = datetime.fromtimestamp(late["timestamp"] / 1000, UTC).isoformat()
        for to, new in (("earliest", 0), ("latest", 3), ("1", 1), (when, 2), ("2999-01-01", 3)):
            (plan,) = await shell.objects("group", "reset-offsets", "clock", "--topic", "timed", "--to", to)
            assert [row["new"] for row in plan["partitions"]] == [new], to


@pytest.mark.slow
async def test_a_member_with_explicit_commits_reports_finished_and_committed_records(
    shell: Shell, member: StartMember
) -> None:
    """It blocks the loop for longer than the group waits, loses all, comes back, and commits all."""
    async with produced(shell, "handmade", 2, 12) as topic:
        running = await member(topic, "hand", "--by-hand", "--block", "1.5", "--max-poll-interval-ms", "500")
        wanted = {(partition, offset) for partition in (0, 1) for offset in range(12)}

        def offsets_of(event: str) -> set[tuple[int, int]]:
            return {(line["partition"], line["offset"]) for line in running.of(event)}

        await eventually(lambda: offsets_of("handled") == wanted, deadline_s=DEADLINE_S)
        assert running.of("lost") and running.of("revoked") == []
        running.process.send_signal(signal.SIGTERM)
        await eventually(running.ended, deadline_s=DEADLINE_S)
        assert running.process.returncode == 0
        await eventually(lambda: running.of("summary"))
        assert len(running.of("received")) == len(running.of("handled"))
        assert running.of("commit_acked") and offsets_of("commit_acked") <= {(p, o + 1) for p, o in wanted}
        assert standing(await described(shell, "hand")) == {0: (12, 12, 0), 1: (12, 12, 0)}


@pytest.mark.slow
async def test_a_group_with_members_is_neither_reset_nor_deleted(shell: Shell, member: StartMember) -> None:
    """G1: only what its members commit counts, so the refusal names them and says to stop them."""
    async with produced(shell, "busy", 1, 5) as topic:
        running = await member(topic, "busy", "--client-id", "reader")
        await eventually(lambda: len(running.of("received")) == 5, deadline_s=DEADLINE_S)
        reset = ("group", "reset-offsets", "busy", "--topic", "busy", "--to", "earliest")
        for refused in (await shell(*reset, "--execute"), await shell("group", "delete", "busy")):
            assert refused.status == 1
            assert refused.out == b""
            assert "client reader" in refused.err
            assert "top them" in refused.err
        preview = await shell(*reset)
        assert preview.status == 0
        assert "client reader" in preview.err
        running.process.send_signal(signal.SIGTERM)
        await eventually(running.ended, deadline_s=DEADLINE_S)
        assert standing(await described(shell, "busy")) == {0: (5, 5, 0)}
        assert (await shell(*reset, "--execute")).status == 0
        assert standing(await described(shell, "busy")) == {0: (0, 5, 5)}
        assert (await shell("group", "delete", "busy")).status == 0
        assert "busy" not in {row["group"] for row in await shell.objects("group", "list")}
        assert (await shell("group", "describe", "busy")).status == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["group", "describe", "nobody"],
        ["group", "delete", "nobody"],
        ["group", "reset-offsets", "nobody", "--topic", "known", "--to", "latest"],
        ["group", "reset-offsets", "nobody", "--topic", "known", "--to", "latest", "--execute"],
    ],
)
async def test_an_unknown_group_is_a_failure(
    shell: Shell, cluster: LocalCluster, arguments: list[str]
) -> None:
    """Exit status 0 only on success; a typing error makes no group."""
    async with Admin(cluster.bootstrap) as admin:
        if "known" not in await admin.list_topics():
            await admin.create_topic("known")
    ended = await shell(*arguments)
    assert (ended.status, ended.out) == (1, b"")
    assert "nobody" in ended.err
    assert len(ended.err.splitlines()) == 1
    assert "nobody" not in {row["group"] for row in await shell.objects("group", "list")}


async def test_consume_is_a_member_of_a_group_whose_coordinator_assigns(shell: Shell) -> None:
    """KIP-848, by `--group-protocol`."""
    async with produced(shell, "assigned", 2, 3) as topic:
        arguments = "--group", "assigned", "--group-protocol", "consumer", "--from", "earliest"
        rows = await shell.objects("consume", topic, *arguments, "--max-records", "6")
        assert len(rows) == 6
        view = await described(shell, "assigned")
        assert (view["type"], view["state"]) == ("consumer", "Empty")
        assert [row["committed"] for row in view["partitions"]] == [3, 3]


async def test_a_group_has_configs_of_its_own(shell: Shell) -> None:
    """KIP-848: set, shown and unset; a value out of bounds is refused, and the error names them."""
    altered = await shell.objects("group", "alter", "timed", "--config", "consumer.session.timeout.ms=50000")
    config = {"consumer.session.timeout.ms": "50000"}
    assert altered == [{"group": "timed", "set": config, "unset": []}]
    assert await shell.objects("group", "configs") == [{"group": "timed", "config": config}]
    shown = await shell("group", "configs", "timed")
    assert b"consumer.session.timeout.ms" in shown.out and b"50000" in shown.out
    refused = await shell("group", "alter", "timed", "--config", "consumer.session.timeout.ms=1")
    assert refused.status == 1 and "45000" in refused.err
    assert (await shell("group", "alter", "timed")).status == 2
    await shell.objects("group", "alter", "timed", "--unset", "consumer.session.timeout.ms")
    assert await shell.objects("group", "configs") == []


@pytest.mark.slow
async def test_an_impossible_reset_is_refused_and_changes_nothing(shell: Shell) -> None:
    """All partitions or none: a wrong one is named before any is touched."""
    async with produced(shell, "partly", 2, 3) as topic:
        await shell.objects("consume", topic, "--group", "partly", "--from", "earliest", "--max-records", "6")
        before = standing(await described(shell, "partly"))
        for chosen, said in (("partly:0,7", "there is no 7"), ("nowhere", "nowhere")):
            ended = await shell(
                "group", "reset-offsets", "partly", "--topic", chosen, "--to", "earliest", "--execute"
            )
            assert ended.status == 1
            assert said in ended.err
        assert standing(await described(shell, "partly")) == before


@pytest.mark.slow
async def test_two_members_share_the_partitions_and_a_sigterm_hands_over(
    shell: Shell, member: StartMember
) -> None:
    """KIP-429: what moves is revoked before it is assigned elsewhere; with commits on the way out every
    record is received once."""
    async with produced(shell, "shared", 4, 25) as topic:
        first = await member(topic, "pair", "--rebalance-protocol", "cooperative", "--client-id", "one")
        await eventually(lambda: first.owned == {0, 1, 2, 3}, deadline_s=DEADLINE_S)
        second = await member(topic, "pair", "--rebalance-protocol", "cooperative", "--client-id", "two")
        await eventually(lambda: len(first.owned) == len(second.owned) == 2, deadline_s=DEADLINE_S)
        assert first.owned | second.owned == {0, 1, 2, 3}
        (moved,) = first.of("revoked")
        assert set(moved["partitions"]) == second.owned
        taken = [line for line in second.of("assigned") if line["partitions"]]
        assert moved["at_ms"] <= taken[0]["at_ms"]
        assert moved["member"] == first.of("assigned")[0]["member"] != taken[0]["member"]
        assert taken[0]["generation"] > moved["generation"] >= 2

        view = await described(shell, "pair")
        assert view["state"] == "Stable"
        assert view["rebalance_protocols"]["eager"] == []
        assert len(view["rebalance_protocols"]["cooperative"]) == 2
        assert {row["client_id"]: set(row["assigned"][topic]) for row in view["members"]} == {
            "one": first.owned,
            "two": second.owned,
        }

        async def both_said_so() -> bool:
            rows = (await described(shell, "pair"))["members"]
            return bool(all(row["owned"] == row["assigned"] for row in rows))

        await eventually(both_said_so, deadline_s=DEADLINE_S)
        await shell.objects("produce", topic, stdin=b"".join(b"new-%d\n" % n for n in range(40)))
        members = (first, second)
        await eventually(lambda: sum(len(m.of("received")) for m in members) == 140, deadline_s=DEADLINE_S)
        first.process.send_signal(signal.SIGTERM)
        await eventually(first.ended, deadline_s=DEADLINE_S)
        assert first.process.returncode == 0
        await eventually(lambda: second.owned == {0, 1, 2, 3}, deadline_s=DEADLINE_S)
        assert first.lines[-1]["event"] == "summary"
        assert first.owned == set()
        assert not second.of("revoked")
        await shell.objects("produce", topic, stdin=b"last\n")
        await eventually(lambda: [m for m in second.of("received") if m["value"] == "last"])
        places = [(line["partition"], line["offset"]) for m in members for line in m.of("received")]
        assert len(places) == len(set(places)) == 141


@pytest.mark.slow
async def test_a_member_that_was_given_up_says_what_it_lost(shell: Shell, member: StartMember) -> None:
    """KIP-429, UNKNOWN_MEMBER_ID: what is gone is lost, not revoked, and a fault test sees the difference."""
    async with produced(shell, "given-up", 1, 3) as topic:
        arguments = ("--session-timeout-ms", "1000", "--rebalance-protocol", "cooperative")
        paused = await member(topic, "given-up", *arguments, "--client-id", "paused")
        await eventually(lambda: len(paused.of("received")) == 3, deadline_s=DEADLINE_S)
        paused.process.send_signal(signal.SIGSTOP)
        other = await member(topic, "given-up", *arguments, "--client-id", "other")
        await eventually(lambda: other.owned == {0}, deadline_s=DEADLINE_S)
        paused.process.send_signal(signal.SIGCONT)
        await eventually(lambda: paused.of("lost"), deadline_s=DEADLINE_S)
        (lost,) = paused.of("lost")
        assert (lost["topic"], lost["partitions"]) == (topic, [0])
        assert not paused.of("revoked")
        (first,) = (line for line in other.of("assigned") if line["partitions"])
        assert first["at_ms"] < lost["at_ms"]


@pytest.mark.slow
async def test_a_group_on_both_protocols_warns_and_names_them(shell: Shell, member: StartMember) -> None:
    """KIP-429: a group may stay in case 3.b forever, unless an operator learns of it."""
    async with produced(shell, "mixed", 2, 1) as topic:
        await member(topic, "mixed", "--rebalance-protocol", "eager", "--client-id", "old")
        await member(topic, "mixed", "--rebalance-protocol", "cooperative", "--client-id", "new")

        async def both_are_in() -> Any:
            ended = await shell("group", "describe", "mixed", "-o", "json")
            return ended if ended.status == 0 and ended.objects[0]["mixed"] else None

        ended = await eventually(both_are_in, deadline_s=DEADLINE_S)
        (view,) = ended.objects
        (eager,), (cooperative,) = view["rebalance_protocols"].values()
        assert eager.startswith("old")
        assert cooperative.startswith("new")
        assert ended.err.startswith("warning: ")
        assert f"Eager: {eager}." in ended.err
        assert f"Cooperative: {cooperative}." in ended.err
        text = await shell("group", "describe", "mixed")
        assert b"1 eager, 1 cooperative" in text.out


@pytest.mark.slow
async def test_ctrl_c_makes_a_member_leave_in_order(shell: Shell) -> None:
    """Printed records are committed, and the other members need not wait for a session to end."""
    async with produced(shell, "leaving", 1, 3) as topic:
        process = await start(
            "consume", topic, "--group", "leaving", "--from", "earliest", **shell.environment
        )
        assert process.stdout is not None
        async with asyncio.timeout(DEADLINE_S):
            printed = [await process.stdout.readline() for _ in range(3)]
            process.send_signal(signal.SIGINT)
            out, err = await process.communicate()
        assert printed == [b"0-0\n", b"0-1\n", b"0-2\n"]
        assert (process.returncode, out) == (130, b"")
        assert err.decode().splitlines() == [
            "assigned leaving-0 (generation 1)",
            "revoked leaving-0 (generation 1)",
            "interrupted",
        ]
        view = await described(shell, "leaving")
        assert (view["state"], standing(view)) == ("Empty", {0: (3, 3, 0)})


@pytest.mark.slow
async def test_the_list_has_the_lag_of_each_group_if_asked(shell: Shell, cluster: LocalCluster) -> None:
    """Of more groups than are asked at the same time."""
    names = [f"lags-{number}" for number in range(MANY)]
    async with produced(shell, "trailing", 2, 20) as topic, Admin(cluster.bootstrap) as admin:
        ends = await admin.list_offsets({TopicPartition(topic, number): -1 for number in range(2)})
        first, second = (end.offset for end in ends.values() if isinstance(end, ListedOffset))
        for number, name in enumerate(names):
            at = {TopicPartition(topic, 0): number % first, TopicPartition(topic, 1): 0}
            await admin.alter_group_offsets(name, at)
        listed = {each["group"]: each for each in await shell.objects("group", "list", "--lag")}
        assert [listed[name]["lag"] for name in names] == [
            first - number % first + second for number in range(MANY)
        ]
        text = (await shell("group", "list", "--lag")).out.decode()
        assert re.search(r"^group +type +state +lag$", text, re.MULTILINE)
        assert re.search(rf"^lags-0 +- +Empty +{first + second}$", text, re.MULTILINE)


@pytest.mark.slow
async def test_the_groups_of_all_brokers_are_listed(shell: Shell, cluster: LocalCluster) -> None:
    """Their coordinators differ: each broker knows a part."""
    names = [f"spread-{number}" for number in range(9)]
    topic = await shell.topic("listed")
    async with Admin(cluster.bootstrap) as admin:
        for name in names:
            await admin.alter_group_offsets(name, {(topic, 0): 0})  # type: ignore[dict-item]  # a plain pair
        coordinators = {(await admin.describe_group(name)).coordinator.id for name in names}
    assert len(coordinators) == 3
    listed = await shell.objects("group", "list")
    assert [row for row in listed if row["group"] in names] == [
        {"group": name, "protocol_type": "", "state": "Empty"} for name in names
    ]


async def test_an_unknown_topic_is_reported_at_once(shell: Shell) -> None:
    """A consumer in a program waits for its topic to appear; a person has made a typing error."""
    ended = await shell("consume", "nowhere", "--group", "g", "--idle-exit", "1")
    assert (ended.status, ended.out) == (1, b"")
    assert "nowhere" in ended.err


@pytest.mark.slow
async def test_perf_rebalance_measures_each_protocol_and_cleans_up(shell: Shell) -> None:
    """KIP-429: an eager rebalance interrupts every partition, a cooperative one those that move."""
    size = ("--partitions", "12", "--members", "3", "--rounds", "1")
    rows = await shell.objects("perf", "rebalance", *size, program=LAB)
    assert [(row["rebalance_protocol"], row["change"]) for row in rows] == [
        (protocol, change)
        for protocol in ("eager", "cooperative", "consumer")
        for change in ("add", "remove")
    ]
    for row in rows:
        assert (row["partitions"], row["members"]) == (12, 3)
        assert 0 < row["unowned_p50_ms"] <= row["unowned_max_ms"] <= row["settle_p50_ms"]
        assert row["silent_max_ms"] > 0
    eager, others = rows[:2], rows[2:]
    assert {row["interrupted"] for row in eager} == {12}
    assert {row["interrupted"] for row in others} == {row["moved"] for row in others} == {4}
    assert not [each for each in await shell.objects("topic", "list") if each["topic"].startswith("perf-")]
    assert not [each for each in await shell.objects("group", "list") if each["group"].startswith("perf-")]
