"""Addresses for which quotas are, each in one spelling."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import ip_address
from typing import Final

from strandline.errors import InvalidRequest
from strandline.room import HOSTS_REMEMBERED

ADDRESS_CHARS_MAX: Final = 100
"""Longer text is no address: no more than this of it stands in an error."""


@lru_cache(HOSTS_REMEMBERED)
def one_spelling(address: str) -> str | None:
    """The address as it is written here, without the zone of an IPv6 address; one of IPv4 that is written as
    IPv6 is that of IPv4, as in Java. None: the text is no address.

    >>> one_spelling("2001:DB8:0::7"), one_spelling("::ffff:192.0.2.7"), one_spelling("localhost")
    ('2001:db8::7', '192.0.2.7', None)
    """
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return None
    mapped = found.ipv4_mapped if found.version == 6 else None
    return str(mapped or found)


def check_address(address: str) -> str:
    """The address in its one spelling. Raises InvalidRequest."""
    found = one_spelling(address) if len(address) <= ADDRESS_CHARS_MAX else None
    if found is None:
        raise InvalidRequest(f"{address[:ADDRESS_CHARS_MAX]!r} is no address of IPv4 or IPv6")
    return found
