"""One stream application on a cluster: its topics, what is fed to it, and its members as processes."""

from __future__ import annotations

import asyncio
import inspect
import json
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from itertools import count, cycle, islice
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any, Final

from strandline import Admin, LocalCluster, Producer
from strandline_lab.simulation.workloads.counting.reading import Names
from strandline_lab.simulation.workloads.counting.topology import COMPONENTS
from tests.forking.client import Forked, start_forked
from tests.waiting import eventually

SETTLE_S: Final = 60.0
"""A bound for every wait: the machine may be slow."""
SESSION_S: Final = 2.0

SETTINGS: Final[Mapping[str, Any]] = {
    "session_timeout_ms": int(SESSION_S * 1000),
    "heartbeat_interval_ms": 200,
    "commit_interval_ms": 50,
    "leave_timeout_ms": 30_000,
}
LINES_A_TICK: Final = 6
USERS_FED: Final = 1_000
USERS_OFTEN: Final = 20
COMPONENTS_FED: Final = 7
PRINTED_SHOWN: Final = 12
LOG_SHOWN: Final = 4_000

_numbers = count(1)


class Member:
    """One process. `printed` is what it printed, in order."""

    def __init__(self, name: str, process: Forked, log: Path, state: Path) -> None:
        self.name = name
        self.state = state
        self.printed: list[dict[str, Any]] = []
        self._process = process
        self._log = log
        self._questions = count(1)
        self._told_all = asyncio.Event()

    async def listen(self) -> None:
        async for line in self._process.stdout:
            self.printed.append(json.loads(line))
        self._told_all.set()

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    @property
    def alive(self) -> bool:
        return self._process.returncode is None

    @property
    def roles(self) -> dict[str, str]:
        """The present role of each of its tasks, by its last report."""
        printed = self._last("tasks")
        return dict(printed["roles"]) if printed else {}

    @property
    def lags(self) -> dict[str, int | None]:
        printed = self._last("tasks")
        return dict(printed["lags"]) if printed else {}

    def with_role(self, role: str) -> set[str]:
        return {task for task, has in self.roles.items() if has == role}

    @property
    def running(self) -> set[str]:
        return self.with_role("running")

    def roles_ever(self, task: str) -> list[str]:
        """The roles of one task, in order."""
        roles: list[str] = []
        for event in self.events("tasks"):
            role = event["roles"].get(task)
            if role is not None and roles[-1:] != [role]:
                roles.append(role)
        return roles

    def learned(self, task: str) -> bool:
        """It took the task over as a learner: without a restore of all of it where it arrived."""
        roles = self.roles_ever(task)
        return roles[0] == "learning" and roles[-1] == "running"

    def restored(self, task: str) -> int:
        """How many records its state lacked when it was to run, as far as it was seen."""
        printed = [event for event in self.events("tasks") if event["roles"].get(task) == "restoring"]
        return max((event["lags"][task] or 0 for event in printed), default=0)

    def events(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.printed if event["event"] == kind]

    def _last(self, kind: str) -> dict[str, Any] | None:
        return next((event for event in reversed(self.printed) if event["event"] == kind), None)

    async def ask(self, question: str, store: str, **facts: Any) -> Any:
        """The answer of `member.answer`. Raises AssertionError with its exception."""
        number = next(self._questions)
        asked = {"ask": question, "number": number, "store": store, **facts}
        self._process.stdin.write(json.dumps(asked).encode() + b"\n")

        def answered() -> dict[str, Any] | None:
            return next((event for event in self.events("answer") if event["number"] == number), None)

        answer = await eventually(answered, deadline_s=SETTLE_S, what=f"{self.name} answers {asked}")
        assert answer is not None and "error" not in answer, answer
        return answer["answer"]

    def signal(self, number: signal.Signals) -> None:
        if self.alive:
            self._process.send_signal(number)

    async def kill(self) -> None:
        """SIGKILL; returns once it is gone."""
        self.signal(signal.SIGKILL)
        _ = await self.ended()

    async def ended(self) -> int:
        """Its exit status, once it has ended and all that it printed is read."""
        async with asyncio.timeout(SETTLE_S):
            status = await self._process.wait()
            _ = await self._told_all.wait()
            return status


class Application:
    """Returned by `streaming`."""

    def __init__(
        self,
        cluster: LocalCluster,
        directory: Path,
        tasks: asyncio.TaskGroup,
        *,
        partitions: int,
        state_bytes: int,
        replicas: int,
        connecting: Mapping[str, Any],
        settings: Mapping[str, Any],
    ) -> None:
        self.cluster = cluster
        self.connecting = connecting
        self.partitions = partitions
        self.state_bytes = state_bytes
        self.id = f"app-{next(_numbers)}"
        self.lines, self.counts = f"{self.id}-lines", f"{self.id}-counts"
        self.names = Names(self.id, self.lines, self.counts, partitions)
        self.members: list[Member] = []
        self._settings = {**SETTINGS, **settings, "application_id": self.id}
        self._replicas = replicas
        self._directory = directory
        self._tasks = tasks

    # --- its topics ----------------------------------------------------------------------------

    @property
    def exactly_once(self) -> bool:
        return self._settings.get("processing_guarantee") == "exactly_once"

    @property
    def reading(self) -> dict[str, Any]:
        """Settings of consumers that see what counts."""
        level = "read_committed" if self.exactly_once else "read_uncommitted"
        return {**self.connecting, "isolation_level": level}

    async def create_topics(self) -> None:
        async with Admin(self.cluster.bootstrap, **self.connecting) as admin:
            for topic in (self.lines, self.counts):
                await admin.create_topic(topic, self.partitions, replication_factor=self._replicas)

    @property
    def user_tasks(self) -> list[str]:
        """The tasks that count users: as many as partitions, in their order."""
        return [f"{self.lines}-{number}" for number in range(self.partitions)]

    @property
    def component_tasks(self) -> list[str]:
        return [f"{COMPONENTS}-{number}" for number in range(self.partitions)]

    @property
    def tasks(self) -> set[str]:
        return {*self.user_tasks, *self.component_tasks}

    # --- its members ---------------------------------------------------------------------------

    async def start(self, *, state: Path | None = None, **settings: Any) -> Member:
        """One more member, with a state folder of its own unless `state` names one. It may not have joined
        yet."""
        name = f"{self.id}-member-{len(self.members)}"
        folder, log = state or self._directory / name, self._directory / f"{name}.log"
        topology = {
            "lines": self.lines,
            "counts": self.counts,
            "state_bytes": self.state_bytes,
            "partitions": self.partitions,
        }
        own = {"state_dir": str(folder), "client_id": name, "application_server": name}
        with log.open("wb") as output:
            process = await start_forked(
                *("tests.integration.streams.member", self.cluster.bootstrap),
                *(json.dumps(topology), json.dumps({**self._settings, **own, **settings})),
                stderr=output,
            )
        member = Member(name, process, log, folder)
        self.members.append(member)
        self._tasks.create_task(member.listen())
        return member

    async def running(self, *members: Member) -> None:
        """Return once these run all tasks between them, none of them two more than another."""

        def shared() -> bool:
            shares = [member.running for member in members]
            sizes = [len(share) for share in shares]
            return set().union(*shares) == self.tasks and sum(sizes) == len(self.tasks) and _even(sizes)

        await self.until(shared, f"{[m.name for m in members]} run everything between them")

    async def until(self, condition: Callable[[], object | Awaitable[object]], what: str) -> None:
        """Raises AssertionError at the deadline, and at once if a member has failed: with what it printed."""

        async def met() -> bool:
            for member in self.members:
                assert member.alive or "Traceback" not in member.log, member.log
            value = condition()
            return bool(await value if inspect.isawaitable(value) else value)

        try:
            await eventually(met, deadline_s=SETTLE_S, what=what)
        except AssertionError as error:
            roles = {member.name: member.roles for member in self.members if member.alive}
            raise AssertionError(f"{error}; {roles}") from None

    async def leader(self) -> Member:
        """The member that leads the group now."""
        async with Admin(self.cluster.bootstrap, **self.connecting) as admin:
            group = (await admin.describe_group(self.id)).group
        clients = {member.member: member.client_id for member in group.members}
        return next(member for member in self.members if member.name == clients[group.leader])


def _even(sizes: list[int]) -> bool:
    return max(sizes) - min(sizes) <= 1


class Feed:
    """Lines that are written all the time, over all partitions."""

    def __init__(self, producer: Producer, app: Application) -> None:
        self.written = 0
        self._lots = Random(app.id)
        self._producer = producer
        self._app = app
        self._stop, self._ended = asyncio.Event(), asyncio.Event()

    async def run(self) -> None:
        partitions = cycle(range(self._app.partitions))
        while not self._stop.is_set():
            deliveries = []
            for partition in islice(partitions, LINES_A_TICK):
                user, component = line(self._lots)
                deliveries.append(
                    await self._producer.send(self._app.lines, component, user, partition=partition)
                )
                self.written += 1
            for delivery in deliveries:
                _ = await delivery
            await eventually(_paced(), what="the next round")
        self._ended.set()

    async def goes_on(self, lines: int) -> None:
        """Return once this number of further records is written."""
        enough = self.written + lines
        await self._app.until(lambda: self.written >= enough, f"{lines} more lines are written")

    async def finish(self) -> None:
        """Write no more, and return once all that was written is acknowledged."""
        self._stop.set()
        _ = await self._ended.wait()


def line(lots: Random) -> tuple[bytes, bytes]:
    """User and component: some come all the time, and some were almost forgotten."""
    users = USERS_OFTEN if lots.random() < 0.5 else USERS_FED
    return b"user-%d" % lots.randrange(users), b"component-%d" % lots.randrange(COMPONENTS_FED)


def _paced() -> Callable[[], bool]:
    """True at the second look: a round every few milliseconds leaves the others time to work."""
    looks = count()
    return lambda: next(looks) > 1


@asynccontextmanager
async def feeding(app: Application) -> AsyncIterator[Feed]:
    """Lines are written until the block ends."""
    async with Producer(app.cluster.bootstrap, **app.connecting) as producer, asyncio.TaskGroup() as tasks:
        feed = Feed(producer, app)
        tasks.create_task(feed.run())
        try:
            yield feed
        finally:
            await feed.finish()


async def fill(app: Application, partition: int, users: int) -> None:
    """A record of each of this number of users, to one partition."""
    async with Producer(app.cluster.bootstrap, **app.connecting) as producer:
        keys = [b"many-%d" % number for number in range(users)]
        values = [b"component-%d" % (number % COMPONENTS_FED) for number in range(users)]
        _ = await (await producer.send_many(app.lines, values, keys=keys, partition=partition))


@asynccontextmanager
async def streaming(
    cluster: LocalCluster,
    directory: Path,
    *,
    partitions: int = 2,
    state_bytes: int = 8,
    replicas: int = 3,
    connecting: Mapping[str, Any] = MappingProxyType({}),
    **settings: Any,
) -> AsyncIterator[Application]:
    """An application without members yet. All of them are dead when the block ends, and if it ends with an
    error, the ends of their logs are printed.

    `connecting` are settings of all clients but the members, which have `settings`.
    """
    async with asyncio.TaskGroup() as tasks:
        app = Application(
            cluster,
            directory,
            tasks,
            partitions=partitions,
            state_bytes=state_bytes,
            replicas=replicas,
            connecting=connecting,
            settings=settings,
        )
        try:
            await app.create_topics()
            yield app
        except BaseException:
            for member in app.members:
                print(f"--- {member.name}")
                for event in member.printed[-PRINTED_SHOWN:]:
                    print(event)
                print(member.log[-LOG_SHOWN:])
            raise
        finally:
            for member in app.members:
                await member.kill()
