"""Changes to groups: reset the offsets of one, and delete one. Both need a group without members."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

from strandline.client.admin.admin import Admin
from strandline.client.admin.refusals import has_members
from strandline.client.arguments import INT64_MAX
from strandline.client.resets.plan import Chosen, Reset, Shift, Since, Target, listed_partitions
from strandline.client.resets.reading import read_plan
from strandline.config.limits import GROUP_ID_LENGTH_MAX
from strandline.console.clients import Clients
from strandline.console.core.changes import Effect, Ended, Place
from strandline.console.core.forms import Form
from strandline.console.core.groups import effects
from strandline.console.core.words import counted, shown
from strandline.consumer.described.reading import read_group
from strandline.errors import InvalidRequest, NonEmptyGroup
from strandline.report.text.partition_names import by_topic

PLACES: Final = ("earliest", "latest", "offset", "time", "shift")
"""Where a reset may go, as its form says it."""


def group_of(form: Form) -> str:
    """The group of a form, as it is: its name may begin with a space. Raises InvalidRequest."""
    group = form.values.get("group", "")
    if not 0 < len(group) <= GROUP_ID_LENGTH_MAX:
        raise InvalidRequest(f"group has {len(group)} characters: give 1 to {GROUP_ID_LENGTH_MAX}")
    return group


async def check_empty(admin: Admin, group: str) -> None:
    """Raises NonEmptyGroup as the coordinator would, and GroupIdNotFound."""
    members = (await admin.describe_group(group)).group.members
    if members:
        raise NonEmptyGroup(has_members(group, members))


@dataclass(frozen=True, slots=True)
class ResetOffsets:
    """Another place to read on from, for some or all partitions of a group."""

    group: str
    target: Target
    topic: str
    """Empty: all that the group has committed."""
    partitions: tuple[int, ...] | None
    """None: all of the topic."""

    @classmethod
    def read(cls, form: Form) -> Self:
        """Raises InvalidRequest."""
        topic, partitions = form.text("topic"), form.text("partitions", chars_max=1_000)
        if partitions and not topic:
            raise InvalidRequest(f"partitions = {partitions!r}: give the topic that has them")
        return cls(
            group_of(form), _target(form), topic, listed_partitions(partitions) if partitions else None
        )

    @property
    def place(self) -> Place:
        return Place(group=self.group)

    async def plan(self, clients: Clients) -> Effect:
        """Raises NonEmptyGroup, GroupIdNotFound, UnknownTopicOrPartition, InvalidRequest, …"""
        await check_empty(clients.admin, self.group)
        return effects.reset(self.group, self.target, await self._resets(clients.admin))

    async def do(self, clients: Clients, effect: Effect) -> Ended:
        """Raises NonEmptyGroup, …"""
        resets = await self._resets(clients.admin)
        await clients.admin.alter_group_offsets(self.group, {each.name: each.position for each in resets})
        partitions = counted(len(resets), "partition")
        return Ended.done(f"The offsets of group {shown(self.group)} in {partitions} are set.")

    async def _resets(self, admin: Admin) -> list[Reset]:
        if self.topic:
            chosen = [Chosen(self.topic, self.partitions)]
        else:
            committed = by_topic(await admin.group_offsets(self.group))
            chosen = [Chosen(topic, tuple(partitions)) for topic, partitions in committed.items()]
            if not chosen:
                raise InvalidRequest(f"group {self.group!r} has committed nothing: give a topic")
        return await read_plan(admin, self.group, chosen, self.target)


def _target(form: Form) -> Target:
    match form.choice("to", PLACES):
        case "earliest":
            return "earliest"
        case "latest":
            return "latest"
        case "offset":
            return form.whole("value", 0, INT64_MAX)
        case "time":
            return Since(form.time_ms("value"))
        case _:
            return Shift(form.whole("value", -INT64_MAX, INT64_MAX))


@dataclass(frozen=True, slots=True)
class DeleteGroup:
    """The end of a group and of its offsets."""

    group: str

    @classmethod
    def read(cls, form: Form) -> Self:
        """Raises InvalidRequest."""
        return cls(group_of(form))

    @property
    def place(self) -> Place:
        return Place(group=self.group)

    async def plan(self, clients: Clients) -> Effect:
        """Raises NonEmptyGroup, GroupIdNotFound."""
        await check_empty(clients.admin, self.group)
        return effects.deletion(await read_group(clients.admin, self.group))

    async def do(self, clients: Clients, effect: Effect) -> Ended:
        """Raises NonEmptyGroup, GroupIdNotFound."""
        await clients.admin.delete_group(self.group)
        return Ended.done(f"Group {shown(self.group)} is deleted with its offsets.")
