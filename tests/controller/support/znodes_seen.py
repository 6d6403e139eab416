"""Registers znodes in ZooKeeper in the place of brokers, and reads the results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.layout import isr_znodes, queue_znodes, reassignment_znodes
from strandline.adapters.zookeeper.security.acl_znodes import CHANGES
from strandline.ids import NO_BROKER, NO_EPOCH, BrokerEpoch, BrokerId, LeaderEpoch
from strandline.ports import Coordination, Delete, NoNode, SetData
from strandline.tasks import pipelined
from strandline.vocabulary.metadata import Endpoint, IsrMember, PartitionState, Reassignment, Registration
from strandline.vocabulary.state_changes import Command, StateChange, StateChangeEvent

READS_IN_FLIGHT_MAX = 500

Named = TypeVar("Named")


async def register(
    session: Coordination, brokers: Iterable[int], *, shutting_down: bool = False
) -> dict[int, int]:
    """Register brokers as they would themselves; their epochs."""
    await session.ensure_path(znodes.BROKER_IDS)
    epochs = {}
    for broker in brokers:
        registration = Registration(
            Endpoint(broker, "localhost", 9000 + broker), BrokerEpoch(-1), shutting_down
        )
        path = znodes.broker(broker)
        await session.create(path, znodes.dump_registration(registration), ephemeral=True)
        epochs[broker] = (await session.get(path)).czxid
    return epochs


async def lead(
    session: Coordination, name: str, leader: int, epochs: dict[int, int], *isr: int, partition: int = 0
) -> None:
    """Write what the election of this leader would."""
    members = tuple(IsrMember(BrokerId(b), BrokerEpoch(epochs[b])) for b in isr)
    state = PartitionState(BrokerId(leader), LeaderEpoch(5), members)
    await session.set(znodes.isr(name, partition), isr_znodes.dump_isr(state))


async def topic_node(session: Coordination, name: str) -> znodes.TopicNode | None:
    try:
        return znodes.load_topic(name, (await session.get(znodes.topic(name))).data)
    except NoNode:
        return None


async def assignments(session: Coordination, name: str) -> list[tuple[int, ...]]:
    """AR of every partition. Raises NoNode if one is missing."""
    node = await topic_node(session, name)
    assert node is not None

    async def read(number: int) -> tuple[int, ...]:
        return znodes.load_replicas(name, number, (await session.get(znodes.replicas(name, number))).data)

    return await pipelined(read, range(node.partitions), in_flight_max=READS_IN_FLIGHT_MAX)


async def requests(session: Coordination, broker: int) -> list[StateChange]:
    """The queue of a broker, in order; what leaves it meanwhile is left out."""
    queue = znodes.state_queue(broker)
    found = []
    for entry in sorted(await session.children(queue)):
        try:
            found += queue_znodes.load_state_changes((await session.get(f"{queue}/{entry}")).data)
        except NoNode:
            continue
    return found


async def check_whole(session: Coordination, name: str, epochs: dict[int, int]) -> None:
    """The topic is there with all that belongs to it, and a start is queued for each of its replicas."""
    node = await topic_node(session, name)
    assert node is not None
    assert node.partitions > 0
    placed = await assignments(session, name)

    async def check_isr(number: int) -> None:
        state = isr_znodes.load_isr(name, number, (await session.get(znodes.isr(name, number))).data)
        living = (b for b in placed[number] if b in epochs)
        members = tuple(IsrMember(BrokerId(b), BrokerEpoch(epochs[b])) for b in living)
        assert state == PartitionState(NO_BROKER, NO_EPOCH, members)

    await pipelined(check_isr, range(node.partitions), in_flight_max=READS_IN_FLIGHT_MAX)
    wanted = {(broker, number) for number, assigned in enumerate(placed) for broker in assigned}
    queued = [
        (broker, change.key.partition)
        for broker in {b for b, _ in wanted}
        for change in await requests(session, broker)
        if change.key.topic_id == node.topic_id and change.command is Command.START_REPLICA
    ]
    assert sorted(queued) == sorted(wanted)
    assert await session.exists(znodes.delete_topic(name)) is None


async def is_gone(session: Coordination, name: str) -> bool:
    """Neither the topic nor its marker is there."""
    marker = await session.exists(znodes.delete_topic(name))
    return await session.exists(znodes.topic(name)) is None and marker is None


async def check_replicas_deleted(
    session: Coordination, topic_id: str, placed: Sequence[tuple[int, ...]]
) -> None:
    """For each replica exactly one deletion is queued, after everything else about it."""
    for broker in {b for assigned in placed for b in assigned}:
        commands: dict[int, list[Command]] = {
            n: [] for n, assigned in enumerate(placed) if broker in assigned
        }
        for change in await requests(session, broker):
            if change.key.topic_id == topic_id:
                commands[change.key.partition].append(change.command)
        for received in commands.values():
            assert received.count(Command.DELETE_REPLICA) == 1
            assert received[-1] is Command.DELETE_REPLICA


async def reassignment(session: Coordination, name: str, number: int) -> Reassignment | None:
    """The active reassignment in its znode."""
    try:
        data = (await session.get(znodes.reassigned(name, number))).data
    except NoNode:
        return None
    return reassignment_znodes.load_reassignment(name, number, data)


async def finish_reassignment(session: Coordination, name: str, number: int) -> None:
    """In the place of the leader: AR is what was asked for, and nothing is under way."""
    wanted = await reassignment(session, name, number)
    assert wanted is not None
    await session.multi(
        [
            SetData(znodes.replicas(name, number), znodes.dump_replicas(wanted.target)),
            Delete(znodes.reassigned(name, number)),
        ]
    )


async def kept_events(session: Coordination) -> list[StateChangeEvent]:
    """Those that ZooKeeper keeps until `__state_changes` has them; without a broker nothing writes it."""
    found: list[StateChangeEvent] = []
    for name in sorted(await session.children(znodes.UNRECORDED)):
        path = znodes.unrecorded(name)
        found += isr_znodes.load_unrecorded(path, (await session.get(path)).data)
    return found


async def noticed(session: Coordination, load: Callable[[str, bytes], Sequence[Named]]) -> list[Named]:
    """What the notices of changes name, in order. `load` takes one kind of them: ACLs, users or quotas."""
    names: list[Named] = []
    for child in sorted(await session.children(CHANGES)):
        names += load(child, (await session.get(f"{CHANGES}/{child}")).data)
    return names
