"""Parses bootstrap addresses, and names members that do not answer at theirs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from strandline.config.explain.addresses import without_user
from strandline.errors import BrokerNotAvailable, SettingsError
from strandline.ports import RefusedForNow
from strandline.vocabulary.metadata import Endpoint


def parse_bootstrap(bootstrap: str | Sequence[str]) -> tuple[str, ...]:
    """Parse `host:port` addresses: one text with commas, or several texts. Raises SettingsError."""
    given = bootstrap.split(",") if isinstance(bootstrap, str) else bootstrap
    addresses = tuple(dict.fromkeys(address.strip() for address in given if address.strip()))
    if not addresses:
        raise SettingsError("bootstrap names no broker: give host:port, several with commas")
    for address in addresses:
        host, _, port = address.rpartition(":")
        if not host or set(host) & set("@/") or not port.isdecimal() or not 0 < int(port) < 1 << 16:
            shown = without_user(address)
            raise SettingsError(f"bootstrap address {shown!r} is not of the form host:port")
    return addresses


def unreachable(role: str, member: Endpoint) -> str:
    """Says that this member, a `role` such as "broker", cannot be reached where it said that it is."""
    return f"{role} {member.id} advertised {member.address}, unreachable from here"


@contextmanager
def reaching(role: str, member: Endpoint) -> Iterator[None]:
    """Wraps a call to this member, and names it in the error if it cannot be reached. Raises what the call
    raises."""
    try:
        yield
    except RefusedForNow:
        raise
    except BrokerNotAvailable as error:
        raise BrokerNotAvailable(unreachable(role, member)) from error
