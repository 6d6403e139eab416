"""Writes a user without a controller: for the first one of a cluster, who can then log in to make others."""

from __future__ import annotations

from collections.abc import Sequence

from strandline.adapters.zookeeper.security.folder_reader import FolderReader
from strandline.adapters.zookeeper.security.user_znodes import USER_FOLDER
from strandline.ports import Coordination
from strandline.security.login.credentials import UserChange, changed


async def set_user(session: Coordination, name: str, changes: Sequence[UserChange]) -> None:
    """Change a user with the rights of this session. Raises what the session raises."""
    for path in USER_FOLDER.skeleton:
        await session.ensure_path(path)
    stored = await FolderReader(session, USER_FOLDER).read(name)
    await session.multi(USER_FOLDER.writes(name, stored, changed(stored.value, changes)))
