"""Commits, fetches and removal of offsets, and removal of groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set, Sized
from dataclasses import replace
from functools import partial
from typing import Final

from strandline.broker.core.consumer_groups.fence import fence_commit, fence_fetch
from strandline.broker.core.consumer_groups.group import ConsumerGroup
from strandline.broker.core.consumer_groups.records import EPOCH, TARGET_EPOCH, ConsumerKey, ConsumerRecord
from strandline.broker.core.coordinators.effects import Call
from strandline.broker.core.coordinators.unwritten import unwritten
from strandline.broker.core.groups.batches import BatchedWrite
from strandline.broker.core.groups.isolation import Isolation
from strandline.broker.core.groups.limits import check_offset
from strandline.broker.core.groups.requests import Commit, DeleteOffsets
from strandline.broker.core.groups.state.group import Group
from strandline.broker.core.groups.state.offsets import SeenTopics
from strandline.broker.core.groups.state.states import GroupState
from strandline.broker.core.groups.state.subscriptions import subscribed_topics
from strandline.broker.core.groups.state.turn import Turn
from strandline.broker.core.groups.stored import GroupRecord, OffsetRecord, StoredRecord, tombstone
from strandline.broker.core.groups.timers import Timer, TimerKind
from strandline.errors import (
    CoordinatorNotAvailable,
    GroupSubscribedToTopic,
    IllegalGeneration,
    InvalidRequest,
    NonEmptyGroup,
    RebalanceInProgress,
    StaleMemberEpoch,
    StrandlineError,
    UnknownMemberId,
    UnknownTopicOrPartition,
)
from strandline.ids import TopicPartition
from strandline.vocabulary.groups import (
    NO_MEMBER,
    CommittedOffset,
    FetchedOffsets,
    OffsetFetch,
    OffsetResults,
)

GROUPS_PER_TURN_MAX: Final = 500
"""Groups that are checked for expiry before other work gets a turn."""

THE_GROUP: Final = TopicPartition("", -1)
"""Stands for the group's own record among those of its offsets; no partition has this name."""
OF_CONSUMERS: Final = {TopicPartition("", -2): TARGET_EPOCH, TopicPartition("", -3): EPOCH}
"""For those of a group of the consumer protocol."""
LEFTOVER: Final = -4
"""The first number for those of `Group.leftover`; the next ones are below."""


Errors = Mapping[TopicPartition, StrandlineError]
"""Why partitions' tombstones were not written."""


def _ignore(errors: Errors) -> None:
    """No call waits for the removal."""


class OffsetKeeper:
    """Keeps the offsets of all groups of a coordinator. `groups` is the coordinator's own dict."""

    __slots__ = ("_groups", "_in_transactions", "_isolation", "_turn", "_unchecked")

    def __init__(self, turn: Turn, groups: dict[str, Group], isolation: Isolation) -> None:
        self._turn = turn
        self._groups = groups
        self._isolation = isolation
        self._in_transactions: dict[int, dict[str, None]] = {}  # groups by producer, till its next marker
        self._unchecked: list[str] = []  # groups that this round of expiry has yet to check

    # --- commit and fetch --------------------------------------------------------------------

    def check_size(self, what: str, partitions: Sized) -> None:
        """Raises InvalidRequest for more partitions than one request may change."""
        most = self._turn.limits.offsets_per_commit_max
        if len(partitions) > most:
            raise InvalidRequest(f"{what} of {len(partitions)} offsets, more than {most}", limit=most)

    def fence(self, group: Group, commit: Commit) -> None:
        """Admits commits only of members of the generation in force, or of any client while the group has no
        members (G1). In a transaction, a client that names no member and no generation is not compared: its
        transactional id fences it (KIP-447).

        Between a generation's start and its assignment no member may commit: its partitions may belong to
        another member by now. A commit in a transaction may, as in Kafka: no reader of stable offsets gets
        ahead of it. Raises UnknownMemberId, FencedInstanceId, IllegalGeneration, RebalanceInProgress.
        """
        request, transactional = commit.request, commit.transaction is not None
        if request.generation < 0 and group.vacant:
            return  # from outside the group, under any name of a member or an instance
        if request.generation < 0 and request.member == NO_MEMBER and request.instance is None:
            if transactional:
                return
            raise UnknownMemberId(
                f"group {group.name} has {group.members_count} members: only they commit, "
                "others while it is empty"
            )
        if group.consumers is not None:
            self._fence_consumer(group.consumers.core, commit)
            return
        try:
            member = group.current(request.member, request.instance, request.generation, self._turn.by)
        except RebalanceInProgress as error:
            if not transactional:
                raise
            raise IllegalGeneration(error.message) from error  # a producer takes the other one for fatal
        if transactional:
            return
        self._turn.start(Timer(TimerKind.SESSION, group.name, member.member), member.session_timeout_ms)
        if group.state is GroupState.COMPLETING_REBALANCE:
            raise group.rebalances()

    def _fence_consumer(self, group: ConsumerGroup, commit: Commit) -> None:
        """Raises UnknownMemberId, StaleMemberEpoch, IllegalGeneration; in a transaction only the last one of
        these for a member that is behind, as in Kafka: producers know no other error of it."""
        request = commit.request
        knows = commit.knows_epochs or commit.transaction is not None
        try:
            fence_commit(group, request.member, request.generation, request.offsets, knows_epochs=knows)
        except StaleMemberEpoch as error:
            raise error if commit.transaction is None else IllegalGeneration(error.message) from error

    def commit(self, group: Group, call: Call[OffsetResults], commit: Commit) -> None:
        """Write the valid offsets; answer once they are in the log. Others are refused one by one."""
        turn, request, transaction = self._turn, commit.request, commit.transaction
        producer_id = None if transaction is None else transaction.producer.producer_id
        in_transaction = transaction is not None
        results: dict[TopicPartition, StrandlineError | None] = {}
        accepted: dict[TopicPartition, CommittedOffset] = {}
        added = 0
        for name, asked in request.offsets.items():
            more = group.offsets.added_by(name, asked, producer_id)
            results[name] = refused = self._refusal(name, asked, added + more, commit)
            if refused is None:
                added += more
                topic_id = commit.present.id_of(name, asked)
                accepted[name] = replace(asked, committed_at_ms=turn.now.wall_ms, topic_id=topic_id)
        if not accepted:
            turn.answer(call, results)
            return

        def each(names: list[TopicPartition], error: StrandlineError | None) -> None:
            group.offsets.not_writing(names, in_transaction=in_transaction)
            if error is None and producer_id is not None:
                self.note_transaction(group.name, producer_id)
            elif error is not None:
                results.update(dict.fromkeys(names, unwritten(f"a commit of group {group.name}", error)))

        def done(errors: list[StrandlineError], written: bool) -> None:
            whole = errors and not written
            turn.answer(call, unwritten(f"a commit of group {group.name}", errors[0]) if whole else results)

        group.offsets.writing(accepted, in_transaction=in_transaction)
        records = {name: OffsetRecord(group.name, name, committed) for name, committed in accepted.items()}
        BatchedWrite(each, done).append(turn, group, records, transaction)

    def _refusal(
        self, name: TopicPartition, asked: CommittedOffset, added: int, commit: Commit
    ) -> StrandlineError | None:
        """Why this offset is refused, given the `added` bytes of the commit; None if it is accepted."""
        wrong = check_offset(name, asked, self._turn.limits, any_offset=commit.any_offset)
        if wrong is not None:
            return wrong
        if name in commit.missing:
            return UnknownTopicOrPartition(f"there is no {name}: its offset is not kept")
        if (foreign := commit.present.refusal(name, asked)) is not None:
            return foreign
        try:
            self._turn.state_bytes.check(max(0, added), f"the offset of {name}")
        except InvalidRequest as full:
            return full
        return None

    def fetch(self, request: OffsetFetch, group: Group | None) -> FetchedOffsets:
        """The committed offsets; none for an unknown group. If the request is for stable ones, those that an
        open transaction may replace are left out, and named. Raises UnknownMemberId, StaleMemberEpoch."""
        if group is None:
            return FetchedOffsets(dict.fromkeys(request.partitions or ()))
        if group.consumers is not None:
            fence_fetch(group.consumers.core, request.member, request.epoch)
        offsets, known = group.offsets, group.read_topics.topics
        names = tuple(offsets) if request.partitions is None else request.partitions
        topics = {name.topic for name in request.partitions or ()} & known.keys()
        unstable = frozenset(filter(offsets.unstable, names)) if request.require_stable else frozenset()
        return FetchedOffsets(
            {name: offsets.get(name) for name in names if name not in unstable},
            {topic: known[topic] for topic in sorted(topics)},
            unstable,
        )

    # --- transactions ------------------------------------------------------------------------

    def note_transaction(self, group: str, producer_id: int) -> None:
        """The log has offsets of this group in the producer's transaction."""
        self._in_transactions.setdefault(producer_id, {})[group] = None

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """The log has the marker that ends the producer's transaction."""
        for name in self._in_transactions.pop(producer_id, ()):
            group = self._groups.get(name)
            if group is not None:
                self._isolation.run(name, partial(self._end_transaction, group, producer_id, commit=commit))

    def _end_transaction(self, group: Group, producer_id: int, *, commit: bool) -> None:
        group.offsets.transaction_ended(producer_id, commit=commit)
        self.forget_if_new(group)

    # --- removal -----------------------------------------------------------------------------

    def delete(self, group: Group, call: Call[None]) -> None:
        """Remove the group with all its offsets. A Dead one too: then its name is free again.

        Raises NonEmptyGroup.
        """
        if not group.vacant and group.state is not GroupState.DEAD:
            raise _has_members(group)
        dead = group.state is GroupState.DEAD
        names = group.offsets.written_or_being_written() if dead else group.offsets.written()

        def answer(errors: Errors) -> None:
            failed = next(iter(errors.values()), None)
            what = f"the deletion of group {group.name}"
            self._turn.answer(call, None if failed is None else unwritten(what, failed))

        self._remove(group, names, whole=True, answer=answer)

    def delete_offsets(self, group: Group, call: Call[OffsetResults], request: DeleteOffsets) -> None:
        """Remove single offsets, of topics that no member reads: a member would commit a removed offset
        again, or would not see that it is gone.

        Raises NonEmptyGroup for members of which it is not known what they read, InvalidRequest;
        CoordinatorNotAvailable for a Dead group.
        """
        self.check_size("deletion", request.partitions)
        if group.state is GroupState.DEAD:
            raise CoordinatorNotAvailable(group.reason)
        read = _read_topics(group)
        if read is None:
            raise _has_members(group)
        results: dict[TopicPartition, StrandlineError | None] = dict.fromkeys(request.partitions)
        for name in results:
            if name.topic in read:
                results[name] = GroupSubscribedToTopic(
                    f"group {group.name} has members that read topic {name.topic}"
                )
            elif name in request.missing and not group.offsets.knows(name):
                results[name] = UnknownTopicOrPartition(f"there is no {name}, and no offset of it")
        names = [name for name in results if results[name] is None and group.offsets.knows(name)]
        if not names:
            self._turn.answer(call, results)
            return

        def answer(errors: Errors) -> None:
            what = f"a deletion of offsets of group {group.name}"
            refused = {name: unwritten(what, error) for name, error in errors.items()}
            none_written = len(refused) == len(names)
            results.update(refused)
            self._turn.answer(call, refused[names[0]] if none_written else results)

        self._remove(group, names, whole=False, answer=answer)

    def follow_topics(self, topics: SeenTopics) -> None:
        """Remove the offsets of topics that are gone, or whose names other topics have."""
        for group in list(self._groups.values()):
            names = group.offsets.of_others(topics)
            if names:
                self._isolation.run(group.name, partial(self._remove, group, names, whole=False))
            group.offsets.identify(topics)

    def expire(self) -> None:
        """Remove what was unused for the retention time: offsets of groups without members, then those
        groups. A round over all groups is spread over several turns."""
        turn = self._turn
        if not self._unchecked:
            self._unchecked = list(self._groups)
        now_ms = turn.now.wall_ms if turn.now.expiry_ms is None else turn.now.expiry_ms
        before_ms = now_ms - turn.limits.offsets_retention_ms
        for _ in range(min(len(self._unchecked), GROUPS_PER_TURN_MAX)):
            group = self._groups.get(self._unchecked.pop())
            if group is not None and group.vacant and not group.removals:
                self._isolation.run(group.name, partial(self._expire, group, before_ms))
        turn.start(Timer(TimerKind.EXPIRY), 1 if self._unchecked else turn.limits.offsets_expiry_check_ms)

    def _expire(self, group: Group, before_ms: int) -> None:
        if group.empty_since_ms > before_ms:
            return
        names = group.offsets.older_than(before_ms)
        whole = len(names) == len(group.offsets) and not group.offsets.busy and not group.pending
        if names or whole:
            self._remove(group, names, whole=whole)

    def _remove(
        self,
        group: Group,
        names: list[TopicPartition],
        *,
        whole: bool,
        answer: Callable[[Errors], None] = _ignore,
    ) -> None:
        """Write tombstones; that of a `whole` group is last. Offsets go once theirs are replayed.
        Then `answer` is called with those that were not written."""
        turn, failed = self._turn, dict[TopicPartition, StrandlineError]()

        def each(some: list[TopicPartition], error: StrandlineError | None) -> None:
            if error is not None:
                failed.update(dict.fromkeys(some, error))

        def done(errors: list[StrandlineError], _: bool) -> None:
            group.removals -= 1
            if whole and not errors:
                self.forget_if_idle(group)
            answer(failed)

        tombstones: dict[TopicPartition, StoredRecord] = {
            name: OffsetRecord(group.name, name, None) for name in names
        }
        if whole:
            if group.consumers is not None:
                for place, type_ in OF_CONSUMERS.items():
                    tombstones[place] = ConsumerRecord(ConsumerKey(type_, group.name), None)
            for number, key in enumerate(group.leftover):
                tombstones[TopicPartition("", LEFTOVER - number)] = tombstone(key)
            tombstones[THE_GROUP] = GroupRecord(group.name, None)
        group.removals += 1
        BatchedWrite(each, done).append(turn, group, tombstones)

    def forget_if_new(self, group: Group) -> None:
        """Forget a group that never had a generation or an offset and that no member is about to join."""
        if group.new:
            self.forget_if_idle(group)

    def forget_if_idle(self, group: Group) -> None:
        """Forget a group that has nothing, unless a member joined meanwhile. No member joins a Dead one."""
        if group.state is GroupState.DEAD:
            if self._groups.get(group.name) is group:
                group.release_bytes()
                del self._groups[group.name]
            return
        if group.vacant and not group.pending and not group.offsets and not group.offsets.busy:
            group.become(GroupState.DEAD)
            group.release_bytes()
            del self._groups[group.name]


def _has_members(group: Group) -> StrandlineError:
    return NonEmptyGroup(f"group {group.name} is {group.shown_state} with {group.members_count} members")


def _read_topics(group: Group) -> Set[str] | None:
    """The topics that members read; None if that is not known."""
    if group.vacant:
        return frozenset()
    return (
        subscribed_topics(group) if group.consumers is None else frozenset(group.consumers.core.subscribed())
    )
