"""Reads the users of a cluster from ZooKeeper: all of them once, and then those that notices name.

A znode that is unreadable never ends its reader: its user cannot log in until it is mended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import NamedTuple

from strandline.adapters.zookeeper.facts import Reader
from strandline.adapters.zookeeper.security.acl_znodes import CHANGE_PREFIX, CHANGES
from strandline.adapters.zookeeper.security.notices import Notices, children_of
from strandline.adapters.zookeeper.security.user_znodes import (
    USERS,
    dump_credentials,
    dump_user_change,
    load_credentials,
    load_user_change,
    load_user_name,
    user_path,
)
from strandline.adapters.zookeeper.unreadable import UnreadableLog
from strandline.adapters.zookeeper.znodes import UnreadableZnode
from strandline.config.limits import ZOOKEEPER_READS_IN_FLIGHT_MAX
from strandline.ports import Coordination, Create, Delete, NoNode, Operation, SetData
from strandline.security.login.credentials import Credentials, UserChange, changed
from strandline.tasks import pipelined

_pipelined = partial(pipelined, in_flight_max=ZOOKEEPER_READS_IN_FLIGHT_MAX)


class StoredUser(NamedTuple):
    """What the znode of a user holds."""

    credentials: Credentials
    version: int | None = None
    """None: there is no znode."""


class UserReader:
    """The users as one session has read them. All methods raise what the session raises."""

    def __init__(self, session: Reader) -> None:
        self._session = session
        self.users: Mapping[str, Credentials] = {}
        self._log = UnreadableLog()
        self._notices = Notices(session, load_user_change, self._log)

    async def load(self) -> Mapping[str, Credentials]:
        """Read all users."""
        await self._notices.begin()
        self.users = {}
        return await self._read_again(await self._listed())

    async def look(self) -> Mapping[str, Credentials] | None:
        """Read the users that the notices since the last look name. None if there are none."""
        changed = await self._notices.fresh()
        if changed is None:
            return await self.load()
        return await self._read_again(changed) if changed else None

    async def compare(self) -> Mapping[str, Credentials] | None:
        """Find users that came or went without a notice."""
        different = set(await self._listed()) ^ set(self.users)
        return await self._read_again(different) if different else None

    async def read(self, name: str) -> StoredUser:
        """The credentials of one user, as its znode has them now."""
        try:
            node = await self._session.get(user_path(name))
        except NoNode:
            return StoredUser({})
        try:
            return StoredUser(load_credentials(name, node.data), node.version)
        except UnreadableZnode as error:
            self._log.report(error)
            return StoredUser({}, node.version)

    async def _read_again(self, names: Iterable[str]) -> Mapping[str, Credentials]:
        wanted = sorted(names)
        found = await _pipelined(self.read, wanted)
        read = {name: stored.credentials for name, stored in zip(wanted, found, strict=True)}
        self.users = {name: has for name, has in {**self.users, **read}.items() if has}
        return self.users

    async def _listed(self) -> list[str]:
        """The users that have a znode."""
        names = []
        for child in await children_of(self._session, USERS):
            try:
                names.append(load_user_name(child))
            except UnreadableZnode as error:
                self._log.report(error)
        return names


def user_writes(name: str, stored: StoredUser, credentials: Credentials) -> list[Operation]:
    """The writes, of one transaction, that give a user these credentials, or remove it if there are none."""
    path = user_path(name)
    write: Operation
    if not credentials:
        write = Delete(path, -1 if stored.version is None else stored.version)
    elif stored.version is None:
        write = Create(path, dump_credentials(credentials))
    else:
        write = SetData(path, dump_credentials(credentials), stored.version)
    return [write, Create(CHANGE_PREFIX, dump_user_change([name]), sequential=True)]


async def set_user(session: Coordination, name: str, changes: Iterable[UserChange]) -> None:
    """Change a user directly, with the rights of this session: for the first user of a cluster."""
    for path in (CHANGES, USERS):
        await session.ensure_path(path)
    stored = await UserReader(session).read(name)
    await session.multi(user_writes(name, stored, changed(stored.credentials, changes)))
