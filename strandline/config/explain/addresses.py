"""Addresses as an error or a log may show them."""

from __future__ import annotations

import re
from typing import Final

_USER: Final = re.compile(r"(?<=//)[^/@\s]+@|[^/@\s,'\"]+:[^/@\s]*@")
"""`user@` after the scheme of an address, and `user:password@` anywhere."""


def without_user(text: str) -> str:
    """The text without the name and the password in an address."""
    return _USER.sub("…@", text)
