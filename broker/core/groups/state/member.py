"""One member of a group, as the coordinator knows it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic

from strandline.broker.core.groups.effects import Token
from strandline.broker.core.groups.kept import MEMBER_BYTES, OWNED_BYTES
from strandline.broker.core.groups.records import StoredMember
from strandline.ids import TopicPartition
from strandline.vocabulary.groups import DescribedMember, GroupMember, GroupProtocol, JoinGroup

STORED_BYTES: int = 6 * 2 + 4 * 4
"""Lengths and numbers of a member in a group's record, generously."""


@dataclass(slots=True)
class Member(Generic[Token]):
    """`joining`, `syncing` and `heartbeat` are calls that wait for an answer."""

    member: str
    instance: str | None
    client_id: str
    host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[GroupProtocol, ...]  # never empty, no name twice
    assignment: bytes = b""  # of the current generation, once that is Stable
    assigned_for: bytes | None = None
    """Under the chosen protocol, what the assignment was made for; None if that is what the member says now.

    A process that takes a static member's place may say something else. This is what is written down, so
    that whoever coordinates by then sees that it is news once the member joins again.
    """
    recovered: bool = False  # loaded, and not heard of since: `protocols` has the chosen one only
    joining: Token | None = None
    syncing: Token | None = None
    heartbeat: Token | None = None
    owned: dict[TopicPartition, None] = field(default_factory=dict)  # as it reported, in its order

    @property
    def stored_bytes(self) -> int:
        """At most so much of a group's record is this member, before it has an assignment."""
        ids = (self.member, self.instance or "", self.client_id, self.host)
        largest = max(len(self.assigned_for or b""), *(len(said.metadata) for said in self.protocols))
        return STORED_BYTES + largest + sum(len(text.encode()) for text in ids)

    @property
    def kept_bytes(self) -> int:
        """What the coordinator keeps of this member."""
        said = sum(len(protocol.metadata) + len(protocol.name) for protocol in self.protocols)
        return (
            MEMBER_BYTES
            + said
            + len(self.assignment)
            + len(self.assigned_for or b"")
            + OWNED_BYTES * len(self.owned)
        )

    def metadata(self, protocol: str) -> bytes:
        """What it says under a protocol; empty if it does not support it."""
        for supported in self.protocols:
            if supported.name == protocol:
                return supported.metadata
        return b""

    def same(self, protocols: tuple[GroupProtocol, ...], chosen: str) -> bool:
        """True if these tell nothing that the assignment was not made for.

        Only what was said under the chosen protocol is written down, so of a loaded member no more can
        be compared.
        """
        if self.assigned_for is not None:
            return GroupProtocol(chosen, self.assigned_for) in protocols
        if not self.recovered:
            return self.protocols == protocols
        return GroupProtocol(chosen, self.metadata(chosen)) in protocols

    def take_over(self, old: Member[Token], chosen: str) -> None:
        """Go on with the assignment of the process whose place this one takes."""
        self.assignment = old.assignment
        made_for = old.metadata(chosen) if old.assigned_for is None else old.assigned_for
        self.assigned_for = None if made_for == self.metadata(chosen) else made_for

    def say(self, request: JoinGroup) -> None:
        """Take over what a join says."""
        self.protocols = request.protocols
        self.assigned_for = None
        self.recovered = False
        self.session_timeout_ms = request.session_timeout_ms
        self.rebalance_timeout_ms = request.rebalance_timeout_ms

    def vote(self, candidates: set[str]) -> str:
        """The one of the candidates that it wants most; it supports them all."""
        return next(protocol.name for protocol in self.protocols if protocol.name in candidates)

    # --- as others see it --------------------------------------------------------------------

    def for_leader(self, protocol: str) -> GroupMember:
        return GroupMember(self.member, self.metadata(protocol), self.instance)

    def described(self, protocol: str) -> DescribedMember:
        return DescribedMember(
            self.member,
            self.client_id,
            self.host,
            self.metadata(protocol),
            self.assignment,
            self.instance,
            tuple(self.owned),
        )

    def stored(self, protocol: str, assignment: bytes) -> StoredMember:
        return StoredMember(
            self.member,
            self.instance,
            self.client_id,
            self.host,
            self.rebalance_timeout_ms,
            self.session_timeout_ms,
            self.metadata(protocol) if self.assigned_for is None else self.assigned_for,
            assignment,
        )

    @classmethod
    def loaded(cls, stored: StoredMember, protocol: str, timeouts_ms: tuple[int, int]) -> Member[Token]:
        """`timeouts_ms`: of the session and of a rebalance."""
        return cls(
            stored.member,
            stored.instance,
            stored.client_id,
            stored.host,
            *timeouts_ms,
            (GroupProtocol(protocol, stored.metadata),),
            stored.assignment,
            recovered=True,
        )
