"""One member of a group, as the coordinator knows it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from strandline.broker.core.coordinators.effects import Call
from strandline.broker.core.groups.records import StoredMember
from strandline.broker.core.groups.state_bytes import MEMBER_BYTES, OWNED_BYTES
from strandline.ids import TopicPartition
from strandline.security.principal import Principal
from strandline.vocabulary.groups import DescribedMember, GroupMember, GroupProtocol, JoinAnswer, JoinGroup

STORED_BYTES: int = 6 * 2 + 4 * 4
"""An upper bound of the bytes of a member's lengths and numbers in a group's record."""


@dataclass(slots=True)
class Member:
    """A member. `joining`, `syncing` and `heartbeat` are calls that wait for an answer."""

    member: str
    instance: str | None
    client_id: str
    host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[GroupProtocol, ...]  # never empty, no name twice
    assignment: bytes = b""  # of the current generation, once that is Stable
    assigned_for: bytes | None = None
    """The metadata under the chosen protocol that the assignment was made for; None if the member's
    present metadata is that.

    A process that takes a static member's place may say something else. This is what the log holds, so that
    the coordinator by then sees the difference once the member joins again.
    """
    recovered: bool = False  # loaded, and silent since: `protocols` has the chosen one only
    joining: Call[JoinAnswer] | None = None
    syncing: Call[bytes] | None = None
    heartbeat: Call[None] | None = None
    owned: dict[TopicPartition, None] = field(default_factory=dict)  # as it reported, in its order
    principal: Principal | None = None  # the caller that joined; None: not known
    epoch: int = 0
    """The generation that it may speak of besides the present one: its epoch in a group whose coordinator
    assigned, until it joins again. 0: none."""
    pattern: str = ""  # names the pattern that chose its topics; empty: they are named, or it is `recovered`

    def calls(self) -> Iterator[Call[Any]]:
        """The calls that wait."""
        waiting: tuple[Call[Any] | None, ...] = (self.joining, self.syncing, self.heartbeat)
        return (call for call in waiting if call is not None)

    @property
    def stored_bytes(self) -> int:
        """An upper bound of this member's bytes in a group's record, before it has an assignment."""
        ids = (self.member, self.instance or "", self.client_id, self.host)
        largest = max(len(self.assigned_for or b""), *(len(each.metadata) for each in self.protocols))
        return STORED_BYTES + largest + sum(len(text.encode()) for text in ids)

    @property
    def state_bytes(self) -> int:
        """The bytes of memory that this member takes."""
        protocols = sum(len(protocol.metadata) + len(protocol.name) for protocol in self.protocols)
        return (
            MEMBER_BYTES
            + protocols
            + len(self.assignment)
            + len(self.assigned_for or b"")
            + OWNED_BYTES * len(self.owned)
        )

    def metadata(self, protocol: str) -> bytes:
        """The member's metadata for a protocol; empty if it does not support it."""
        for supported in self.protocols:
            if supported.name == protocol:
                return supported.metadata
        return b""

    def is_assigned_for(self, protocols: tuple[GroupProtocol, ...], chosen: str) -> bool:
        """True if the assignment was made for these protocols.

        The log holds only the metadata of the chosen protocol, so for a loaded member only that is
        compared.
        """
        if self.assigned_for is not None:
            return GroupProtocol(chosen, self.assigned_for) in protocols
        if not self.recovered:
            return self.protocols == protocols
        return GroupProtocol(chosen, self.metadata(chosen)) in protocols

    def take_over(self, old: Member, chosen: str) -> None:
        """Continue with the assignment of the process that this one replaces."""
        self.assignment = old.assignment
        made_for = old.metadata(chosen) if old.assigned_for is None else old.assigned_for
        self.assigned_for = None if made_for == self.metadata(chosen) else made_for

    def adopt(self, request: JoinGroup) -> None:
        """Adopt the values of a join."""
        self.protocols = request.protocols
        self.pattern = request.pattern
        self.assigned_for = None
        self.recovered = False
        self.epoch = 0
        self.session_timeout_ms = request.session_timeout_ms
        self.rebalance_timeout_ms = request.rebalance_timeout_ms

    def vote(self, candidates: set[str]) -> str:
        """The candidate that the member prefers; it supports them all."""
        return next(protocol.name for protocol in self.protocols if protocol.name in candidates)

    # --- views for others --------------------------------------------------------------------

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
    def loaded(cls, stored: StoredMember, protocol: str, timeouts_ms: tuple[int, int]) -> Member:
        """A member from its record, without its assignment. `timeouts_ms`: of the session and of a
        rebalance."""
        return cls(
            stored.member,
            stored.instance,
            stored.client_id,
            stored.host,
            *timeouts_ms,
            (GroupProtocol(protocol, stored.metadata),),
            recovered=True,
        )
