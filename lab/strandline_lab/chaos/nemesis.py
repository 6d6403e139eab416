"""Carries out a plan: finds the member of each fault at its time, applies the fault, and undoes it.

A member has one fault at a time. A fault is skipped if its member is not found or has another fault already.
The timeline gives the reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from strandline import Admin, TopicPartition
from strandline.adapters.system.clock import SystemClock
from strandline.client.admin.topics import PartitionDescription
from strandline.errors import StrandlineError
from strandline_lab.chaos.core.faults import Cut, Fault, FaultKind, Member, Role, Target
from strandline_lab.chaos.core.load import ClientRoles
from strandline_lab.chaos.core.plan import Plan, moved
from strandline_lab.chaos.timeline import Timeline
from strandline_lab.chaos.world import Processes, World, WorldFailed

T = TypeVar("T")

FIND_S_MAX: Final = 3.0
"""Time to find the member of a fault."""
ASK_S_MAX: Final = 1.5
CHASE_POLL_S: Final = 0.1
WATCH_EVERY_S: Final = 0.5
REQUEST_TIMEOUT_MS: Final = 1_000
BALANCE_ASK_S_MAX: Final = 5.0
"""A balance asks brokers for the sizes of partitions first, and some of them may be dead."""
BALANCED_S_MAX: Final = 20.0
"""Time for an added broker to start, and for a balance to begin."""
DISK_POLL_S: Final = 0.5
REPLICATION_FACTOR: Final = 3
HEAL_TRIES: Final = 3


class Skipped(Exception):
    """A fault cannot be applied now; the message gives the reason."""


class Nemesis:
    """Carries out the plan of one round. `roles`: the clients and groups that faults refer to by number."""

    def __init__(
        self, world: World, clients: Processes, plan: Plan, roles: ClientRoles, timeline: Timeline
    ) -> None:
        self._world = world
        self._clients = clients
        self._plan = plan
        self._roles = roles
        self._groups = roles.groups
        self._timeline = timeline
        self._clock = SystemClock()
        self._under: dict[Member, FaultKind] = {}
        self._left: set[Member] = set()
        """Members whose fault could not be undone; healing tries again."""
        self.died: list[str] = []
        """Members that ended without a fault."""

    async def run(self) -> None:
        """Runs until the end of the round, even if the last fault ends earlier."""
        began = self._clock.monotonic()
        async with (
            Admin(
                self._world.bootstrap,
                request_timeout_ms=REQUEST_TIMEOUT_MS,
                **self._world.client_settings,
            ) as admin,
            asyncio.TaskGroup() as watching,
        ):
            watch = watching.create_task(self._watch())
            async with asyncio.TaskGroup() as tasks:
                for index, fault in enumerate(self._plan.faults):
                    tasks.create_task(self._run_fault(admin, began, index, fault))
                await self._until(began + self._plan.seconds)
            watch.cancel()

    async def heal(self) -> None:
        """Undoes every fault and restarts dead members. Raises WorldFailed."""
        for member in self._world.members:
            await self._heal(member)
        for member in self._clients.members:
            await self._clients.resume(member)
            await self._clients.start(member)
        if FaultKind.ONE_WAY in self._world.can:
            for broker in self._brokers():
                for how in Cut:
                    await self._join_others(broker, how)

    async def _heal(self, member: Member) -> None:
        can = self._world.can
        for tries_left in reversed(range(HEAL_TRIES)):
            try:
                await self._world.resume(member)
                if FaultKind.DISCONNECT in can:
                    await self._world.connect(member)
                if FaultKind.DISK_FULL in can and member.role is Role.BROKER:
                    await self._world.free_disk(member)
                if not await self._world.alive(member):
                    await self._world.start(member)
            except WorldFailed:
                if not tries_left:
                    raise
            else:
                return

    def _brokers(self) -> list[Member]:
        return [member for member in self._world.members if member.role is Role.BROKER]

    def _others(self, broker: Member) -> list[Member]:
        return [member for member in self._brokers() if member != broker]

    async def _join_others(self, broker: Member, how: Cut) -> None:
        for other in self._others(broker):
            await self._world.join(broker, other, how)
            await self._world.join(other, broker, how)

    async def _until(self, moment: float) -> None:
        await self._clock.sleep(max(0.0, moment - self._clock.monotonic()))

    async def _watch(self) -> None:
        """Notices members that end without a fault."""
        known: set[Member] = set()
        while True:
            for member in self._world.members:
                if self._is_harmed(member) or await self._world.alive(member) or self._is_harmed(member):
                    known.discard(member)
                elif member not in known:
                    known.add(member)
                    self.died.append(str(member))
                    self._timeline.note("died", who=[str(member)], detail="nothing was done to it")
            await self._clock.sleep(WATCH_EVERY_S)

    def _is_harmed(self, member: Member) -> bool:
        return member in self._under or member in self._left

    # --- one fault -----------------------------------------------------------------------------

    async def _run_fault(self, admin: Admin, began: float, index: int, fault: Fault) -> None:
        await self._until(began + fault.begins_s)
        over = began + self._plan.seconds
        try:
            match fault.kind:
                case FaultKind.REASSIGN:
                    await self._reassign(admin, index, fault)
                case FaultKind.ADD_PARTITIONS:
                    await self._add_partition(admin, index, fault)
                case FaultKind.BALANCE:
                    await self._balance(admin, index, fault, over)
                case FaultKind.LOSE_DISK:
                    await self._lose_disk(index, fault, min(over, self._clock.monotonic() + fault.lasts_s))
                case FaultKind.CHASE:
                    await self._chase(admin, index, fault, min(over, self._clock.monotonic() + fault.lasts_s))
                case _:
                    await self._apply(index, fault, await self._find(admin, fault), over)
        except Skipped as skipped:
            self._timeline.note("fault_skipped", fault=index, kind=fault.kind, detail=str(skipped))

    async def _apply(self, index: int, fault: Fault, who: Sequence[Member], over: float) -> None:
        """Applies the fault until the time `over`, then undoes it. Raises Skipped."""

        async def work() -> str:
            await self._do(fault, who)
            # To find the member may have taken a while. The fault lasts as long all the same.
            await self._until(min(over, self._clock.monotonic() + fault.lasts_s))
            await self._undo(fault, who)
            return ""

        await self._harm(index, fault, who, work)

    async def _harm(
        self, index: int, fault: Fault, who: Sequence[Member], work: Callable[[], Awaitable[str]]
    ) -> None:
        """Has `work` apply the fault to these members and undo it. It returns the detail of the end. Raises
        Skipped."""
        self._take(fault, who)
        try:
            # Noted first: a broker hands its leaderships over before it stops, which takes a while.
            self._began(index, fault, who)
            try:
                detail = await work()
            except WorldFailed as error:
                self._left.update(who)
                detail = f"could not be undone until healing: {error}"
            self._ended(index, fault, who, detail)
        finally:
            for member in who:
                self._under.pop(member, None)

    def _take(self, fault: Fault, who: Sequence[Member]) -> None:
        for member in who:
            if member in self._under:
                raise Skipped(f"{member} is under {self._under[member]} already")
        self._under.update(dict.fromkeys(who, fault.kind))

    def _processes(self, member: Member) -> Processes:
        return self._clients if member.role is Role.CLIENT else self._world

    async def _do(self, fault: Fault, who: Sequence[Member]) -> None:
        world, member = self._world, who[0]
        processes = self._processes(member)
        match fault.kind:
            case FaultKind.KILL:
                await processes.kill(member)
            case FaultKind.TERMINATE:
                await processes.terminate(member)
            case FaultKind.PAUSE:
                await processes.pause(member)
            case FaultKind.DISCONNECT:
                await world.disconnect(member)
            case FaultKind.ONE_WAY:
                await world.cut(member, who[1])
            case FaultKind.UNREACHABLE | FaultKind.REFUSED:
                for other in self._others(member):
                    await world.cut(member, other, Cut(fault.kind))
                    await world.cut(other, member, Cut(fault.kind))
            case FaultKind.DISK_FULL:
                await world.fill_disk(member)

    async def _undo(self, fault: Fault, who: Sequence[Member]) -> None:
        world, member = self._world, who[0]
        processes = self._processes(member)
        match fault.kind:
            case FaultKind.KILL | FaultKind.TERMINATE:
                await processes.start(member)
            case FaultKind.PAUSE:
                await processes.resume(member)
            case FaultKind.DISCONNECT:
                await world.connect(member)
            case FaultKind.ONE_WAY:
                await world.join(member, who[1])
            case FaultKind.UNREACHABLE | FaultKind.REFUSED:
                await self._join_others(member, Cut(fault.kind))
            case FaultKind.DISK_FULL:
                # A failed replica stays failed until its broker is restarted (docs/run/operations.md).
                await world.free_disk(member)
                await world.terminate(member)
                await world.start(member)

    def _began(self, index: int, fault: Fault, who: Sequence[Member], detail: str = "") -> None:
        said = detail or self._meaning(fault)
        self._timeline.note("fault_began", fault=index, kind=fault.kind, who=list(map(str, who)), detail=said)

    def _ended(self, index: int, fault: Fault, who: Sequence[Member], detail: str) -> None:
        self._timeline.note(
            "fault_ended", fault=index, kind=fault.kind, who=list(map(str, who)), detail=detail
        )

    def _meaning(self, fault: Fault) -> str:
        if fault.role is Role.CLIENT:
            return self._roles.members[Member(fault.role, fault.number)].name
        match fault.target:
            case Target.LEADER:
                return f"leader of {self._name(fault)}"
            case Target.FOLLOWER:
                return f"follower of {self._name(fault)}"
            case Target.COORDINATOR:
                return f"coordinator of the group {self._groups[fault.number]}"
            case Target.ACTIVE:
                return "the active controller"
            case _:
                return f"what it sends to broker {fault.other}" if fault.other >= 0 else ""

    def _name(self, fault: Fault) -> TopicPartition:
        return TopicPartition(*self._plan.partition(fault.number))

    # --- finding the member --------------------------------------------------------------------

    async def _find(self, admin: Admin, fault: Fault) -> list[Member]:
        """Finds the members of a fault. Raises Skipped if there is none now, or none is known."""
        if fault.target is Target.ANY:
            numbers = [fault.number] if fault.other < 0 else [fault.number, fault.other]
            return [Member(fault.role, number) for number in numbers]
        deadline = self._clock.monotonic() + FIND_S_MAX
        while True:
            try:
                async with asyncio.timeout(ASK_S_MAX):
                    found = await self._ask(admin, fault)
                reason = "there is none"
            except (StrandlineError, TimeoutError) as error:
                found, reason = None, str(error) or "no answer"
            member = None if found is None else Member(fault.role, found)
            if member is not None and member in self._world.members:
                return [member]
            if self._clock.monotonic() >= deadline:
                raise Skipped(f"{self._meaning(fault)}: {reason}")
            await self._clock.sleep(CHASE_POLL_S)

    async def _ask(self, admin: Admin, fault: Fault) -> int | None:
        """The number of the member that the target stands for now."""
        match fault.target:
            case Target.COORDINATOR:
                return (await admin.describe_group(self._groups[fault.number])).coordinator.id
            case Target.ACTIVE:
                controller = (await admin.metadata()).controller
                return None if controller is None else controller.id
        described = await self._described(admin, fault)
        if fault.target is Target.LEADER:
            return described.leader if described.leader >= 0 else None
        followers = [broker for broker in described.isr if broker != described.leader]
        return followers[0] if followers else None

    async def _described(self, admin: Admin, fault: Fault) -> PartitionDescription:
        name = self._name(fault)
        (topic,) = await admin.describe_topics([name.topic])
        return topic.partitions[name.partition]

    # --- faults that do not target one member --------------------------------------------------

    async def _chase(self, admin: Admin, index: int, fault: Fault, ends: float) -> None:
        """Kills each new leader of the partition, and restarts all of them at the end."""
        killed: list[Member] = []
        try:
            while self._clock.monotonic() < ends:
                try:
                    (leader,) = await self._find(admin, fault)
                    if leader not in killed:
                        self._take(fault, [leader])
                        killed.append(leader)
                        await self._world.kill(leader)
                        self._began(index, fault, [leader])
                except (Skipped, WorldFailed) as error:
                    if not killed:
                        raise Skipped(str(error)) from None
                await self._clock.sleep(CHASE_POLL_S)
            failed: list[str] = []
            for member in killed:
                try:
                    await self._world.start(member)
                except WorldFailed as error:
                    self._left.add(member)
                    failed.append(str(error))
            if killed:
                self._ended(index, fault, killed, "; ".join(failed))
        finally:
            for member in killed:
                self._under.pop(member, None)

    async def _reassign(self, admin: Admin, index: int, fault: Fault) -> None:
        name = self._name(fault)
        brokers = [member.number for member in self._brokers()]

        async def ask() -> tuple[int, ...]:
            replicas = (await self._described(admin, fault)).replicas
            wanted = moved(replicas, brokers, min(REPLICATION_FACTOR, len(brokers)))
            await admin.reassign({name: wanted})
            return wanted

        wanted = await self._asked(ask)
        self._at_once(index, fault, f"{name} to the replicas {list(wanted)}")

    async def _add_partition(self, admin: Admin, index: int, fault: Fault) -> None:
        topic = self._name(fault).topic

        async def ask() -> int:
            (described,) = await admin.describe_topics([topic])
            partitions = len(described.partitions) + 1
            await admin.alter_topic(topic, partitions=partitions)
            return partitions

        partitions = await self._asked(ask)
        self._at_once(index, fault, f"{topic} has {partitions} partitions")

    async def _balance(self, admin: Admin, index: int, fault: Fault, over: float) -> None:
        """Adds a broker, and has the controller give it its share."""
        try:
            added = await self._world.grow()
        except WorldFailed as error:
            raise Skipped(str(error)) from None
        self._began(index, fault, [], f"{added} is added")

        async def ask() -> None:
            begun = (await admin.describe_balance()).state.is_under_way  # though its answer was lost
            if not begun and not (await admin.start_balance()).moves:
                raise WorldFailed("no broker can get a share yet")

        deadline = min(over, self._clock.monotonic() + BALANCED_S_MAX)
        try:
            await self._asked(ask, deadline, BALANCE_ASK_S_MAX)
            self._ended(index, fault, [], "a balance has begun")
        except Skipped as skipped:
            self._ended(index, fault, [], f"no balance: {skipped}")

    async def _lose_disk(self, index: int, fault: Fault, ends: float) -> None:
        """Kills a broker, and restarts it with an empty disk once the cluster does not count on it."""
        broker = Member(fault.role, fault.number)

        async def work() -> str:
            detail = "an ISR named it to the end: it keeps its disk"
            await self._world.kill(broker)
            while self._clock.monotonic() < ends:
                if await self._world.lose_disk(broker):
                    detail = "its disk is empty"
                    break
                await self._clock.sleep(DISK_POLL_S)
            await self._world.start(broker)
            return detail

        await self._harm(index, fault, [broker], work)

    async def _asked(
        self,
        ask: Callable[[], Awaitable[T]],
        deadline: float | None = None,
        answer_s_max: float = ASK_S_MAX,
    ) -> T:
        """Sends the request again until it succeeds. Raises Skipped if it is refused again and again, or gets
        no answer, until the deadline or for FIND_S_MAX."""
        if deadline is None:
            deadline = self._clock.monotonic() + FIND_S_MAX
        while True:
            try:
                async with asyncio.timeout(answer_s_max):
                    return await ask()
            except (StrandlineError, TimeoutError) as error:
                if self._clock.monotonic() >= deadline:
                    raise Skipped(str(error) or "no answer") from None
            await self._clock.sleep(CHASE_POLL_S)

    def _at_once(self, index: int, fault: Fault, detail: str) -> None:
        self._began(index, fault, [], detail)
        self._ended(index, fault, [], "")
