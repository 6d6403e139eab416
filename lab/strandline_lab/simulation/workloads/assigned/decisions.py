"""Judges what coordinators decided of a group, by its records in `__consumer_offsets`. Pure.

The log has every decision of every coordinator, in order. A model goes through it, one write after the other:

* no partition is of two members, or in the targets of two (G24);
* the epochs of the group, of its target and of its members never fall, and no member is ahead of the target
  (G25);
* a member loses a partition only if its target lacks it, or its own subscription has changed (G26);
* a commit is one of a member, in its epoch, or in an earlier one for what the member has had since (G27).

Records of one moment count as one write. The model knows the records' layouts from the code that writes them,
and none of its rules.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final, NamedTuple

from strandline.broker.core.consumer_groups.records import (
    CURRENT,
    EPOCH,
    MEMBER,
    TARGET,
    TARGET_EPOCH,
    ConsumerRecord,
    CurrentValue,
    EpochValue,
    MemberValue,
    TargetEpochValue,
    TargetValue,
)
from strandline.broker.core.groups.stored import OffsetRecord, StoredRecord
from strandline.ids import PartitionId, PartitionKey
from strandline_lab.simulation.member_records import CommitTry

NOTHING: Final[frozenset[PartitionKey]] = frozenset()


class Written(NamedTuple):
    """A record of the group, and its timestamp in milliseconds."""

    at_ms: int
    record: StoredRecord


@dataclass(slots=True)
class _State:
    """The group as the log has it."""

    epoch: int = 0
    target_epoch: int = 0
    members: dict[str, CurrentValue] = field(default_factory=dict)
    said: dict[str, MemberValue] = field(default_factory=dict)
    targets: dict[str, Set[PartitionKey]] = field(default_factory=dict)

    def copy(self) -> _State:
        return _State(self.epoch, self.target_epoch, dict(self.members), dict(self.said), dict(self.targets))

    def take(self, record: ConsumerRecord) -> None:
        key, value = record.key, record.value
        if isinstance(value, EpochValue):
            self.epoch = value.epoch
        elif isinstance(value, TargetEpochValue):
            self.target_epoch = value.epoch
        elif isinstance(value, CurrentValue):
            self.members[key.subject] = value
        elif isinstance(value, MemberValue):
            self.said[key.subject] = value
        elif isinstance(value, TargetValue):
            self.targets[key.subject] = value.partitions
        elif value is None:
            self._remove(key.type, key.subject)

    def _remove(self, type_: int, subject: str) -> None:
        if type_ == CURRENT:
            self.members.pop(subject, None)
        elif type_ == MEMBER:
            self.said.pop(subject, None)
        elif type_ == TARGET:
            self.targets.pop(subject, None)
        elif type_ in (EPOCH, TARGET_EPOCH):
            self.epoch = self.target_epoch = 0


def findings(written: Sequence[Written], tries: Iterable[CommitTry]) -> Iterator[str]:
    """All that is wrong, in the order of the log. `tries`: the commits that clients sent."""
    by_note: defaultdict[str, list[CommitTry]] = defaultdict(list)
    for sent in tries:
        by_note[sent.note].append(sent)
    state, changed = _State(), set[str]()
    for at_ms, step in groupby(written, key=lambda each: each.at_ms):
        before, offsets = state.copy(), list[OffsetRecord]()
        for each in step:
            if isinstance(each.record, ConsumerRecord):
                state.take(each.record)
            elif isinstance(each.record, OffsetRecord):
                offsets.append(each.record)
        changed |= {member for member in state.said if state.said[member] != before.said.get(member)}
        found = [*_owners(state), *_epochs(before, state), *_kept(before, state, changed)]
        found += _commits((before, state), offsets, by_note)
        yield from (f"the log at {at_ms} ms: {line}" for line in found)
        if state.target_epoch != before.target_epoch:
            changed.clear()


def _owners(state: _State) -> Iterator[str]:
    have = {name: {**member.assigned, **member.revoking}.keys() for name, member in state.members.items()}
    wanted = {name: target for name, target in state.targets.items() if name in state.members}
    for what, held in (("is of", have), ("is in the targets of", wanted)):
        owners: dict[PartitionKey, str] = {}
        for name, keys in held.items():
            for key in sorted(keys):
                if key in owners:
                    yield f"partition {key.partition} {what} {owners[key]} and of {name}"
                owners[key] = name


def _epochs(before: _State, state: _State) -> Iterator[str]:
    for what, was, now in (
        ("group's", before.epoch, state.epoch),
        ("target's", before.target_epoch, state.target_epoch),
    ):
        if now < was:
            yield f"the {what} epoch fell from {was} to {now}"
    if state.target_epoch > state.epoch:
        yield f"the target has epoch {state.target_epoch}, and the group {state.epoch}"
    for name, member in state.members.items():
        old = before.members.get(name)
        if member.epoch > state.target_epoch:
            yield f"member {name} has epoch {member.epoch}, and its target {state.target_epoch}"
        if old is not None and 0 < member.epoch < old.epoch:
            yield f"the epoch of member {name} fell from {old.epoch} to {member.epoch}"


def _kept(before: _State, state: _State, changed: Set[str]) -> Iterator[str]:
    """Of a target whose write failed the log has only what came of it."""
    if state.target_epoch > before.target_epoch + 1:
        return
    for name, member in state.members.items():
        old = before.members.get(name)
        if old is None or name in changed:
            continue
        target = before.targets.get(name, NOTHING) & state.targets.get(name, NOTHING)
        for key in sorted(old.assigned.keys() - member.assigned.keys()):
            if key in target:
                yield f"member {name} loses partition {key.partition}, which stays in its target"


def _commits(
    states: Sequence[_State], offsets: Iterable[OffsetRecord], by_note: Mapping[str, Sequence[CommitTry]]
) -> Iterator[str]:
    for each in offsets:
        tries = by_note.get(each.committed.metadata, ()) if each.committed is not None else ()
        if not tries or each.committed is None:
            continue  # the commit of no member, or one without a note
        key = PartitionKey(each.committed.topic_id, PartitionId(each.name.partition))
        if not any(_may_commit(state.members.get(one.member), one, key) for state in states for one in tries):
            said = ", ".join(f"member {one.member} in epoch {one.epoch}" for one in tries)
            yield f"a commit of {each.name} was taken from {said}, which may not commit it"


def _may_commit(member: CurrentValue | None, sent: CommitTry, key: PartitionKey) -> bool:
    if member is None:
        return False
    since = member.assigned.get(key)
    return sent.epoch == member.epoch or (since is not None and since <= sent.epoch < member.epoch)
