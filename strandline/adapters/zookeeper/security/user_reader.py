"""Reads the users of a cluster from ZooKeeper, and writes one.

A user whose znode is unreadable cannot log in until it is mended.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from strandline.adapters.zookeeper.facts import Reader
from strandline.adapters.zookeeper.security.acl_znodes import CHANGES
from strandline.adapters.zookeeper.security.folder_reader import Folder, FolderReader
from strandline.adapters.zookeeper.security.user_znodes import (
    USERS,
    dump_credentials,
    dump_user_change,
    load_credentials,
    load_user_change,
    load_user_name,
    user_child,
)
from strandline.ports import Coordination
from strandline.security.login.credentials import Credentials, UserChange, changed

USER_FOLDER: Final[Folder[str, Credentials]] = Folder(
    USERS,
    user_child,
    load_user_name,
    dump_credentials,
    load_credentials,
    dict,
    dump_user_change,
    load_user_change,
)


USERS_SKELETON: Final = (CHANGES, USERS)
"""Persistent paths that the writer of a user creates if they are missing."""


class UserReader(FolderReader[str, Credentials]):
    """The credentials of the users, by name, as one session has read them."""

    def __init__(self, session: Reader) -> None:
        super().__init__(session, USER_FOLDER)


async def set_user(session: Coordination, name: str, changes: Sequence[UserChange]) -> None:
    """Change a user directly, with the rights of this session: for the first user of a cluster."""
    for path in USERS_SKELETON:
        await session.ensure_path(path)
    stored = await UserReader(session).read(name)
    await session.multi(USER_FOLDER.writes(name, stored, changed(stored.value, changes)))
