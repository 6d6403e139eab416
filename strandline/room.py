"""How callers share a bounded number of places: who makes room, and which addresses count as one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from functools import lru_cache
from ipaddress import IPv6Address
from typing import Final, TypeVar

Place = TypeVar("Place")

HOSTS_REMEMBERED: Final = 4_096
NETWORK_BITS: Final = 64
"""Of an IPv6 address; the others are the host's own to choose."""


@lru_cache(HOSTS_REMEMBERED)
def one_host(address: str) -> str:
    """What an address counts as, wherever a bound is for one address: a host with IPv6 has a whole network
    of addresses (/64), which count together. An IPv4 address that is written as IPv6 counts as that one, and
    other text as itself.

    >>> one_host("2001:db8::7:1"), one_host("::ffff:192.0.2.7"), one_host("192.0.2.7")
    ('2001:db8::/64', '192.0.2.7', '192.0.2.7')
    """
    try:
        found = IPv6Address(address)
    except ValueError:
        return address
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return f"{IPv6Address(int(found) >> NETWORK_BITS << NETWORK_BITS)}/{NETWORK_BITS}"


def first_of_most(taken: Iterable[tuple[Place, Hashable]], newcomer: Hashable) -> Place:
    """The first place of the owner that has most of them, with the one that the newcomer asks for: who takes
    all places loses its own, and not those of others. `taken` has a place and its owner at least once."""
    places = list(taken)
    counts = Counter(owner for _, owner in places)
    if newcomer in counts:
        counts[newcomer] += 1
    most = max(counts.values())
    return next(place for place, owner in places if counts[owner] == most)
