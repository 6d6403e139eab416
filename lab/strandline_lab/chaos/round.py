"""Runs one round: load, faults, healing, and the search for problems.

docs/understand/chaos.md describes its files.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from strandline import Admin, NewTopic
from strandline.adapters.system.clock import SystemClock
from strandline.auditing.checks import HANGING, Finding
from strandline.errors import StrandlineError
from strandline.report.verdict import WRITABLE_MS_MAX
from strandline_lab.chaos import clients, settling
from strandline_lab.chaos.core.demands import SETTLE_S_MAX
from strandline_lab.chaos.core.faults import Role
from strandline_lab.chaos.core.load import KAFKA, MIN_INSYNC, OWN, ClientRoles
from strandline_lab.chaos.core.plan import Plan, dump
from strandline_lab.chaos.evidence import read as read_evidence
from strandline_lab.chaos.judge import judge, longest_staleness
from strandline_lab.chaos.kafka.outcomes import promise_broken
from strandline_lab.chaos.nemesis import REPLICATION_FACTOR, Nemesis
from strandline_lab.chaos.observer import Observer
from strandline_lab.chaos.report.page import write_report
from strandline_lab.chaos.timeline import ShowLine, Timeline
from strandline_lab.chaos.world import World

CALM_S: Final = 1.0
"""The load continues for this time after the cluster has settled."""
GROUPS_S_MAX: Final = 60.0
"""Time for groups to commit all records, after the last write."""
TRANSACTIONS_S_MAX: Final = 40.0
"""Time for the last transactions to end, after the last client. Some were left to their timeout of 10 s."""
SETTLED_AGAIN_S_MAX: Final = 30.0
"""Time to settle again after the load has ended, before logs are compared."""
TRACEBACK: Final = b"Traceback (most recent call last)"
TRACEBACK_JSON: Final = b'"exc_type"'
QUOTED_MAX: Final = 2_000
"""Characters quoted from the output of a member."""
SHOWN_MAX: Final = 10

BROKEN_PROMISE: Final = "broken-promise"
DIED: Final = "died"
HUNG: Final = "hung"
STALLED: Final = "stalled"
TRACEBACK_FOUND: Final = "traceback"
UNREADABLE: Final = "unreadable"
UNSETTLED: Final = "unsettled"
UNJUDGED: Final = "unjudged"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a round showed. `settled_ms`, `writable_ms`: time since healing, None if it took longer than
    allowed."""

    seed: int
    findings: Sequence[Finding]
    settled_ms: int | None
    writable_ms: int | None
    out: Path

    @property
    def ok(self) -> bool:
        return (
            not self.findings
            and self.settled_ms is not None
            and self.writable_ms is not None
            and self.writable_ms <= WRITABLE_MS_MAX
        )

    def lines(self) -> list[str]:
        """The findings and the result, as lines for people."""
        said = [
            f"found: {each.check}{f' {each.topic}-{each.partition}' if each.topic else ''}: {each.detail}"
            for each in self.findings[:SHOWN_MAX]
        ]
        if len(self.findings) > SHOWN_MAX:
            said.append(f"found: {len(self.findings)} in all; findings.jsonl has them")
        if self.settled_ms is None:
            said.append("found: it did not settle")
        if self.writable_ms is None or self.writable_ms > WRITABLE_MS_MAX:
            said.append(f"found: not all partitions were writable within {WRITABLE_MS_MAX / 1000:g} s")
        return [*said, f"seed {self.seed}: {'all is well' if self.ok else 'NOT WELL'}; {self.out}"]


@dataclass(slots=True)
class _Course:
    """The state of a round while it runs."""

    world: World
    plan: Plan
    clients: ClientRoles
    out: Path
    timeline: Timeline
    clock: SystemClock = field(default_factory=SystemClock)
    findings: list[Finding] = field(default_factory=list)
    settled_ms: int | None = None
    writable_ms: int | None = None

    def found(self, check: str, detail: str) -> None:
        """Adds a finding that concerns no record in particular."""
        self.findings.append(Finding(check, "", None, None, detail))


async def run_round(
    world: World, plan: Plan, out: Path, show: ShowLine = lambda _: None, roles: ClientRoles = OWN
) -> Outcome:
    """Applies the plan to a running cluster under load, and judges the result.

    `out` is a new folder that is made here. The clients have ended at the end, also after an error. If it was
    cancelled, the cluster may still have faults. Raises WorldFailed, StrandlineError if the round could not
    be run to its end; its report shows how far it got.
    """
    out.mkdir(parents=True, exist_ok=True)
    (out / "plan.json").write_text(dump(plan))
    course = _Course(world, plan, roles, out, Timeline(out / "timeline.jsonl", show))
    await _make_topics(world, plan)
    load = clients.Load(
        world.bootstrap, out, roles, kafka_bootstrap=world.kafka_bootstrap, config=world.client_config
    )
    observer = Observer(world, plan.topics, roles.groups, out)
    try:
        async with asyncio.TaskGroup() as tasks:
            background = [tasks.create_task(load.run()), tasks.create_task(observer.run())]
            try:
                await load.begun()
                await _harm(course, load)
                await _recover(course)
                await _end(course, load)
            finally:
                for task in background:
                    task.cancel()
    except ExceptionGroup as group:
        await asyncio.to_thread(write_report, out)
        raise _first(group) from group
    course.timeline.note("ended")
    await _look_at_members(course)
    _look_at_kafka_producers(course)
    await _judge(course)
    await asyncio.to_thread(write_report, out)
    return Outcome(plan.seed, course.findings, course.settled_ms, course.writable_ms, out)


def _first(group: ExceptionGroup) -> Exception:
    """The first error of the group: the others come from tasks that it cancelled."""
    error = group.exceptions[0]
    return _first(error) if isinstance(error, ExceptionGroup) else error


async def _make_topics(world: World, plan: Plan) -> None:
    brokers = sum(member.role is Role.BROKER for member in world.members)
    factor = min(REPLICATION_FACTOR, brokers)
    async with Admin(world.bootstrap, **world.client_settings) as admin:
        await admin.create_topics(
            [
                NewTopic(
                    topic.topic,
                    topic.partitions,
                    factor,
                    {"min.insync.replicas": str(max(1, min(MIN_INSYNC[topic.topic], factor - 1)))},
                )
                for topic in plan.topics
            ]
        )


async def _harm(course: _Course, load: clients.Load) -> None:
    """Applies the plan, and heals everything."""
    course.timeline.note("began", detail=f"{len(course.plan.faults)} faults in {course.plan.seconds:g} s")
    nemesis = Nemesis(course.world, load, course.plan, course.clients, course.timeline)
    await nemesis.run()
    await nemesis.heal()
    for member in nemesis.died:
        course.found(DIED, f"{member} ended, and nothing was done to it")
    course.timeline.note("healed")


async def _recover(course: _Course) -> None:
    """Waits until the cluster is healthy again, and at the same time until all partitions can be written
    to."""
    since = course.clock.monotonic()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_settle(course, since))
        tasks.create_task(_write(course, since))


def _ms_since(course: _Course, since: float) -> int:
    return round((course.clock.monotonic() - since) * 1000)


async def _settle(course: _Course, since: float) -> None:
    reasons = [""]
    missing = await settling.until_settled(course.world, heard=reasons.append)
    if missing:
        course.timeline.note("not_settled", detail=missing)
        return
    course.settled_ms = _ms_since(course, since)
    last = f"until then {reasons[-1]}" if reasons[-1] else ""
    course.timeline.note("settled", took_ms=course.settled_ms, detail=last)


async def _write(course: _Course, since: float) -> None:
    topics = [topic.topic for topic in course.plan.topics]
    try:
        async with Admin(
            course.world.bootstrap,
            request_timeout_ms=settling.REQUEST_TIMEOUT_MS,
            **course.world.client_settings,
        ) as admin:
            partitions = await settling.partitions_of(admin, topics, SETTLE_S_MAX)
    except StrandlineError:
        course.timeline.note("not_writable", partitions=topics)
        return
    refused = await settling.unwritable(course.world, partitions, course.out)
    if refused:
        course.timeline.note("not_writable", partitions=list(map(str, refused)))
        return
    course.writable_ms = _ms_since(course, since)
    course.timeline.note("writable", took_ms=course.writable_ms)


async def _end(course: _Course, load: clients.Load) -> None:
    """Ends the load, reads everything once more, and reads the recorded events."""
    await course.clock.sleep(CALM_S)
    await load.end("produce")
    await course.clock.sleep(CALM_S)
    if course.settled_ms is not None:
        unread = await settling.behind(course.world, course.clients.group_topics, GROUPS_S_MAX)
        if unread:
            course.found(STALLED, f"members read on for {GROUPS_S_MAX:.0f} s, and {', '.join(unread)}")
    await load.end("consume")
    opened = await settling.open_transactions(course.world, TRANSACTIONS_S_MAX)
    if opened:
        course.found(HANGING.name, f"after {TRANSACTIONS_S_MAX:.0f} s {', '.join(opened)}")
    for name in load.hung:
        course.found(HUNG, f"{name} did not end within {clients.ENDS_S_MAX:.0f} s of SIGTERM")
    for name, status in sorted((await clients.read_finally(course.world, course.out)).items()):
        why = f"its reader ended with {status}, and stderr/{name}.txt may say why"
        course.found(UNREADABLE, f"{name}.jsonl was not read to the end: {why}")
    if course.settled_ms is not None:
        missing = await settling.until_settled(course.world, SETTLED_AGAIN_S_MAX)
        if missing:
            course.found(UNSETTLED, f"it had settled, and now {missing}")


async def _look_at_members(course: _Course) -> None:
    """Looks for tracebacks in the output of members. A traceback is a bug, even after a fault."""
    for member in course.world.members:
        if member.role is Role.ZOOKEEPER:
            continue
        said = await course.world.said(member)
        for mark in (TRACEBACK, TRACEBACK_JSON):
            at = said.find(mark)
            if at >= 0:
                begin = said.rfind(b"\n", 0, at) + 1
                shown = said[begin : begin + QUOTED_MAX].decode(errors="replace")
                course.found(TRACEBACK_FOUND, f"{member}: {shown}")
                break


def _look_at_kafka_producers(course: _Course) -> None:
    """Looks for errors of idempotent producers that no fault explains. With a transactional id they are
    fenced by a successor, and by the timeout of a transaction."""
    for role in course.clients.roles:
        if role.library not in KAFKA or not role.produces or role.transacts:
            continue
        for path in sorted(course.out.glob(f"{role.name}*.jsonl")):
            line = next((line for line in path.read_bytes().splitlines() if promise_broken(line)), None)
            if line is not None:
                course.found(BROKEN_PROMISE, f"{path.stem}: {line.decode(errors='replace')}")


async def _judge(course: _Course) -> None:
    """Compares the clients' histories with the logs, and writes down the findings."""
    logs = {
        member.number: await course.world.log_of(member)
        for member in course.world.members
        if member.role is Role.BROKER
    }
    try:
        evidence = await asyncio.to_thread(read_evidence, course.out)
        course.findings += await asyncio.to_thread(judge, evidence, logs)
        stale = await asyncio.to_thread(longest_staleness, evidence)
    except (StrandlineError, OSError) as error:
        course.found(UNJUDGED, f"{type(error).__name__}: {error}")
        stale = []
    for name, rows in (("findings", course.findings), ("staleness", stale)):
        lines = (json.dumps(row._asdict()) + "\n" for row in rows)
        (course.out / f"{name}.jsonl").write_text("".join(lines))
