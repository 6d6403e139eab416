"""Which connections of a process are encrypted, and with what: by the address of the peer.

Clients speak one protocol to every server. So do members of a cluster, except while the protocol of their own
listener changes from member to member: then each is spoken to as ZooKeeper says.
"""

from __future__ import annotations

from collections.abc import Callable

from strandline.adapters.tls.reloaded import ReloadedPem
from strandline.vocabulary.metadata import Endpoint

PemOf = Callable[[str], ReloadedPem | None]
"""The certificates for connections to an address, `host:port`; None: they are in plaintext."""


def in_plaintext(_: str) -> None:
    """A `PemOf`."""


def to_every_address(pem: ReloadedPem | None) -> PemOf:
    return lambda _: pem


class MixedMembers:
    """The members of a cluster whose listeners have different protocols for a while.

    What a member says about itself is in ZooKeeper, and as good as all else there.
    """

    def __init__(self, pem: ReloadedPem, *, encrypted_by_default: bool) -> None:
        """The default is for addresses that nothing is known about."""
        self._pem = pem
        self._default = encrypted_by_default
        self._encrypted: dict[str, bool] = {}

    def heard_of(self, member: Endpoint) -> None:
        """Takes what a member's registration says now."""
        self._encrypted[member.address] = member.encrypted

    def pem_of(self, address: str) -> ReloadedPem | None:
        """A `PemOf`."""
        return self._pem if self._encrypted.get(address, self._default) else None
