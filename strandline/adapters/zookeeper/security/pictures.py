"""What a member knows of the cluster's ACLs, users, quotas and configs of groups, and what decides by it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

import structlog

from strandline.adapters.zookeeper.facts import Reader
from strandline.adapters.zookeeper.security.acl_reader import AclReader
from strandline.adapters.zookeeper.security.acl_znodes import ACL_FOLDERS
from strandline.adapters.zookeeper.security.folder_reader import FolderReader
from strandline.adapters.zookeeper.security.group_config_znodes import GROUP_CONFIG_FOLDER, GROUP_CONFIGS
from strandline.adapters.zookeeper.security.quota_znodes import QUOTA_FOLDER, QUOTAS
from strandline.adapters.zookeeper.security.user_znodes import USER_FOLDER, USERS
from strandline.security.authorizer import Authorizer
from strandline.security.decide import Acls
from strandline.security.login.authenticator import Authenticator
from strandline.security.login.credentials import Credentials
from strandline.security.quotas.bill import ClientQuotas
from strandline.security.quotas.model import Limits, QuotaEntity, Quotas
from strandline.vocabulary.configs.groups import GroupConfig, KnownGroupConfigs

logger = structlog.get_logger(__name__)

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class PictureReader(Protocol[T_co]):
    """Reads a whole picture. None: it is still the last one. All methods raise what the session raises."""

    async def load(self) -> T_co: ...

    async def look(self) -> T_co | None: ...

    async def compare(self) -> T_co | None: ...


class Picture(Generic[T]):
    """A picture as one session has read it; `take` gets each new one."""

    def __init__(self, folders: Sequence[str], reader: PictureReader[T], take: Callable[[T], None]) -> None:
        self.folders = folders
        """The znodes that have to be there."""
        self._reader = reader
        self._take = take

    async def load(self) -> None:
        """Read it whole."""
        self._take(await self._reader.load())

    async def look(self) -> None:
        """Read what notices name."""
        self._changed(await self._reader.look())

    async def compare(self) -> None:
        """Read what changed without a notice."""
        self._changed(await self._reader.compare())

    def _changed(self, found: T | None) -> None:
        if found is not None:
            self._take(found)


def needed_pictures(
    session: Reader, authorizer: Authorizer, authenticator: Authenticator
) -> list[Picture[Any]]:
    """ACLs if there is an authorizer, users if there are mechanisms to log in by."""
    pictures: list[Picture[Any]] = []
    if authorizer.rules is not None:
        pictures.append(acl_picture(session, authorizer))
    if authenticator.mechanisms:
        pictures.append(user_picture(session, authenticator))
    return pictures


def quota_picture(session: Reader, quotas: ClientQuotas) -> Picture[Mapping[QuotaEntity, Limits]]:
    def take(found: Mapping[QuotaEntity, Limits]) -> None:
        quotas.take(Quotas(found))
        logger.info("quotas read", entities=len(found))

    return Picture((QUOTAS,), FolderReader(session, QUOTA_FOLDER), take)


def group_config_picture(session: Reader, known: KnownGroupConfigs) -> Picture[Mapping[str, GroupConfig]]:
    def take(found: Mapping[str, GroupConfig]) -> None:
        known.take(found)
        logger.info("configs of groups read", groups=len(found))

    return Picture((GROUP_CONFIGS,), FolderReader(session, GROUP_CONFIG_FOLDER), take)


def acl_picture(session: Reader, authorizer: Authorizer) -> Picture[Acls]:
    def take(acls: Acls) -> None:
        authorizer.take(acls)
        logger.info("ACLs read", acls=len(acls), version=acls.version)

    return Picture(tuple(ACL_FOLDERS.values()), AclReader(session, authorizer.version), take)


def user_picture(session: Reader, authenticator: Authenticator) -> Picture[Mapping[str, Credentials]]:
    def take(users: Mapping[str, Credentials]) -> None:
        authenticator.take(users)
        logger.info("users read", users=len(users))

    return Picture((USERS,), FolderReader(session, USER_FOLDER), take)
