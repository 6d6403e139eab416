"""Judges what the cluster reports: high watermarks, leaders, in-sync replicas, and its own record of changes.

A client looks during the whole run. After the faults the cluster has to converge: every partition is led, has
its full ISR, and answers. Then every request to a broker has ended once.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

from strandline.auditing import cluster
from strandline.auditing.cluster import Observation
from strandline.client.admin.admin import Admin
from strandline.errors import StrandlineError
from strandline.host import Host
from strandline.ids import INTERNAL_PREFIX, STATE_CHANGES_TOPIC
from strandline.vocabulary.state_changes import RequestState, StateChangeEvent, parse_event
from strandline_lab.auditing import leader_epochs, requests
from strandline_lab.core.observed import observed
from strandline_lab.core.settled import first_missing
from strandline_lab.simulation.internal_topics import records
from strandline_lab.simulation.judging.judge import LOOK_S, Judge, Problem
from strandline_lab.simulation.judging.recorded_changes import with_crowded_out, without_end
from strandline_lab.simulation.stage import Stage

CHECK: Final = "cluster"
CONVERGENCE: Final = "convergence"
ANSWER_S_MAX: Final = 2.0
CONVERGED_S_MAX: Final = 60.0
"""After all clients have finished: until the whole cluster is healthy."""
RECORDED_S_MAX: Final = 60.0
"""Until the end of each request is recorded: a broker may wait for an answer that never comes first."""
RECORDED_LOOK_S: Final = 5.0


class Observer(Judge):
    """An admin client that looks."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._process = stage.client("observer")
        self._observations: list[Observation] = []
        self._changes: list[StateChangeEvent] = []
        self._due: set[str] = set()
        """The ids of the requests that were recorded as soon as the cluster was healthy: each has to end."""
        self._missing = ""

    def start(self) -> None:
        self._process.start(self._watch)

    async def finish(self) -> None:
        auditor = self._stage.client("auditor")
        await auditor.run(self._finish(auditor.host))

    def problems(self) -> list[Problem]:
        lossy = self._stage.isr_history.losses()
        changes = [] if self._record_has_losses else self._changes
        complete = self._with_crowded_out(changes)
        found = [
            *cluster.findings(
                map(self._of_its_topic, self._observations),
                changes,
                crowded_out=self._stage.isr_history.crowded_out,
            ),
            *leader_epochs.findings(complete),
            *requests.findings(complete),
            *without_end(complete, self._due),
        ]
        judged = [each for each in dict.fromkeys(found) if (each.topic, each.partition) not in lossy]
        problems = [Problem(CHECK, each.sentence) for each in judged]
        if self._missing:
            problems.append(Problem(CONVERGENCE, f"not healthy after {CONVERGED_S_MAX:g} s: {self._missing}"))
        return problems

    def _of_its_topic(self, seen: Observation) -> Observation:
        """The log of a topic that was made anew begins anew: each has an observer of its own."""
        number = self._stage.isr_history.topic_number(seen.place, seen.epoch)
        return seen if number <= 1 else replace(seen, observer=f"{seen.observer} of topic {number}")

    @property
    def _record_has_losses(self) -> bool:
        """True if `__state_changes` may lack what was recorded, by design: then it is not judged."""
        return any(topic == STATE_CHANGES_TOPIC for topic, _ in self._stage.isr_history.losses())

    def _with_crowded_out(self, changes: list[StateChangeEvent]) -> list[StateChangeEvent]:
        return with_crowded_out(changes, self._stage.isr_history.crowded_out if changes else ())

    async def _watch(self, host: Host) -> None:
        async with self._admin(host) as admin:
            while not self._stage.faults_ended.is_set():
                try:
                    async with asyncio.timeout(ANSWER_S_MAX):
                        await self._look(admin)
                except (StrandlineError, TimeoutError):
                    pass
                await asyncio.sleep(LOOK_S)

    async def _finish(self, host: Host) -> None:
        ends_s = self._stage.now_s + CONVERGED_S_MAX
        async with self._admin(host) as admin:
            while missing := await self._unhealthy(admin):
                if self._stage.now_s > ends_s:
                    self._missing = missing
                    return
                await asyncio.sleep(LOOK_S)
            await self._look(admin)
        if self._record_has_losses:
            return
        self._due = {event.id for event in await self._recorded(host)}
        ends_s = self._stage.now_s + RECORDED_S_MAX
        while self._stage.now_s < ends_s:
            await asyncio.sleep(RECORDED_LOOK_S)
            self._changes = await self._recorded(host)
            if not without_end(self._with_crowded_out(self._changes), self._due):
                return

    async def _recorded(self, host: Host) -> list[StateChangeEvent]:
        found = await records(self._stage, host, STATE_CHANGES_TOPIC)
        steps: dict[tuple[str, RequestState], StateChangeEvent] = {}
        for event in [parse_event(each.value) for each in found]:
            steps.setdefault((event.id, event.state), event)  # a step may be recorded again
        return list(steps.values())

    async def _look(self, admin: Admin) -> None:
        """Note the partitions of the topics of clients."""
        known = await admin.metadata()
        topics = [topic.name for topic in known.topics if not topic.name.startswith(INTERNAL_PREFIX)]
        if topics:
            at_ms = int(self._stage.now_s * 1000)
            self._observations += observed(at_ms, "observer", await admin.describe_topics(topics))

    async def _unhealthy(self, admin: Admin) -> str:
        """The first thing that is missing; empty if all is well."""
        try:
            async with asyncio.timeout(ANSWER_S_MAX):
                described = await admin.describe_topics()
                under_way = await admin.list_reassignments()
        except (StrandlineError, TimeoutError) as error:
            return repr(error)
        return first_missing(described, under_way)

    def _admin(self, host: Host) -> Admin:
        return Admin(self._stage.cluster.bootstrap, host=host)
