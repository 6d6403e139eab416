"""A member of a Kafka client in a group: it reads and writes Kafka's bytes, by kafka-python's encoder and
decoder, and leads as Java's consumer does.

When it joins, releases and leaves is strandline's state machine, since the steps are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import cycle

from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription

from strandline.consumer.core.assignors.assignor import MemberSubscription
from strandline.consumer.core.claims import settle
from strandline.consumer.core.member_effects import Effect, SendJoin, SendSync
from strandline.consumer.core.membership import Membership
from strandline.ids import TopicPartition
from strandline.vocabulary.groups import GroupMember, GroupProtocol, Joined, JoinGroup, MemberIdGiven
from strandline.vocabulary.parsing.consumer_protocol import COOPERATIVE_STICKY, Assignment
from tests.consumer.core.support.kafka_bytes import kafka_assignment, kafka_subscription

_VERSIONS = cycle((3, 2, 1, 0))
"""Java and librdkafka, Java 3.2 to 3.4, Java 2.4 to 3.1, aiokafka. Each member takes the next one."""

Members = Mapping[str, MemberSubscription]
Wanted = Mapping[str, list[TopicPartition]]


class KafkaMember(Membership):
    """Sends its version under every assignor, whether it is eager or cooperative."""

    _version: int | None = None
    _members: tuple[GroupMember, ...] = ()

    # --- as a member -------------------------------------------------------------------------

    def _send_join(self, now_ms: int, *, released: bool = False) -> list[Effect]:
        effects = super()._send_join(now_ms, released=released)
        return [
            replace(effect, request=self._in_its_version(effect.request))
            if isinstance(effect, SendJoin)
            else effect
            for effect in effects
        ]

    def _in_its_version(self, request: JoinGroup) -> JoinGroup:
        if self._version is None:
            version = next(_VERSIONS)
            cooperative = self._settings.cooperative
            self._version = max(version, 1) if cooperative else version
        protocols = []
        for protocol in request.protocols:
            claims = self._owned.all if self._settings.cooperative else ()
            since = self._owned.generation
            user_data = since.to_bytes(4, signed=True) if protocol.name == COOPERATIVE_STICKY else None
            data = kafka_subscription(self._version, self.topics, claims, since, user_data=user_data)
            protocols.append(GroupProtocol(protocol.name, data))
        return replace(request, protocols=tuple(protocols))

    def synced(self, number: int, data: bytes, now_ms: int) -> list[Effect]:
        assigned = ConsumerProtocolAssignment.decode(data).partitions() if data else []
        mine = Assignment(0, tuple(TopicPartition(*name) for name in assigned))
        return super().synced(number, mine.encode(), now_ms)

    # --- as the leader -----------------------------------------------------------------------

    def joined(self, number: int, answer: Joined | MemberIdGiven, now_ms: int) -> list[Effect]:
        before = self._leader
        effects = super().joined(number, answer, now_ms)
        if self._leader is not before and isinstance(answer, Joined):
            self._members = answer.members
        return effects

    def metadata(self, number: int, partitions: Mapping[str, int], now_ms: int) -> list[Effect]:
        effects = super().metadata(number, partitions, now_ms)
        return [
            self._planned(effect, partitions) if isinstance(effect, SendSync) else effect
            for effect in effects
        ]

    def _planned(self, effect: SendSync, partitions: Mapping[str, int]) -> SendSync:
        if not effect.request.assignments:
            return effect  # it came back as the leader: the plan stands
        members = {member.member: _read(member) for member in self._members}
        wanted: Wanted = self._assignors[self.protocol].assign(_valid(members, partitions), partitions)
        if self.protocol == COOPERATIVE_STICKY:
            wanted = self.without_moves(members, wanted)
        version = self._version or 0
        assignments = {name: kafka_assignment(version, names) for name, names in wanted.items()}
        return replace(effect, request=replace(effect.request, assignments=assignments))

    def without_moves(self, members: Members, wanted: Wanted) -> Wanted:
        """What one member gets and another has to revoke is left to the next generation."""
        revoked = {p for name, said in members.items() for p in set(said.owned) - set(wanted[name])}
        return {
            name: [p for p in names if p in members[name].owned or p not in revoked]
            for name, names in wanted.items()
        }


def _read(member: GroupMember) -> MemberSubscription:
    said = ConsumerProtocolSubscription.decode(member.metadata)
    owned = tuple(
        TopicPartition(claim.topic, number)
        for claim in (said.owned_partitions or ())
        for number in claim.partitions
    )
    generation = said.generation_id if said.version >= 2 else -1
    if said.version == 1 and len(said.user_data or b"") == 4:
        generation = int.from_bytes(said.user_data, signed=True)
    return MemberSubscription(tuple(said.topics), owned, generation, member.instance)


def _valid(members: Members, partitions: Mapping[str, int]) -> dict[str, MemberSubscription]:
    """The members with the claims that count."""
    owners = settle(members).owners
    return {
        name: replace(
            said,
            owned=tuple(
                owned
                for owned in said.owned
                if owners.get(owned) == name and owned.partition < partitions.get(owned.topic, 0)
            ),
        )
        for name, said in members.items()
    }
