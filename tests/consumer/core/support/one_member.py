"""One member, and a test in place of its driver and its coordinator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

from strandline.consumer.core.assignors.assignor import Assignor
from strandline.consumer.core.assignors.registry import named
from strandline.consumer.core.member_effects import (
    DelayJoin,
    Effect,
    NeedMetadata,
    Revoke,
    SendJoin,
    SendSync,
)
from strandline.consumer.core.member_settings import MemberSettings
from strandline.consumer.core.member_states import State
from strandline.consumer.core.membership import Membership
from strandline.errors import StrandlineError
from strandline.ids import TopicPartition
from strandline.vocabulary.groups import GroupMember, Joined, JoinGroup
from strandline.vocabulary.parsing.consumer_protocol import Assignment, Subscription

NOW = 1_000_000


def parts(text: str) -> tuple[TopicPartition, ...]:
    """`t0 t1 u0` → partitions."""
    return tuple(TopicPartition(name[:-1], int(name[-1])) for name in text.split())


class One:
    """A member that is called "a" once it has an id, and subscribes to t."""

    def __init__(
        self,
        *,
        cooperative: bool = True,
        instance: str | None = None,
        assignors: Sequence[str | Assignor] = ("sticky",),
    ) -> None:
        settings = MemberSettings("g", cooperative, 10_000, 60_000, instance, "client")
        self.assignors = [named(assignor) for assignor in assignors]
        self.core = Membership(settings, self.assignors)
        self.protocol = self.assignors[0].name
        """The protocol of the group, unless a test names another."""
        self.cooperative = cooperative
        self.instance = instance
        self.effects: list[Effect] = []
        self.number = 0
        """The number of the last effect that has one."""
        self._whims = 0

    def feed(self, effects: list[Effect]) -> list[Effect]:
        """Note what is waited for."""
        self.effects = effects
        for effect in effects:
            if isinstance(effect, SendJoin | SendSync | NeedMetadata | DelayJoin | Revoke):
                self.number = effect.number
        return effects

    def begin(self) -> list[Effect]:
        """Subscribe, and find the coordinator."""
        self.core.subscribed(["t"], NOW)
        return self.feed(self.core.coordinator_found(NOW))

    def join(
        self,
        effects: list[Effect],
        *,
        generation: int = 1,
        member: str = "a",
        leads: bool = False,
        others: Mapping[str, Subscription] | None = None,
        garbage: Mapping[str, bytes] | None = None,
        protocol: str | None = None,
        skip: bool = False,
    ) -> list[Effect]:
        """The join that these effects ask for succeeds."""
        metadata = self.request(effects).protocols[0].metadata
        members = [GroupMember(member, metadata, self.instance)]
        members += [GroupMember(name, said.encode()) for name, said in (others or {}).items()]
        members += [GroupMember(name, data) for name, data in (garbage or {}).items()]
        joined = Joined(
            member,
            generation,
            protocol or self.protocol,
            member if leads else "z",
            tuple(members) if leads else (),
            skip_assignment=skip,
            reason="somebody joined",
            caused_by="somebody",
        )
        return self.feed(self.core.joined(self.number, joined, NOW))

    def sync(self, assignment: Assignment) -> list[Effect]:
        """The sync under way brings this."""
        return self.feed(self.core.synced(self.number, assignment.encode(), NOW))

    def stable(
        self, owned: str, *, leads: bool = False, others: Mapping[str, Subscription] | None = None
    ) -> Self:
        """Stable in generation 1."""
        self.join(self.begin(), leads=leads, others=others)
        if leads:
            self.feed(self.core.metadata(self.number, {"t": 2, "u": 2}, NOW))
        self.sync(Assignment(1 if self.cooperative else 0, parts(owned)))
        assert self.core.state is State.STABLE
        return self

    def join_again(self) -> list[Effect]:
        """From stable to a sync under way in the next generation."""
        generation = self.core.generation
        effects = self._subscribe_to_more()
        if not self.cooperative:
            effects = self.feed(self.core.released(self.number, NOW))
        return self.join(effects, generation=generation + 1)

    def _subscribe_to_more(self) -> list[Effect]:
        self._whims += 1
        return self.feed(self.core.subscribed([*self.core.topics, f"x{self._whims}"], NOW))

    def refuse(self, what: str, error: StrandlineError) -> list[Effect]:
        """The member's heartbeat or commit, or the join or the sync that it then sends, is refused."""
        core = self.core
        if what == "heartbeat":
            return self.feed(core.heartbeat_failed(core.member, core.generation, error, NOW))
        if what == "commit":
            return self.feed(core.commit_failed(core.member, core.generation, error, NOW))
        if what == "sync":
            self.join_again()
            return self.feed(core.sync_failed(self.number, error, NOW))
        self._subscribe_to_more()
        return self.feed(core.join_failed(self.number, error, NOW))

    def sends(self, effects: list[Effect]) -> bool:
        return any(isinstance(effect, SendJoin) for effect in effects)

    def request(self, effects: list[Effect]) -> JoinGroup:
        """The join that is among these effects."""
        (join,) = [effect for effect in effects if isinstance(effect, SendJoin)]
        return join.request

    def said(self, effects: list[Effect]) -> Subscription:
        """The user-visible content of that join; topics that only made it join are left out."""
        said = Subscription.decode(self.request(effects).protocols[0].metadata)
        topics = tuple(topic for topic in said.topics if topic[0] != "x")
        return Subscription(said.version, topics, said.owned, said.owned_generation, said.user_data)

    def number_of(self, effects: list[Effect], kind: type[Revoke]) -> int:
        (effect,) = [effect for effect in effects if isinstance(effect, kind)]
        return effect.number
