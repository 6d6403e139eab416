"""The events of groups whose coordinator assigns (docs/use/groups.md, "Events").

Their members report nothing: the coordinator says what each has, as it gives and takes partitions. An epoch
of the group is a generation in these events. It is stable once each member has reached it with all that it
is to have; the member that gave partitions up last is named then, since others waited for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from strandline.broker.core.consumer_groups.change import Change
from strandline.broker.core.consumer_groups.group import ConsumerGroupState
from strandline.broker.core.consumer_groups.member import ConsumerMember
from strandline.broker.core.groups.effects import EventKind, GroupEvent
from strandline.broker.core.groups.state.consumers import Consumers
from strandline.broker.core.groups.state.group import Group
from strandline.broker.core.groups.state.turn import Turn
from strandline.ids import PartitionKey, TopicId, TopicPartition
from strandline.vocabulary.groups import CONSUMER, JOINS

LEFT: Final = "left"
"""How the reason begins of a member that gave its partitions up before it went."""

Held = Mapping[PartitionKey, int]


class _News:
    """Of one change, in the order in which they happened: what was given up, who came and went, the epoch,
    what was given."""

    def __init__(self, turn: Turn, group: Group, consumers: Consumers, change: Change) -> None:
        self._turn = turn
        self._name = group.name
        self._consumers = consumers
        self._core = consumers.core
        self._change = change
        self._names: Mapping[TopicId, str] | None = None

    def publish(self) -> None:
        touched = [
            (name, before, self._core.members.get(name)) for name, before in self._change.before.items()
        ]
        # Members that the group takes along into another protocol keep what they have.
        changed = [each for each in touched if each[0] not in self._change.moved]
        for name, before, after in changed:
            self._give_up(name, before, after)
        for name, before, after in changed:
            self._come_and_go(name, before, after)
        self._begin()
        for name, before, after in touched:
            if after is not None:
                self._ask_and_give(name, before, after)
        self._settle()

    # --- members -----------------------------------------------------------------------------

    def _give_up(self, name: str, before: ConsumerMember | None, after: ConsumerMember | None) -> None:
        if before is None:
            return
        has = {} if after is None else {**after.assigned, **after.revoking}
        gone = [key for key in (*before.assigned, *before.revoking) if key not in has]
        if not gone:
            return
        why = self._change.gone.get(name, "")
        kind = EventKind.REVOKED if after is not None or why.startswith(LEFT) else EventKind.LOST
        epoch = before.epoch if before.epoch > JOINS else self._core.epoch
        self._say(kind, epoch, member=name, reason=why, keys=gone)
        if before.revoking and len(self._core.members) + (after is None) > 1:
            self._consumers.gave_up_last = (name, before.instance or name)

    def _come_and_go(self, name: str, before: ConsumerMember | None, after: ConsumerMember | None) -> None:
        epoch = self._core.epoch
        if before is None and after is not None:
            self._say(EventKind.MEMBER_JOINED, epoch, member=name)
        elif before is not None and after is None:
            self._say(EventKind.MEMBER_LEFT, epoch, member=name, reason=self._change.gone.get(name, ""))

    def _ask_and_give(self, name: str, before: ConsumerMember | None, after: ConsumerMember) -> None:
        asked: Held = {} if before is None else before.revoking
        had: Held = {} if before is None else {**before.assigned, **before.revoking}
        asks = [key for key in after.revoking if key not in asked]
        if asks:
            self._say(EventKind.REVOKING, self._core.target_epoch, member=name, keys=asks)
        if gets := [key for key in after.assigned if key not in had]:
            self._say(EventKind.ASSIGNED, after.epoch, member=name, keys=gets)

    # --- epochs ------------------------------------------------------------------------------

    def _begin(self) -> None:
        core, consumers = self._core, self._consumers
        if self._change.bumped:
            self._say(EventKind.REBALANCE_STARTED, core.epoch, reason=core.reason, caused_by=core.caused_by)
        if core.members and core.target_epoch > consumers.begun:
            consumers.begun = core.target_epoch
            self._say(EventKind.GENERATION_STARTED, core.target_epoch)
        elif self._change.bumped and not core.members:
            self._say(EventKind.GENERATION_ENDED, core.epoch)

    def _settle(self) -> None:
        core, consumers = self._core, self._consumers
        if consumers.settled >= core.target_epoch or core.state is not ConsumerGroupState.STABLE:
            return
        consumers.settled = core.target_epoch
        (last, shown), consumers.gave_up_last = consumers.gave_up_last, ("", "")
        reason = f"member {shown} gave partitions up last" if last else ""
        self._say(EventKind.GENERATION_STABLE, core.target_epoch, reason=reason, caused_by=last)

    # --- events ------------------------------------------------------------------------------

    def _say(
        self,
        kind: EventKind,
        epoch: int,
        *,
        member: str = "",
        reason: str = "",
        caused_by: str = "",
        keys: Iterable[PartitionKey] = (),
    ) -> None:
        partitions = self._named(keys)
        self._turn.publish_event(
            GroupEvent(
                kind,
                self._name,
                epoch,
                self._turn.now.wall_ms,
                member,
                reason,
                caused_by,
                partitions,
                type=CONSUMER,
            )
        )

    def _named(self, keys: Iterable[PartitionKey]) -> tuple[TopicPartition, ...]:
        """Partitions of topics that are gone have no name."""
        found = sorted(keys)
        if not found:
            return ()
        names = self._names = self._core.names() if self._names is None else self._names
        there = [key for key in found if key.topic_id in names]
        return tuple(TopicPartition(names[key.topic_id], key.partition) for key in there)


def publish(turn: Turn, group: Group, consumers: Consumers, change: Change) -> None:
    """The events of a change."""
    _News(turn, group, consumers, change).publish()


def resume(consumers: Consumers) -> None:
    """The log is read to its end: what has begun, and what is stable, was published by an earlier
    coordinator, or is lost."""
    core = consumers.core
    consumers.begun = core.target_epoch
    consumers.settled = core.target_epoch if core.state is ConsumerGroupState.STABLE else 0
