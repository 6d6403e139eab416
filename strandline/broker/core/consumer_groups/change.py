"""What one turn changes in a group, and the records that say so.

A change is decided at once, and its records are written together. Nothing that follows from it leaves the
coordinator before they are in the log: its answers wait (`core/groups/assigned`). Of records that could not
be written, the log may have any: the next change writes their subjects again, as they are by then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from functools import partial

from strandline.broker.core.consumer_groups.group import ConsumerGroup
from strandline.broker.core.consumer_groups.member import ConsumerMember
from strandline.broker.core.consumer_groups.reconciliation import Target, reconciled
from strandline.broker.core.consumer_groups.records import (
    CURRENT,
    EPOCH,
    MEMBER,
    PATTERN,
    TARGET,
    TARGET_EPOCH,
    ConsumerKey,
    ConsumerRecord,
    ConsumerValue,
    CurrentValue,
    EpochValue,
    MemberValue,
    PatternValue,
    TargetEpochValue,
    TargetValue,
)
from strandline.broker.core.consumer_groups.target import target_of
from strandline.broker.core.consumer_groups.topics import Topic
from strandline.ids import PartitionKey


class Change:
    """`before`: the members that were touched as they were, None for a new one, in order."""

    __slots__ = ("_name", "_now_ms", "_records", "before", "bumped", "gone", "group", "moved", "targeted")

    def __init__(self, name: str, group: ConsumerGroup, now_ms: int) -> None:
        self.group = group
        self.before: dict[str, ConsumerMember | None] = {}
        self.bumped = False
        """True if the group's epoch has risen."""
        self.targeted: dict[str, None] = {}
        """The members whose target is another one."""
        self.gone: dict[str, str] = {}
        """Why members are out."""
        self.moved: dict[str, None] = {}
        """The members that were in the group before, when it was of another kind."""
        self._name = name
        self._now_ms = now_ms
        self._records: dict[ConsumerKey, ConsumerValue | None] = {}

    def records(self) -> tuple[ConsumerRecord, ...]:
        """One for each subject that has changed, in the order of the changes."""
        return tuple(ConsumerRecord(key, value) for key, value in self._records.items())

    # --- members -----------------------------------------------------------------------------

    def put(self, member: ConsumerMember) -> None:
        """Adds the member, or what has become of it."""
        before = self.group.put(member)
        self.before.setdefault(member.member, before)
        said, current = MemberValue.of(member), CurrentValue.of(member)
        if before is None or MemberValue.of(before) != said:
            self._write(MEMBER, said, member.member)
        if before is None or CurrentValue.of(before) != current:
            self._write(CURRENT, current, member.member)

    def remove(self, member_id: str) -> ConsumerMember:
        """Takes the member out; its partitions are free."""
        member = self.group.remove(member_id)
        self.before.setdefault(member_id, member)
        for type_ in (CURRENT, TARGET, MEMBER):
            self._write(type_, None, member_id)
        return member

    def replace(self, old: ConsumerMember, member: ConsumerMember) -> None:
        """Another process of the same instance takes the place of the old one, with its target."""
        target = self.group.targets.get(old.member)
        self.remove(old.member)
        self.gone[old.member] = f"member {member.member} took the place of instance {old.instance}"
        if target is not None:
            self.set_target(member.member, target)
        self.put(member)

    def reconcile(self, member_id: str, owned: tuple[PartitionKey, ...] | None, *, changed: bool) -> None:
        """Brings the member one step closer to its target."""
        member = self.group.members[member_id]
        after = reconciled(member, self._target(member), owned, changed=changed)
        if after is not member:
            self.put(after)

    def is_news(self, member: ConsumerMember) -> bool:
        """True if the member's next step gives it a partition, or takes one from it."""
        after = reconciled(member, self._target(member), None, changed=False)
        return after.assigned.keys() != member.assigned.keys()

    def _target(self, member: ConsumerMember) -> Target:
        group = self.group
        subscribed = partial(group.subscribed_ids, member)
        return Target(group.target_epoch, group.target_of(member.member), subscribed, group.is_free)

    # --- epochs ------------------------------------------------------------------------------

    def begin(self, epoch: int) -> None:
        """The group, which is empty, continues another one that had this epoch."""
        self.group.epoch = self.group.target_epoch = epoch
        self._write(TARGET_EPOCH, TargetEpochValue(epoch, self._now_ms))

    def write_epoch(self) -> None:
        """Writes the group's epoch with its topics as they are, though it has not risen."""
        self._write(EPOCH, EpochValue(self.group.epoch, self.group.hash()))

    def bump(self, reason: str, caused_by: str) -> None:
        """Begins an epoch of the group. Of several reasons in one turn, the first stands."""
        group = self.group
        if self.bumped:
            return
        self.bumped = True
        group.epoch += 1
        group.reason, group.caused_by = reason, caused_by

    def see(self, topics: Mapping[str, Topic | None], caused_by: str = "") -> None:
        """The topics as they are now. What is new of a subscribed topic begins an epoch."""
        group = self.group
        before = dict(group.topics)
        news = [name for name in sorted(topics) if name in before and before[name] != topics[name]]
        group.see(topics)
        if news:
            self.bump(_news(news[0], before[news[0]], topics[news[0]], len(news)), caused_by)
        if group.stored_hash is not None and not group.unseen():
            stored, group.stored_hash = group.stored_hash, None
            if group.members and stored != group.hash():
                self.bump("topics changed before this coordinator took over", "")

    def resolve(self, pattern: str, topics: tuple[str, ...]) -> None:
        """The pattern matches these topics now. Others than before begin an epoch."""
        before = self.group.patterns.get(pattern)
        if before == topics:
            return
        self.group.resolve(pattern, topics)
        self._write(PATTERN, PatternValue(topics, self._now_ms), pattern)
        if before is not None:
            self.bump(f"pattern {pattern} matches {len(topics)} topics, {len(before)} before", "")

    def settle(self) -> None:
        """Ends the turn's decisions: computes the target of a new epoch, if all of its topics were looked
        at."""
        group = self.group
        for pattern in group.unused_patterns():
            group.resolve(pattern, None)
            self._write(PATTERN, None, pattern)
        if self.bumped:
            self.write_epoch()
        if group.target_epoch >= group.epoch or (group.members and group.unseen()):
            return
        targets = target_of(group) if group.members else {}
        for member_id, target in targets.items():
            if group.targets.get(member_id) != target:
                self.set_target(member_id, target)
        group.target_epoch = group.epoch
        self._write(TARGET_EPOCH, TargetEpochValue(group.epoch, self._now_ms))

    def set_target(self, member_id: str, target: Set[PartitionKey]) -> None:
        """The member is to have these partitions."""
        self.group.targets[member_id] = target
        self.targeted[member_id] = None
        self._write(TARGET, TargetValue(target), member_id)

    # --- records -----------------------------------------------------------------------------

    def again(self, keys: Iterable[ConsumerKey]) -> None:
        """Writes these subjects as they are."""
        for key in keys:
            if key not in self._records:
                self._write(key.type, self._value(key), key.subject)

    def _value(self, key: ConsumerKey) -> ConsumerValue | None:
        group, member = self.group, self.group.members.get(key.subject)
        if key.type == EPOCH:
            return EpochValue(group.epoch, group.hash())
        if key.type == TARGET_EPOCH:
            return TargetEpochValue(group.target_epoch, self._now_ms)
        if key.type == PATTERN:
            found = group.patterns.get(key.subject)
            return None if found is None else PatternValue(found, self._now_ms)
        if member is None:
            return None
        if key.type == TARGET:
            return TargetValue(group.target_of(key.subject))
        return MemberValue.of(member) if key.type == MEMBER else CurrentValue.of(member)

    def keys(self) -> list[ConsumerKey]:
        """All that the log may have of the group, once it has this change."""
        group = self.group
        found = dict.fromkeys(self._records)
        for member_id in (*self.before, *group.members):
            for type_ in (CURRENT, TARGET, MEMBER):
                found[ConsumerKey(type_, self._name, member_id)] = None
        for pattern in group.patterns:
            found[ConsumerKey(PATTERN, self._name, pattern)] = None
        for type_ in (TARGET_EPOCH, EPOCH):
            found[ConsumerKey(type_, self._name)] = None
        return list(found)

    def _write(self, type_: int, value: ConsumerValue | None, subject: str = "") -> None:
        key = ConsumerKey(type_, self._name, subject)
        self._records.pop(key, None)
        self._records[key] = value


def _news(name: str, before: Topic | None, now: Topic | None, count: int) -> str:
    more = f", and {count - 1} topics more changed" if count > 1 else ""
    if before is None or now is None:
        return f"topic {name} was {'made' if before is None else 'deleted'}{more}"
    if before.topic_id != now.topic_id:
        return f"topic {name} was made anew{more}"
    return f"topic {name} has {now.partitions} partitions, {before.partitions} before{more}"
