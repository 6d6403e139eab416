"""Short names of the members of groups. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

LABEL_CHARS_MAX: Final = 24
"""The longest label of a member in the head of a table. Its full id stands in the table of members."""
ID_CHARS_SHOWN: Final = 8
"""Characters of a member's own id that tell it from others with the same client id."""
UUID_PARTS: Final = [8, 4, 4, 4, 12]
UUID_CHARS: Final = 36
"""The part of a member's id that the coordinator adds to the client id."""


def short_member(member: str) -> str:
    """A member's id with its last part, which tells it from others of its client id, cut short.

    >>> short_member("web-1-3bce0df4-29a5-6c79-636f-fe709fc45a8b"), short_member("other")
    ('web-1 3bce0df4', 'other')
    """
    client = _client_of(member)
    if client == member:
        return cut(member)
    return f"{cut(client)} {member[-UUID_CHARS:][:ID_CHARS_SHOWN]}"


def short_members(members: Iterable[str]) -> dict[str, str]:
    """A short name for each of these members' ids: its client id; with a piece of its own id if another
    has the same client id.

    >>> own_id = "-3bce0df4-29a5-6c79-636f-fe709fc45a8b"
    >>> list(short_members([f"one{own_id}", f"two{own_id}", "two"]).values())
    ['one', 'two 3bce0df4', 'two']
    """
    clients = {each: _client_of(each) for each in members}
    times = Counter(clients.values())
    return {
        each: cut(client) if times[client] == 1 or client == each else short_member(each)
        for each, client in clients.items()
    }


def _client_of(member: str) -> str:
    """The member's id without the part that is its own."""
    name, own_id = member[:-UUID_CHARS], member[-UUID_CHARS:]
    return (
        name[:-1]
        if name.endswith("-") and [len(part) for part in own_id.split("-")] == UUID_PARTS
        else member
    )


def cut(name: str) -> str:
    """A name that fits into the head of a table."""
    return name if len(name) <= LABEL_CHARS_MAX else f"{name[: LABEL_CHARS_MAX - 1]}…"
