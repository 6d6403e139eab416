"""One partition of `__consumer_offsets`: carries out the decisions of the `Coordinator` of its groups."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Final

from strandline.broker.coordinators.kind import Kind, LogLines
from strandline.broker.coordinators.partition import CoordinatorPartition, Surroundings
from strandline.broker.core.consumer_groups.topics import Topic
from strandline.broker.core.groups.coordinator import Coordinator, GroupOffsets
from strandline.broker.core.groups.effects import GroupEvent, Publish
from strandline.broker.core.groups.state.offsets import SeenTopics
from strandline.broker.core.groups.state.states import GroupState
from strandline.broker.replicas.leadership import Leadership
from strandline.ids import OFFSETS_TOPIC
from strandline.records import Record
from strandline.security.principal import Principal
from strandline.vocabulary.asks import Answered, Asks
from strandline.vocabulary.groups import JoinGroup

EVALUATED_MAX: Final = 1_000
"""Patterns of which it is kept with which topics they were evaluated; others are evaluated again."""

GROUPS: Final = Kind(
    OFFSETS_TOPIC,
    one="group",
    all="groups",
    lines=LogLines(
        loaded="groups loaded",
        not_read="groups not read",
        waiting="groups wait for in-sync replicas before they are read",
        unreadable="a group's record cannot be read",
        not_written="a group's state was not written",
        failed="a group's turn failed: the group is Dead here, other groups continue",
    ),
)


class GroupPartition(CoordinatorPartition[Publish]):
    kind = GROUPS

    def __init__(
        self,
        leadership: Leadership,
        core: Coordinator,
        around: Surroundings,
        publish: Callable[[GroupEvent], None],
    ) -> None:
        super().__init__(leadership, core, around)
        self._groups = core
        self._publish = publish
        self._ended_meanwhile: dict[int, bool] = {}
        """Producers with markers that came while the groups were being read, after all that is read; True:
        the first of them commits. What follows it is a new transaction, and has no offsets here yet."""
        self._gone_meanwhile: set[str] = set()
        """Topics that were deleted while the groups were being read."""
        self._evaluated: dict[tuple[str, str], Sequence[str]] = {}
        """By group and pattern, the topics with which it was evaluated, the last one at the end."""
        self._looked_at = ""
        """The last subscribed topic that was looked at."""
        self.followed: Set[str] | None = None
        """The incarnations with which its offsets were last compared."""

    async def ask(self, request: Asks[Answered], by: Principal | None = None) -> Answered:
        """The core's answer, however long it is held. Raises the core's refusal. `by`: as for the core."""
        return await self._asked(lambda call: self._groups.handle(call, request, self._now(), by))

    def states(self) -> Iterable[GroupState]:
        """The state of each known group."""
        return self._groups.states()

    def committed(self) -> Iterable[GroupOffsets]:
        """What each group has committed; nothing while the groups are being read."""
        return self._groups.committed() if self.active else ()

    def _act(self, effect: Publish) -> None:
        self._publish(effect.event)

    # --- transactions ------------------------------------------------------------------------

    def guard(self, producer_id: int) -> int:
        """For `Transactional`: to be read before the transaction's coordinator is asked."""
        return self.leadership.replica.log.producers.guard(producer_id)

    def replay(self, record: Record, producer_id: int | None) -> None:
        key, value = record.key or b"", record.value
        self._groups.load(key, value, record.timestamp, record.headers, producer_id)

    def transaction_ended(self, producer_id: int, *, commit: bool) -> None:
        self._carry_out(self._groups.transaction_ended(producer_id, self._now(), commit=commit))

    def marked(self, producer_id: int, *, commit: bool) -> None:
        """A marker that came in this epoch is committed. To be called in the order in which the log's writes
        are committed; the results of writes before it come first, as they are on their way already."""
        asyncio.get_running_loop().call_soon(self._marked, producer_id, commit)

    def _marked(self, producer_id: int, commit: bool) -> None:
        if self.active:
            self.transaction_ended(producer_id, commit=commit)
        elif not self.ended():
            self._ended_meanwhile.setdefault(producer_id, commit)

    # --- subscriptions -----------------------------------------------------------------------

    def unseen(self, group: str) -> list[str]:
        """Topics to look at before a member joins this group, or goes on in it."""
        return self._groups.unseen(group)

    def needed_for(self, join: JoinGroup) -> list[str]:
        """Topics to look at before this join; none if its group has a leader."""
        return self._groups.needed_for(join)

    def pattern_of(self, group: str, member: str) -> str:
        """The pattern of a member; empty if there is no such member, or it has none."""
        return self._groups.pattern_of(group, member)

    def evaluated(self, group: str, pattern: str) -> Sequence[str] | None:
        """The topics with which the pattern was evaluated for the group; None: not here, or long ago."""
        return self._evaluated.get((group, pattern))

    def note_evaluated(self, group: str, pattern: str, names: Sequence[str]) -> None:
        """The pattern is evaluated with these topics."""
        self._evaluated.pop((group, pattern), None)
        self._evaluated[group, pattern] = names
        if len(self._evaluated) > EVALUATED_MAX:
            del self._evaluated[next(iter(self._evaluated))]

    def subscribed(self, most: int) -> list[str]:
        """Up to `most` topics that members of the consumer protocol subscribe to: all in turn."""
        names = self._groups.subscribed() if self.active else []
        after = [name for name in names if name > self._looked_at]
        some = (after or names)[:most]
        self._looked_at = some[-1] if some else ""
        return some

    def see_topics(self, topics: Mapping[str, Topic | None]) -> None:
        """Subscribed topics as they are now; None for each that does not exist."""
        if self.active and topics:
            self._carry_out(self._groups.see_topics(topics, self._now()))

    # --- topics ------------------------------------------------------------------------------

    @property
    def mark(self) -> int:
        """The last write, for a look at topics that begins now."""
        return self._groups.mark

    def follow_topics(self, topics: SeenTopics) -> None:
        """Remove the offsets of topics that are gone or were made anew."""
        if self.active:
            self._carry_out(self._groups.follow_topics(topics, self._now()))
        else:
            self._gone_meanwhile |= topics.gone

    def _on_loaded(self) -> None:
        for producer_id, commit in self._ended_meanwhile.items():
            self.transaction_ended(producer_id, commit=commit)
        self._ended_meanwhile.clear()
        self.follow_topics(SeenTopics(self.mark, self._gone_meanwhile))

    def topics(self, without: Set[str]) -> set[str]:
        """The topics of offsets that were read in none of these incarnations, or whose one is not known."""
        return {
            topic
            for group in self.committed()
            for topic, topic_id in group.offsets.incarnations()
            if topic_id not in without
        }
