"""Protects znodes: gives them the ACL of this process's identity, or takes it away.

A znode is deleted by the permission of its parent. So the znode below which all others are needs the ACL too.
"""

from __future__ import annotations

from typing import Final

import structlog

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.access.identity import OPEN, Acl
from strandline.adapters.zookeeper.security import acl_znodes, user_znodes
from strandline.adapters.zookeeper.session import ZooKeeperSession
from strandline.errors import SettingsError
from strandline.ports import NotPermitted

logger = structlog.get_logger(__name__)

TOP: Final = frozenset(
    path.split("/")[1]
    for path in (
        *znodes.SKELETON,
        znodes.CLUSTER_ID,
        znodes.MEMBER_KEY,
        znodes.CONTROLLER,
        acl_znodes.ACL,
        acl_znodes.CHANGES,
        user_znodes.USERS,
    )
)
"""The znodes directly below the root, or the chroot, of a cluster."""

ZOOKEEPERS_OWN: Final = "zookeeper"
"""A child of the root in every ensemble, with ZooKeeper's quotas and configuration."""


async def foreign_children(session: ZooKeeperSession) -> list[str]:
    """The children of the ensemble's root that are not of a cluster; none below a chroot, which is the
    cluster's own."""
    if session.chroot:
        return []
    return sorted({*await session.children("/")} - TOP - {ZOOKEEPERS_OWN})


async def protect_root(session: ZooKeeperSession) -> None:
    """Give the root the ACL of this process, if everyone may use it and nothing but the cluster is below it.

    Raises SettingsError if ZooKeeper knows this process by another identity than the ACL's: it would lock
    itself out.
    """
    if await session.acl("/") != OPEN:
        return
    if others := await foreign_children(session):
        logger.warning(
            "the root of ZooKeeper has no ACL, since others use it: they can delete znodes of this cluster; "
            "a chroot in the setting zookeeper prevents that",
            others=others,
        )
        return
    await prove_identity(session)
    await session.set_acl("/", session.identity.acl)


async def prove_identity(session: ZooKeeperSession) -> Acl:
    """What ZooKeeper makes of this process's ACL, if it lets the process use what it creates with it.

    Raises SettingsError if not.
    """
    probe = await session.create("/identity-", ephemeral=True, sequential=True)
    try:
        await session.get(probe)
        return await session.acl(probe)
    except NotPermitted:
        raise SettingsError(
            "ZooKeeper: this process may not read what it creates: its settings name another identity than "
            "the one by which it is known (zookeeper_x509_ids, or digestAlg of the server)"
        ) from None
    finally:
        await session.delete(probe)
