"""The bytes of memory that a coordinator's groups take, and their bound.

Groups, members and offsets each have bounds, but the product of these exceeds a broker's memory. The sizes
are estimates for CPython, rounded up.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from strandline.broker.core.groups.records import ReadTopics
from strandline.errors import InvalidRequest
from strandline.room import one_host
from strandline.security.principal import ANONYMOUS, Principal

GROUP_BYTES: Final = 1_024
MEMBER_BYTES: Final = 1_024
PENDING_BYTES: Final = 512
"""A member id that was given and not used yet, with its timer."""
OFFSET_BYTES: Final = 512
OWNED_BYTES: Final = 256
"""A partition that a member reported to own."""
READ_TOPIC_BYTES: Final = 256
"""A topic, or a pattern, of which the group keeps since when it reads it."""


def read_bytes(read: ReadTopics) -> int:
    names = (*read.topics, *read.patterns)
    return READ_TOPIC_BYTES * len(names) + sum(map(len, names))


@dataclass(frozen=True, slots=True)
class PendingMember:
    """A member that was given an id and has not joined with it yet (KIP-394)."""

    owner: Principal | None
    """The principal to which the id belongs; None: callers are not distinguished."""
    host: str

    @property
    def caller(self) -> Principal | str:
        """Who asked for the id: its principal, or the address of a caller without a name."""
        return one_host(self.host) if self.owner is None or self.owner == ANONYMOUS else self.owner


@dataclass(slots=True)
class StateBytes:
    """The bytes of all groups of a coordinator."""

    most: int
    total: int = 0
    given: dict[tuple[str, str], PendingMember] = field(default_factory=dict)
    """By group and id, the ids that were given and not used yet, oldest first."""

    def check(self, added: int, what: str) -> None:
        """Raises InvalidRequest if there is no room for `added` more bytes."""
        if self.total + added > self.most:
            raise InvalidRequest(
                f"{what} needs {added} bytes of the coordinator, which keeps {self.total} of at most "
                f"{self.most} for its groups: delete groups, or raise group_state_bytes_max",
                limit=self.most,
            )
