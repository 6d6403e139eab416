"""Proves that a call comes from a broker or a controller of the same cluster.

The brokers and controllers of a cluster share a random key, which is stored in ZooKeeper, and send
it with their calls. Clients do not read ZooKeeper, so they do not have it. An address would not
suffice: on one machine clients have the addresses of brokers, and behind a NAT a broker does not
have its own.

The key is as secret as ZooKeeper and the network between the members are (docs/run/operations.md).
"""

from __future__ import annotations

import contextlib
import hmac
from collections.abc import Callable
from typing import Final

from strandline.adapters.call_metadata import Metadata, ShownMetadata, shown
from strandline.adapters.zookeeper import znodes
from strandline.errors import InvalidTopic, StrandlineError
from strandline.ports import Coordination, NodeExists, NoNode
from strandline.security.members import unknown_key

METADATA_NAME: Final = "strandline-member-bin"


def shown_key(metadata: ShownMetadata) -> bytes | None:
    """The key that a call with this metadata shows; None if it shows none."""
    key = shown(metadata, METADATA_NAME)
    return key if isinstance(key, bytes) else None


def key_metadata(key: bytes | None) -> Metadata:
    """The metadata of a call that shows the key."""
    return () if key is None else ((METADATA_NAME, key),)


class MemberKey:
    """The key as this process last read it; empty before its first ZooKeeper session."""

    def __init__(self, new_id: Callable[[], str]) -> None:
        """`new_id` as in `strandline.host.Host`."""
        self._key = b""
        self._new_id = new_id

    async def read(self, session: Coordination) -> None:
        """Read the key, at the start of a session and again and again: an operator may replace it. A member
        that finds none creates one."""
        while True:
            try:
                self._key = (await session.get(znodes.MEMBER_KEY)).data
                return
            except NoNode:
                with contextlib.suppress(NodeExists):
                    await session.create(znodes.MEMBER_KEY, f"{self._new_id()}{self._new_id()}".encode())

    def shown(self) -> bytes | None:
        """The key that a call of this process shows; None before its first ZooKeeper session."""
        return self._key or None

    def secret(self) -> bytes:
        """The key, for what all members of a cluster must derive alike; empty before the first session."""
        return self._key

    def is_shown(self, shown: bytes | None) -> bool:
        """Whether a caller that shows this key, or none, is a member of the cluster."""
        return shown is not None and bool(self._key) and hmac.compare_digest(shown, self._key)

    def refusal(self, shown: bytes | None) -> StrandlineError | None:
        """Why a caller that shows this key, or none, may not touch internal topics; None if it may."""
        if shown is None:
            return InvalidTopic("internal topics are written by brokers and controllers, clients read them")
        if not self.is_shown(shown):
            return unknown_key()
        return None
