"""Parses bootstrap addresses."""

from __future__ import annotations

from collections.abc import Sequence

from strandline.errors import SettingsError


def parse_bootstrap(bootstrap: str | Sequence[str]) -> tuple[str, ...]:
    """Parse `host:port` addresses: one text with commas, or several texts. Raises SettingsError."""
    given = bootstrap.split(",") if isinstance(bootstrap, str) else bootstrap
    addresses = tuple(dict.fromkeys(address.strip() for address in given if address.strip()))
    if not addresses:
        raise SettingsError("bootstrap names no broker: give host:port, several with commas")
    for address in addresses:
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
            raise SettingsError(f"bootstrap address {address!r} is not of the form host:port")
    return addresses
