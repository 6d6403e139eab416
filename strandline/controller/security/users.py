"""The active controller's requests about users: it is the only writer of their znodes, but for
`strandline user bootstrap`.

Each user is one compare-and-set, in one `multi` with the notice that brokers watch. A request that is refused
for one user has its effect on the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import Final

import structlog

from strandline.adapters.zookeeper.security.folder_reader import FolderReader
from strandline.adapters.zookeeper.security.user_znodes import USER_FOLDER, user_path
from strandline.config.limits import ZOOKEEPER_READS_IN_FLIGHT_MAX
from strandline.controller.security.writes import Write, compare_and_set, each_alone
from strandline.controller.term.term import Term
from strandline.errors import ClusterAuthorizationFailed, InvalidRequest, ResourceNotFound
from strandline.security.authorizer import Authorizer
from strandline.security.login.credentials import Credentials, UserChange, changed
from strandline.security.login.mechanisms import check_user_name
from strandline.security.principal import Principal
from strandline.serving.asked import asked_by
from strandline.tasks import pipelined
from strandline.vocabulary.admin import UserDescription, UserResult

logger = structlog.get_logger(__name__)

USERS_MAX: Final = 10_000
"""Users of a cluster: each broker has all of them in memory."""
USER_PATHS_BYTES_MAX: Final = 512 * 1024
"""Their names: ZooKeeper lists them in one message of at most 1 MB."""


class UserRequests:
    """The users, in one epoch. Changes are carried out one request after the other."""

    def __init__(self, term: Term, authorizer: Authorizer) -> None:
        self._session = term.session
        self._reader = FolderReader(term.session, USER_FOLDER)
        self._authorizer = authorizer
        self._one = asyncio.Lock()

    async def alter(self, changes: Sequence[UserChange]) -> list[UserResult]:
        """Returns one outcome a user, in the order of their first changes."""
        by_user: dict[str, list[UserChange]] = {}
        for change in changes:
            by_user.setdefault(change.user, []).append(change)
        async with self._one:
            for path in USER_FOLDER.skeleton:
                await self._session.ensure_path(path)
            there = set(await self._reader.listed())
            new = {change.user for change in changes if change.credential is not None} - there
            refused = _too_many(there, new) if new else None
            wanted = [user for user in by_user if refused is None or user not in new]

            async def write(user: str) -> None:
                self._check_principal(user, by_user[user])
                await self._write(user, by_user[user])

            errors = await each_alone(write, wanted)
        return [UserResult(user, errors.get(user, refused)) for user in by_user]

    async def describe(self, users: Sequence[str]) -> list[UserDescription]:
        """These users, or all of them, by name."""
        wanted = users or sorted(await self._reader.listed())
        found = await pipelined(self._describe, wanted, in_flight_max=ZOOKEEPER_READS_IN_FLIGHT_MAX)
        # One that is gone since the listing was not asked for.
        return found if users else [each for each in found if each.error is None]

    async def _describe(self, user: str) -> UserDescription:
        try:
            check_user_name(user)
        except InvalidRequest as error:
            return UserDescription(user, error=error)
        stored = await self._reader.read(user)
        if stored.version is None:
            return UserDescription(user, error=ResourceNotFound(f"there is no user {user!r}"))
        return UserDescription(user, {name: has.iterations for name, has in stored.value.items()})

    def _check_principal(self, user: str, changes: Sequence[UserChange]) -> None:
        """Raises InvalidRequest for a credential that no login would take, and ClusterAuthorizationFailed for
        a super user's that no super user asks for: the caller that sets it can log in as that user."""
        principal, asked = Principal(user), asked_by()
        if not any(change.credential for change in changes):
            return
        if self._authorizer.is_member(principal):
            raise InvalidRequest(
                f"{principal} is a broker or a controller: no password gives a member's principal"
            )
        if asked is None or not self._authorizer.is_super_user(principal):
            return
        if not self._authorizer.is_super_user(Principal.parse(asked.principal)):
            raise ClusterAuthorizationFailed(
                f"{asked.principal} may not set the password of {principal}, a super user (super_users): "
                "only one of them may, or `strandline user bootstrap`"
            )

    async def _write(self, user: str, changes: Sequence[UserChange]) -> None:
        async def prepare() -> Write[Credentials] | None:
            stored = await self._reader.read(user)
            if stored.version is None and not any(change.credential for change in changes):
                raise ResourceNotFound(f"there is no user {user!r}")
            after = changed(stored.value, changes)
            return Write(after, USER_FOLDER.writes(user, stored, after), partial(self._stands, user, after))

        written = await compare_and_set(self._session, prepare, f"user {user!r} was")
        logger.info("user changed", user=user, mechanisms=sorted(written or ()))

    async def _stands(self, user: str, credentials: Credentials) -> bool:
        return (await self._reader.read(user)).holds(credentials)


def _too_many(there: Collection[str], wanted: Iterable[str]) -> InvalidRequest | None:
    """Why no user can be added; None: all of the wanted ones can be there."""
    users = {*there, *wanted}
    if len(users) > USERS_MAX:
        return InvalidRequest(
            f"the cluster has {len(there)} users; with those of this request there would be {len(users)},"
            f" more than {USERS_MAX}",
            limit=USERS_MAX,
        )
    if sum(len(user_path(user)) for user in users) > USER_PATHS_BYTES_MAX:
        return InvalidRequest(
            f"the names of users would have more than {USER_PATHS_BYTES_MAX} bytes",
            limit=USER_PATHS_BYTES_MAX,
        )
    return None
