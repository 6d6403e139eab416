"""What a group has of one kind, when it becomes one of the other (`migration`)."""

from __future__ import annotations

from collections.abc import Iterable

from strandline.broker.core.groups.state.group import Group
from strandline.broker.core.groups.state.member import Member
from strandline.broker.core.groups.state.states import GroupState


def end_classic(group: Group) -> None:
    """It has no members of its own kind any longer: it becomes one whose coordinator assigns."""
    for member_id in tuple(group.pending):
        group.remove_pending(member_id)
    for member in tuple(group.members.values()):
        group.remove(member)
    group.leaves = []
    group.barrier = group.assign_write = None
    group.recovered = group.announced = False
    group.leader = group.protocol = ""
    group.state = GroupState.EMPTY
    group.forget_generations()


def begin_classic(group: Group, members: Iterable[Member], protocol_type: str, generation: int) -> None:
    """It was one whose coordinator assigned, and is a classic one from here on, with these members, of which
    none leads."""
    assert not group.members, f"{group.name} has members already"
    group.set_consumers(None)
    for member in members:
        group.add(member)
    group.generation, group.protocol_type = generation, protocol_type
    group.protocol, group.leader = group.choose_protocol(), ""
    group.state = GroupState.STABLE


def take_loaded(group: Group, before: Group) -> None:
    """While the log is read: take what was loaded before the last record, and is not of a classic group."""
    group.offsets = before.offsets
    consumers = before.consumers
    before.set_consumers(None)
    before.release_bytes()
    group.set_consumers(consumers)
    if consumers is not None and group.generation:
        consumers.latest = False
