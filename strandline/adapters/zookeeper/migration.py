"""Gives the znodes that a cluster has to its identity, or back to everyone, while the cluster runs.

ZooKeeper's ACLs are not inherited, and a process that runs creates znodes. So the order is: all processes
have the identity, then all set ACLs on what they create, and then this (`docs/run/security.md`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.access.identity import OPEN, Acl
from strandline.adapters.zookeeper.connect import connect
from strandline.adapters.zookeeper.protection import TOP, foreign_children, prove_identity
from strandline.adapters.zookeeper.session import ZooKeeperSession
from strandline.config.limits import ZOOKEEPER_READS_IN_FLIGHT_MAX
from strandline.config.services.zookeeper import ZooKeeperSettings
from strandline.errors import SettingsError
from strandline.ports import ConnectionLost, NoNode
from strandline.tasks import pipelined

T = TypeVar("T")

PASSES_MAX: Final = 5
"""Walks over the tree. The second one finds what was created meanwhile; it changes nothing, as a rule."""


class MigrationRefused(SettingsError):
    """A process of the cluster is not ready for the migration."""


@dataclass(frozen=True, slots=True)
class Migrated:
    """The result. `left` are znodes below the root of the ensemble that are not the cluster's: they, and the
    root, stay as they are."""

    znodes: int
    changed: int
    left: tuple[str, ...]


async def migrate(settings: ZooKeeperSettings, *, protect: bool, force: bool = False) -> Migrated:
    """Give all znodes of the cluster to the identity of these settings, or with `protect` False to everyone.

    Doing it twice changes nothing, and a walk that broke off can be done again. Raises MigrationRefused if a
    broker or the active controller does not create its znodes like that, unless `force`; SettingsError
    without an identity, and as `connect` does.
    """
    if settings.zookeeper_auth_scheme == "none":
        raise SettingsError(
            "znodes can be protected by an identity only: set zookeeper_auth_scheme as the cluster has it "
            "(STRANDLINE_ZOOKEEPER_AUTH_SCHEME, or a file named by STRANDLINE_CONFIG)"
        )
    wanted = await _wanted(settings) if protect else OPEN
    session = await connect(settings.model_copy(update={"zookeeper_set_acl": False}))
    try:
        if not force:
            await _refuse_unready(session, wanted)
        left = await foreign_children(session)
        changed = 0
        for _ in range(PASSES_MAX):
            seen, newly = await _walk(session, wanted, root=not left)
            changed += newly
            if not newly:
                return Migrated(seen, changed, tuple(f"/{name}" for name in left))
        raise MigrationRefused(
            "a process still creates znodes with another ACL: start all with the same zookeeper_set_acl"
        )
    finally:
        await session.close()


async def _wanted(settings: ZooKeeperSettings) -> Acl:
    """The ACL as ZooKeeper keeps it: it resolves the scheme "auth"."""
    session = await connect(settings.model_copy(update={"zookeeper_set_acl": True}), protect=False)
    try:
        return await prove_identity(session)
    finally:
        await session.close()


async def _refuse_unready(session: ZooKeeperSession, wanted: Acl) -> None:
    """The registrations show how their processes create znodes."""
    brokers = znodes.broker_ids(await _children(session, znodes.BROKER_IDS))
    registered = {f"broker {each}": znodes.broker(each) for each in sorted(brokers)}
    registered["the active controller"] = znodes.CONTROLLER
    unready = [name for name, path in registered.items() if await _acl(session, path) not in (None, wanted)]
    if unready:
        should = "false" if wanted == OPEN else "true, and with this identity"
        raise MigrationRefused(
            f"not migrated: first restart {', '.join(unready)} with zookeeper_set_acl = {should}"
        )


async def _walk(session: ZooKeeperSession, wanted: Acl, *, root: bool) -> tuple[int, int]:
    """Look at each znode once, from the top. Returns how many there are, and how many were changed."""
    if session.chroot:
        level = ["/"]
    else:
        level = [f"/{name}" for name in await _children(session, "/") if name in TOP]
    seen = changed = 0
    if root and not session.chroot:
        seen, changed = 1, await _give(session, wanted, "/")
    while level:
        changed += sum(await _pipelined(partial(_give, session, wanted), level))
        seen += len(level)
        children = await _pipelined(partial(_children, session), level)
        found = zip(level, children, strict=True)
        level = [f"{path.rstrip('/')}/{name}" for path, names in found for name in names]
    return seen, changed


_pipelined = partial(pipelined, in_flight_max=ZOOKEEPER_READS_IN_FLIGHT_MAX)


async def _give(session: ZooKeeperSession, wanted: Acl, path: str) -> bool:
    """True if the znode had another ACL."""
    if await _acl(session, path) in (None, wanted):
        return False
    try:
        await _answered(lambda: session.set_acl(path, wanted))
    except NoNode:
        return False
    return True


async def _acl(session: ZooKeeperSession, path: str) -> Acl | None:
    """None if the znode is gone."""
    try:
        return await _answered(lambda: session.acl(path))
    except NoNode:
        return None


async def _children(session: ZooKeeperSession, path: str) -> list[str]:
    """Empty if the znode is gone."""
    try:
        return await _answered(lambda: session.children(path))
    except NoNode:
        return []


async def _answered(operation: Callable[[], Awaitable[T]]) -> T:
    """Each operation here may be done twice."""
    while True:
        try:
            return await operation()
        except ConnectionLost:
            continue
